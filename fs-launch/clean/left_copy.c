/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies outputs (left.c). A copy is complete and on the disk before it gets its name, and never
   replaces an existing file. No state. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../launch.h"
#include "left_priv.h"
#include "util/dir.h"

#define FS_LEFT_COPY (1u << 20)

static fs_err copy_data(int from, int to, off_t size) {
  FS_AUTO_FREE char *buf = malloc(FS_LEFT_COPY);
  if (!buf) return -ENOMEM;
  for (off_t at = 0; at < size;) {
    off_t data = lseek(from, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break; /* a hole up to the end */
    at = FS_MAX(at, data);
    ssize_t n = pread(from, buf, FS_LEFT_COPY, at);
    if (n <= 0) return n < 0 ? -errno : -EIO;
    fs_err err = fs_pwrite_full(to, buf, (size_t)n, (uint64_t)at);
    if (err < 0) return err;
    at += n;
  }
  return ftruncate(to, size) < 0 ? -errno : 0;
}

/* Opens a directory of copies, and makes it if necessary. A symlink is refused: it would lead
   elsewhere. */
fs_fd fs_left_open_dir(int at, const char *name) {
  if (!fs_is_dot(name) && mkdirat(at, name, 0777) < 0 && errno != EEXIST) return -errno;
  int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  return fd < 0 ? -errno : fd;
}

/* Opens the directory of a path below `top`. */
fs_fd fs_left_open_parent(int top, const char *path) {
  char name[NAME_MAX + 1];
  fs_fd at = fs_left_open_dir(top, ".");
  for (const char *slash; at >= 0 && (slash = strchr(path, '/')) != NULL; path = slash + 1) {
    size_t n = (size_t)(slash - path);
    if (n == 0) continue;
    memcpy(name, path, FS_MIN(n, (size_t)NAME_MAX));
    name[FS_MIN(n, (size_t)NAME_MAX)] = '\0';
    fs_fd sub = n > NAME_MAX ? -ENAMETOOLONG : fs_left_open_dir(at, name);
    close(at);
    at = sub;
  }
  return at;
}

static fs_fd open_source(int dir, const char *name) {
  const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  struct stat st;
  int fd = openat(dir, name, flags);
  if (fd < 0 && errno == EACCES && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
      fchmodat(dir, name, 0600, 0) == 0) {
    fd = openat(dir, name, flags);
    (void)fchmodat(dir, name, st.st_mode & 07777, 0);
  }
  return fd < 0 ? -errno : fd;
}

static bool same_bytes(int a, int b) {
  FS_AUTO_FREE char *buf = malloc(2 * (size_t)FS_LEFT_COPY);
  for (off_t at = 0; buf;) {
    ssize_t n = pread(a, buf, FS_LEFT_COPY, at), m = pread(b, buf + FS_LEFT_COPY, FS_LEFT_COPY, at);
    if (n < 0 || n != m || memcmp(buf, buf + FS_LEFT_COPY, (size_t)n) != 0) return false;
    if (n == 0) return true;
    at += n;
  }
  return false;
}

/* Returns true if an earlier run has made this copy and was interrupted before it removed the
   source. */
static bool is_there(int from, off_t size, int to, const char *as) {
  struct stat st;
  FS_AUTO_CLOSE int fd = openat(to, as, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == size && same_bytes(from, fd);
}

/* Makes the temporary name of a copy: always the same for one file of one host, so that a later run
   replaces it. */
static void temporary_name(const struct stat *st, char *name, size_t size) {
  char text[160] = "";
  gethostname(text, 64);
  text[64] = '\0';
  size_t n = strlen(text);
  snprintf(text + n, sizeof(text) - n, " %llx %llx", (unsigned long long)st->st_dev, (unsigned long long)st->st_ino);
  snprintf(name, size, ".fanstore-copy-%016llx", (unsigned long long)fs_xxh3(text, strlen(text)));
}

/* The copy has its bytes on the disk, its mode and its time before it gets its name. */
fs_err fs_left_copy_file(int dir, const char *name, int to, const char *as) {
  struct stat st, there;
  char temp[64];
  FS_AUTO_CLOSE fs_fd from = open_source(dir, name);
  if (from < 0) return from;
  if (fstat(from, &st) < 0) return -errno;
  if (is_there(from, st.st_size, to, as)) return 0;
  if (fstatat(to, as, &there, AT_SYMLINK_NOFOLLOW) == 0) return -EEXIST;
  temporary_name(&st, temp, sizeof(temp));
  (void)unlinkat(to, temp, 0);
  FS_AUTO_CLOSE int fd = openat(to, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return -errno;
  struct timespec times[2] = {st.st_mtim, st.st_mtim};
  fs_err err = copy_data(from, fd, st.st_size);
  if (err == 0 && (fchmod(fd, st.st_mode & 07777) < 0 || futimens(fd, times) < 0 || fsync(fd) < 0)) err = -errno;
  /* Without locks (NFS) another fs-launch may have begun the same copy. */
  bool ours = fs_is_named(to, temp, fd);
  if (err == 0) err = ours ? fs_rename_new(to, temp, as) : -EBUSY;
  if (err < 0 && ours) (void)unlinkat(to, temp, 0);
  return err;
}

fs_err fs_left_copy_link(const char *target, int to, const char *as) {
  char there[PATH_MAX];
  size_t n = strlen(target);
  if (symlinkat(target, to, as) == 0) return 0;
  fs_err err = -errno;
  return readlinkat(to, as, there, sizeof(there)) == (ssize_t)n && memcmp(there, target, n) == 0 ? 0 : err;
}
