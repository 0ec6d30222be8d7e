/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers for an open directory: listing, and checks and changes of a name in it. For the daemon
   and the tools; the preloaded library has its own (util/dirents.h). */
#ifndef FS_UTIL_DIR_H
#define FS_UTIL_DIR_H

#include <dirent.h>
#include <stdbool.h>
#include <sys/types.h>

#include "util/base.h"

/* Opens an independent stream of a directory below `at` ("." for `at` itself). Returns NULL and
   sets errno on an error. */
DIR *fs_opendirat(int at, const char *path);
/* Returns true if fd is the file or symlink that has this name below `at` now. */
bool fs_is_named(int at, const char *name, int fd);
/* Renames a file of directory `dir` without replacing another. Returns -EEXIST if the new name
   exists. */
fs_err fs_rename_new(int dir, const char *from, const char *to);
/* Sets the mode of a directory, even one that is not readable. Does not follow symlinks. */
fs_err fs_chmod_dir(int at, const char *name, mode_t mode);

#endif
