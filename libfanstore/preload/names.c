/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of functions of libc that use a path inside themselves and are no system call: names for
 * temporary files, keys, message catalogues, tables of mounts and logins. If libc has to open a
 * dataset's file itself, it gets the path of a real copy that stays open.
 */
#include <mntent.h>
#include <nl_types.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <utmp.h>
#include <utmpx.h>

#include "preload/exec.h"
#include "preload/preload.h"

static bool exists(const char *path) {
  struct stat st;
  return lstat(path, &st) == 0;
}

/* libc's mktemp looks for a name that is free in the real file system. */
FS_EXPORT char *mktemp(char *template) {
  size_t n = strlen(template);
  bool wrong = n < 6 || memcmp(template + n - 6, "XXXXXX", 6) != 0;
  if (wrong || fs_path_outside(AT_FDCWD, template)) return FS_REAL(mktemp)(template);
  for (int i = 0; i < 100; i++) {
    memcpy(template + n - 6, "XXXXXX", 6);
    if (FS_REAL(mktemp)(template)[0] == '\0') return template;
    if (!exists(template)) return template;
  }
  template[0] = '\0';
  fs_ret(-EEXIST);
  return template;
}

/* libc's tempnam takes only directories that libc sees itself. */
FS_EXPORT char *tempnam(const char *dir, const char *prefix) {
  char path[PATH_MAX];
  struct stat st;
  const char *chosen = secure_getenv("TMPDIR");
  if (chosen == NULL || chosen[0] == '\0' || stat(chosen, &st) != 0 || !S_ISDIR(st.st_mode)) chosen = dir;
  if (fs_path_outside(AT_FDCWD, chosen) || stat(chosen, &st) != 0 || !S_ISDIR(st.st_mode))
    return FS_REAL(tempnam)(dir, prefix);
  int n = snprintf(path, sizeof(path), "%s/%.5sXXXXXX", chosen, prefix == NULL || prefix[0] == '\0' ? "file" : prefix);
  if (n < 0 || (size_t)n >= sizeof(path)) return fs_ret(-ENAMETOOLONG), NULL;
  return mktemp(path)[0] == '\0' ? NULL : strdup(path); /* NOLINT: it is what tempnam(3) does */
}

FS_EXPORT FILE *tmpfile(void) {
  FILE *file = FS_REAL(tmpfile)();
  if (file == NULL && errno == EMFILE && fs_fd_pool_drop()) file = FS_REAL(tmpfile)();
  if (file != NULL) fs_fd_forget(file->_fileno);
  return file;
}
FS_ALIAS(tmpfile64, tmpfile);

FS_EXPORT key_t ftok(const char *path, int id) {
  struct stat st;
  if (fs_path_outside(AT_FDCWD, path)) return FS_REAL(ftok)(path, id);
  if (stat(path, &st) != 0) return -1;
  return (key_t)((unsigned)(id & 0xff) << 24 | (unsigned)(st.st_dev & 0xff) << 16 | (unsigned)(st.st_ino & 0xffff));
}

FS_EXPORT FILE *setmntent(const char *path, const char *mode) {
  if (fs_path_outside(AT_FDCWD, path)) return FS_REAL(setmntent)(path, mode);
  FILE *file = fopen(path, mode);
  if (file != NULL) __fsetlocking(file, FSETLOCKING_BYCALLER);
  return file;
}
FS_ALIAS(__setmntent, setmntent);

FS_EXPORT nl_catd catopen(const char *path, int flags) {
  char real[FS_REAL_COPY];
  if (strchr(path, '/') == NULL) return FS_REAL(catopen)(path, flags);
  return FS_REAL(catopen)(fs_real_copy(path, real), flags);
}

FS_EXPORT int utmpname(const char *path) {
  char real[FS_REAL_COPY];
  return FS_REAL(utmpname)(fs_real_copy(path, real));
}
FS_ALIAS(utmpxname, utmpname);

FS_EXPORT void updwtmp(const char *path, const struct utmp *entry) {
  struct fs_found f;
  int route = fs_path_route(AT_FDCWD, path, 0, &f);
  if (route == FS_OUTSIDE || route == FS_REDIRECT)
    FS_REAL(updwtmp)(route == FS_OUTSIDE ? path : f.real, entry);
  else
    fs_ret(route < 0 ? route : -EROFS);
}
FS_ALIAS(updwtmpx, updwtmp);

FS_EXPORT ssize_t getdirentries64(int fd, char *buf, size_t n, off64_t *base) {
  if (fs_fd_slot(fd) == NULL) return FS_REAL(getdirentries64)(fd, buf, n, base);
  off_t at = lseek(fd, 0, SEEK_CUR);
  ssize_t r = getdents64(fd, buf, n);
  if (r >= 0) *base = at;
  return r;
}
FS_ALIAS(getdirentries, getdirentries64);

/* For old binaries, which pass the device number by address. */
FS_EXPORT int __xmknod(int ver, const char *path, mode_t mode, dev_t *dev);
FS_EXPORT int __xmknod(int ver, const char *path, mode_t mode, dev_t *dev) {
  return ver == 0 ? mknod(path, mode, *dev) : fs_ret_int(-EINVAL);
}
FS_EXPORT int __xmknodat(int ver, int dirfd, const char *path, mode_t mode, dev_t *dev);
FS_EXPORT int __xmknodat(int ver, int dirfd, const char *path, mode_t mode, dev_t *dev) {
  return ver == 0 ? mknodat(dirfd, path, mode, *dev) : fs_ret_int(-EINVAL);
}

/* libc closes the descriptor without the wrapper. */
static int close_output(FILE *f) {
  int flushed = fflush(f);
  fs_err err = fs_output_publish(f->_fileno);
  fs_fd_forget(f->_fileno);
  int r = FS_REAL(fclose)(f);
  return flushed != 0 || err == 0 ? r : fs_ret_int(err);
}

/* The next open must get the lowest number. */
FS_EXPORT int fclose(FILE *f) {
  if (FS_UNLIKELY((unsigned)f->_fileno < 3)) fs_fd_low_closed();
  if (FS_UNLIKELY(f->_fileno >= 0 && fs_output_tracked(fs_fd_entry(f->_fileno)))) return close_output(f);
  return FS_REAL(fclose)(f);
}
FS_ALIAS(_IO_fclose, fclose);
