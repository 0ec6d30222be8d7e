/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program or a person may ask about a dataset's file that stat does not say: who serves it, how it is stored;
 * and the counters. Behind fanstore.h's functions and the attributes user.fanstore.*; see info.c and xattr.c.
 * Lock-free.
 */
#ifndef FS_CLIENT_FILES_INFO_H
#define FS_CLIENT_FILES_INFO_H

#include "client/path/path.h"
#include "fanstore/fanstore.h"

/* Where a call with this path would end up, following symlinks, the real file system's too: an enum fs_route, or a
   negative errno. Makes a system call for paths outside. */
int fs_path_find(const char *path, struct fs_found *f);

int fs_info_mount_of(const char *path, const char **mount, const char **dataset);
int fs_info_node(uint32_t *nodes);
/* Fills out, whole. */
fs_err fs_info_entry(uint32_t mount, uint32_t entry, struct fanstore_info *out);
/* The two that are versioned: `size` of the caller's structure decides how much is written. */
fs_err fs_info_path(const char *path, struct fanstore_info *out);
fs_err fs_info_stats(int whose, struct fanstore_stats *out);

/*
 * getxattr(2) of an entry: user.fanstore.{node,place,partition,codec,stored_size,dataset,mount} are text without an
 * end; what is not there is -ENODATA; -ERANGE when n > 0 is too small. The attributes are not listed, so that programs
 * that copy all of them do not try to.
 */
fs_ssize fs_file_getxattr(uint32_t mount, uint32_t entry, const char *name, void *value, size_t n);

#endif
