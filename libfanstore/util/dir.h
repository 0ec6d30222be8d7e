/* SPDX-License-Identifier: BSD-3-Clause */
/* A directory that is open already: its listing, and whether a file still has its name there. Not for the preloaded
 * library, which makes its own streams. */
#ifndef FS_UTIL_DIR_H
#define FS_UTIL_DIR_H

#include <dirent.h>
#include <stdbool.h>
#include <sys/types.h>

#include "util/base.h"

/* A stream of its own over a directory below `at` ("." for at itself). NULL with errno. */
DIR *fs_opendirat(int at, const char *path);
/* Is fd the file, or the symlink, that has this name below `at` now? */
bool fs_is_named(int at, const char *name, int fd);
/* Renames a file of the directory `dir` without replacing anything: -EEXIST if something has the name. */
fs_err fs_rename_new(int dir, const char *from, const char *to);
/* Sets the mode of a directory, which need not be readable. Not of what a symlink leads to. */
fs_err fs_chmod_dir(int at, const char *name, mode_t mode);

#endif
