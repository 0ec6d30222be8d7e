/* SPDX-License-Identifier: BSD-3-Clause */
/* Walks a path component by component. Only path.c calls this. */
#ifndef FS_CLIENT_PATH_WALK_H
#define FS_CLIENT_PATH_WALK_H

#include "client/path/path.h"

/* Walks `path` from `base`, an absolute path, or from the root if base is NULL. Returns an enum
   fs_route or a negative errno. */
int fs_walk_text(const char *base, const char *path, unsigned flags, struct fs_found *f);
/* Walks `path` from a directory of a dataset or a virtual one. Returns what fs_walk_text does. */
int fs_walk_below(uint32_t mount, uint32_t entry, const char *path, unsigned flags, struct fs_found *f);

#endif
