/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrappers of the stat, access, readlink and statfs families, with the forms that old binaries
   import. */
#include <sys/sysmacros.h>

#include "client/path/cwd.h"
#include "preload/preload.h"
#include "util/util.h"

static __attribute__((noinline)) fs_err stat_traced(const struct fs_found *f, struct stat *st) {
  struct fs_traced c = {.call = FS_TRACE_STAT, .place = FS_TRACE_NO_PLACE, .handle = FS_TRACE_NO_HANDLE};
  uint64_t begin = fs_now_ns();
  fs_err err = fs_found_stat(f, st);
  fs_trace_add_name(&c, f->mount, f->entry, f->name, f->out.id != 0 ? f->name_len : 0, begin, err);
  return err;
}

FS_PATH_INLINE int64_t stat_entry(int route, const struct fs_found *f, struct stat *st) {
  fs_err err = fs_must_exist(route);
  if (err == 0 && fs_bad_address(st)) err = -EFAULT;
  if (err != 0) return err;
  return fs_tracing() ? stat_traced(f, st) : fs_found_stat(f, st);
}

static inline int64_t stat_ends(int route, const struct fs_found *f, int64_t r) {
  fs_timing_end_found(FS_LATENCY_STAT, route, f);
  return r;
}

static __attribute__((noinline)) fs_err fstat_traced(struct fs_slot *s, struct stat *st) {
  struct fs_traced c = {.call = FS_TRACE_FSTAT, .place = FS_TRACE_NO_PLACE, .handle = fs_slot_number(s)};
  uint64_t begin = fs_now_ns();
  fs_err err = fs_file_fstat(s, st);
  fs_trace_add(&c, begin, err);
  return err;
}

FS_PATH_INLINE int64_t fstat_slot(struct fs_slot *s, struct stat *st) {
  if (fs_bad_address(st) && s != &fs_slot_closed) return -EFAULT;
  return fs_tracing() ? fstat_traced(s, st) : fs_file_fstat(s, st);
}

/* Corrects stat of a path like "/dev/fd/5": the kernel describes a placeholder as a socket. */
static __attribute__((noinline)) int stat_socket(struct stat *st) {
  struct fs_slot *s = fs_slot_of_socket(st->st_dev, st->st_ino);
  return s == NULL ? 0 : fs_ret_int(fs_file_fstat(s, st));
}

/* The kernel describes a placeholder that came by exec as a socket: the table is asked then. */
FS_EXPORT int fstat(int fd, struct stat *st) {
  FS_USE(u);
  struct fs_slot *s = fs_fd_use(fd, &u);
  if (FS_UNLIKELY(s != NULL)) return fs_ret_int(fstat_slot(s, st));
  int r = FS_REAL(fstat)(fd, st);
  if (FS_LIKELY(r != 0 || !S_ISSOCK(st->st_mode))) return r;
  s = fs_fd_adopt_use(fd, &u);
  return s == NULL ? r : fs_ret_int(fs_file_fstat(s, st));
}
FS_ALIAS(fstat64, fstat);

#define FS_STAT_FLAGS (AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH)
#define FS_SYNC_FLAGS (AT_STATX_FORCE_SYNC | AT_STATX_DONT_SYNC)

/* A file of this node that is no link to a file of --stage-in. */
static bool is_backing(const struct fs_found *f, const char *path) {
  return f != NULL && path == f->real && f->out.id != 0 && !(f->out.flags & FS_RECORD_STAGED_IN) && path[0] == '/';
}

static inline int real_stat(const struct fs_found *f, int dirfd, const char *path, struct stat *st, int flags) {
  if (FS_LIKELY(!is_backing(f, path))) return FS_REAL(fstatat)(dirfd, path, st, flags);
  int r = fs_ret_int(fs_output_kernel_stat(f, st, flags));
  fs_timing_end(FS_LATENCY_STAT, FS_LATENCY_OUTPUT);
  return r;
}

static inline int real_statx(const struct fs_found *f, int dirfd, const char *path, int flags, unsigned mask,
                             struct statx *out) {
  if (FS_LIKELY(!is_backing(f, path))) return FS_REAL(statx)(dirfd, path, flags, mask, out);
  int r = fs_ret_int(fs_output_kernel_statx(f, flags, mask, out));
  fs_timing_end(FS_LATENCY_STAT, FS_LATENCY_OUTPUT);
  return r;
}

FS_PATH_INLINE int at_path(int dirfd, const char *path, struct stat *st, int flags) {
  unsigned walk = FS_LOOK | (flags & AT_SYMLINK_NOFOLLOW ? FS_NOFOLLOW : 0);
  FS_PATH_CALL(dirfd, path, walk,
               flags & ~(FS_STAT_FLAGS | FS_SYNC_FLAGS) ? -EINVAL : stat_ends(route, f, stat_entry(route, f, st)),
               real_stat(f, dirfd, path, st, flags));
}

FS_PATH_INLINE int stat_at(int dirfd, const char *path, struct stat *st, int flags) {
  int r = at_path(dirfd, path, st, flags);
  return FS_LIKELY(r != 0 || !S_ISSOCK(st->st_mode)) ? r : stat_socket(st);
}

FS_VIA(int, stat, (const char *path, struct stat *st), stat_at(AT_FDCWD, path, st, 0))
FS_ALIAS(stat64, stat);
FS_VIA(int, lstat, (const char *path, struct stat *st), stat_at(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW))
FS_ALIAS(lstat64, lstat);

/* Returns whether the path is "" with AT_EMPTY_PATH, which means dirfd itself. */
static bool is_empty_path(const char *path, int flags) {
  __asm__("" : "+r"(path)); /* may be NULL, whatever libc's headers say */
  return (flags & AT_EMPTY_PATH) && (path == NULL || path[0] == '\0');
}

/* Returns whether "" with AT_EMPTY_PATH means a current directory that is far from all mounts, as
   the kernel sees it. */
static bool is_real_cwd(int dirfd) {
  return dirfd == AT_FDCWD && (fs_mount_count() == 0 || fs_cwd_far());
}

static int fstatat_empty(int dirfd, const char *path, struct stat *st, int flags) {
  bool real = is_real_cwd(dirfd);
  FS_USE(u);
  struct fs_slot *s = dirfd == AT_FDCWD ? NULL : fs_fd_use(dirfd, &u);
  if ((s != NULL || (dirfd == AT_FDCWD && !real)) && (flags & ~(FS_STAT_FLAGS | FS_SYNC_FLAGS)))
    return fs_ret_int(-EINVAL);
  if (dirfd == AT_FDCWD && !real) return stat(".", st);
  if (s != NULL) return fs_ret_int(fstat_slot(s, st));
  int r = FS_REAL(fstatat)(dirfd, path, st, flags);
  if (FS_LIKELY(r != 0 || !S_ISSOCK(st->st_mode)) || dirfd == AT_FDCWD) return r;
  s = fs_fd_adopt_use(dirfd, &u);
  return s == NULL ? r : fs_ret_int(fs_file_fstat(s, st));
}

FS_EXPORT int fstatat(int dirfd, const char *path, struct stat *st, int flags) {
  return is_empty_path(path, flags) ? fstatat_empty(dirfd, path, st, flags) : stat_at(dirfd, path, st, flags);
}
FS_ALIAS(fstatat64, fstatat);

static fs_err check_statx(int flags, unsigned mask) {
  bool both = (flags & FS_SYNC_FLAGS) == FS_SYNC_FLAGS;
  return both || (flags & ~(FS_STAT_FLAGS | FS_SYNC_FLAGS)) || (mask & STATX__RESERVED) ? -EINVAL : 0;
}

static int64_t give_statx(int64_t r, const struct stat *st, unsigned mask, struct statx *out) {
  if (r != 0) return r;
  if (fs_bad_address(out)) return -EFAULT;
  fs_file_to_statx(st, mask, out);
  return 0;
}

static int64_t statx_entry(int route, const struct fs_found *f, int flags, unsigned mask, struct statx *out) {
  struct stat st;
  fs_err err = check_statx(flags, mask);
  return err != 0 ? err : give_statx(stat_entry(route, f, &st), &st, mask, out);
}

static int64_t statx_slot(struct fs_slot *s, int flags, unsigned mask, struct statx *out) {
  struct stat st;
  fs_err err = check_statx(flags, mask);
  return err != 0 ? err : give_statx(fs_file_fstat(s, &st), &st, mask, out);
}

static int statx_fd(int fd, const char *path, int flags, unsigned mask, struct statx *out) {
  FS_USE(u);
  struct fs_slot *s = fs_fd_use(fd, &u);
  if (s != NULL) return fs_ret_int(statx_slot(s, flags, mask, out));
  int r = FS_REAL(statx)(fd, path, flags, mask, out);
  if (r != 0 || !S_ISSOCK(out->stx_mode)) return r;
  s = fs_fd_adopt_use(fd, &u);
  return s == NULL ? r : fs_ret_int(statx_slot(s, flags, mask, out));
}

FS_PATH_INLINE int statx_path(int dirfd, const char *path, int flags, unsigned mask, struct statx *out) {
  unsigned walk = FS_LOOK | (flags & AT_SYMLINK_NOFOLLOW ? FS_NOFOLLOW : 0);
  FS_PATH_CALL(dirfd, path, walk, stat_ends(route, f, statx_entry(route, f, flags, mask, out)),
               real_statx(f, dirfd, path, flags, mask, out));
}

static __attribute__((noinline)) int statx_socket(unsigned mask, struct statx *out) {
  struct fs_slot *s = fs_slot_of_socket(makedev(out->stx_dev_major, out->stx_dev_minor), out->stx_ino);
  return s == NULL ? 0 : fs_ret_int(statx_slot(s, 0, mask, out));
}

FS_EXPORT int statx(int dirfd, const char *restrict path, int flags, unsigned mask, struct statx *restrict out) {
  if (is_empty_path(path, flags) && dirfd != AT_FDCWD) return statx_fd(dirfd, path, flags, mask, out);
  if (is_empty_path(path, flags) && is_real_cwd(dirfd)) return FS_REAL(statx)(dirfd, path, flags, mask, out);
  int r = statx_path(dirfd, is_empty_path(path, flags) ? "." : path, flags, mask, out);
  return FS_LIKELY(r != 0 || !S_ISSOCK(out->stx_mode)) ? r : statx_socket(mask, out);
}

/* Called by binaries that were linked before glibc 2.33. The version says which struct stat: there
   is one on these machines. */
FS_VIA(int, __xstat, (int ver, const char *path, struct stat *st), ((void)ver, stat(path, st)))
FS_ALIAS(__xstat64, __xstat);
FS_VIA(int, __lxstat, (int ver, const char *path, struct stat *st), ((void)ver, lstat(path, st)))
FS_ALIAS(__lxstat64, __lxstat);
FS_VIA(int, __fxstat, (int ver, int fd, struct stat *st), ((void)ver, fstat(fd, st)))
FS_ALIAS(__fxstat64, __fxstat);
FS_VIA(int, __fxstatat, (int ver, int dirfd, const char *path, struct stat *st, int flags),
       ((void)ver, fstatat(dirfd, path, st, flags)))
FS_ALIAS(__fxstatat64, __fxstatat);

static int64_t access_entry(int route, const struct fs_found *f, int mode, int flags) {
  if ((mode & ~(R_OK | W_OK | X_OK)) || (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EACCESS | AT_EMPTY_PATH))) return -EINVAL;
  fs_err err = fs_must_exist(route);
  return err != 0 ? err : fs_found_access(f, mode);
}

FS_EXPORT int access(const char *path, int mode) {
  FS_PATH_CALL(AT_FDCWD, path, FS_LOOK, access_entry(route, f, mode, 0), FS_REAL(access)(path, mode));
}

FS_EXPORT int eaccess(const char *path, int mode) {
  FS_PATH_CALL(AT_FDCWD, path, FS_LOOK, access_entry(route, f, mode, 0), FS_REAL(eaccess)(path, mode));
}
FS_ALIAS(euidaccess, eaccess);

static int faccess_fd(int fd, const char *path, int mode, int flags) {
  FS_FD_CALL(fd, atomic_load(&s->kind) == FS_SLOT_CLOSED ? -EBADF : fs_file_access(s->mount, s->entry, mode),
             FS_REAL(faccessat)(fd, path, mode, flags));
}

FS_EXPORT int faccessat(int dirfd, const char *path, int mode, int flags) {
  unsigned walk = FS_LOOK | (flags & AT_SYMLINK_NOFOLLOW ? FS_NOFOLLOW : 0);
  if (is_empty_path(path, flags) && dirfd != AT_FDCWD) return faccess_fd(dirfd, path, mode, flags);
  FS_PATH_CALL(dirfd, path, walk, access_entry(route, f, mode, flags), FS_REAL(faccessat)(dirfd, path, mode, flags));
}

static int64_t readlink_entry(int route, const struct fs_found *f, char *buf, size_t n) {
  if (n == 0 || n > INT_MAX) return -EINVAL;
  fs_err err = fs_must_exist(route);
  return err != 0 ? err : fs_found_readlink(f, buf, n);
}

/* Corrects readlink of a path like "/dev/fd/5": if the kernel calls it socket:[1234], the answer is
   the path of the file that is open there. */
static __attribute__((noinline)) ssize_t readlink_socket(int dirfd, const char *path, char *buf, size_t n) {
  char link[64], name[PATH_MAX];
  uint64_t ino;
  long len = FS_SYS4(SYS_readlinkat, dirfd, path, link, sizeof(link) - 1);
  if (len < 10 || memcmp(link, "socket:[", 8) != 0 || link[len - 1] != ']') return FS_MIN(len, (ssize_t)n);
  link[len - 1] = '\0';
  const struct fs_state *st = fs_state_attach(false);
  if (st == NULL || fs_parse_u64(link + 8, 1, UINT64_MAX, &ino) != 0) return FS_MIN(len, (ssize_t)n);
  const struct fs_slot *s = fs_slot_of_socket(st->sock_dev, ino);
  fs_ssize got = s == NULL ? -ENOENT : fs_path_of(s->mount, s->entry, name, sizeof(name));
  if (got < 0) return FS_MIN(len, (ssize_t)n);
  memcpy(buf, name, FS_MIN((size_t)got, n));
  return FS_MIN(got, (fs_ssize)n);
}

/* Returns whether this may be the beginning of "socket:[1234]". */
static bool maybe_socket(const char *buf, ssize_t n) {
  return n > 0 && FS_UNLIKELY(buf[0] == 's') && fs_mount_count() > 0 &&
         memcmp(buf, "socket:[", FS_MIN((size_t)n, 8u)) == 0;
}

/* Reads a link by descriptor. With an empty path the kernel says ENOENT if it is no symlink. */
static fs_ssize readlink_slot(const struct fs_slot *s, char *buf, size_t n) {
  if (atomic_load(&s->kind) == FS_SLOT_CLOSED) return -EBADF;
  fs_ssize r = fs_file_readlink(s->mount, s->entry, buf, n);
  return r == -EINVAL && n > 0 && n <= INT_MAX ? -ENOENT : r;
}

static ssize_t readlink_fd(int fd, const char *path, char *buf, size_t n) {
  FS_FD_CALL(fd, readlink_slot(s, buf, n), FS_REAL(readlinkat)(fd, path, buf, n));
}

FS_PATH_INLINE ssize_t readlinkat_path(int dirfd, const char *path, char *buf, size_t n) {
  FS_PATH_CALL(dirfd, path, FS_NOFOLLOW | FS_LOOK, readlink_entry(route, f, buf, n),
               FS_REAL(readlinkat)(dirfd, path, buf, n));
}

static ssize_t readlink_at(int dirfd, const char *path, char *buf, size_t n) {
  if (is_empty_path(path, AT_EMPTY_PATH) && dirfd != AT_FDCWD) return readlink_fd(dirfd, path, buf, n);
  ssize_t r = readlinkat_path(dirfd, path, buf, n);
  return FS_LIKELY(!maybe_socket(buf, r)) ? r : readlink_socket(dirfd, path, buf, n);
}

FS_VIA(ssize_t, readlinkat, (int dirfd, const char *path, char *buf, size_t n), readlink_at(dirfd, path, buf, n))
FS_VIA(ssize_t, readlink, (const char *path, char *buf, size_t n), readlink_at(AT_FDCWD, path, buf, n))

FS_CHECKED(ssize_t, __readlink_chk, (const char *path, char *buf, size_t n, size_t size), n <= size,
           readlink(path, buf, n))
FS_CHECKED(ssize_t, __readlinkat_chk, (int dirfd, const char *path, char *buf, size_t n, size_t size), n <= size,
           readlinkat(dirfd, path, buf, n))
