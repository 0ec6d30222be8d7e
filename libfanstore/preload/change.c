/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of the calls that would change names or attributes. A dataset is read-only: they are refused as a read-only
 * file system refuses them. Each is one line: which argument is the path, and which refusal applies.
 */
#include "preload/preload.h"

/* The last component is the one to change. */
#define FS_CHANGE(name, params, args, dirfd, path, walk)                                                               \
  FS_EXPORT int name params {                                                                                          \
    FS_PATH_CALL(dirfd, path, walk, fs_file_refuse_change(route), FS_REAL(name) args);                                 \
  }
/* The name is to be made. */
#define FS_MAKE(name, params, args, dirfd, path)                                                                       \
  FS_EXPORT int name params {                                                                                          \
    FS_PATH_CALL(dirfd, path, FS_NOFOLLOW, fs_file_refuse_new(route), FS_REAL(name) args);                             \
  }
/* The name is to be removed: refused before it is looked at. */
#define FS_REMOVE(name, params, args, dirfd, path)                                                                     \
  FS_EXPORT int name params {                                                                                          \
    FS_PATH_CALL(dirfd, path, FS_NOFOLLOW, route < 0 ? route : -EROFS, FS_REAL(name) args);                            \
  }
#define FS_CHANGE_FD(name, params, args)                                                                               \
  FS_EXPORT int name params {                                                                                          \
    FS_FD_CALL(fd, atomic_load(&s->kind) >= FS_SLOT_PATH ? -EBADF : -EROFS, FS_REAL(name) args);                       \
  }
#define FS_AT_WALK(f) ((f)&AT_SYMLINK_NOFOLLOW ? FS_NOFOLLOW : 0)

FS_CHANGE(chmod, (const char *p, mode_t m), (p, m), AT_FDCWD, p, 0)
FS_CHANGE(lchmod, (const char *p, mode_t m), (p, m), AT_FDCWD, p, FS_NOFOLLOW)
FS_CHANGE(fchmodat, (int d, const char *p, mode_t m, int f_), (d, p, m, f_), d, p, FS_AT_WALK(f_))
FS_CHANGE(chown, (const char *p, uid_t u, gid_t g), (p, u, g), AT_FDCWD, p, 0)
FS_CHANGE(lchown, (const char *p, uid_t u, gid_t g), (p, u, g), AT_FDCWD, p, FS_NOFOLLOW)
FS_CHANGE(fchownat, (int d, const char *p, uid_t u, gid_t g, int f_), (d, p, u, g, f_), d, p, FS_AT_WALK(f_))
FS_CHANGE(utime, (const char *p, const struct utimbuf *t), (p, t), AT_FDCWD, p, 0)
FS_CHANGE(utimes, (const char *p, const struct timeval t[2]), (p, t), AT_FDCWD, p, 0)
FS_CHANGE(lutimes, (const char *p, const struct timeval t[2]), (p, t), AT_FDCWD, p, FS_NOFOLLOW)
FS_CHANGE(truncate, (const char *p, off_t n), (p, n), AT_FDCWD, p, 0)
FS_ALIAS(truncate64, truncate);

FS_CHANGE_FD(fchmod, (int fd, mode_t m), (fd, m))
FS_CHANGE_FD(fchown, (int fd, uid_t u, gid_t g), (fd, u, g))
FS_CHANGE_FD(futimes, (int fd, const struct timeval t[2]), (fd, t))
FS_CHANGE_FD(futimens, (int fd, const struct timespec t[2]), (fd, t))

/* A NULL path means the descriptor itself. */
static int utimens_fd(int fd, const struct timespec t[2], int flags) {
  FS_FD_CALL(fd, atomic_load(&s->kind) >= FS_SLOT_PATH ? -EBADF : -EROFS, FS_REAL(utimensat)(fd, NULL, t, flags));
}

FS_EXPORT int utimensat(int d, const char *p, const struct timespec t[2], int flags) {
  FS_MAY_BE_NULL(p);
  if (p == NULL) return utimens_fd(d, t, flags);
  FS_PATH_CALL(d, p, FS_AT_WALK(flags), fs_file_refuse_change(route), FS_REAL(utimensat)(d, p, t, flags));
}

FS_EXPORT int futimesat(int d, const char *p, const struct timeval t[2]) {
  FS_MAY_BE_NULL(p);
  if (p == NULL) return futimes(d, t);
  FS_PATH_CALL(d, p, 0, fs_file_refuse_change(route), FS_REAL(futimesat)(d, p, t));
}

FS_REMOVE(unlink, (const char *p), (p), AT_FDCWD, p)
FS_REMOVE(unlinkat, (int d, const char *p, int f_), (d, p, f_), d, p)
FS_REMOVE(rmdir, (const char *p), (p), AT_FDCWD, p)
FS_REMOVE(remove, (const char *p), (p), AT_FDCWD, p)

FS_MAKE(mkdir, (const char *p, mode_t m), (p, m), AT_FDCWD, p)
FS_MAKE(mkdirat, (int d, const char *p, mode_t m), (d, p, m), d, p)
FS_MAKE(mkfifo, (const char *p, mode_t m), (p, m), AT_FDCWD, p)
FS_MAKE(mkfifoat, (int d, const char *p, mode_t m), (d, p, m), d, p)
FS_MAKE(mknod, (const char *p, mode_t m, dev_t v), (p, m, v), AT_FDCWD, p)
FS_MAKE(mknodat, (int d, const char *p, mode_t m, dev_t v), (d, p, m, v), d, p)
FS_MAKE(symlink, (const char *t, const char *p), (t, p), AT_FDCWD, p)
FS_MAKE(symlinkat, (const char *t, int d, const char *p), (t, d, p), d, p)

FS_EXPORT char *mkdtemp(char *template) {
  if (fs_path_out(AT_FDCWD, template)) return FS_REAL(mkdtemp)(template);
  return fs_ret(-EROFS), NULL;
}

/* Does a path end below a mount? An error of the walk is one in the mount. */
static int64_t below(int dirfd, const char *path) {
  struct fs_found f;
  if (fs_path_out(dirfd, path)) return 0;
  int route = fs_path_route_slow(dirfd, path, FS_NOFOLLOW, &f);
  return route < 0 ? route : route == FS_IN || route == FS_NEW;
}

/* Both in the mount: read-only. One of them: another file system. */
static int64_t refuse_two(int64_t a, int64_t b) {
  if (a < 0) return a;
  if (b < 0) return b;
  return a > 0 && b > 0 ? -EROFS : -EXDEV;
}

FS_EXPORT int renameat2(int d, const char *a, int e, const char *b, unsigned flags) {
  int64_t from = below(d, a), to = below(e, b);
  return from == 0 && to == 0 ? FS_REAL(renameat2)(d, a, e, b, flags) : fs_ret_int(refuse_two(from, to));
}

FS_EXPORT int renameat(int d, const char *a, int e, const char *b) {
  int64_t from = below(d, a), to = below(e, b);
  return from == 0 && to == 0 ? FS_REAL(renameat)(d, a, e, b) : fs_ret_int(refuse_two(from, to));
}

FS_EXPORT int rename(const char *a, const char *b) {
  int64_t from = below(AT_FDCWD, a), to = below(AT_FDCWD, b);
  return from == 0 && to == 0 ? FS_REAL(rename)(a, b) : fs_ret_int(refuse_two(from, to));
}

FS_EXPORT int link(const char *a, const char *b) {
  int64_t from = below(AT_FDCWD, a), to = below(AT_FDCWD, b);
  return from == 0 && to == 0 ? FS_REAL(link)(a, b) : fs_ret_int(refuse_two(from, to));
}

FS_EXPORT int linkat(int d, const char *a, int e, const char *b, int flags) {
  int64_t from = below(d, a), to = below(e, b);
  return from == 0 && to == 0 ? FS_REAL(linkat)(d, a, e, b, flags) : fs_ret_int(refuse_two(from, to));
}

/* ---- extended attributes: a dataset has none ---- */

static int64_t no_attribute(fs_err err) {
  return err != 0 ? err : -ENODATA;
}

#define FS_XATTR(name, walk)                                                                                           \
  FS_EXPORT ssize_t name(const char *p, const char *a, void *v, size_t n) {                                            \
    FS_PATH_CALL(AT_FDCWD, p, walk, no_attribute(fs_must_be_seen(route)), FS_REAL(name)(p, a, v, n));                  \
  }
#define FS_LISTXATTR(name, walk)                                                                                       \
  FS_EXPORT ssize_t name(const char *p, char *l, size_t n) {                                                           \
    FS_PATH_CALL(AT_FDCWD, p, walk, fs_must_be_seen(route), FS_REAL(name)(p, l, n));                                   \
  }
ssize_t getxattr(const char *, const char *, void *, size_t);
ssize_t lgetxattr(const char *, const char *, void *, size_t);
ssize_t fgetxattr(int, const char *, void *, size_t);
ssize_t listxattr(const char *, char *, size_t);
ssize_t llistxattr(const char *, char *, size_t);
ssize_t flistxattr(int, char *, size_t);
int setxattr(const char *, const char *, const void *, size_t, int);
int lsetxattr(const char *, const char *, const void *, size_t, int);
int fsetxattr(int, const char *, const void *, size_t, int);
int removexattr(const char *, const char *);
int lremovexattr(const char *, const char *);
int fremovexattr(int, const char *);

FS_XATTR(getxattr, 0)
FS_XATTR(lgetxattr, FS_NOFOLLOW)
FS_LISTXATTR(listxattr, 0)
FS_LISTXATTR(llistxattr, FS_NOFOLLOW)

static fs_err slot_err(const struct fs_slot *s) {
  return atomic_load(&s->kind) >= FS_SLOT_PATH ? -EBADF : 0;
}
FS_EXPORT ssize_t fgetxattr(int fd, const char *a, void *v, size_t n) {
  FS_FD_CALL(fd, no_attribute(slot_err(s)), FS_REAL(fgetxattr)(fd, a, v, n));
}
FS_EXPORT ssize_t flistxattr(int fd, char *l, size_t n) {
  FS_FD_CALL(fd, slot_err(s), FS_REAL(flistxattr)(fd, l, n));
}

FS_CHANGE(setxattr, (const char *p, const char *a, const void *v, size_t n, int f_), (p, a, v, n, f_), AT_FDCWD, p, 0)
FS_CHANGE(lsetxattr, (const char *p, const char *a, const void *v, size_t n, int f_), (p, a, v, n, f_), AT_FDCWD, p,
          FS_NOFOLLOW)
FS_CHANGE_FD(fsetxattr, (int fd, const char *a, const void *v, size_t n, int f), (fd, a, v, n, f))
FS_CHANGE(removexattr, (const char *p, const char *a), (p, a), AT_FDCWD, p, 0)
FS_CHANGE(lremovexattr, (const char *p, const char *a), (p, a), AT_FDCWD, p, FS_NOFOLLOW)
FS_CHANGE_FD(fremovexattr, (int fd, const char *a), (fd, a))
