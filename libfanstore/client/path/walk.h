/* SPDX-License-Identifier: BSD-3-Clause */
/* Walking a path component by component. Called by path.c alone. */
#ifndef FS_CLIENT_PATH_WALK_H
#define FS_CLIENT_PATH_WALK_H

#include "client/path/path.h"

/* `path` from `base`, an absolute path; NULL for the root. An enum fs_route or a negative errno. */
int fs_walk_text(const char *base, const char *path, unsigned flags, struct fs_found *f);
/* `path` from a directory of a dataset or a virtual one. */
int fs_walk_below(uint32_t mount, uint32_t entry, const char *path, unsigned flags, struct fs_found *f);

#endif
