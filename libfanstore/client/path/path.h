/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds out whether a path leads below a mount, and to what there. Every wrapper that takes a path
   calls this. A prefix comparison without a system call tells most paths outside apart. Thread
   safe, no locks, no allocation. */
#ifndef FS_CLIENT_PATH_PATH_H
#define FS_CLIENT_PATH_PATH_H

#include <limits.h>
#include <string.h>

#include "client/fd/fdtab.h"
#include "client/names/found.h"
#include "client/node/ids.h"
#include "client/node/mountlist.h"
#include "util/sys.h"

/* Routes a path. Returns an enum fs_route, or -ENOENT, -ENOTDIR, -ELOOP, -ENAMETOOLONG, -EBADF, or
   why the dataset cannot be read. */
int fs_path_route_slow(int dirfd, const char *path, unsigned flags, struct fs_found *f);
/* Routes a path that the kernel refused with err, as fs_path_route_slow does. Returns FS_OUTSIDE if
   the path does not lead below a mount after all. */
int fs_path_retry(int dirfd, const char *path, unsigned flags, fs_err err, struct fs_found *f);
/* The two steps of fs_path_retry. The first needs little stack; if it returns true, the route is
   FS_OUTSIDE and the second step is not needed. */
bool fs_path_surely_missing(int dirfd, const char *path, unsigned flags, fs_err err);
int fs_path_retry_walk(int dirfd, const char *path, unsigned flags, fs_err err, struct fs_found *f);
/* Routes a path like "/dev/fd/5". Returns FS_IN if that descriptor stands for something below a
   mount, so that the kernel would act on the stand-in, else FS_OUTSIDE. */
int fs_path_route_fd(const char *path, struct fs_found *f);
static inline bool fs_path_may_name_fd(const char *path) {
  __asm__("" : "+r"(path)); /* see fs_path_outside */
  return (intptr_t)path >= 4096 && (strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/dev/", 5) == 0);
}
/* Return true if an absolute path, or a relative one by the current directory or dirfd, is surely
   below no mount. False says nothing. */
bool fs_path_absolute_out(const char *path);
bool fs_path_relative_out(int dirfd, const char *path);
/* Where a path lies: the answers of fs_path_outside and fs_path_maybe_above together. */
enum fs_side {
  FS_SIDE_OUTSIDE, /* surely below no mount, and no directory above one */
  FS_SIDE_ABOVE,   /* surely below no mount; maybe a directory above one */
  FS_SIDE_UNSURE,  /* fs_path_route_slow finds out */
};
enum fs_side fs_path_side(int dirfd, const char *path);
/* Returns false if no real directory of this path can lie above a mount. True says nothing.
   Cheap. */
bool fs_path_maybe_above(int dirfd, const char *path);

/* Returns true if the path surely leads below no mount. */
static inline bool fs_path_outside(int dirfd, const char *path) {
  /* libc's headers promise that it is not NULL; programs do not keep that. */
  __asm__("" : "+r"(path));
  if (FS_UNLIKELY((intptr_t)path < 4096)) return true; /* an address that no program can have */
  if (FS_LIKELY(path[0] == '/')) return fs_path_absolute_out(path);
  return fs_path_relative_out(dirfd, path);
}

static inline int fs_path_route(int dirfd, const char *path, unsigned flags, struct fs_found *f) {
  return FS_LIKELY(fs_path_outside(dirfd, path)) ? FS_OUTSIDE : fs_path_route_slow(dirfd, path, flags, f);
}

/* Writes the absolute path of an entry: the mount's canonical path, then the entry's. Returns its
   length or -ENAMETOOLONG. */
fs_ssize fs_path_of(uint32_t mount, uint32_t entry, char *buf, size_t size);
/* Writes the path that the kernel has for a directory descriptor to out, which has PATH_MAX bytes.
   Returns 0 or -EBADF. */
fs_err fs_path_of_fd(int dirfd, char *out);
/* Returns whether this absolute path is a real directory above a mount. */
bool fs_path_is_ancestor(const char *path);

#endif
