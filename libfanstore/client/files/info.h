/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program or a person may ask about a dataset's file that stat does not say: who serves it,
 * and how it is stored. It also gives the counters. The functions of fanstore.h and the attributes
 * user.fanstore.* use this; see info.c and xattr.c. Lock-free.
 */
#ifndef FS_CLIENT_FILES_INFO_H
#define FS_CLIENT_FILES_INFO_H

#include "client/path/path.h"
#include "fanstore/fanstore.h"

/* Routes a path to where a call would end up. Follows symlinks, also those of the real file system.
   Returns an enum fs_route or a negative errno. Makes a system call for paths outside. */
int fs_path_find(const char *path, struct fs_found *f);

int fs_info_mount_of(const char *path, const char **mount, const char **dataset);
int fs_info_node(uint32_t *nodes);
/* Fills all of *out. */
fs_err fs_info_entry(uint32_t mount, uint32_t entry, struct fanstore_info *out);
/* These two are versioned: the `size` field of the caller's structure decides how much is
   written. */
fs_err fs_info_path(const char *path, struct fanstore_info *out);
fs_err fs_info_stats(int whose, struct fanstore_stats *out);

/*
 * getxattr(2) of an entry. user.fanstore.{node,place,partition,codec,stored_size,dataset,mount} are
 * text without a final zero. Returns -ENODATA for an attribute that is not there, and -ERANGE if n
 * > 0 is too small. The attributes are not listed, so programs that copy all attributes do not try
 * to copy these.
 */
fs_ssize fs_file_getxattr(uint32_t mount, uint32_t entry, const char *name, void *value, size_t n);

#endif
