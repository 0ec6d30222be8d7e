/* SPDX-License-Identifier: BSD-3-Clause */
/* What a path leads to, as client/path finds it, and all that works with names gets it. */
#ifndef FS_CLIENT_NAMES_FOUND_H
#define FS_CLIENT_NAMES_FOUND_H

#include <limits.h>

#include "client/fd/slot.h"
#include "index/index.h"
#include "ipc/record.h"

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

/* Flags of a walk. */
#define FS_NOFOLLOW 1u   /* do not follow a symlink as the last component */
#define FS_REAL_LINKS 2u /* follow the real file system's symlinks too, after an ENOENT */
#define FS_AS_IS 4u      /* do not follow a final symlink before slashes either */
#define FS_MAKE 16u      /* do not ask the outputs for the last component: making it finds it */
#define FS_WRITES 64u    /* it is opened for writing */
#define FS_LOOK 32u      /* only the attributes are wanted */
#define FS_CHANGES 128u  /* it is to be changed: make a file of --stage-in this job's */
#define FS_EMPTIES 256u  /* with FS_CHANGES: its bytes are not wanted */
#define FS_FILE 512u     /* a regular file is to be made if the name is not there */
#define FS_XATTR 1024u   /* with FS_LOOK: the extended ones, which no output has: so it gives no FS_REDIRECT */
#define FS_PARENT 8u     /* skip the last component: FS_NEW, or FS_IN at or above a mount */

/* An entry number from here on names a virtual directory (path/vdir.h). */
#define FS_VDIR FS_MAX_ENTRIES /* | length of the directory's path */
static_assert(FS_OUTPUT_FIRST - FS_VDIR >= PATH_MAX, "a path's length fits into an entry number");

static inline bool fs_is_vdir(uint32_t entry) {
  return FS_UNLIKELY(entry >= FS_VDIR) && entry < FS_OUTPUT_FIRST;
}

#endif
