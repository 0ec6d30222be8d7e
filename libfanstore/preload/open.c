/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrappers of the open and close families. */
#include <limits.h>
#include <linux/close_range.h>
#include <sched.h>

#include "client/path/cwd.h"
#include "preload/preload.h"
#include "util/util.h"

static inline int plain_openat(int dirfd, const char *path, int flags, mode_t mode) {
  return FS_FRESH(FS_REAL(openat)(dirfd, path, flags, mode));
}

static int real_openat(int dirfd, const char *path, int flags, mode_t mode) {
  int fd = plain_openat(dirfd, path, flags, mode);
  if (fd >= 0 && !(flags & (O_CREAT | O_WRONLY | O_RDWR)) && fs_path_maybe_above(dirfd, path))
    fs_note_directory(fd, dirfd, path);
  return fd;
}

__attribute__((noinline)) void fs_note_directory(int fd, int dirfd, const char *path) {
  char link[PATH_MAX], name[32];
  struct stat st;
  int saved = errno;
  if (path == NULL || path[0] != '/') {
    if (dirfd == AT_FDCWD && fs_cwd_far()) return;
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    long n = FS_SYS4(SYS_readlinkat, AT_FDCWD, name, link, sizeof(link) - 1);
    if (n <= 0 || link[0] != '/') return;
    link[n] = '\0';
    path = link;
  }
  if (fs_path_is_ancestor(path) && fs_sys_fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) fs_fd_mark_ancestor(fd);
  errno = saved;
}

/* Returns the flags of the walk. A name that must be new is not followed, and one that may be made
   and ends in a slash is not looked at. */
static unsigned open_walk(const char *path, int flags) {
  unsigned walk = flags & O_NOFOLLOW ? FS_NOFOLLOW : 0;
  if ((flags & O_ACCMODE) != O_RDONLY && !(flags & O_PATH)) walk |= FS_WRITES | FS_CHANGES;
  if ((flags & O_TRUNC) && !(flags & O_PATH)) walk |= FS_CHANGES | (flags & O_DIRECTORY ? 0 : FS_EMPTIES);
  if ((flags & (O_CREAT | O_PATH)) != O_CREAT) return walk;
  size_t len = strlen(path);
  if (len > 0 && path[len - 1] == '/') return FS_MAKE | FS_NOFOLLOW | FS_AS_IS;
  return FS_MAKE | FS_FILE | (flags & O_EXCL ? FS_NOFOLLOW | FS_AS_IS : walk);
}

static int64_t open_entry(int route, const struct fs_found *f, int flags) {
  fs_err err = fs_file_check_flags(flags);
  if (err == 0 && route < 0) err = route;
  return err != 0 ? err : fs_file_open(route, f, flags);
}

/* Opens a name that may have to be made. Making it finds out whether it is there. */
static int64_t create(int *route, struct fs_found *f, int dirfd, const char *path, int flags, mode_t mode) {
  fs_err err = fs_file_check_flags(flags);
  fs_fd fd = err != 0 ? err : fs_output_create(f, flags, mode);
  if (fd != -EEXIST || (flags & O_EXCL)) return fd;
  if (f->out.id != 0 && !S_ISLNK(f->out.mode)) {
    *route = fs_output_found(f, open_walk(path, flags));
    return -EEXIST;
  }
  *route = fs_path_route_slow(dirfd, path, open_walk(path, flags) & ~FS_MAKE, f);
  return -EEXIST;
}

/* Opens an output of this node. */
static int open_output(const struct fs_found *f, int flags) {
  int fd = plain_openat(AT_FDCWD, f->real, flags & ~(O_CREAT | O_EXCL), 0);
  if (fd >= 0) fs_output_opened(fd, flags, &f->out);
  return fd;
}

static int open_untraced(int route, struct fs_found *f, int dirfd, const char *path, int flags, mode_t mode) {
  const int making = O_CREAT | O_PATH;
  for (int tries = 0; (flags & making) == O_CREAT && fs_file_may_make(route, f, false); tries++) {
    int64_t fd = FS_CANCELLABLE(create(&route, f, dirfd, path, flags, mode));
    /* The name was there and is gone again: somebody makes and removes it all the time. */
    if (fd != -EEXIST || (flags & O_EXCL) || (route == FS_NEW && tries == 100)) return fs_ret_int(fd);
  }
  if (route == FS_REDIRECT && f->out.id == 0) return real_openat(dirfd, f->real, flags, mode);
  for (unsigned tries = 0;;) {
    int fd = route == FS_REDIRECT ? open_output(f, flags) : fs_ret_int(FS_CANCELLABLE(open_entry(route, f, flags)));
    if (fd >= 0 || !fs_output_is_lost(f, route, errno, &tries)) return fd;
    route = fs_path_route_slow(dirfd, path, open_walk(path, flags) & ~FS_MAKE, f);
    if (route == FS_NEW && (flags & making) == O_CREAT) return fs_open_common(dirfd, path, flags, mode); /* anew */
  }
}

__attribute__((noinline)) void fs_trace_opened(int fd, int route, const struct fs_found *f, int flags, uint64_t begin) {
  if (route < FS_IN || (route == FS_REDIRECT && f->out.id == 0)) return;
  int saved = errno;
  struct fs_slot *s = fd >= 0 ? fs_fd_slot(fd) : NULL;
  bool named = (route == FS_NEW || f->out.id != 0) && f->entry != FS_OUTPUT_RECORD;
  struct stat st = {0};
  struct fs_traced c = {.call = FS_TRACE_OPEN,
                        .place = FS_TRACE_NO_PLACE,
                        .handle = s ? fs_slot_number(s) : FS_TRACE_NO_HANDLE,
                        .off = (uint64_t)(unsigned)flags};
  if (fd >= 0 && (s ? fs_file_fstat(s, &st) : FS_REAL(fstat)(fd, &st)) == 0) c.n = (uint64_t)st.st_size;
  fs_trace_add_name(&c, f->mount, f->entry == FS_OUTPUT_RECORD && s ? s->entry : f->entry, f->name,
                    named ? f->name_len : 0, begin, fd >= 0 ? 0 : -saved);
  errno = saved;
}

static int open_routed(int route, struct fs_found *f, int dirfd, const char *path, int flags, mode_t mode) {
  uint64_t begin = fs_trace_begin();
  int fd = open_untraced(route, f, dirfd, path, flags, mode);
  if (FS_UNLIKELY(begin != 0)) fs_trace_opened(fd, route, f, flags, begin);
  return fd;
}

/* Opens a path that the kernel has refused. */
static __attribute__((noinline)) int open_refused(int dirfd, const char *path, int flags, mode_t mode) {
  struct fs_found f;
  int err = errno;
  int route = fs_path_retry_walk(dirfd, path, open_walk(path, flags), -err, &f);
  if (route != FS_OUTSIDE) return open_routed(route, &f, dirfd, path, flags, mode);
  errno = err;
  return -1;
}

static inline int open_result(int fd, int dirfd, const char *path, int flags, mode_t mode) {
  if (FS_LIKELY(fd >= 0) || !fs_worth_retry(errno)) return fd;
  return fs_path_surely_missing(dirfd, path, open_walk(path, flags), -errno) ? fd
                                                                             : open_refused(dirfd, path, flags, mode);
}

static __attribute__((noinline)) int open_slow(int dirfd, const char *path, int flags, mode_t mode, enum fs_side side) {
  struct fs_found f;
  fs_timing_begin();
  int route = side == FS_SIDE_ABOVE ? FS_OUTSIDE : fs_path_route_slow(dirfd, path, open_walk(path, flags), &f);
  if (route != FS_OUTSIDE) {
    int fd = open_routed(route, &f, dirfd, path, flags, mode);
    fs_timing_end_found(FS_LATENCY_OPEN, route, &f);
    return fd;
  }
  return open_result(real_openat(dirfd, path, flags, mode), dirfd, path, flags, mode);
}

/* Opens a path like "/dev/stdout" for writing. A descriptor of this node's output is tracked; a
   forwarder is cut with its file. */
static __attribute__((noinline)) int open_named(int dirfd, const char *path, int flags, mode_t mode) {
  const char *rest = "";
  if (FS_UNLIKELY(fs_output_staged_in_name(path)) && !(flags & O_PATH)) return fs_ret_int(-EROFS);
  int fd = open_result(plain_openat(dirfd, path, flags, mode), dirfd, path, flags, mode);
  if (fd < 0 || fs_fd_of_name(path, &rest) < 0 || rest[0] != '\0' || fs_fd_entry(fd) != 0) return fd;
  fs_output_note_real(fd);
  fs_err err = flags & O_TRUNC ? fs_output_real_cut(fd, 0) : 0;
  if (err >= 0) return fd;
  fs_close(fd);
  return fs_ret_int(err);
}

/* Does what FS_PATH_CALL does, but takes the room for a path only if it is needed: programs open
   more than they do anything else. */
int fs_open_common(int dirfd, const char *path, int flags, mode_t mode) {
  enum fs_side side = fs_path_side(dirfd, path);
  if (FS_UNLIKELY(side != FS_SIDE_OUTSIDE)) return open_slow(dirfd, path, flags, mode, side);
  if ((flags & (O_ACCMODE | O_TRUNC)) && FS_UNLIKELY(fs_path_may_name_fd(path)))
    return open_named(dirfd, path, flags, mode);
  return open_result(plain_openat(dirfd, path, flags, mode), dirfd, path, flags, mode);
}

/*
 * These functions have three and four parameters where libc's headers say "...". The registers are
 * the same on these machines, and a function with variable arguments begins by storing all of them.
 * Without O_CREAT the mode is undefined.
 */
static mode_t mode_of(int flags, mode_t mode) {
  return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? mode : 0;
}

FS_EXPORT int fs_wrap_open(const char *path, int flags, mode_t mode) __asm__("open");
FS_EXPORT int fs_wrap_open(const char *path, int flags, mode_t mode) {
  return fs_open_common(AT_FDCWD, path, flags, mode_of(flags, mode));
}
FS_ALIAS(open64, open);
FS_ALIAS(__open, open);
FS_ALIAS(__open64, open);

FS_EXPORT int fs_wrap_openat(int dirfd, const char *path, int flags, mode_t mode) __asm__("openat");
FS_EXPORT int fs_wrap_openat(int dirfd, const char *path, int flags, mode_t mode) {
  return fs_open_common(dirfd, path, flags, mode_of(flags, mode));
}
FS_ALIAS(openat64, openat);

FS_EXPORT int __open_2(const char *path, int flags);
FS_EXPORT int __open_2(const char *path, int flags) {
  return fs_open_common(AT_FDCWD, path, flags, 0);
}
FS_ALIAS(__open64_2, __open_2);

FS_EXPORT int __openat_2(int dirfd, const char *path, int flags);
FS_EXPORT int __openat_2(int dirfd, const char *path, int flags) {
  return fs_open_common(dirfd, path, flags, 0);
}
FS_ALIAS(__openat64_2, __openat_2);

FS_EXPORT int creat(const char *path, mode_t mode) {
  return fs_open_common(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
FS_ALIAS(creat64, creat);

static inline int close_real(int fd) {
  int r = FS_REAL(close)(fd);
  if (r == 0) fs_fd_freed(fd);
  return r;
}

/* Closes a virtual descriptor. s: its file, or NULL. */
static inline fs_err close_virtual(int fd, const struct fs_slot *s, fs_err *flushed) {
  *flushed = s != NULL && fs_slot_writable(s) == 0 ? fs_output_flush(s->entry, false) : 0;
  return fs_fd_close(fd);
}

static __attribute__((noinline)) fs_err close_traced(int fd, const struct fs_slot *s, fs_err *flushed) {
  struct fs_traced c = {.call = FS_TRACE_CLOSE, .place = FS_TRACE_NO_PLACE, .handle = fs_slot_number(s)};
  uint64_t begin = fs_now_ns();
  fs_err err = close_virtual(fd, s, flushed);
  fs_trace_add(&c, begin, err);
  return err;
}

static __attribute__((noinline)) int close_odd(int fd, uint64_t e) {
  if (e & (FS_FDE_VIRTUAL | FS_FDE_IDLE)) {
    const struct fs_slot *s = fs_fd_slot(fd);
    fs_err flushed;
    fs_err err = s != NULL && fs_tracing() ? close_traced(fd, s, &flushed) : close_virtual(fd, s, &flushed);
    if (err != FS_E_REAL) return fs_ret_int(err != 0 ? err : flushed);
    e = 0; /* another thread has made a real file of it */
  }
  if (fs_shielded(fd)) return fs_ret_int(-EBADF);
  fs_err err = fs_output_tracked(e) ? fs_output_publish(fd) : 0;
  if (e != 0) fs_fd_forget(fd);
  if ((unsigned)fd < 3) fs_fd_low_closed();
  int r = close_real(fd);
  return r == 0 && err != 0 ? fs_ret_int(err) : r;
}

static inline bool is_odd(int fd, uint64_t e) {
  return e != 0 || (unsigned)fd < 3 || fs_shielded(fd);
}

int fs_close(int fd) {
  uint64_t e = fs_fd_entry(fd);
  return FS_UNLIKELY(is_odd(fd, e)) ? close_odd(fd, e) : close_real(fd);
}

FS_EXPORT int close(int fd) {
  uint64_t e = fs_fd_entry(fd);
  if (FS_UNLIKELY(is_odd(fd, e))) return e & FS_FDE_VIRTUAL ? FS_CANCELLABLE(close_odd(fd, e)) : close_odd(fd, e);
  return close_real(fd);
}
FS_ALIAS(__close, close);

/* Closes the virtual descriptors of the range. The kernel then closes the others, except the
   library's own. */
static void close_ours(unsigned first, unsigned last, bool cloexec) {
  unsigned high = atomic_load(&fs_fdtab_high);
  if (fs_vfork_depth > 0) return;
  for (unsigned fd = first; fd < high && fd <= last; fd++) {
    uint64_t e = fs_fd_entry((int)fd);
    if ((e & FS_FDE_VIRTUAL) && cloexec)
      fs_fd_set_cloexec((int)fd, true);
    else if (e & FS_FDE_VIRTUAL)
      fs_fd_close((int)fd);
    if (!cloexec) fs_fd_evict((int)fd);
    if (fs_output_tracked(e) && !cloexec) (void)fs_output_publish((int)fd);
    if ((e & (FS_FDE_ANCESTOR | FS_FDE_OUTPUT | FS_FDE_STAGED)) && !cloexec) fs_fd_forget((int)fd);
  }
}

/* Returns the lowest descriptor of the library's own that is not below fd, or UINT_MAX. */
static unsigned next_shielded(unsigned fd) {
  int owned = fd > INT_MAX ? -1 : fs_data_next_owned((int)fd);
  return owned < 0 ? UINT_MAX : (unsigned)owned;
}

FS_EXPORT int close_range(unsigned first, unsigned last, int flags) {
  const int known = CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC;
  if (fs_mount_count() == 0 || first > last || (flags & ~known) != 0) return FS_REAL(close_range)(first, last, flags);
  if ((flags & CLOSE_RANGE_UNSHARE) && unshare(CLONE_FILES) != 0) return -1;
  close_ours(first, last, (flags & CLOSE_RANGE_CLOEXEC) != 0);
  if (first < 3) fs_fd_low_closed();
  unsigned from = first;
  for (unsigned fd = first; (fd = next_shielded(FS_MAX(fd, 3u))) <= last && fd != UINT_MAX; fd++) {
    if (fd > from && FS_REAL(close_range)(from, fd - 1, flags) != 0) return -1;
    from = fd + 1;
  }
  int r = from <= last ? FS_REAL(close_range)(from, last, flags) : 0;
  if (r == 0 && first > 2 && first == from && !(flags & CLOSE_RANGE_CLOEXEC)) fs_fd_freed((int)FS_MIN(first, INT_MAX));
  return r;
}

/* Closes one number, for kernels before 5.9. */
static void close_number(void *ctx, int dirfd, const char *name) {
  uint64_t fd;
  if (fs_parse_u64(name, *(const unsigned *)ctx, INT_MAX, &fd) == 0 && (int)fd != dirfd) fs_close((int)fd);
}

FS_EXPORT void closefrom(int low) {
  unsigned first = low < 0 ? 0 : (unsigned)low;
  int saved = errno;
  if (close_range(first, ~0u, 0) != 0 && errno == ENOSYS) {
    FS_AUTO_CLOSE int dir = fs_sys_openat(AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (dir >= 0) fs_each_number(dir, close_number, &first);
  }
  errno = saved;
}
