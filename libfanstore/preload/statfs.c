/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrappers of the calls that ask about the file system: statfs, statvfs, pathconf. */
#include <sys/vfs.h>

#include "preload/preload.h"

static int64_t statfs_entry(int route, const struct fs_found *f, struct statfs *out) {
  fs_err err = fs_must_exist(route);
  return err != 0 ? err : fs_file_statfs(f->mount, out);
}

/* Cuts the kernel's answer for an output of this node to the room that outputs may take. */
static void limit(uint64_t unit, uint64_t *free_blocks, uint64_t *available) {
  uint64_t left = fs_output_left();
  if (FS_LIKELY(left == UINT64_MAX) || unit == 0) return;
  *free_blocks = FS_MIN(*free_blocks, left / unit);
  *available = FS_MIN(*available, left / unit);
}

#define FS_LIMITED(output, r, out)                                                                                     \
  ({                                                                                                                   \
    int fs_done = (r);                                                                                                 \
    if (fs_done == 0 && (output)) limit((uint64_t)(out)->f_frsize, &(out)->f_bfree, &(out)->f_bavail);                 \
    fs_done;                                                                                                           \
  })

static bool is_output(const struct fs_found *f, const char *path) {
  return f != NULL && path == f->real && f->out.id != 0;
}

FS_EXPORT int statfs(const char *path, struct statfs *out) {
  FS_PATH_CALL(AT_FDCWD, path, 0, statfs_entry(route, f, out),
               FS_LIMITED(is_output(f, path), FS_REAL(statfs)(path, out), out));
}
FS_ALIAS(statfs64, statfs);
FS_ALIAS(__statfs, statfs);

static int64_t statfs_slot(const struct fs_slot *s, struct statfs *out) {
  return atomic_load(&s->kind) == FS_SLOT_CLOSED ? -EBADF : fs_file_statfs(s->mount, out);
}

/* The kernel answers for any descriptor; for a placeholder that came by exec it says sockfs. */
FS_EXPORT int fstatfs(int fd, struct statfs *out) {
  struct stat st;
  struct fs_slot *s = fs_fd_slot(fd);
  if (s == NULL && fs_mount_count() > 0 && fs_sys_fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode)) s = fs_fd_adopt(fd);
  if (s != NULL) return fs_ret_int(statfs_slot(s, out));
  return FS_LIMITED(fs_output_tracked(fs_fd_entry(fd)), FS_REAL(fstatfs)(fd, out), out);
}
FS_ALIAS(fstatfs64, fstatfs);

static int64_t to_statvfs(int64_t r, const struct statfs *in, struct statvfs *out) {
  if (r != 0) return r;
  *out = (struct statvfs){
      .f_bsize = (unsigned long)in->f_bsize,
      .f_frsize = (unsigned long)in->f_frsize,
      .f_blocks = in->f_blocks,
      .f_bfree = in->f_bfree,
      .f_bavail = in->f_bavail,
      .f_files = in->f_files,
      .f_ffree = in->f_ffree,
      .f_favail = in->f_ffree,
      .f_fsid = (unsigned)in->f_fsid.__val[0] | (unsigned long)(unsigned)in->f_fsid.__val[1] << 32,
      .f_flag = (unsigned long)in->f_flags & ST_RDONLY,
      .f_namemax = (unsigned long)in->f_namelen,
  };
  return 0;
}

static int64_t statvfs_entry(int route, const struct fs_found *f, struct statvfs *out) {
  struct statfs st;
  return to_statvfs(statfs_entry(route, f, &st), &st, out);
}

FS_EXPORT int statvfs(const char *path, struct statvfs *out) {
  FS_PATH_CALL(AT_FDCWD, path, 0, statvfs_entry(route, f, out),
               FS_LIMITED(is_output(f, path), FS_REAL(statvfs)(path, out), out));
}
FS_ALIAS(statvfs64, statvfs);

FS_EXPORT int fstatvfs(int fd, struct statvfs *out) {
  struct statfs st;
  struct fs_slot *s = fs_fd_slot(fd);
  if (s == NULL) return FS_LIMITED(fs_output_tracked(fs_fd_entry(fd)), FS_REAL(fstatvfs)(fd, out), out);
  return fs_ret_int(to_statvfs(statfs_slot(s, &st), &st, out));
}
FS_ALIAS(fstatvfs64, fstatvfs);

/* Answers for the limits of the dataset's names. Other limits are the same everywhere. */
static int64_t conf(int64_t err, int name) {
  int64_t r;
  if (err != 0) return err;
  switch (name) {
  case _PC_NAME_MAX:
    return FS_NAME_MAX;
  case _PC_LINK_MAX:
    return 65000;
  case _PC_FILESIZEBITS:
    return 64;
  default:
    return (r = FS_REAL(pathconf)("/", name)) == -1 && errno != 0 ? -errno : r;
  }
}

FS_EXPORT long pathconf(const char *path, int name) {
  FS_PATH_CALL(AT_FDCWD, path, 0, conf(fs_must_exist(route), name), FS_REAL(pathconf)(path, name));
}

FS_EXPORT long fpathconf(int fd, int name) {
  FS_FD_CALL(fd, conf(atomic_load(&s->kind) == FS_SLOT_CLOSED ? -EBADF : 0, name), FS_REAL(fpathconf)(fd, name));
}
