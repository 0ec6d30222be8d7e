/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes, examines and removes our own directories and names in them. Used by the daemon, the tools
 * and the launcher, never by the preloaded library. Removal works on directory descriptors with
 * O_NOFOLLOW, so a symlink that is put in its way is removed and not followed.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/dir.h"
#include "util/util.h"

#define FS_TREE_DEPTH 2000 /* refuse deeper trees: each level takes a descriptor */

static fs_err fs_mkdir_one(const char *path, mode_t mode) {
  struct stat st;
  if (mkdir(path, mode) == 0) return 0;
  int err = errno;
  if (err != EEXIST && err != EROFS && err != EACCES) return -err;
  if (stat(path, &st) == 0) return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
  return -err;
}

fs_err fs_mkdirs(const char *path, mode_t mode) {
  char part[PATH_MAX];
  size_t n = strlen(path);
  if (n == 0) return -ENOENT;
  if (n >= sizeof(part)) return -ENAMETOOLONG;
  memcpy(part, path, n + 1);
  while (n > 1 && part[n - 1] == '/') part[--n] = '\0';
  for (char *p = part + 1; *p != '\0'; p++) {
    if (*p != '/' || p[-1] == '/') continue;
    *p = '\0';
    fs_err err = fs_mkdir_one(part, 0755);
    if (err < 0) return err;
    *p = '/';
  }
  return fs_mkdir_one(part, mode);
}

DIR *fs_opendirat(int at, const char *path) {
  int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = fd < 0 ? NULL : fdopendir(fd);
  if (!dir && fd >= 0) close(fd);
  return dir;
}

bool fs_is_named(int at, const char *name, int fd) {
  struct stat a, b;
  return fstat(fd, &a) == 0 && fstatat(at, name, &b, AT_SYMLINK_NOFOLLOW) == 0 && a.st_ino == b.st_ino &&
         a.st_dev == b.st_dev;
}

/* If the file system does not support RENAME_NOREPLACE (NFS), a hard link has the same effect. */
fs_err fs_rename_new(int dir, const char *from, const char *to) {
  if (renameat2(dir, from, dir, to, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -errno;
  if (linkat(dir, from, dir, to, 0) < 0) return -errno;
  (void)unlinkat(dir, from, 0);
  return 0;
}

fs_err fs_chmod_dir(int at, const char *name, mode_t mode) {
  char path[64];
  FS_AUTO_CLOSE int dir = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (dir < 0) return -errno;
  snprintf(path, sizeof(path), "/proc/self/fd/%d", dir); /* fchmod refuses an O_PATH descriptor */
  return chmod(path, mode) < 0 ? -errno : 0;
}

static void fs_cleanup_dir(DIR **dir) {
  if (*dir) closedir(*dir);
}

static fs_err fs_remove_at(int dirfd, const char *name, unsigned depth);

static fs_err fs_remove_children(int fd, unsigned depth) {
  __attribute__((cleanup(fs_cleanup_dir))) DIR *dir = fdopendir(fd);
  fs_err first = 0;
  if (!dir) {
    fs_err err = -errno;
    close(fd);
    return err;
  }
  for (;;) {
    errno = 0;
    const struct dirent *d = readdir(dir);
    if (!d) return first < 0 ? first : -errno;
    if (fs_is_dot(d->d_name)) continue;
    fs_err err = fs_remove_at(fd, d->d_name, depth + 1);
    if (err < 0 && first == 0) first = err;
  }
}

static fs_err fs_remove_at(int dirfd, const char *name, unsigned depth) {
  struct stat st;
  if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT) return 0;
  int cause = errno;
  if (cause != EISDIR && cause != EPERM) return -cause;
  if (depth > FS_TREE_DEPTH) return -ELOOP;
  int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return errno == ENOTDIR || errno == ELOOP ? -cause : -errno;
  /* The directory may have been unpacked as read-only. */
  if (fstat(fd, &st) == 0 && (st.st_mode & S_IRWXU) != S_IRWXU) fchmod(fd, S_IRWXU);
  fs_err err = fs_remove_children(fd, depth);
  if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return 0;
  return err < 0 ? err : -errno;
}

fs_err fs_remove_tree(const char *path) {
  return fs_remove_at(AT_FDCWD, path, 0);
}
