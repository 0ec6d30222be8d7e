/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Does a path lead below a mount, and to what there? Called by every wrapper that takes a path. What lies outside is
 * told apart by a prefix comparison that makes no system call. Thread safe, no locks, no allocation.
 */
#ifndef FS_CLIENT_PATH_PATH_H
#define FS_CLIENT_PATH_PATH_H

#include <limits.h>
#include <string.h>

#include "client/fd/fdtab.h"
#include "client/path/mounts.h"
#include "ipc/record.h"
#include "util/sys.h"

enum fs_route {
  FS_OUTSIDE,  /* not ours: call the real function with the caller's own arguments */
  FS_IN,       /* mount and entry are set; the entry may be a virtual directory (vdir.h) */
  FS_NEW,      /* below a mount, no such name, but its directory exists */
  FS_REDIRECT, /* a symlink or ".." leads out of the mount: call the real function on `real`, an absolute path */
};

/* What a path ends in, for the calls that make, remove or rename names. */
enum fs_last { FS_LAST_NAME, FS_LAST_SLASH /* "x/" */, FS_LAST_DOT, FS_LAST_DOTDOT };

struct fs_found {
  uint32_t mount;
  uint32_t entry;    /* FS_NEW: of the parent directory */
  enum fs_last last; /* not set for FS_OUTSIDE and FS_REDIRECT */
  uint32_t name_len;
  char name[FS_NAME_MAX]; /* FS_NEW, and where out.id is set: the last component */
  /* Not 0: an output file was found. FS_IN: `entry` is a directory's number, or FS_OUTPUT_RECORD (a symlink, whose
     target is in `real`, or a file of another node); FS_REDIRECT: a file of this node, `entry` its directory. */
  struct fs_record out;
  char real[PATH_MAX];
};
#define FS_OUTPUT_RECORD UINT32_MAX

#define FS_NOFOLLOW 1u   /* the last component is not followed when it is a symlink */
#define FS_REAL_LINKS 2u /* resolve the real file system's symlinks too (after the kernel said ENOENT) */
#define FS_AS_IS 4u      /* nor where slashes come after it: it is to be made */
#define FS_MAKE 16u      /* nor looked for among the outputs: it is to be made, and that finds it */
#define FS_WRITES 64u    /* it is to be opened for writing: outputs that are not published yet are found, too */
#define FS_LOOK 32u      /* only its attributes are wanted */
#define FS_CHANGES 128u  /* it is to be changed, and must be this job's own for that: --stage-in's files are copied */
#define FS_EMPTIES 256u  /* with that: its bytes are not wanted */
#define FS_FILE 512u     /* a regular file is to be made, unless the name is there */
#define FS_PARENT 8u     /* the last component is not looked at: FS_NEW; FS_IN when it is a mount or above one */

/* An enum fs_route, or -ENOENT, -ENOTDIR, -ELOOP, -ENAMETOOLONG, -EBADF, or why the dataset cannot be read. */
int fs_path_route_slow(int dirfd, const char *path, unsigned flags, struct fs_found *f);
/* Like fs_path_route_slow for a path that the kernel refused with err: FS_OUTSIDE when it is not ours after all. */
int fs_path_retry(int dirfd, const char *path, unsigned flags, fs_err err, struct fs_found *f);
/* Its two steps. The first takes little room on the stack; `true` is FS_OUTSIDE. */
bool fs_path_surely_missing(int dirfd, const char *path, unsigned flags, fs_err err);
int fs_path_retry_walk(int dirfd, const char *path, unsigned flags, fs_err err, struct fs_found *f);
/* "/dev/fd/5" and its like, of a descriptor that stands for something of ours: FS_IN, else FS_OUTSIDE. The kernel would
   change what stands for it. */
int fs_path_route_fd(const char *path, struct fs_found *f);
static inline bool fs_path_may_name_fd(const char *path) {
  __asm__("" : "+r"(path)); /* see fs_path_outside */
  return (intptr_t)path >= 4096 && (strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/dev/", 5) == 0);
}
/* Surely no mount's: an absolute path; a relative one, by the current directory or dirfd. Wrong in one direction only.
 */
bool fs_path_absolute_out(const char *path);
bool fs_path_relative_out(int dirfd, const char *path);
/* Both questions at once. */
enum fs_side {
  FS_SIDE_OUTSIDE, /* surely no mount's, and no directory above one */
  FS_SIDE_ABOVE,   /* surely no mount's; maybe a directory above one */
  FS_SIDE_UNSURE,  /* fs_path_route_slow tells */
};
enum fs_side fs_path_side(int dirfd, const char *path);
/* May a real directory of this path lie above a mount? Cheap, and wrong in one direction only. */
bool fs_path_maybe_above(int dirfd, const char *path);

/* Surely not ours? */
static inline bool fs_path_outside(int dirfd, const char *path) {
  __asm__("" : "+r"(path)); /* libc's headers promise that it is not NULL; programs do not keep that */
  if (FS_UNLIKELY((intptr_t)path < 4096)) return true; /* an address that no program can have */
  if (FS_LIKELY(path[0] == '/')) return fs_path_absolute_out(path);
  return fs_path_relative_out(dirfd, path);
}

static inline int fs_path_route(int dirfd, const char *path, unsigned flags, struct fs_found *f) {
  return FS_LIKELY(fs_path_outside(dirfd, path)) ? FS_OUTSIDE : fs_path_route_slow(dirfd, path, flags, f);
}

/* Do missing permissions not matter to the caller? */
bool fs_caller_is_root(void);

/* Absolute path of an entry: the mount's canonical path and the entry's. Length or -ENAMETOOLONG. */
fs_ssize fs_path_of(uint32_t mount, uint32_t entry, char *buf, size_t size);
/* Where the kernel says that a directory descriptor is: 0, or -EBADF. out has PATH_MAX bytes. */
fs_err fs_path_of_fd(int dirfd, char *out);
/* Is this absolute path a real directory above a mount? */
bool fs_path_is_ancestor(const char *path);

#endif
