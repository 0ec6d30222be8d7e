/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shadows of libraries. The dynamic linker opens files without the wrappers. So a library below a
 * mount gets a shadow: a symlink in the backing directory, at the library's own path below
 * FS_SHADOW_DIR, which leads to a real file with its bytes. The tree of shadows has the shape of
 * the mount, so the linker finds by $ORIGIN what lies beside a library. Called before dlopen and
 * exec. Raw system calls, no locks, no allocation; may run in a vfork child.
 */
#ifndef FS_CLIENT_REAL_SHADOW_H
#define FS_CLIENT_REAL_SHADOW_H

#include "client/path/path.h"

#define FS_SHADOW_DIR "fanstore-so"

/* Makes or renews the shadow of `path`, which fs_path_route has answered with `route` and f, and
   writes its name to `out`. Returns -ENOENT if nothing is there, or -EOPNOTSUPP if this process has
   no daemon. */
fs_err fs_shadow_make(int route, const struct fs_found *f, const char *path, char out[PATH_MAX]);
/* Returns whether `dir`, a directory or a list of directories, names one of shadows. It has `len`
   bytes. */
bool fs_is_shadow(const char *dir, size_t len);
/* Writes the name that the shadow of a directory's path has. The shadow need not exist. */
fs_err fs_shadow_name(const char *path, char out[PATH_MAX]);

#endif
