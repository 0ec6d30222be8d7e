/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of the calls that change names or attributes. A dataset is read-only, so they are
 * refused as a read-only file system refuses them (client/files/refuse.c). Output files are changed
 * by client/outputs/change.c or, if they are this node's own, by the kernel. Each wrapper says
 * which argument is the path, and which of these applies.
 */
#include "client/path/cwd.h"
#include "preload/preload.h"

/* Returns whether it is an output that the kernel does not have. */
static bool is_output(int route, const struct fs_found *f) {
  return route == FS_IN && fs_is_output(f->entry);
}

static int64_t set_mode(int route, const struct fs_found *f, mode_t m) {
  return is_output(route, f) ? fs_output_chmod(f, m) : fs_file_chmod(route, f, m);
}

static int64_t set_owner(int route, const struct fs_found *f, uid_t u, gid_t g) {
  return is_output(route, f) ? fs_output_chown(u, g) : fs_file_chown(route, f, u, g);
}

/* A wrapper of a call that makes a name. A virtual directory exists for these calls, too. */
#define FS_NEW_NAME(name, params, args, dirfd, path, directory, output)                                                \
  FS_EXPORT int name params {                                                                                          \
    if (FS_UNLIKELY(fs_file_is_vdir(dirfd, path))) return fs_ret_int(-EEXIST);                                         \
    FS_PATH_CALL(dirfd, path, FS_NOFOLLOW | FS_AS_IS | FS_MAKE,                                                        \
                 fs_file_may_make(route, f, directory) ? output : fs_file_refuse_new(route, f, directory),             \
                 FS_REAL(name) args);                                                                                  \
  }
/* A wrapper of a call that removes a name, which is refused before the name is looked at. */
#define FS_REMOVE(name, params, args, dirfd, path, ours)                                                               \
  FS_EXPORT int name params {                                                                                          \
    FS_PATH_CALL(dirfd, path, FS_PARENT, ours, FS_REAL(name) args);                                                    \
  }
/* Refuses a descriptor of --stage-in's directory: its file is not this job's. */
#define FS_NOT_STAGED(fd)                                                                                              \
  if (FS_UNLIKELY(fs_output_staged_in(fs_fd_entry(fd)))) return fs_ret_int(-EROFS)
#define FS_AT_WALK(f) ((f)&AT_SYMLINK_NOFOLLOW ? FS_NOFOLLOW : 0)

static struct fs_found found_fd(const struct fs_slot *s) {
  return (struct fs_found){.mount = s->mount, .entry = s->entry};
}

static int64_t fd_set_mode(const struct fs_slot *s, mode_t m) {
  struct fs_found f = found_fd(s);
  return atomic_load(&s->kind) >= FS_SLOT_PATH ? -EBADF : set_mode(FS_IN, &f, m);
}

static int64_t fd_set_owner(const struct fs_slot *s, uid_t u, gid_t g) {
  struct fs_found f = found_fd(s);
  return atomic_load(&s->kind) >= FS_SLOT_PATH ? -EBADF : set_owner(FS_IN, &f, u, g);
}

/* Sets the mode for a path of "" with AT_EMPTY_PATH. An O_PATH descriptor will do. */
static int64_t at_set_mode(const struct fs_slot *s, mode_t m) {
  struct fs_found f = found_fd(s);
  return s == &fs_slot_closed ? -EBADF : set_mode(FS_IN, &f, m);
}

static int64_t at_set_owner(const struct fs_slot *s, uid_t u, gid_t g) {
  struct fs_found f = found_fd(s);
  return s == &fs_slot_closed ? -EBADF : set_owner(FS_IN, &f, u, g);
}

static bool is_empty_path(const char *path, int flags) {
  FS_MAY_BE_NULL(path);
  return (flags & AT_EMPTY_PATH) && path != NULL && path[0] == '\0';
}

/* libc makes lchmod of an O_PATH descriptor and chmod, which a symlink does not have. */
static int64_t refuse_lchmod(int route, const struct fs_found *f, int flags) {
  struct stat st;
  if (flags & ~AT_SYMLINK_NOFOLLOW) return -EINVAL;
  if (route == FS_IN && (flags & AT_SYMLINK_NOFOLLOW) && fs_file_stat(f->mount, f->entry, &st) == 0 &&
      S_ISLNK(st.st_mode))
    return -EOPNOTSUPP;
  return fs_file_refuse_change(route);
}

static int64_t chmod_entry(int route, const struct fs_found *f, mode_t m, int flags) {
  int64_t err = refuse_lchmod(route, f, flags);
  return err == -EROFS ? set_mode(route, f, m) : err;
}

/* fchmodat2(2) of the descriptor itself. */
int fs_chmod_empty(int fd, mode_t m, int flags) {
  if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) return fs_ret_int(-EINVAL);
  FS_NOT_STAGED(fd);
  FS_FD_CALL(fd, at_set_mode(s, m),
             FS_REAL_SET(fd, fs_output_chmod(f, m), fs_ret_int(FS_SYS4(FS_SYS_FCHMODAT2, fd, "", m, flags))));
}

static int chmod_at(int d, const char *p, mode_t m, int flags) {
  FS_PATH_SET(d, p, FS_AT_WALK(flags), chmod_entry(route, f, m, flags), FS_REAL(fchmodat)(d, p, m, flags));
}

FS_VIA(int, fchmodat, (int d, const char *p, mode_t m, int flags), chmod_at(d, p, m, flags))
FS_VIA(int, chmod, (const char *p, mode_t m), chmod_at(AT_FDCWD, p, m, 0))
FS_VIA(int, lchmod, (const char *p, mode_t m), chmod_at(AT_FDCWD, p, m, AT_SYMLINK_NOFOLLOW))

static int64_t check_at_flags(int flags) {
  return flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) ? -EINVAL : 0;
}

static int chown_fd(int fd, const char *p, uid_t u, gid_t g, int flags) {
  FS_NOT_STAGED(fd);
  FS_FD_CALL(fd, check_at_flags(flags) != 0 ? check_at_flags(flags) : at_set_owner(s, u, g),
             FS_REAL_SET(fd, fs_output_chown(u, g), FS_REAL(fchownat)(fd, p, u, g, flags)));
}

static int chown_at(int d, const char *p, uid_t u, gid_t g, int flags) {
  if (is_empty_path(p, flags) && d != AT_FDCWD) return chown_fd(d, p, u, g, flags);
  if (is_empty_path(p, flags) && !fs_cwd_far()) p = ".";
  FS_PATH_SET(d, p, FS_AT_WALK(flags), check_at_flags(flags) != 0 ? check_at_flags(flags) : set_owner(route, f, u, g),
              FS_REAL(fchownat)(d, p, u, g, flags));
}

FS_VIA(int, fchownat, (int d, const char *p, uid_t u, gid_t g, int flags), chown_at(d, p, u, g, flags))
FS_VIA(int, chown, (const char *p, uid_t u, gid_t g), chown_at(AT_FDCWD, p, u, g, 0))
FS_VIA(int, lchown, (const char *p, uid_t u, gid_t g), chown_at(AT_FDCWD, p, u, g, AT_SYMLINK_NOFOLLOW))

static int64_t set_times(int route, const struct fs_found *f, const struct timespec t[2]) {
  fs_err err = fs_file_refuse_times(route, t); /* an error of the call itself comes first */
  if (err != -EROFS) return err;
  return is_output(route, f) ? fs_output_times(f, t) : fs_file_times(f, t);
}

/* truncate of a path like "/dev/stdout" of a forwarder: the file and the forwarder are cut. */
static int64_t truncate_forwarder(int fd, const struct fs_found *f, off_t n) {
  fs_err err = n < 0 ? -EINVAL : fs_file_access(f->mount, f->entry, W_OK);
  return err != 0 ? err : ftruncate(fd, n) == 0 ? 0 : -errno;
}

static int64_t truncate_output(const char *p, const struct fs_found *f, off_t n) {
  const char *rest;
  int fd = fs_path_may_name_fd(p) ? fs_fd_of_name(p, &rest) : -1;
  return fd >= 0 && fs_output_tracked(fs_fd_entry(fd)) ? truncate_forwarder(fd, f, n) : fs_output_truncate_path(f, n);
}

FS_EXPORT int truncate(const char *p, off_t n) {
  FS_PATH_SET(AT_FDCWD, p, 0, is_output(route, f) ? truncate_output(p, f, n) : fs_file_refuse_truncate(route, f, n),
              FS_REAL(truncate)(p, n));
}
FS_ALIAS(truncate64, truncate);

FS_EXPORT int fchmod(int fd, mode_t m) {
  FS_NOT_STAGED(fd);
  FS_FD_CALL(fd, fd_set_mode(s, m), FS_REAL_SET(fd, fs_output_chmod(f, m), FS_REAL(fchmod)(fd, m)));
}
FS_EXPORT int fchown(int fd, uid_t u, gid_t g) {
  FS_NOT_STAGED(fd);
  FS_FD_CALL(fd, fd_set_owner(s, u, g), FS_REAL_SET(fd, fs_output_chown(u, g), FS_REAL(fchown)(fd, u, g)));
}

static bool is_path_fd(const struct fs_slot *s) {
  return atomic_load(&s->kind) >= FS_SLOT_PATH;
}

static int times_fd(int fd, const struct timespec t[2]) {
  FS_NOT_STAGED(fd);
  FS_FD_CALL(fd, is_path_fd(s) ? -EBADF : set_times(FS_IN, &(struct fs_found){.mount = s->mount, .entry = s->entry}, t),
             FS_REAL_SET(fd, set_times(FS_IN, f, t), FS_REAL(futimens)(fd, t)));
}

static int64_t set_at_times(int route, const struct fs_found *f, const struct timespec t[2], int flags) {
  return check_at_flags(flags) != 0 ? check_at_flags(flags) : set_times(route, f, t);
}

static int times_empty(int fd, const char *p, const struct timespec t[2], int flags) {
  FS_NOT_STAGED(fd);
  FS_FD_CALL(fd,
             s == &fs_slot_closed
                 ? -EBADF
                 : set_at_times(FS_IN, &(struct fs_found){.mount = s->mount, .entry = s->entry}, t, flags),
             FS_REAL_SET(fd, set_at_times(FS_IN, f, t, flags), FS_REAL(utimensat)(fd, p, t, flags)));
}

static int times_at(int d, const char *p, const struct timespec t[2], int flags) {
  if (is_empty_path(p, flags) && d != AT_FDCWD) return times_empty(d, p, t, flags);
  if (is_empty_path(p, flags) && !fs_cwd_far()) p = ".";
  FS_PATH_SET(d, p, FS_AT_WALK(flags), set_at_times(route, f, t, flags), FS_REAL(utimensat)(d, p, t, flags));
}

/* utimensat refuses a path that is NULL by EINVAL, the older calls by EFAULT. */
static int old_times_at(int d, const char *p, const struct timespec t[2], int flags) {
  FS_MAY_BE_NULL(p);
  return p == NULL ? fs_ret_int(-EFAULT) : times_at(d, p, t, flags);
}

/* Converts the times of older calls to ts, and returns it, or NULL for the present time. Invalid
   microseconds become invalid nanoseconds. */
static const struct timespec *of_timevals(const struct timeval t[2], struct timespec ts[2]) {
  if (t == NULL) return NULL;
  for (int i = 0; i < 2; i++) {
    bool valid = t[i].tv_usec >= 0 && t[i].tv_usec < 1000000;
    ts[i] = (struct timespec){.tv_sec = t[i].tv_sec, .tv_nsec = valid ? t[i].tv_usec * 1000 : -1};
  }
  return ts;
}

static const struct timespec *of_utimbuf(const struct utimbuf *t, struct timespec ts[2]) {
  if (t == NULL) return NULL;
  ts[0] = (struct timespec){.tv_sec = t->actime};
  ts[1] = (struct timespec){.tv_sec = t->modtime};
  return ts;
}

#define FS_TIMES ((struct timespec[2]){{0}})
FS_VIA(int, utimensat, (int d, const char *p, const struct timespec t[2], int flags), times_at(d, p, t, flags))
FS_VIA(int, futimens, (int fd, const struct timespec t[2]), times_fd(fd, t))
FS_VIA(int, utime, (const char *p, const struct utimbuf *t), old_times_at(AT_FDCWD, p, of_utimbuf(t, FS_TIMES), 0))
FS_VIA(int, utimes, (const char *p, const struct timeval t[2]), old_times_at(AT_FDCWD, p, of_timevals(t, FS_TIMES), 0))
FS_VIA(int, lutimes, (const char *p, const struct timeval t[2]),
       old_times_at(AT_FDCWD, p, of_timevals(t, FS_TIMES), AT_SYMLINK_NOFOLLOW))
FS_VIA(int, futimes, (int fd, const struct timeval t[2]), times_fd(fd, of_timevals(t, FS_TIMES)))

FS_EXPORT int futimesat(int d, const char *p, const struct timeval t[2]) {
  FS_MAY_BE_NULL(p);
  return p == NULL ? times_fd(d, of_timevals(t, FS_TIMES)) : times_at(d, p, of_timevals(t, FS_TIMES), 0);
}

static int64_t refuse_unlinkat(int route, const struct fs_found *f, int flags) {
  return flags & ~AT_REMOVEDIR ? -EINVAL : fs_file_remove(route, f, flags & AT_REMOVEDIR);
}

/* Removes as libc does: if unlink says that it is a directory, rmdir follows. */
static int64_t refuse_either(int route, const struct fs_found *f) {
  fs_err err = fs_file_remove(route, f, false);
  return err == -EISDIR ? fs_file_remove(route, f, true) : err;
}

FS_REMOVE(unlink, (const char *p), (p), AT_FDCWD, p, fs_file_remove(route, f, false))
FS_REMOVE(unlinkat, (int d, const char *p, int flags), (d, p, flags), d, p, refuse_unlinkat(route, f, flags))
FS_REMOVE(rmdir, (const char *p), (p), AT_FDCWD, p, fs_file_remove(route, f, true))
FS_REMOVE(remove, (const char *p), (p), AT_FDCWD, p, refuse_either(route, f))

/* mknod of an output's name. A regular file is made as by open: GNU tar does so if it is to have
   extended attributes. */
static int64_t make_node(const struct fs_found *f, int dirfd, const char *p, mode_t m) {
  if ((m & S_IFMT) != 0 && !S_ISREG(m)) return fs_nl_mknod(f, m);
  const int fd = openat(dirfd, p, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, m & 07777);
  return fd < 0 || close(fd) < 0 ? -errno : 0;
}

FS_NEW_NAME(mkdir, (const char *p, mode_t m), (p, m), AT_FDCWD, p, true, fs_output_mkdir(f, m))
FS_NEW_NAME(mkdirat, (int d, const char *p, mode_t m), (d, p, m), d, p, true, fs_output_mkdir(f, m))
FS_NEW_NAME(mkfifo, (const char *p, mode_t m), (p, m), AT_FDCWD, p, false, fs_nl_mknod(f, S_IFIFO | (m & 07777)))
FS_NEW_NAME(mkfifoat, (int d, const char *p, mode_t m), (d, p, m), d, p, false, fs_nl_mknod(f, S_IFIFO | (m & 07777)))
FS_NEW_NAME(mknod, (const char *p, mode_t m, dev_t v), (p, m, v), AT_FDCWD, p, false, make_node(f, AT_FDCWD, p, m))
FS_NEW_NAME(mknodat, (int d, const char *p, mode_t m, dev_t v), (d, p, m, v), d, p, false, make_node(f, d, p, m))
FS_NEW_NAME(symlink, (const char *t, const char *p), (t, p), AT_FDCWD, p, false, fs_output_symlink(f, t))
FS_NEW_NAME(symlinkat, (const char *t, int d, const char *p), (t, d, p), d, p, false, fs_output_symlink(f, t))

static int rename_at(int d, const char *a, int e, const char *b, unsigned flags) {
  fs_err err = fs_file_rename(d, a, e, b, flags);
  /* fakeroot wraps renameat, and not renameat2. */
  if (err == FS_OUTSIDE && flags == 0) return FS_REAL(renameat)(d, a, e, b);
  if (err == FS_OUTSIDE) return FS_REAL(renameat2)(d, a, e, b, flags);
  return err > 0 ? 0 : fs_ret_int(err);
}

static int link_at(int d, const char *a, int e, const char *b, int flags) {
  fs_err err = fs_file_refuse_link(d, a, e, b, flags);
  return err == FS_OUTSIDE ? FS_REAL(linkat)(d, a, e, b, flags) : fs_ret_int(err);
}

FS_VIA(int, renameat2, (int d, const char *a, int e, const char *b, unsigned f), rename_at(d, a, e, b, f))
FS_VIA(int, renameat, (int d, const char *a, int e, const char *b), rename_at(d, a, e, b, 0))
FS_VIA(int, rename, (const char *a, const char *b), rename_at(AT_FDCWD, a, AT_FDCWD, b, 0))
FS_VIA(int, linkat, (int d, const char *a, int e, const char *b, int f), link_at(d, a, e, b, f))
FS_VIA(int, link, (const char *a, const char *b), link_at(AT_FDCWD, a, AT_FDCWD, b, 0))
