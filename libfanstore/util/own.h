/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Directories of one's own at names that anybody may take first, in a directory that is for all (/tmp): PATH, and
 * PATH.XXXXXX (mkdtemp, mode 0700), which nobody can have made before. What is somebody else's is not opened.
 */
#ifndef FS_UTIL_OWN_H
#define FS_UTIL_OWN_H

#include "util/base.h"

/* A directory of this user's, no symlink. With links root's will do when this user can write there, and so will a
   symlink of either to one: what a user, or who runs the machine, has put there to be used. */
bool fs_own_is(const char *path, bool links);
/* Calls fn for `path` and for each path.XXXXXX that are one's own, in this order, the latter by name. It ends with the
   first result that is not 0, and returns that. */
typedef int fs_own_fn(void *ctx, const char *dir);
int fs_own_each(const char *path, bool links, fs_own_fn *fn, void *ctx);
/* The first of them, made when there is none: `path`, when that is nobody's. 0 or a negative errno. */
fs_err fs_own_get(const char *path, bool links, char *out, size_t size);

#endif
