/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrappers of dup, fcntl, ioctl and the calls that only act on a descriptor's file: sync, locks,
   advice. */
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/file.h>

#include "preload/preload.h"

/* Notes that a real descriptor was copied: a copy of an output's descriptor is tracked, too. */
static inline int copied(int fd, int copy) {
  const uint64_t output = FS_FDE_OUTPUT | FS_FDE_STAGED;
  if (FS_UNLIKELY(copy >= 0 && (fs_fd_entry(fd) & output) != 0)) fs_output_copied(fd, copy);
  return copy;
}

FS_EXPORT int dup(int fd) {
  struct fs_slot *s = fs_fd_slot(fd);
  fs_fd copy = FS_UNLIKELY(s != NULL) ? fs_fd_dup(fd, 0, false) : FS_E_REAL;
  return copy == FS_E_REAL ? copied(fd, FS_FRESH(FS_REAL(dup)(fd))) : fs_ret_int(copy);
}

/* Makes an inherited virtual descriptor real that was copied to 0-2 and that the table does not
   know yet. */
static int after_dup(int fd, int newfd) {
  if (newfd < 0 || newfd > 2 || fs_vfork_depth > 0 || fs_state_attach(false) == NULL) return newfd;
  struct fs_slot *s = fs_fd_adopt(newfd);
  if (s == NULL || s == &fs_slot_closed) return newfd;
  fs_fd_adopt(fd);
  return fs_ret_int(fs_file_dup_to(newfd, s, newfd, false));
}

/* Moves the library's own descriptor away, if one has this number. */
static bool has_room(int fd, const struct fs_slot *s, int newfd) {
  if (FS_LIKELY(!fs_shielded(newfd))) return true;
  return fd != newfd && (s != NULL || fs_sys_fcntl(fd, F_GETFD, 0) >= 0) && fs_own_move(newfd);
}

static int real_dup(int fd, int newfd, int flags, bool dup3_rules) {
  return dup3_rules ? FS_REAL(dup3)(fd, newfd, flags) : FS_REAL(dup2)(fd, newfd);
}

static int dup_real_over(int fd, int newfd, int flags, bool dup3_rules) {
  struct fs_fd_claim c;
  if (fd == newfd) return real_dup(fd, newfd, flags, dup3_rules);
  if (FS_UNLIKELY(fs_output_tracked(fs_fd_entry(newfd)))) (void)fs_output_publish(newfd);
  fs_fd_over_begin(newfd, &c);
  int r = real_dup(fd, newfd, flags, dup3_rules);
  fs_fd_over_end(newfd, &c, r >= 0);
  return after_dup(fd, copied(fd, r));
}

static int dup_over(int fd, int newfd, int flags, bool dup3_rules) {
  FS_USE(u);
  struct fs_slot *s = fs_fd_use(fd, &u);
  if (!has_room(fd, s, newfd)) return fs_ret_int(-EBADF);
  if (FS_LIKELY(s == NULL)) return dup_real_over(fd, newfd, flags, dup3_rules);
  if (s == &fs_slot_closed || newfd < 0) return fs_ret_int(-EBADF);
  if (dup3_rules && (fd == newfd || (flags & ~O_CLOEXEC) != 0)) return fs_ret_int(-EINVAL);
  fs_fd r = fs_file_dup_to(fd, s, newfd, (flags & O_CLOEXEC) != 0);
  fs_use_end(&u);
  fs_use_reap(); /* fd itself, where it became real */
  return r == FS_E_REAL ? dup_real_over(fd, newfd, flags, dup3_rules) : fs_ret_int(r);
}

FS_EXPORT int dup2(int fd, int newfd) {
  return dup_over(fd, newfd, 0, false);
}
FS_ALIAS(__dup2, dup2);

FS_EXPORT int dup3(int fd, int newfd, int flags) {
  return dup_over(fd, newfd, flags, true);
}

static int64_t fcntl_slot(int fd, struct fs_slot *s, int cmd, long arg) {
  if (s == &fs_slot_closed) return -EBADF;
  switch (cmd) {
  case F_DUPFD:
  case F_DUPFD_CLOEXEC:
    return fs_fd_dup(fd, (int)arg, cmd == F_DUPFD_CLOEXEC);
  case F_GETFD:
    return fs_fd_get_cloexec(fd);
  case F_SETFD:
    return fs_fd_set_cloexec(fd, (arg & FD_CLOEXEC) != 0);
  default:
    return fs_file_fcntl(s, cmd, arg);
  }
}

static bool is_lock(int cmd) {
  return cmd == F_GETLK || cmd == F_SETLK || cmd == F_SETLKW || (cmd >= F_OFD_GETLK && cmd <= F_OFD_SETLKW);
}

/* Returns whether the command asks for a lock, or asks after one. Giving a lock back does no
   harm. */
static bool locks(int cmd, long arg) {
  if (fs_bad_address((const void *)arg)) return false; /* the kernel says so */
  return cmd == F_GETLK || cmd == F_OFD_GETLK || ((const struct flock *)arg)->l_type != F_UNLCK;
}

static int fcntl_real(int fd, int cmd, long arg) {
  if (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC) return copied(fd, FS_FRESH(FS_REAL(fcntl)(fd, cmd, arg)));
  if (is_lock(cmd) && fs_output_real_lock(fd) != 0 && locks(cmd, arg)) return fs_ret_int(-ENOLCK);
  if (is_lock(cmd) && !fs_bad_address((const void *)arg) && ((const struct flock *)arg)->l_type == F_UNLCK)
    fs_output_unlocking(fd);
  int r = FS_REAL(fcntl)(fd, cmd, arg);
  bool placeholder = (r < 0 && errno == EBADF) || (cmd == F_GETFL && r >= 0 && (r & O_PATH));
  if (FS_LIKELY(!placeholder)) return r;
  struct fs_slot *s = fs_fd_adopt(fd);
  return s == NULL ? r : fs_ret_int(fcntl_slot(fd, s, cmd, arg));
}

FS_EXPORT int fcntl(int fd, int cmd, ...) {
  va_list ap;
  va_start(ap, cmd);
  long arg = va_arg(ap, long);
  va_end(ap);
  FS_USE(u);
  struct fs_slot *s = fs_fd_use(fd, &u);
  int64_t r = FS_UNLIKELY(s != NULL) ? fcntl_slot(fd, s, cmd, arg) : FS_E_REAL;
  return r == FS_E_REAL ? fcntl_real(fd, cmd, arg) : fs_ret_int(r);
}
FS_ALIAS(fcntl64, fcntl);
FS_ALIAS(__fcntl, fcntl);

static bool sets_cloexec(const struct fs_slot *s, unsigned long request) {
  bool here = s != NULL && s != &fs_slot_closed && atomic_load(&s->kind) != FS_SLOT_PATH;
  return here && (request == FIOCLEX || request == FIONCLEX);
}

/* Returns whether FICLONE or FICLONERANGE names a virtual descriptor to copy from. Such a file is
   on another file system. */
static bool clones_ours(unsigned long request, const void *arg) {
  if (request == FICLONE) return fs_fd_slot((int)(intptr_t)arg) != NULL;
  return request == FICLONERANGE && !fs_bad_address(arg) &&
         fs_fd_slot((int)((const struct file_clone_range *)arg)->src_fd) != NULL;
}

FS_EXPORT int ioctl(int fd, unsigned long request, ...) {
  va_list ap;
  va_start(ap, request);
  void *arg = va_arg(ap, void *);
  va_end(ap);
  if (FS_UNLIKELY(sets_cloexec(fs_fd_slot(fd), request)))
    return fcntl(fd, F_SETFD, request == FIOCLEX ? FD_CLOEXEC : 0);
  if (FS_UNLIKELY(clones_ours(request, arg)) && fs_fd_slot(fd) == NULL) return fs_ret_int(-EXDEV);
  FS_FD_CALL(fd, fs_file_ioctl(s, request, arg), FS_REAL(ioctl)(fd, request, arg));
}

static int64_t not_a_tty(const struct fs_slot *s) {
  uint8_t kind = atomic_load(&s->kind);
  return kind == FS_SLOT_CLOSED || kind == FS_SLOT_PATH ? -EBADF : -ENOTTY;
}

FS_EXPORT int isatty(int fd) {
  struct fs_slot *s = fs_fd_slot(fd);
  if (s == NULL) return FS_REAL(isatty)(fd);
  fs_ret(not_a_tty(s));
  return 0;
}

static int64_t is_open(const struct fs_slot *s) {
  uint8_t kind = atomic_load(&s->kind);
  return kind == FS_SLOT_CLOSED || kind == FS_SLOT_PATH ? -EBADF : 0;
}

/* Publishes an output that the kernel has synced, so that other nodes see it, too. */
static inline int synced(int fd, int r) {
  if (FS_LIKELY(r != 0 || !fs_output_tracked(fs_fd_entry(fd)))) return r;
  return fs_ret_int(fs_output_publish_synced(fd));
}

static int64_t sync_slot(struct fs_slot *s) {
  if (atomic_load(&s->kind) == FS_SLOT_DIR) return fs_output_dir_sync(s->entry);
  if (fs_slot_writable(s) != 0) return is_open(s);
  fs_err err = fs_output_flush(s->entry, true);
  return err == 0 && fs_slot_is_real(s) ? FS_E_REAL : err;
}

FS_EXPORT int fsync(int fd) {
  FS_FD_CALL(fd, sync_slot(s), synced(fd, FS_REAL(fsync)(fd)));
}
FS_EXPORT int fdatasync(int fd) {
  FS_FD_CALL(fd, sync_slot(s), synced(fd, FS_REAL(fdatasync)(fd)));
}
FS_EXPORT int syncfs(int fd) {
  FS_FD_CALL(fd, is_open(s), FS_REAL(syncfs)(fd));
}
FS_EXPORT int sync_file_range(int fd, off64_t off, off64_t n, unsigned flags) {
  FS_FD_CALL(fd, is_open(s), FS_REAL(sync_file_range)(fd, off, n, flags));
}
FS_EXPORT int flock(int fd, int op);
static int flock_real(int fd, int op) {
  fs_err err = op & LOCK_UN ? 0 : fs_output_real_lock(fd);
  if (op & LOCK_UN) fs_output_unlocking(fd);
  return err != 0 ? fs_ret_int(err) : FS_REAL(flock)(fd, op);
}
FS_EXPORT int flock(int fd, int op) {
  FS_FD_CALL(fd, fs_file_flock(s, op), flock_real(fd, op));
}

static int lockf_real(int fd, int cmd, off_t n) {
  fs_err err = cmd == F_ULOCK ? 0 : fs_output_real_lock(fd);
  if (cmd == F_ULOCK) fs_output_unlocking(fd);
  return err != 0 ? fs_ret_int(err) : FS_REAL(lockf)(fd, cmd, n);
}
FS_EXPORT int lockf(int fd, int cmd, off_t n) {
  FS_FD_CALL(fd, fs_file_lockf(s, cmd, n), lockf_real(fd, cmd, n));
}
FS_ALIAS(lockf64, lockf);

static int64_t truncate_slot(const struct fs_slot *s, off_t n) {
  bool writable = fs_slot_writable(s) == 0;
  fs_err err = writable ? fs_output_at_home(s->entry) : 0;
  if (writable) return err != 0 ? err : fs_output_truncate(&(struct fs_found){.entry = s->entry}, n);
  return n >= 0 && is_open(s) != 0 ? is_open(s) : -EINVAL;
}

/* Makes an output longer. It has no blocks of its own, but reads zeros there as a file with blocks
   does. */
static int64_t allocate_slot(struct fs_slot *s, int mode, off_t off, off_t n) {
  struct stat st;
  if (fs_slot_writable(s) != 0) return -EBADF;
  if (off < 0 || n <= 0) return -EINVAL;
  if (mode != 0 || off > INT64_MAX - n) return mode != 0 ? -EOPNOTSUPP : -EFBIG;
  fs_err err = fs_file_fstat(s, &st);
  return err != 0 || off + n <= st.st_size ? err : truncate_slot(s, off + n);
}

static int truncate_real(int fd, off_t n) {
  fs_err err = fs_fd_entry(fd) != 0 && n > 0 ? fs_output_room(fd, (uint64_t)n) : 0;
  if (err == 0 && fs_fd_entry(fd) != 0) err = fs_output_real_cut(fd, n);
  return err < 0 ? fs_ret_int(err) : err > 0 ? 0 : FS_REAL(ftruncate)(fd, n);
}

FS_EXPORT int ftruncate(int fd, off_t n) {
  FS_FD_CALL(fd, truncate_slot(s, n), truncate_real(fd, n));
}
FS_ALIAS(ftruncate64, ftruncate);

/* Allocates unless the node's outputs take more than they may. Holes may be made all the same. */
static int allocate_real(int fd, int mode, off_t off, off_t n) {
  return mode & FALLOC_FL_PUNCH_HOLE ? FS_REAL(fallocate)(fd, mode, off, n)
                                     : FS_WITH_ROOM(fd, FS_REAL(fallocate)(fd, mode, off, n));
}

FS_EXPORT int fallocate(int fd, int mode, off_t off, off_t n) {
  FS_FD_CALL(fd, allocate_slot(s, mode, off, n), allocate_real(fd, mode, off, n));
}
FS_ALIAS(fallocate64, fallocate);

/* These return the error instead of setting errno. */
FS_EXPORT int posix_fallocate(int fd, off_t off, off_t n) {
  FS_USE(u);
  struct fs_slot *s = fs_fd_use(fd, &u);
  int64_t made = s != NULL ? fs_fd_real_if(fd, s, allocate_slot(s, 0, off, n)) : FS_E_REAL;
  if (made != FS_E_REAL) return (int)-made;
  fs_err err = fs_fd_entry(fd) != 0 ? fs_output_room(fd, UINT64_MAX) : 0;
  return err != 0 ? -err : FS_REAL(posix_fallocate)(fd, off, n);
}
FS_ALIAS(posix_fallocate64, posix_fallocate);

FS_EXPORT int posix_fadvise(int fd, off_t off, off_t n, int advice) {
  FS_USE(u);
  struct fs_slot *s = fs_fd_use(fd, &u);
  if (s == NULL) {
    int r = FS_REAL(posix_fadvise)(fd, off, n, advice);
    if (r != EBADF || (s = fs_fd_adopt_use(fd, &u)) == NULL) return r;
  }
  return -fs_file_advise(s, off, n, advice);
}
FS_ALIAS(posix_fadvise64, posix_fadvise);

static int64_t readahead_slot(struct fs_slot *s, off64_t off, size_t n) {
  fs_err err = fs_slot_readable(s);
  if (err == 0) err = fs_file_advise(s, off, (int64_t)n, POSIX_FADV_WILLNEED);
  return err == -EISDIR ? -EINVAL : err;
}

FS_EXPORT ssize_t readahead(int fd, off64_t off, size_t n) {
  FS_FD_CALL(fd, readahead_slot(s, off, n), FS_REAL(readahead)(fd, off, n));
}
