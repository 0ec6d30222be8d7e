/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of calls that would have the kernel itself work on a path of a dataset: mounts, swap,
 * accounting, quotas, file handles, change notification. The kernel does not know the dataset. If a
 * real directory lies at the mount, it would take that one. Each wrapper is one line: its path, and
 * its result once the path is found.
 */
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/quota.h>
#include <sys/swap.h>

#include "client/path/vdir.h"
#include "preload/preload.h"

static fs_err refused(int route, fs_err err) {
  fs_err there = fs_must_exist(route);
  return there != 0 ? there : err;
}

#define FS_REFUSE(name, params, args, dirfd, path, walk, err)                                                          \
  FS_EXPORT int name params;                                                                                           \
  FS_EXPORT int name params {                                                                                          \
    FS_PATH_CALL(dirfd, path, walk, refused(route, -(err)), FS_REAL(name) args);                                       \
  }

FS_REFUSE(acct, (const char *p), (p), AT_FDCWD, p, 0, EROFS)
FS_REFUSE(swapon, (const char *p, int f_), (p, f_), AT_FDCWD, p, 0, EROFS)
FS_REFUSE(swapoff, (const char *p), (p), AT_FDCWD, p, 0, EINVAL)
FS_REFUSE(chroot, (const char *p), (p), AT_FDCWD, p, 0, EPERM)
FS_REFUSE(umount, (const char *p), (p), AT_FDCWD, p, 0, EINVAL)
FS_REFUSE(umount2, (const char *p, int f_), (p, f_), AT_FDCWD, p, 0, EINVAL)
FS_REFUSE(quotactl, (int c, const char *p, int i, char *a), (c, p, i, a), AT_FDCWD, p, 0, ENOTBLK)
FS_REFUSE(open_tree, (int d, const char *p, unsigned f_), (d, p, f_), d, p, 0, EPERM)
FS_REFUSE(fspick, (int d, const char *p, unsigned f_), (d, p, f_), d, p, 0, EPERM)
FS_REFUSE(mount_setattr, (int d, const char *p, unsigned f_, struct mount_attr *a, size_t n), (d, p, f_, a, n), d, p, 0,
          EPERM)

static bool within(int d, const char *p) {
  struct fs_found f;
  int route = fs_path_route(d, p, 0, &f);
  return route != FS_OUTSIDE && route != FS_REDIRECT;
}

/* Returns whether one of two paths is of a dataset; neither may be. What is mounted may be a word
   like "none", which is relative to the current directory, maybe above a mount. */
static bool either(int d, const char *p, int e, const char *q) {
  return within(d, p) || within(e, q);
}

FS_EXPORT int pivot_root(const char *p, const char *q);
FS_EXPORT int pivot_root(const char *p, const char *q) {
  return either(AT_FDCWD, p, AT_FDCWD, q) ? fs_ret_int(-EPERM) : FS_REAL(pivot_root)(p, q);
}

FS_EXPORT int mount(const char *from, const char *to, const char *type, unsigned long flags, const void *options) {
  return either(AT_FDCWD, from, AT_FDCWD, to) ? fs_ret_int(-EPERM) : FS_REAL(mount)(from, to, type, flags, options);
}

FS_EXPORT int move_mount(int e, const char *q, int d, const char *p, unsigned flags) {
  return either(e, q, d, p) ? fs_ret_int(-EPERM) : FS_REAL(move_mount)(e, q, d, p, flags);
}

/* ---- file handles: as on a file system that has none ---- */

static int handle_at(int d, const char *p, struct file_handle *h, int *id, int flags) {
  unsigned walk = flags & AT_SYMLINK_FOLLOW ? 0 : FS_NOFOLLOW;
  FS_PATH_CALL(d, p, walk, refused(route, -EOPNOTSUPP), FS_REAL(name_to_handle_at)(d, p, h, id, flags));
}

FS_EXPORT int name_to_handle_at(int d, const char *p, struct file_handle *h, int *id, int flags) {
  bool itself = p != NULL && p[0] == '\0' && (flags & AT_EMPTY_PATH);
  if (itself && fs_fd_slot(d) != NULL) return fs_ret_int(-EOPNOTSUPP);
  return handle_at(d, p, h, id, flags);
}

/* ---- change notification ---- */

/*
 * Makes a watch that reports nothing. A dataset's file never changes, nor does a directory where
 * nobody can make outputs. A watch on what may change without the kernel's knowledge is refused, so
 * that programs poll. The watch is on an inode of its own, an anonymous socket's, which the watch
 * keeps. It ends with inotify_rm_watch or close like any other. Watching a path twice gives two
 * watches.
 */
static int64_t watch_nothing(int fd, int route, const struct fs_found *f, uint32_t mask) {
  struct stat st = {0};
  char path[32];
  fs_err err = fs_must_exist(route);
  if (err == 0) err = fs_file_stat(f->mount, f->entry, &st);
  if (err == 0 && (mask & IN_ONLYDIR) && !S_ISDIR(st.st_mode)) err = -ENOTDIR;
  bool changes = S_ISDIR(st.st_mode) ? fs_names_node() != NULL && !fs_is_vdir(f->entry) : fs_is_output(f->entry);
  /* Programs have a way for "no more watches". */
  if (err == 0 && changes && !S_ISLNK(st.st_mode)) err = -ENOSPC;
  if (err != 0) return err;
  fs_fd inode = (fs_fd)FS_SYS3(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (inode < 0) return inode;
  snprintf(path, sizeof(path), "/proc/self/fd/%d", inode);
  const uint32_t events = IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF; /* not those of the close here */
  int64_t r = FS_SYS3(SYS_inotify_add_watch, fd, path, (mask & events) != 0 ? mask & events : IN_ATTRIB);
  fs_sys_close(inode);
  return r;
}

FS_EXPORT int inotify_add_watch(int fd, const char *p, uint32_t mask) {
  unsigned walk = mask & IN_DONT_FOLLOW ? FS_NOFOLLOW : 0;
  FS_PATH_CALL(AT_FDCWD, p, walk, watch_nothing(fd, route, f, mask), FS_REAL(inotify_add_watch)(fd, p, mask));
}

static int mark(int fd, unsigned flags, uint64_t mask, int d, const char *p) {
  unsigned walk = flags & FAN_MARK_DONT_FOLLOW ? FS_NOFOLLOW : 0;
  FS_PATH_CALL(d, p, walk, refused(route, -EOPNOTSUPP), FS_REAL(fanotify_mark)(fd, flags, mask, d, p));
}

FS_EXPORT int fanotify_mark(int fd, unsigned flags, uint64_t mask, int d, const char *p) {
  FS_MAY_BE_NULL(p);
  if (p == NULL && fs_fd_slot(d) != NULL) return fs_ret_int(-EOPNOTSUPP);
  return mark(fd, flags, mask, d, p);
}
