/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds out whether a path leads below a mount, and to what there. Every wrapper that takes a path
   calls this. A prefix comparison without a system call tells most paths outside apart. Thread
   safe, no locks, no allocation. */
#ifndef FS_CLIENT_PATH_PATH_H
#define FS_CLIENT_PATH_PATH_H

#include <limits.h>
#include <string.h>

#include "client/fd/fdtab.h"
#include "client/node/ids.h"
#include "client/node/mountlist.h"
#include "ipc/record.h"
#include "util/sys.h"

enum fs_route {
  FS_OUTSIDE, /* below no mount: call the real function with the caller's own arguments */
  FS_IN,      /* mount and entry are set; the entry may be a virtual directory (vdir.h) */
  FS_NEW,     /* below a mount, no such name, but its directory exists */
  /* a symlink or ".." leads out of the mount: call the real function on `real`, an absolute path */
  FS_REDIRECT,
};

/* What a path ends in, for the calls that make, remove or rename names. */
enum fs_last { FS_LAST_NAME, FS_LAST_SLASH /* "x/" */, FS_LAST_DOT, FS_LAST_DOTDOT };

struct fs_found {
  uint32_t mount;
  uint32_t entry;    /* FS_NEW: of the parent directory */
  enum fs_last last; /* not set for FS_OUTSIDE and FS_REDIRECT */
  uint32_t name_len;
  /* The last component, with FS_NEW and if out.id is set. */
  char name[FS_NAME_MAX];
  /* If the id is not 0, an output file was found. With FS_IN, `entry` is a directory's number, or
     FS_OUTPUT_RECORD for a symlink (its target is in `real`) or a file of another node. With
     FS_REDIRECT, the file is on this node, and `entry` is its directory. */
  struct fs_record out;
  char real[PATH_MAX];
};
#define FS_OUTPUT_RECORD UINT32_MAX

#define FS_NOFOLLOW 1u   /* do not follow a symlink as the last component */
#define FS_REAL_LINKS 2u /* follow the real file system's symlinks too, after an ENOENT */
#define FS_AS_IS 4u      /* do not follow a final symlink before slashes either */
#define FS_MAKE 16u      /* do not ask the outputs for the last component: making it finds it */
#define FS_WRITES 64u    /* it is opened for writing: find unpublished outputs too */
#define FS_LOOK 32u      /* only the attributes are wanted */
#define FS_CHANGES 128u  /* it is to be changed: make a file of --stage-in this job's */
#define FS_EMPTIES 256u  /* with FS_CHANGES: its bytes are not wanted */
#define FS_FILE 512u     /* a regular file is to be made if the name is not there */
#define FS_PARENT 8u     /* skip the last component: FS_NEW, or FS_IN at or above a mount */

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
