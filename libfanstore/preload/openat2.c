/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openat2(2), which libc does not wrap, so it comes by syscall(2). The kernel checks `how`. A path
 * with RESOLVE_ flags that begins or leads below a mount is walked here, one component at a time,
 * by the wrappers of fstatat and readlinkat. No state, no locks; 8 KiB of stack.
 */
#include <linux/openat2.h>
#include <stdlib.h>

#include "preload/preload.h"

#define FS_RESOLVE_LINKS 40u

struct resolving {
  int dirfd;
  uint64_t resolve;
  int flags;
  dev_t dev; /* of the directory where the path begins */
  unsigned links, depth;
  size_t len;          /* of `done` */
  char done[PATH_MAX]; /* from dirfd, without symlinks */
  char ahead[PATH_MAX];
};

/* Returns 0 or what the kernel finds wrong with `how`, at which it looks before the path. */
static fs_err check_how(const struct open_how *how, size_t size) {
  long r = FS_SYS4(SYS_openat2, AT_FDCWD, "", how, size);
  return r == -ENOENT ? 0 : r < 0 ? (fs_err)r : -EINVAL;
}

static fs_err stat_done(const struct resolving *r, struct stat *st) {
  if (fstatat(r->dirfd, r->len == 0 ? "." : r->done, st, AT_SYMLINK_NOFOLLOW) != 0) return -errno;
  return (r->resolve & RESOLVE_NO_XDEV) && st->st_dev != r->dev ? -EXDEV : 0;
}

static fs_err append(struct resolving *r, const char *name, size_t len) {
  if (len > FS_NAME_MAX || r->len + len + 2 > sizeof(r->done)) return -ENAMETOOLONG;
  if (r->len > 0 && r->done[r->len - 1] != '/') r->done[r->len++] = '/';
  memcpy(r->done + r->len, name, len);
  r->len += len;
  r->done[r->len] = '\0';
  return 0;
}

/* Goes back to the beginning: dirfd, or the root. */
static fs_err restart(struct resolving *r, bool root) {
  struct stat st;
  if (root && (r->resolve & RESOLVE_BENEATH)) return -EXDEV;
  r->depth = 0;
  r->len = root && !(r->resolve & RESOLVE_IN_ROOT) ? 1 : 0;
  r->done[0] = '/';
  r->done[r->len] = '\0';
  return r->links > 0 && r->len == 1 ? stat_done(r, &st) : 0;
}

static fs_err step_up(struct resolving *r) {
  struct stat st;
  bool held = (r->resolve & (RESOLVE_BENEATH | RESOLVE_IN_ROOT)) != 0;
  if (!held) {
    fs_err err = append(r, "..", 2);
    return err != 0 ? err : stat_done(r, &st);
  }
  if (r->depth == 0) return r->resolve & RESOLVE_BENEATH ? -EXDEV : 0;
  r->depth--;
  while (r->len > 0 && r->done[--r->len] != '/') continue;
  r->done[r->len] = '\0';
  return 0;
}

/* Puts a symlink's target in front of what is left of the path. */
static fs_err expand(struct resolving *r, const char *rest, size_t before) {
  char target[PATH_MAX];
  if ((r->resolve & RESOLVE_NO_SYMLINKS) || ++r->links > FS_RESOLVE_LINKS) return -ELOOP;
  ssize_t n = readlinkat(r->dirfd, r->done, target, sizeof(target) - 1);
  if (n < 0) return -errno;
  if ((size_t)n + 1 + strlen(rest) >= sizeof(r->ahead)) return -ENAMETOOLONG;
  memmove(r->ahead + n, rest, strlen(rest) + 1);
  memcpy(r->ahead, target, (size_t)n);
  r->len = before;
  r->done[before] = '\0';
  r->depth--;
  return target[0] == '/' ? restart(r, true) : 0;
}

static fs_err step(struct resolving *r, const char *name, size_t len, const char *rest) {
  struct stat st;
  size_t before = r->len;
  bool last = rest[strspn(rest, "/")] == '\0';
  if (len == 1 && name[0] == '.') return 0;
  if (len == 2 && name[0] == '.' && name[1] == '.') return step_up(r);
  fs_err err = append(r, name, len);
  if (err == 0) err = stat_done(r, &st);
  r->depth++;
  if (err == -ENOENT && last) return 0; /* the open says so, or makes it */
  if (err != 0) return err;
  bool keep = (r->flags & O_NOFOLLOW) || (r->flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
  if (S_ISLNK(st.st_mode) && !(last && *rest == '\0' && keep)) return expand(r, rest, before);
  return !last && !S_ISDIR(st.st_mode) ? -ENOTDIR : 0;
}

static fs_err resolve(struct resolving *r, const char *path) {
  struct stat st = {0};
  size_t len = strlen(path);
  if (len == 0) return -ENOENT;
  if (len >= sizeof(r->ahead)) return -ENAMETOOLONG;
  memcpy(r->ahead, path, len + 1);
  fs_err err = restart(r, path[0] == '/');
  if (err == 0 && fstatat(r->dirfd, r->len == 0 ? "." : r->done, &st, 0) != 0) err = -errno;
  if (err == 0 && !S_ISDIR(st.st_mode)) err = -ENOTDIR;
  r->dev = st.st_dev;
  while (err == 0 && r->ahead[0] != '\0') {
    char name[PATH_MAX];
    size_t skip = strspn(r->ahead, "/"), n = strcspn(r->ahead + skip, "/");
    if (n == 0) { /* "x/" is a directory or an error */
      if (r->len + 2 > sizeof(r->done)) return -ENAMETOOLONG;
      if (r->len > 0 && r->done[r->len - 1] != '/') memcpy(r->done + r->len, "/", 2);
      return 0;
    }
    memcpy(name, r->ahead + skip, n);
    memmove(r->ahead, r->ahead + skip + n, strlen(r->ahead + skip + n) + 1);
    err = step(r, name, n, r->ahead);
  }
  return err;
}

static bool begins_below(int dirfd) {
  struct fs_found f;
  if (dirfd != AT_FDCWD) return fs_fd_slot(dirfd) != NULL;
  return !fs_path_outside(AT_FDCWD, ".") && fs_path_route_slow(AT_FDCWD, ".", 0, &f) == FS_IN;
}

static __attribute__((noinline)) long open_resolved(int dirfd, const char *path, const struct open_how *how) {
  struct resolving r = {.dirfd = dirfd, .resolve = how->resolve, .flags = (int)how->flags};
  /* The kernel's cache has nothing of a mount. */
  if (how->resolve & RESOLVE_CACHED) return fs_ret(-EAGAIN);
  fs_err err = resolve(&r, path);
  if (err != 0) return fs_ret(err);
  return fs_open_common(dirfd, r.len == 0 ? "." : r.done, r.flags, (mode_t)how->mode);
}

long fs_openat2(int dirfd, const char *path, const struct open_how *how, size_t size) {
  bool plain = fs_bad_address(path) || fs_bad_address(how) || size < sizeof(*how) || fs_mount_count() == 0;
  bool ours = !plain && (!fs_path_outside(dirfd, path) || (how->resolve != 0 && begins_below(dirfd)));
  if (!ours) return fs_ret(FS_SYS4(SYS_openat2, dirfd, path, how, size));
  fs_err err = check_how(how, size);
  if (err != 0) return fs_ret(err);
  if (how->resolve != 0) return open_resolved(dirfd, path, how);
  return fs_open_common(dirfd, path, (int)how->flags, (mode_t)how->mode);
}
