/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of functions of libc that use a path or a descriptor inside themselves and are no system
 * call: names for temporary files, old forms of mknod, and what ends a stream.
 */
#include <stdlib.h>

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

FS_EXPORT FILE *tmpfile(void) {
  FILE *file = FS_REAL(tmpfile)();
  if (file == NULL && errno == EMFILE && fs_fd_pool_drop()) file = FS_REAL(tmpfile)();
  if (file != NULL) fs_fd_forget(file->_fileno);
  return file;
}
FS_ALIAS(tmpfile64, tmpfile);

/* For old binaries, which pass the device number by address. */
FS_EXPORT int __xmknod(int ver, const char *path, mode_t mode, dev_t *dev);
FS_EXPORT int __xmknod(int ver, const char *path, mode_t mode, dev_t *dev) {
  return ver == FS_MKNOD_VERSION ? mknod(path, mode, *dev) : fs_ret_int(-EINVAL);
}
FS_EXPORT int __xmknodat(int ver, int dirfd, const char *path, mode_t mode, dev_t *dev);
FS_EXPORT int __xmknodat(int ver, int dirfd, const char *path, mode_t mode, dev_t *dev) {
  return ver == FS_MKNOD_VERSION ? mknodat(dirfd, path, mode, *dev) : fs_ret_int(-EINVAL);
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
