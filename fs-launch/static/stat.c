/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers calls that describe a file: stat and its relatives, access, readlink, statfs. Answers
 * come from the index and are written into the caller's memory. For a descriptor that we gave, the
 * answer describes the dataset's file and not the real one behind it. No locks.
 */
#include <linux/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "static.h"

#define FS_STAT_FLAGS (AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH)
#define FS_SYNC_FLAGS (AT_STATX_FORCE_SYNC | AT_STATX_DONT_SYNC)

static int64_t stat_route(int route, const struct fs_found *f, bool nofollow, struct stat *st) {
  if (route < 0) return route;
  if (route == FS_OUTSIDE) return FS_PASS;
  if (route == FS_NEW) return -ENOENT;
  if (route == FS_REDIRECT) return fs_sys_fstatat(AT_FDCWD, f->real, st, nofollow ? AT_SYMLINK_NOFOLLOW : 0);
  return fs_file_stat_now(f->mount, f->entry, st);
}

static int64_t stat_path(struct fs_call *c, const struct fs_trap *t, struct stat *st) {
  struct fs_found f;
  int route = fs_trap_find(c, t, &f);
  return stat_route(route, &f, fs_call_nofollow(c, t), st);
}

/* Answers a call with "", which means the current directory or the descriptor. */
static int64_t stat_fd(const struct fs_call *c, int fd, struct stat *st) {
  char path[PATH_MAX];
  struct fs_found f = {.mount = 0};
  if (fd == AT_FDCWD) {
    int place = fs_place_get(c, path);
    if (place <= 0) return place < 0 ? place : FS_PASS;
    int route = fs_path_route(AT_FDCWD, path, 0, &f);
    return route == FS_OUTSIDE ? fs_sys_fstatat(AT_FDCWD, path, st, 0) : stat_route(route, &f, false, st);
  }
  return fs_call_ref(c, fd, &f.mount, &f.entry) ? fs_file_stat_now(f.mount, f.entry, st) : FS_PASS;
}

static int64_t give_stat(const struct fs_call *c, int64_t r, const struct stat *st, uint64_t addr) {
  return r == 0 ? fs_tracee_write(c, addr, st, sizeof(*st)) : r;
}

int64_t fs_on_stat(struct fs_call *c, const struct fs_trap *t) {
  struct stat st = {0};
  return give_stat(c, stat_path(c, t, &st), &st, c->arg[1]);
}

int64_t fs_on_fstat(struct fs_call *c, const struct fs_trap *t) {
  struct stat st = {0};
  (void)t;
  return give_stat(c, stat_fd(c, (int)c->arg[0], &st), &st, c->arg[1]);
}

int64_t fs_on_newfstatat(struct fs_call *c, const struct fs_trap *t) {
  struct stat st = {0};
  if (fs_call_bad_flags(c, t, FS_STAT_FLAGS | FS_SYNC_FLAGS)) return FS_PASS;
  int64_t r = fs_call_empty(c, t) ? stat_fd(c, (int)c->arg[0], &st) : stat_path(c, t, &st);
  return give_stat(c, r, &st, c->arg[2]);
}

int64_t fs_on_statx(struct fs_call *c, const struct fs_trap *t) {
  struct stat st = {0};
  struct statx x;
  bool both = (c->arg[2] & FS_SYNC_FLAGS) == FS_SYNC_FLAGS;
  if (both || fs_call_bad_flags(c, t, FS_STAT_FLAGS | FS_SYNC_FLAGS) || (c->arg[3] & STATX__RESERVED)) return FS_PASS;
  int64_t r = fs_call_empty(c, t) ? stat_fd(c, (int)c->arg[0], &st) : stat_path(c, t, &st);
  if (r != 0) return r;
  fs_file_to_statx(&st, (unsigned)c->arg[3], &x);
  return fs_tracee_write(c, c->arg[4], &x, sizeof(x));
}

int64_t fs_on_access(struct fs_call *c, const struct fs_trap *t) {
  struct fs_found f;
  int mode = (int)c->arg[t->path + 1];
  int route;
  if (mode & ~(R_OK | W_OK | X_OK)) return FS_PASS; /* EINVAL for any path */
  if (fs_call_bad_flags(c, t, AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) return FS_PASS;
  if (fs_call_empty(c, t) && (int)c->arg[0] != AT_FDCWD)
    route = fs_call_ref(c, (int)c->arg[0], &f.mount, &f.entry) ? FS_IN : FS_OUTSIDE;
  else
    route = fs_trap_find(c, t, &f);
  switch (route) {
  case FS_OUTSIDE:
    return FS_PASS;
  case FS_IN:
    return fs_file_access(f.mount, f.entry, mode);
  case FS_REDIRECT:
    return FS_SYS3(SYS_faccessat, AT_FDCWD, f.real, mode);
  default:
    return route < 0 ? route : -ENOENT;
  }
}

/* "" means the descriptor, which must be of a symlink. */
static int readlink_find(struct fs_call *c, const struct fs_trap *t, struct fs_found *f) {
  struct stat st;
  char first;
  if (t->dirfd < 0 || fs_tracee_read(c, c->arg[t->path], &first, 1) != 0 || first != '\0') return fs_trap_find(c, t, f);
  if (!fs_call_ref(c, (int)c->arg[t->dirfd], &f->mount, &f->entry)) return FS_OUTSIDE;
  return fs_file_stat(f->mount, f->entry, &st) == 0 && S_ISLNK(st.st_mode) ? FS_IN : -ENOENT;
}

int64_t fs_on_readlink(struct fs_call *c, const struct fs_trap *t) {
  char target[PATH_MAX];
  struct fs_found f;
  uint64_t room = c->arg[t->path + 2];
  int route = readlink_find(c, t, &f);
  if (route == FS_OUTSIDE) return FS_PASS;
  if ((int)room <= 0) return -EINVAL;
  if (route < 0 || route == FS_NEW) return route < 0 ? route : -ENOENT;
  room = FS_MIN(room, sizeof(target));
  int64_t n = route == FS_IN ? fs_file_readlink(f.mount, f.entry, target, room)
                             : FS_SYS4(SYS_readlinkat, AT_FDCWD, f.real, target, room);
  fs_err err = n > 0 ? fs_tracee_write(c, c->arg[t->path + 1], target, (size_t)n) : 0;
  return err != 0 ? err : n;
}

static int64_t give_statfs(const struct fs_call *c, int64_t r, const struct statfs *st) {
  return r == 0 ? fs_tracee_write(c, c->arg[1], st, sizeof(*st)) : r;
}

int64_t fs_on_statfs(struct fs_call *c, const struct fs_trap *t) {
  struct statfs st = {0};
  struct fs_found f;
  int route = fs_trap_find(c, t, &f);
  if (route == FS_OUTSIDE) return FS_PASS;
  if (route == FS_REDIRECT) return give_statfs(c, FS_SYS2(SYS_statfs, f.real, &st), &st);
  return give_statfs(c, route == FS_IN ? fs_file_statfs(f.mount, &st) : route < 0 ? route : -ENOENT, &st);
}

int64_t fs_on_fstatfs(struct fs_call *c, const struct fs_trap *t) {
  struct statfs st = {0};
  uint32_t mount, entry;
  (void)t;
  return fs_call_ref(c, (int)c->arg[0], &mount, &entry) ? give_statfs(c, fs_file_statfs(mount, &st), &st) : FS_PASS;
}
