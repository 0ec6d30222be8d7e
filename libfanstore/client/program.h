/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Will a program that is about to be executed load this library? Static programs, those of another libc, those that
 * change user or have capabilities, and those whose environment does not name the library will not: they must inherit
 * real files. Called by the wrappers of exec and spawn; raw system calls, no allocation.
 */
#ifndef FS_CLIENT_PROGRAM_H
#define FS_CLIENT_PROGRAM_H

#include <limits.h>

#include "util/base.h"

/* `path` is relative to dirfd as in execveat. When in doubt (it cannot be read, it is no program): true. */
bool fs_program_loads_us(int dirfd, const char *path, char *const envp[]);
/* What execvp finds for a name without a slash: the path in `out`, or `file` itself. */
const char *fs_program_find(const char *file, char out[PATH_MAX]);

#endif
