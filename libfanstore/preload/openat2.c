/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openat2(2), which libc does not wrap, so it comes by syscall(2). The kernel checks `how`. If a walk
 * with RESOLVE_ flags begins or leads below a mount, the answer is that of a kernel without this
 * call, so programs use openat.
 */
#include <linux/openat2.h>

#include "preload/preload.h"

/* Returns 0 or what the kernel finds wrong with `how`, at which it looks before the path. */
static fs_err check_how(const struct open_how *how, size_t size) {
  long r = FS_SYS4(SYS_openat2, AT_FDCWD, "", how, size);
  return r == -ENOENT ? 0 : r < 0 ? (fs_err)r : -EINVAL;
}

static bool begins_below(int dirfd) {
  struct fs_found f;
  if (dirfd != AT_FDCWD) return fs_fd_slot(dirfd) != NULL;
  return fs_path_route(AT_FDCWD, ".", 0, &f) == FS_IN;
}

/* Returns whether a restricted walk is the kernel's. With RESOLVE_BENEATH and RESOLVE_IN_ROOT an
   absolute path begins at dirfd too. */
static __attribute__((noinline)) bool is_real_walk(int dirfd, const char *path, uint64_t resolve) {
  struct fs_found f;
  bool at_dirfd = path[0] != '/' || (resolve & (RESOLVE_BENEATH | RESOLVE_IN_ROOT)) != 0;
  if (at_dirfd && begins_below(dirfd)) return false;
  if (resolve & RESOLVE_IN_ROOT) path += strspn(path, "/"); /* '..' stays in dirfd: not seen here */
  return fs_path_route(dirfd, *path ? path : ".", 0, &f) == FS_OUTSIDE;
}

long fs_openat2(int dirfd, const char *path, const struct open_how *how, size_t size) {
  bool plain = fs_bad_address(path) || fs_bad_address(how) || size < sizeof(*how) || fs_mount_count() == 0;
  bool ours = !plain && (how->resolve != 0 ? !is_real_walk(dirfd, path, how->resolve) : !fs_path_outside(dirfd, path));
  if (!ours) return fs_ret(FS_SYS4(SYS_openat2, dirfd, path, how, size));
  fs_err err = check_how(how, size);
  if (err == 0 && how->resolve != 0) err = -ENOSYS;
  return err != 0 ? fs_ret(err) : fs_open_common(dirfd, path, (int)how->flags, (mode_t)how->mode);
}
