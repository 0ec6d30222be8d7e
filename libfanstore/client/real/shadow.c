/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shadows of libraries (shadow.h). A shadow is replaced in one step by rename, so the linker finds
 * the old or the new file. The real file is the backing file on its home, the dataset's
 * materialised file, or a copy that has the output's id and version in its name. All of it lies in
 * the backing directory and goes with the job.
 */
#include "client/real/shadow.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "client/data_priv.h"
#include "client/path/cwd.h"
#include "util/util.h"

static const char *backing_of(void) {
  const struct fs_node *node = fs_node_attach();
  return node && node->ctl->backing[0] == '/' ? node->ctl->backing : NULL;
}

/* Writes the path without ".", ".." and double slashes, by its text alone: the linker composes
   names in the same way. */
static fs_err absolute(const char *path, char out[PATH_MAX]) {
  struct fs_cwd cwd;
  char joined[PATH_MAX];
  if (path[0] != '/') {
    fs_err err = fs_cwd_get(&cwd);
    if (err == 0) err = fs_join(joined, cwd.path, path);
    if (err != 0) return err;
    path = joined;
  }
  fs_ssize n = fs_path_normalize(path, out, PATH_MAX);
  return n < 0 ? (fs_err)n : 0;
}

bool fs_is_shadow(const char *dir, size_t len) {
  static const char word[] = "/" FS_SHADOW_DIR "/";
  return memmem(dir, len, word, sizeof(word) - 1) != NULL;
}

fs_err fs_shadow_name(const char *path, char out[PATH_MAX]) {
  char whole[PATH_MAX];
  const char *backing = backing_of();
  if (!backing) return -EOPNOTSUPP;
  fs_err err = absolute(path, whole);
  if (err != 0) return err;
  if (strlen(backing) + sizeof(FS_SHADOW_DIR) + strlen(whole) + 1 > PATH_MAX) return -ENAMETOOLONG;
  strcpy(out, backing);
  strcat(out, "/" FS_SHADOW_DIR);
  strcat(out, whole);
  return 0;
}

/* Makes the directories that the last component lies in, from the backing directory on. */
static void make_parents(char *path, size_t from) {
  for (char *slash = path + from; (slash = strchr(slash + 1, '/')) != NULL; *slash = '/') {
    *slash = '\0';
    (void)FS_SYS3(SYS_mkdirat, AT_FDCWD, path, 0700);
  }
}

/* Makes a copy of another node's output, which all processes of this node share. */
static fs_err output_target(const struct fs_found *f, char out[PATH_MAX]) {
  char name[80], proc[32];
  struct stat st;
  snprintf(name, sizeof(name), FS_SHADOW_DIR "/%016llx.%llu", (unsigned long long)f->out.id,
           (unsigned long long)f->out.version);
  fs_err err = fs_join(out, backing_of(), name);
  if (err != 0 || fs_sys_fstatat(AT_FDCWD, out, &st, AT_SYMLINK_NOFOLLOW) == 0) return err;
  FS_AUTO_CLOSE fs_fd fd = fs_data_materialize_checked(f->mount, f->entry);
  if (fd < 0) return fd;
  snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
  make_parents(out, strlen(backing_of()));
  long r = FS_SYS5(SYS_linkat, AT_FDCWD, proc, AT_FDCWD, out, AT_SYMLINK_FOLLOW);
  return r == -EEXIST ? 0 : (fs_err)r;
}

/* Writes the name of a real file with the bytes that the path was found to have. */
static fs_err target_of(int route, const struct fs_found *f, char out[PATH_MAX]) {
  char proc[32];
  if (route == FS_REDIRECT) {
    strcpy(out, f->real);
    return 0;
  }
  if (route != FS_IN) return route < 0 ? route : -ENOENT;
  if (f->out.id != 0) return output_target(f, out);
  FS_AUTO_CLOSE fs_fd fd = fs_data_materialize_checked(f->mount, f->entry);
  if (fd < 0) return fd;
  snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
  long n = FS_SYS4(SYS_readlinkat, AT_FDCWD, proc, out, PATH_MAX - 1);
  uint32_t mount, entry;
  out[FS_MAX(n, 0)] = '\0';
  return n > 0 && fs_data_materialized(out, &mount, &entry) ? 0 : -EOPNOTSUPP;
}

static bool leads_to(const char *link, const char *target) {
  char now[PATH_MAX];
  long n = FS_SYS4(SYS_readlinkat, AT_FDCWD, link, now, sizeof(now));
  return n > 0 && (size_t)n == strlen(target) && memcmp(now, target, (size_t)n) == 0;
}

static fs_err make_link(const char *target, char *path) {
  char fresh[PATH_MAX], number[FS_U64_TEXT];
  if (leads_to(path, target)) return 0;
  const char *tid = fs_u64_text((uint64_t)fs_sys_gettid(), number);
  if (strlen(path) + strlen(tid) + 3 > sizeof(fresh)) return -ENAMETOOLONG;
  make_parents(path, strlen(backing_of()));
  strcpy(fresh, path);
  strcat(strcat(fresh, ".~"), tid);
  FS_SYS3(SYS_unlinkat, AT_FDCWD, fresh, 0); /* a thread with this number may have died here */
  long r = FS_SYS3(SYS_symlinkat, target, AT_FDCWD, fresh);
  if (r == 0) r = FS_SYS4(SYS_renameat, AT_FDCWD, fresh, AT_FDCWD, path);
  return (fs_err)r;
}

fs_err fs_shadow_make(int route, const struct fs_found *f, const char *path, char out[PATH_MAX]) {
  char target[PATH_MAX];
  fs_err err = fs_shadow_name(path, out);
  if (err == 0) err = target_of(route, f, target);
  return err == 0 ? make_link(target, out) : err;
}
