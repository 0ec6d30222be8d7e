/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Will a program that is about to be executed load this library? Static programs, those of another libc, those that
 * change user or have capabilities, and those whose environment does not name the library will not: they must inherit
 * real files. Called by the wrappers of exec and spawn; raw system calls, no allocation.
 */
#ifndef FS_CLIENT_REAL_PROGRAM_H
#define FS_CLIENT_REAL_PROGRAM_H

#include <limits.h>

#include "util/base.h"

enum fs_loads {
  FS_LOADS_NOT,   /* static, of another libc, or it changes user */
  FS_LOADS_MAYBE, /* it cannot be read, or is no program */
  FS_LOADS,       /* it has the dynamic linker of this process */
};
/* Will the program load what LD_PRELOAD names? `path` is relative to dirfd as in execveat. elf, which may be NULL, gets
   the path of the interpreter that "#!" leads to; "" if the program is none of these scripts. */
enum fs_loads fs_program_loads(int dirfd, const char *path, char elf[PATH_MAX]);
/* Does an environment name this library, and a dataset? */
bool fs_program_names_us(char *const envp[]);
/* The value of a variable; NULL: there is none. */
const char *fs_program_value(char *const envp[], const char *name);
/* Both questions. FS_LOADS_MAYBE is true. */
bool fs_program_loads_us(int dirfd, const char *path, char *const envp[]);
/* What execvp finds for a name without a slash: the path in `out`, or `file` itself. */
const char *fs_program_find(const char *file, char out[PATH_MAX]);

#endif
