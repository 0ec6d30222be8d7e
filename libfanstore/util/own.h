/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds and makes directories of this user in a directory for all users (/tmp), where anybody may
 * take a name first. The names are PATH and PATH.XXXXXX (mkdtemp, mode 0700), which nobody can take
 * in advance. Directories of other users are not opened. No state.
 */
#ifndef FS_UTIL_OWN_H
#define FS_UTIL_OWN_H

#include "util/base.h"

/* Returns true if `path` is a directory of this user and no symlink. With `links`, three more
   count: a directory of root's that this user can write to, and a symlink of this user or root to
   either kind. The user or the administrator has made these on purpose. */
bool fs_own_is(const char *path, bool links);
/* Opens a directory below `at` that belongs to this user, for reading. Follows no symlink. Returns
   -EPERM if another user owns it. */
fs_fd fs_own_open(int at, const char *name);
/* Calls fn for `path`, then for each path.XXXXXX by name, if they belong to this user. Stops at the
   first result that is not 0 and returns it. */
typedef int fs_own_fn(void *ctx, const char *dir);
int fs_own_each(const char *path, bool links, fs_own_fn *fn, void *ctx);
/* Writes the first such directory to `out`. If there is none, makes `path` if nobody has that name,
   else a path.XXXXXX. Returns 0 or a negative errno. */
fs_err fs_own_get(const char *path, bool links, char *out, size_t size);

#endif
