/* SPDX-License-Identifier: BSD-3-Clause */
/* Directories of this user in a directory for all (own.h). Used by the daemon and the launcher
   only, never by the preloaded library. No state. Names are examined by lstat: in a sticky
   directory nobody else can replace what belongs to this user. */
#include "util/own.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/dir.h"
#include "util/util.h"

#define FS_OWN_SUFFIX 6 /* characters of mkdtemp's suffix */
#define FS_OWN_TRIES 100

bool fs_own_is(const char *path, bool links) {
  struct stat name, dir;
  uid_t self = geteuid();
  if (lstat(path, &name) < 0) return false;
  if (!links) return S_ISDIR(name.st_mode) && name.st_uid == self;
  if ((name.st_uid != self && name.st_uid != 0) || stat(path, &dir) < 0 || !S_ISDIR(dir.st_mode)) return false;
  if (dir.st_uid == self) return true;
  return dir.st_uid == 0 && access(path, R_OK | W_OK | X_OK) == 0;
}

fs_fd fs_own_open(int at, const char *name) {
  struct stat st;
  FS_AUTO_CLOSE int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &st) < 0) return -errno;
  return st.st_uid == geteuid() ? FS_MOVE_FD(fd) : -EPERM;
}

/* Splits a path: writes its directory to `parent`, and returns the name after the last slash. */
static const char *own_split(const char *path, char *parent, size_t size) {
  const char *slash = strrchr(path, '/');
  if (!slash || (size_t)(slash - path) + 2 > size) return NULL;
  size_t n = slash == path ? 1 : (size_t)(slash - path);
  memcpy(parent, path, n);
  parent[n] = '\0';
  return slash + 1;
}

static bool own_suffixed(const char *name, const char *first, size_t n) {
  return strncmp(name, first, n) == 0 && name[n] == '.' && strlen(name + n + 1) == FS_OWN_SUFFIX &&
         strspn(name + n + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == FS_OWN_SUFFIX;
}

/* Finds the first suffix after this one ("" is before all) of a directory of this user. */
static bool own_next(const char *path, char suffix[FS_OWN_SUFFIX + 1]) {
  char parent[PATH_MAX], found[FS_OWN_SUFFIX + 1] = "";
  const char *name = own_split(path, parent, sizeof(parent));
  DIR *d = name ? fs_opendirat(AT_FDCWD, parent) : NULL;
  for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
    struct stat st;
    if (!own_suffixed(e->d_name, name, strlen(name))) continue;
    const char *this = e->d_name + strlen(name) + 1;
    if (strcmp(this, suffix) <= 0 || (found[0] && strcmp(this, found) >= 0)) continue;
    if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_uid != geteuid()) continue;
    /* The set-group-ID bit is ignored: a parent directory with that bit passes it on. */
    if (S_ISDIR(st.st_mode) && (st.st_mode & 0777) == 0700) memcpy(found, this, sizeof(found));
  }
  if (d) closedir(d);
  memcpy(suffix, found, sizeof(found));
  return found[0] != '\0';
}

int fs_own_each(const char *path, bool links, fs_own_fn *fn, void *ctx) {
  char dir[PATH_MAX], suffix[FS_OWN_SUFFIX + 1] = "";
  int stop = fs_own_is(path, links) ? fn(ctx, path) : 0;
  while (stop == 0 && own_next(path, suffix)) {
    int n = snprintf(dir, sizeof(dir), "%s.%s", path, suffix);
    if (n > 0 && (size_t)n < sizeof(dir)) stop = fn(ctx, dir);
  }
  return stop;
}

struct own_first {
  char *out;
  size_t size;
};

static int own_take(void *ctx, const char *dir) {
  const struct own_first *f = ctx;
  size_t n = strlen(dir) + 1;
  if (n > f->size) return -ENAMETOOLONG;
  memcpy(f->out, dir, n);
  return 1;
}

static fs_err own_new(const char *path, char *out, size_t size) {
  int n = snprintf(out, size, "%s.XXXXXX", path);
  if (n < 0 || (size_t)n >= size) return -ENAMETOOLONG;
  return mkdtemp(out) ? 0 : -errno;
}

fs_err fs_own_get(const char *path, bool links, char *out, size_t size) {
  char parent[PATH_MAX];
  struct stat st;
  if (!own_split(path, parent, sizeof(parent))) return -ENAMETOOLONG;
  for (int tries = 0; tries < FS_OWN_TRIES; tries++) {
    fs_err err = fs_mkdirs(parent, 0755);
    if (err == 0 && mkdir(path, 0700) < 0) err = -errno;
    int got = fs_own_each(path, links, own_take, &(struct own_first){out, size});
    if (got != 0) return FS_MIN(got, 0);
    if (lstat(path, &st) == 0 && !fs_own_is(path, links)) break;
    if (err != 0 && err != -EEXIST && err != -ENOENT) return err;
  } /* another user has the name, or the directory appears and disappears */
  return own_new(path, out, size);
}
