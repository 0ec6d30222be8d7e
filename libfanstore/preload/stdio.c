/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of fopen, freopen and fdopen: libc's own would call its own open. A dataset's file
 * becomes a cookie stream whose _fileno is the virtual descriptor, so that fileno and what builds
 * on it agree with a native stream. Streams that convert characters (",ccs=") need libc's own file
 * streams, so they get a real file.
 */
#include "preload/preload.h"

static ssize_t stream_read(void *cookie, char *buf, size_t n) {
  return read((int)(intptr_t)cookie, buf, n);
}

static ssize_t stream_write(void *cookie, const char *buf, size_t n) {
  ssize_t put = write((int)(intptr_t)cookie, buf, n);
  return put < 0 ? 0 : put; /* libc takes 0 for an error */
}

static int stream_seek(void *cookie, off64_t *off, int whence) {
  off_t to = lseek((int)(intptr_t)cookie, *off, whence);
  if (to < 0) return -1;
  *off = to;
  return 0;
}

static int stream_close(void *cookie) {
  return close((int)(intptr_t)cookie);
}

/* Returns a FILE on a virtual descriptor, and takes the descriptor over. */
static FILE *fs_stdio_wrap(int fd, const char *mode) {
  const cookie_io_functions_t io = {
      .read = stream_read, .write = stream_write, .seek = stream_seek, .close = stream_close};
  FILE *f = fopencookie((void *)(intptr_t)fd, mode, io);
  struct fs_slot *s = fs_fd_slot(fd);
  if (s != NULL) atomic_fetch_or(&s->locked, FS_SLOT_STREAM);
  if (f != NULL) f->_fileno = fd;
  return f;
}

/* Returns the open(2) flags of a mode, or -EINVAL if it is not a mode. */
static int mode_flags(const char *mode) {
  int flags;
  switch (mode[0]) {
  case 'r':
    flags = O_RDONLY;
    break;
  case 'w':
    flags = O_WRONLY | O_CREAT | O_TRUNC;
    break;
  case 'a':
    flags = O_WRONLY | O_CREAT | O_APPEND;
    break;
  default:
    return -EINVAL;
  }
  for (const char *m = mode + 1; *m != '\0' && *m != ','; m++) {
    if (*m == '+') flags = (flags & ~O_ACCMODE) | O_RDWR;
    if (*m == 'x') flags |= O_EXCL;
    if (*m == 'e') flags |= O_CLOEXEC;
  }
  return flags;
}

/*
 * Lends room for wide characters, which libc's freopen and wide functions want and cookie streams
 * lack. The lender is a stream that is never used again. Its memory is not given back; few programs
 * reopen such streams.
 */
static bool lend_wide_data(FILE *f) {
  FILE *lender = FS_REAL(fdopen)(f->_fileno, "r");
  if (lender == NULL) return false;
  lender->_fileno = -1;
  f->_wide_data = lender->_wide_data;
  return true;
}

/* Reopens a stream: libc puts the new file at the old descriptor, without the wrappers. */
static FILE *reopen(const char *path, const char *mode, FILE *old) {
  int fd = old->_fileno;
  if (fd >= 0 && fs_fd_slot(fd) != NULL && !lend_wide_data(old)) return fclose(old), NULL;
  if (fd >= 0 && fs_output_tracked(fs_fd_entry(fd))) fflush(old), (void)fs_output_publish(fd);
  FILE *file = FS_REAL(freopen)(path, mode, old);
  if (fd >= 0) fs_fd_forget(fd);
  return file;
}

static FILE *open_real_file(const struct fs_found *f, const char *mode, FILE *old) {
  char path[32];
  fs_fd fd = fs_data_materialize_checked(f->mount, f->entry);
  if (fd < 0) return fs_ret(fd), NULL;
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  FILE *file = old != NULL ? reopen(path, mode, old) : FS_REAL(fopen)(path, mode);
  fs_sys_close(fd);
  return file;
}

/* Makes the stream one of the real file that stands for another node's output. */
static FILE *reopen_output(struct fs_slot *s, const char *mode, FILE *old) {
  char path[32];
  fs_fd fd = fs_real_get(s);
  if (fd < 0) return fs_ret(fd), NULL;
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  FILE *file = reopen(path, mode, old);
  if (file != NULL) fs_output_note_real(file->_fileno);
  fs_sys_close(fd);
  return file;
}

static FILE *open_entry(int route, const struct fs_found *f, const char *mode) {
  int flags = mode_flags(mode);
  if (flags < 0 || route < 0) return fs_ret(route < 0 ? route : flags), NULL;
  if (strstr(mode, ",ccs=") != NULL && (flags & O_ACCMODE) == O_RDONLY && route == FS_IN)
    return open_real_file(f, mode, NULL);
  fs_fd fd = fs_file_open(route, f, flags);
  fs_timing_end_found(FS_LATENCY_OPEN, route, f);
  if (fd < 0) return fs_ret(fd), NULL;
  FILE *file = fs_fd_slot(fd) != NULL ? fs_stdio_wrap(fd, "r") : FS_REAL(fdopen)(fd, mode);
  if (file == NULL) close(fd);
  return file;
}

static FILE *real_fopen(const char *path, const char *mode) {
  fs_lowest(1);
  FILE *file = FS_REAL(fopen)(path, mode);
  if (file == NULL && errno == EMFILE && fs_fd_pool_drop()) file = FS_REAL(fopen)(path, mode);
  if (file != NULL && file->_fileno >= 0) fs_fd_is_real(file->_fileno);
  return file;
}

/* Opens an output that was found or is to be made. */
static FILE *open_output(const char *path, const char *mode) {
  int flags = mode_flags(mode);
  if (flags < 0) return fs_ret(flags), NULL;
  int fd = fs_open_common(AT_FDCWD, path, flags, 0666);
  if (fd < 0) return NULL;
  FILE *file = fs_fd_slot(fd) != NULL ? fs_stdio_wrap(fd, mode) : FS_REAL(fdopen)(fd, mode);
  if (file == NULL) close(fd);
  return file;
}

static bool fopen_again(const char *path) {
  return (errno == ENOENT || errno == ENXIO) && !fs_path_surely_missing(AT_FDCWD, path, 0, -errno);
}

/* Opens a path that may lead below a mount. `err` is the kernel's error for a path that did not
   look so, or 0. */
static __attribute__((noinline)) FILE *fopen_slow(const char *path, const char *mode, fs_err err) {
  struct fs_found f;
  int route = err != 0 ? FS_OUTSIDE : fs_path_route_slow(AT_FDCWD, path, 0, &f);
  if (route == FS_OUTSIDE) {
    FILE *file = err != 0 ? NULL : real_fopen(path, mode);
    if (err == 0 && (file != NULL || !fopen_again(path))) return file;
    route = fs_path_retry_walk(AT_FDCWD, path, 0, -errno, &f);
    if (route == FS_OUTSIDE) return NULL;
  }
  if (route == FS_REDIRECT && f.out.id == 0) return real_fopen(f.real, mode);
  int flags = mode_flags(mode);
  bool writes = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
  bool output = route == FS_REDIRECT || (route == FS_IN && (writes || fs_is_output(f.entry))) ||
                ((flags & O_CREAT) && fs_file_may_make(route, &f, false));
  return output ? open_output(path, mode) : open_entry(route, &f, mode);
}

FS_EXPORT FILE *fopen(const char *restrict path, const char *restrict mode) {
  if (!fs_path_outside(AT_FDCWD, path)) return fopen_slow(path, mode, 0);
  FILE *file = real_fopen(path, mode);
  return FS_LIKELY(file != NULL || !fopen_again(path)) ? file : fopen_slow(path, mode, -errno);
}
FS_ALIAS(fopen64, fopen);
FS_ALIAS(_IO_fopen, fopen);

static bool is_cookie(const FILE *f) {
  if (f->_mode >= 0 || f->_fileno < 0) return false;
  const struct fs_slot *s = fs_fd_slot(f->_fileno);
  return s != NULL && atomic_load(&s->kind) == FS_SLOT_FILE;
}

bool fs_stdio_unread(const FILE *f) {
  return f->_IO_read_base == NULL && is_cookie(f);
}

/* If bytes were read before, libc finds that the stream is not for wide characters; but it first
   looks at the room for them. */
void fs_stdio_widen(FILE *f) {
  if (FS_LIKELY(!is_cookie(f))) return;
  if (f->_IO_read_base != NULL || f->_IO_write_base != NULL) {
    bool none = f->_wide_data == NULL || (intptr_t)f->_wide_data == -1; /* -1: libc's, for streams of bytes */
    if (none) lend_wide_data(f);
    return;
  }
  struct fs_slot *s = fs_fd_slot(f->_fileno);
  if (fs_slot_writable(s) == 0) {
    if ((atomic_load(&s->flags) & O_ACCMODE) == O_WRONLY)
      reopen_output(s, atomic_load(&s->flags) & O_APPEND ? "a" : "r+", f);
    else
      lend_wide_data(f); /* bytes alone */
    return;
  }
  struct fs_found found = {.mount = s->mount, .entry = s->entry};
  /* lseek may make the descriptor real, so s must not be used after it. */
  off_t off = lseek(f->_fileno, 0, SEEK_CUR);
  if (open_real_file(&found, fs_fd_get_cloexec(f->_fileno) > 0 ? "re" : "r", f) != NULL)
    FS_SYS3(SYS_lseek, f->_fileno, off, SEEK_SET);
}

/* Routes freopen's path. Without a path, the route is to the file that is open. */
static int reopen_route(const char *path, int flags, const FILE *old, struct fs_found *f) {
  FS_MAY_BE_NULL(path);
  const struct fs_slot *s = path == NULL && old->_fileno >= 0 ? fs_fd_slot(old->_fileno) : NULL;
  /* With O_EXCL, what has the name stays as it is. */
  bool writes = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && !(flags & O_EXCL);
  bool empties = writes && (flags & O_TRUNC);
  if (s == NULL || s == &fs_slot_closed)
    return fs_path_route(AT_FDCWD, path, (writes ? FS_CHANGES : 0) | (empties ? FS_EMPTIES : 0), f);
  f->mount = s->mount;
  f->entry = s->entry;
  return FS_IN;
}

/* Reopens a stream for writing. If that fails, the stream is closed, as freopen does. */
static FILE *reopen_writing(const char *path, const char *mode, int flags, FILE *old) {
  int fd = path == NULL ? fs_ret_int(-EOPNOTSUPP) : fs_open_common(AT_FDCWD, path, flags, 0666);
  struct fs_slot *s = fd >= 0 ? fs_fd_slot(fd) : NULL;
  fs_err err = fd < 0 ? -errno : s == NULL ? -EAGAIN : (flags & O_ACCMODE) != O_WRONLY ? -EOPNOTSUPP : 0;
  FILE *file = err == 0 ? reopen_output(s, mode, old) : NULL;
  if (err != 0) fclose(old);
  if (fd >= 0) close(fd);
  return err == 0 ? file : (fs_ret(err), NULL);
}

/* Makes the stream one of a real file: its descriptor may be 0-2, and its address must stay. */
FS_EXPORT FILE *freopen(const char *restrict path, const char *restrict mode, FILE *restrict old) {
  struct fs_found f;
  int route = reopen_route(path, mode_flags(mode), old, &f);
  if ((mode_flags(mode) & O_CREAT) && fs_file_may_make(route, &f, false)) {
    int fd = fs_open_common(AT_FDCWD, path, mode_flags(mode), 0666); /* makes the file */
    route = fd < 0 ? fd : fs_path_route_slow(AT_FDCWD, path, 0, &f);
    if (fd >= 0) close(fd);
  }
  if (route == FS_OUTSIDE || route == FS_REDIRECT) {
    FILE *file = reopen(route == FS_OUTSIDE ? path : f.real, mode, old);
    if (file != NULL && route == FS_REDIRECT && f.out.id != 0)
      fs_output_opened(file->_fileno, mode_flags(mode), &f.out);
    return file;
  }
  int flags = mode_flags(mode);
  if (route == FS_IN && fs_is_output(f.entry) && flags >= 0 && (flags & O_ACCMODE) != O_RDONLY)
    return reopen_writing(path, mode, flags, old);
  fs_err err = route < 0 ? route : flags < 0 ? flags : 0;
  if (err == 0 && (flags & O_ACCMODE) != O_RDONLY) err = fs_file_open_check(route, &f, flags);
  if (err == 0 && route != FS_IN) err = -ENOENT;
  if (err == 0) return open_real_file(&f, mode, old);
  fclose(old);
  return fs_ret(err), NULL;
}
FS_ALIAS(freopen64, freopen);

FS_EXPORT FILE *fdopen(int fd, const char *mode) {
  struct fs_slot *s = fs_fd_slot(fd);
  if (s == NULL) {
    FILE *file = FS_REAL(fdopen)(fd, mode);
    if (file != NULL || errno != EBADF || (s = fs_fd_adopt(fd)) == NULL) return file;
  }
  int flags = mode_flags(mode);
  if (s == &fs_slot_closed) return fs_ret(-EBADF), NULL;
  bool writes = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
  if (flags < 0 || (writes && fs_slot_writable(s) != 0)) return fs_ret(-EINVAL), NULL;
  return fs_stdio_wrap(fd, writes ? mode : "r");
}
FS_ALIAS(_IO_fdopen, fdopen);
