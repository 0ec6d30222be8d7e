/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of fanstore.h, and the extended attributes with the same answers, which come from
   client/files/info.h. */
#include "client/files/info.h"
#include "preload/preload.h"
#include "util/util.h"

FS_EXPORT const char *fanstore_version(void) {
  return FS_VERSION;
}
FS_EXPORT int fanstore_mount_of(const char *path, const char **mount, const char **dataset) {
  return fs_info_mount_of(path, mount, dataset);
}
FS_EXPORT int fanstore_node(uint32_t *nodes) {
  return fs_info_node(nodes);
}
FS_EXPORT int fanstore_info(const char *path, struct fanstore_info *info) {
  return fs_info_path(path, info);
}
FS_EXPORT int64_t fanstore_prefetch(const char *const *paths, size_t n, size_t *started) {
  return paths == NULL && n > 0 ? -EFAULT : fs_data_prefetch_list(paths, n, started);
}
FS_EXPORT int fanstore_stats(int whose, struct fanstore_stats *stats) {
  return fs_info_stats(whose, stats);
}

/* ---- extended attributes ---- */

ssize_t getxattr(const char *, const char *, void *, size_t);
ssize_t lgetxattr(const char *, const char *, void *, size_t);
ssize_t fgetxattr(int, const char *, void *, size_t);
ssize_t listxattr(const char *, char *, size_t);
ssize_t llistxattr(const char *, char *, size_t);
ssize_t flistxattr(int, char *, size_t);

static int64_t get_entry(int route, const struct fs_found *f, const char *name, void *value, size_t n) {
  fs_err err = fs_must_exist(route);
  return err != 0 ? err : fs_file_getxattr(f->mount, f->entry, name, value, n);
}

static int64_t get_slot(const struct fs_slot *s, const char *name, void *value, size_t n) {
  return atomic_load(&s->kind) >= FS_SLOT_PATH ? -EBADF : fs_file_getxattr(s->mount, s->entry, name, value, n);
}

FS_EXPORT ssize_t getxattr(const char *p, const char *a, void *v, size_t n) {
  FS_PATH_CALL(AT_FDCWD, p, FS_XATTR, get_entry(route, f, a, v, n), FS_REAL(getxattr)(p, a, v, n));
}
FS_EXPORT ssize_t lgetxattr(const char *p, const char *a, void *v, size_t n) {
  FS_PATH_CALL(AT_FDCWD, p, FS_XATTR | FS_NOFOLLOW, get_entry(route, f, a, v, n), FS_REAL(lgetxattr)(p, a, v, n));
}
FS_EXPORT ssize_t fgetxattr(int fd, const char *a, void *v, size_t n) {
  FS_FD_CALL(fd, get_slot(s, a, v, n), FS_REAL(fgetxattr)(fd, a, v, n));
}

/* Lists none: programs that copy all attributes (cp -a, rsync -X, tar --xattrs) would try to copy
   them. */
FS_EXPORT ssize_t listxattr(const char *p, char *l, size_t n) {
  FS_PATH_CALL(AT_FDCWD, p, FS_XATTR, fs_must_exist(route), FS_REAL(listxattr)(p, l, n));
}
FS_EXPORT ssize_t llistxattr(const char *p, char *l, size_t n) {
  FS_PATH_CALL(AT_FDCWD, p, FS_XATTR | FS_NOFOLLOW, fs_must_exist(route), FS_REAL(llistxattr)(p, l, n));
}
FS_EXPORT ssize_t flistxattr(int fd, char *l, size_t n) {
  FS_FD_CALL(fd, atomic_load(&s->kind) >= FS_SLOT_PATH ? -EBADF : 0, FS_REAL(flistxattr)(fd, l, n));
}
