/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of the calls for extended attributes. Those of a dataset's files have the answers of
 * client/files/info.h. Outputs have none on any node. So the kernel is not asked for those of this
 * node's outputs: `ls -l` reads two of each file.
 */
#include "client/files/info.h"
#include "preload/preload.h"

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

/* Calls `ours` also for the name of a descriptor, as "/dev/fd/5", which the kernel would take for a socket. */
#define FS_XATTR_CALL(path, walk, ours, native)                                                                        \
  if (!((walk)&FS_NOFOLLOW) && FS_UNLIKELY(fs_path_may_name_fd(path))) {                                               \
    struct fs_found *f = alloca(sizeof(*f));                                                                           \
    int route = fs_path_route_fd(path, f);                                                                             \
    if (route != FS_OUTSIDE) return (__typeof__(native))fs_ret(ours);                                                  \
  }                                                                                                                    \
  FS_PATH_CALL(AT_FDCWD, path, FS_LOOK | FS_XATTR | (walk), ours, native)

/* ---- reading; by a real descriptor, the kernel answers ---- */

static int64_t get_entry(int route, const struct fs_found *f, const char *name, void *value, size_t n) {
  fs_err err = fs_must_exist(route);
  return err != 0 ? err : fs_file_getxattr(f->mount, f->entry, name, value, n);
}

static int64_t get_slot(const struct fs_slot *s, const char *name, void *value, size_t n) {
  return atomic_load(&s->kind) >= FS_SLOT_PATH ? -EBADF : fs_file_getxattr(s->mount, s->entry, name, value, n);
}

FS_EXPORT ssize_t getxattr(const char *p, const char *a, void *v, size_t n) {
  FS_XATTR_CALL(p, 0, get_entry(route, f, a, v, n), FS_REAL(getxattr)(p, a, v, n));
}
FS_EXPORT ssize_t lgetxattr(const char *p, const char *a, void *v, size_t n) {
  FS_XATTR_CALL(p, FS_NOFOLLOW, get_entry(route, f, a, v, n), FS_REAL(lgetxattr)(p, a, v, n));
}
FS_EXPORT ssize_t fgetxattr(int fd, const char *a, void *v, size_t n) {
  FS_FD_CALL(fd, get_slot(s, a, v, n), FS_REAL(fgetxattr)(fd, a, v, n));
}

/* Lists none: programs that copy all attributes (cp -a, rsync -X, tar --xattrs) would try to copy
   them. */
FS_EXPORT ssize_t listxattr(const char *p, char *l, size_t n) {
  FS_XATTR_CALL(p, 0, fs_must_exist(route), FS_REAL(listxattr)(p, l, n));
}
FS_EXPORT ssize_t llistxattr(const char *p, char *l, size_t n) {
  FS_XATTR_CALL(p, FS_NOFOLLOW, fs_must_exist(route), FS_REAL(llistxattr)(p, l, n));
}
FS_EXPORT ssize_t flistxattr(int fd, char *l, size_t n) {
  FS_FD_CALL(fd, atomic_load(&s->kind) >= FS_SLOT_PATH ? -EBADF : 0, FS_REAL(flistxattr)(fd, l, n));
}

/* ---- setting and removing ---- */

static int64_t refuse(int route, const struct fs_found *f) {
  return route == FS_IN && fs_is_output(f->entry) ? -EOPNOTSUPP : fs_file_xattr(route, f);
}

static int64_t refuse_slot(const struct fs_slot *s) {
  struct fs_found f = {.mount = s->mount, .entry = s->entry};
  return atomic_load(&s->kind) >= FS_SLOT_PATH ? -EBADF : refuse(FS_IN, &f);
}

/* Returns whether a descriptor that the kernel has is an output's, or of a file of --stage-in. */
static bool is_output(int fd) {
  struct fs_found f;
  const uint64_t e = fs_fd_entry(fd);
  return fs_output_staged_in(e) || fs_output_tracked(e) || fs_output_real_set(fd, &f) != 0 || f.out.id != 0;
}

/* Returns whether a path as "/dev/fd/5" names such a descriptor. */
static bool names_output(const char *path) {
  const char *rest = "";
  const int fd = FS_UNLIKELY(fs_path_may_name_fd(path)) ? fs_fd_of_name(path, &rest) : -1;
  return fd >= 0 && rest[0] == '\0' && is_output(fd);
}

/* An attribute that is set copies nothing to this node, also with --overlay: no FS_CHANGES. */
#define FS_SET_OF_PATH(name, params, args, walk)                                                                       \
  FS_EXPORT int name params {                                                                                          \
    if (!((walk)&FS_NOFOLLOW) && names_output(p)) return fs_ret_int(-EOPNOTSUPP);                                      \
    FS_XATTR_CALL(p, walk, refuse(route, f), FS_REAL(name) args);                                                      \
  }
#define FS_SET_OF_FD(name, params, args)                                                                               \
  FS_EXPORT int name params {                                                                                          \
    FS_FD_CALL(fd, refuse_slot(s), is_output(fd) ? fs_ret_int(-EOPNOTSUPP) : FS_REAL(name) args);                      \
  }

FS_SET_OF_PATH(setxattr, (const char *p, const char *a, const void *v, size_t n, int how), (p, a, v, n, how), 0)
FS_SET_OF_PATH(lsetxattr, (const char *p, const char *a, const void *v, size_t n, int how), (p, a, v, n, how),
               FS_NOFOLLOW)
FS_SET_OF_FD(fsetxattr, (int fd, const char *a, const void *v, size_t n, int how), (fd, a, v, n, how))
FS_SET_OF_PATH(removexattr, (const char *p, const char *a), (p, a), 0)
FS_SET_OF_PATH(lremovexattr, (const char *p, const char *a), (p, a), FS_NOFOLLOW)
FS_SET_OF_FD(fremovexattr, (int fd, const char *a), (fd, a))
