/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes, shares and removes the directories of processes without a daemon (alone.h). Called by the
 * client, also in a signal handler and in a forked child, and by `fs-launch clean`. No state.
 */
#include "ipc/alone.h"

#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "ipc/node.h"
#include "util/dirents.h"
#include "util/util.h"

#define FS_ALONE_BOOT 8u
#define FS_ALONE_NAP_NS 2000000l
#define FS_ALONE_TURNS 1000u
#define FS_ALONE_REMOVALS 8u

const char *fs_alone_base(unsigned i) {
  static const char *const variable[] = {FS_ENV_TMPDIR, "TMPDIR"};
  const char *base = i < FS_ARRAY_LEN(variable) ? getenv(variable[i]) : i < FS_ALONE_MEMORY ? "/tmp" : "/dev/shm";
  return base && base[0] == '/' ? base : NULL;
}

static bool parent_path(const char *base, char out[PATH_MAX]) {
  int n = snprintf(out, PATH_MAX, "%s/" FS_ALONE_DIR "%u", base, (unsigned)FS_SYS1(SYS_geteuid, 0));
  return n > 0 && n < PATH_MAX;
}

fs_err fs_alone_path(const char *base, const uint8_t id[16], char out[PATH_MAX]) {
  char parent[PATH_MAX], hex[33], boot[FS_ALONE_BOOT + 1] = "";
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(AT_FDCWD, "/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0 || fs_sys_read(fd, boot, FS_ALONE_BOOT) != FS_ALONE_BOOT) return -ENOENT;
  if (strspn(boot, "0123456789abcdef") != FS_ALONE_BOOT) return -ENOENT;
  if (!parent_path(base, parent)) return -ENAMETOOLONG;
  int n = snprintf(out, PATH_MAX, "%s/%s-%s", parent, fs_hex(id, 16, hex), boot);
  return n > 0 && n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

const char *fs_alone_parse(const char *path, uint8_t id[16]) {
  const size_t boot = 1 + 32 + 1, name = boot + FS_ALONE_BOOT + 1; /* offsets in "/ID-BOOT/NAME" */
  char hex[33];
  const char *at = strstr(path, "/" FS_ALONE_DIR), *slash = strrchr(path, '/');
  if (!at || (size_t)(slash - at) < name) return NULL;
  at = slash - (name - 1);
  if (at[0] != '/' || at[boot - 1] != '-') return NULL;
  memcpy(hex, at + 1, 32);
  hex[32] = '\0';
  return fs_unhex(hex, id, 16) == 0 ? slash + 1 : NULL;
}

/* ---- one directory ---- */

/* Opens a directory that only we may write in. */
static fs_fd open_ours(int at, const char *name) {
  struct stat st;
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
  if (fd < 0) return fd == -ENOTDIR || fd == -ELOOP ? -EUCLEAN : fd;
  fs_err err = fs_sys_fstat(fd, &st);
  if (err < 0) return err;
  if (st.st_uid != (uid_t)FS_SYS1(SYS_geteuid, 0) || (st.st_mode & 077) != 0) return -EUCLEAN;
  return FS_MOVE_FD(fd);
}

static bool is_named(int at, const char *name, int fd) {
  struct stat st, now;
  return fs_sys_fstat(fd, &st) == 0 && fs_sys_fstatat(at, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
         st.st_dev == now.st_dev && st.st_ino == now.st_ino;
}

bool fs_alone_is(const char *path, int fd) {
  return is_named(AT_FDCWD, path, fd);
}

/* Calls fn for each name except "." and "..". A name may disappear during this. */
static void each_name(int dir, void (*fn)(int dir, const char *name)) {
  struct fs_dirents names = {.fd = dir};
  (void)FS_SYS3(SYS_lseek, dir, 0, SEEK_SET);
  for (const struct dirent64 *e; (e = fs_dirents_next(&names)) != NULL;)
    if (!fs_is_dot(e->d_name)) fn(dir, e->d_name);
}

static void remove_file(int dir, const char *name) {
  (void)FS_SYS3(SYS_unlinkat, dir, name, 0);
}

/* Removes dir/name, which is open at fd, if no other process locks it. A shared lock of the caller
   is lost in any case: it becomes exclusive or is released. */
static void remove_unused(int dir, const char *name, int fd) {
  if (FS_SYS2(SYS_flock, fd, LOCK_EX | LOCK_NB) != 0 || !is_named(dir, name, fd)) return;
  for (unsigned tries = 0; tries < FS_ALONE_REMOVALS; tries++) { /* another thread may still add
                                                                    files */
    each_name(fd, remove_file);
    if (FS_SYS3(SYS_unlinkat, dir, name, AT_REMOVEDIR) == 0) return;
  }
}

static void sweep(int dir, const char *name) {
  FS_AUTO_CLOSE fs_fd fd = open_ours(dir, name);
  if (fd >= 0) remove_unused(dir, name, fd);
}

/* ---- the interface ---- */

static bool holds_locks(int fd) {
  static const uint32_t types[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,  BTRFS_SUPER_MAGIC,    TMPFS_MAGIC,
                                   RAMFS_MAGIC,      F2FS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC};
  struct statfs fs;
  if (FS_SYS2(SYS_fstatfs, fd, &fs) != 0) return false;
  for (size_t i = 0; i < FS_ARRAY_LEN(types); i++)
    if ((uint32_t)fs.f_type == types[i]) return true;
  return false;
}

/* Opens the directory, and makes it if necessary. Returns -ENOENT if the parent does not exist,
   -EAGAIN if the directory is being removed. */
static fs_fd make_ours(int at, const char *name) {
  fs_fd fd = open_ours(at, name);
  if (fd != -ENOENT) return fd;
  fs_err err = (fs_err)FS_SYS3(SYS_mkdirat, at, name, 0700);
  if (err < 0 && err != -EEXIST) return err;
  if (err == 0) (void)FS_SYS3(SYS_fchmodat, at, name, 0700); /* overrides the umask */
  fd = open_ours(at, name);
  return fd == -ENOENT ? -EAGAIN : fd;
}

static fs_fd try_enter(const char *parent, const char *name) {
  FS_AUTO_CLOSE fs_fd dir = make_ours(AT_FDCWD, parent);
  if (dir < 0) return dir;
  if (!holds_locks(dir)) {
    (void)FS_SYS3(SYS_unlinkat, AT_FDCWD, parent, AT_REMOVEDIR);
    return -EOPNOTSUPP;
  }
  FS_AUTO_CLOSE fs_fd fd = make_ours(dir, name);
  if (fd < 0) return fd == -ENOENT ? -EAGAIN : fd;
  fs_err err = (fs_err)FS_SYS2(SYS_flock, fd, LOCK_SH | LOCK_NB);
  if (err < 0) return err;
  if (!is_named(dir, name, fd)) return -EAGAIN;
  return FS_MOVE_FD(fd);
}

/* Writes the outer directory's path. Returns the inner directory's name. */
static const char *outer_of(const char *path, char parent[PATH_MAX]) {
  const char *slash = strrchr(path, '/');
  memcpy(parent, path, (size_t)(slash - path));
  parent[slash - path] = '\0';
  return slash + 1;
}

fs_fd fs_alone_enter(const char *path) {
  char parent[PATH_MAX];
  const char *name = outer_of(path, parent);
  fs_fd fd = try_enter(parent, name);
  for (unsigned turns = 0; fd == -EAGAIN && turns < FS_ALONE_TURNS; turns++) {
    FS_SYS2(SYS_nanosleep, (&(struct timespec){.tv_nsec = FS_ALONE_NAP_NS}), NULL);
    fd = try_enter(parent, name);
  }
  return fd;
}

void fs_alone_leave(const char *path, int fd) {
  char parent[PATH_MAX];
  (void)outer_of(path, parent);
  remove_unused(AT_FDCWD, path, fd);
  (void)FS_SYS3(SYS_unlinkat, AT_FDCWD, parent, AT_REMOVEDIR); /* if it is empty */
}

void fs_alone_clean(const char *base) {
  char parent[PATH_MAX];
  FS_AUTO_CLOSE fs_fd dir = parent_path(base, parent) ? open_ours(AT_FDCWD, parent) : -ENAMETOOLONG;
  if (dir < 0) return;
  each_name(dir, sweep);
  (void)FS_SYS3(SYS_unlinkat, AT_FDCWD, parent, AT_REMOVEDIR);
}
