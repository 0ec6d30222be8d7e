/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The search of PATH by execvp, execlp and posix_spawnp if one of its directories lies in a
 * dataset, whose files libc's own search would not see. process.c calls this. It may run in a vfork
 * child, so nothing is allocated.
 */
#include <alloca.h>
#include <paths.h>

#include "preload/exec.h"
#include "preload/preload.h"

static const char *search_path(void) {
  const char *path = getenv("PATH");
  return path != NULL ? path : "/bin:/usr/bin"; /* as confstr(_CS_PATH) says */
}

/* Writes the path of the name in the next directory of *path. Returns false at the end. A path too
   long to exist is left out. */
static bool next_candidate(const char **path, const char *name, char *out) {
  while (*path != NULL) {
    const char *dir = *path;
    size_t len = strcspn(dir, ":"), n = strlen(name);
    *path = dir[len] == ':' ? dir + len + 1 : NULL;
    if (len + 1 + n >= PATH_MAX) continue;
    memcpy(out, dir, len);
    if (len > 0) out[len++] = '/'; /* an empty one is the current directory */
    memcpy(out + len, name, n + 1);
    return true;
  }
  return false;
}

bool fs_search_meets_mount(const char *file) {
  char candidate[PATH_MAX];
  FS_MAY_BE_NULL(file);
  if (file == NULL || fs_mount_count() == 0) return false;
  if (strchr(file, '/') != NULL) return !fs_path_outside(AT_FDCWD, file);
  for (const char *path = search_path(); next_candidate(&path, file, candidate);)
    if (!fs_path_outside(AT_FDCWD, candidate)) return true;
  return false;
}

/* Runs a file of no known format as a script of the shell. */
static int exec_script(const char *path, char *const argv[], char *const envp[]) {
  size_t n = 0;
  while (argv[n] != NULL) n++;
  char **args = alloca((n + 3) * sizeof(char *));
  args[0] = (char *)_PATH_BSHELL;
  args[1] = (char *)path;
  args[2] = NULL;
  for (size_t i = 1; i < n; i++) {
    args[i + 1] = argv[i];
    args[i + 2] = NULL;
  }
  return execve(_PATH_BSHELL, args, envp);
}

static int exec_one(const char *path, char *const argv[], char *const envp[]) {
  int r = execve(path, argv, envp);
  return errno == ENOEXEC ? exec_script(path, argv, envp) : r;
}

int fs_search_exec(const char *file, char *const argv[], char *const envp[]) {
  char candidate[PATH_MAX];
  bool denied = false;
  if (strchr(file, '/') != NULL) return exec_one(file, argv, envp);
  if (file[0] == '\0') return fs_ret_int(-ENOENT);
  errno = ENOENT;
  for (const char *path = search_path(); next_candidate(&path, file, candidate);) {
    exec_one(candidate, argv, envp);
    denied = denied || errno == EACCES;
    bool go_on = errno == EACCES || errno == ENOENT || errno == ESTALE || errno == ENOTDIR || errno == ENODEV ||
                 errno == ETIMEDOUT;
    if (!go_on) return -1;
  }
  return fs_ret_int(denied ? -EACCES : -ENOENT);
}

fs_err fs_search(const char *file, char *found) {
  struct stat st;
  int saved = errno;
  fs_err err = -ENOENT;
  if (strchr(file, '/') != NULL) {
    if (strlen(file) >= PATH_MAX) return -ENAMETOOLONG;
    memcpy(found, file, strlen(file) + 1);
    return 0;
  }
  for (const char *path = search_path(); file[0] != '\0' && next_candidate(&path, file, found);) {
    if (stat(found, &st) != 0) continue;
    err = S_ISREG(st.st_mode) && eaccess(found, X_OK) == 0 ? 0 : -EACCES;
    if (err == 0) break;
  }
  errno = saved;
  return err;
}
