/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Says whether a program that is about to be executed will load this library. Static programs,
 * those of another libc, those that change user or have capabilities, and those whose environment
 * does not name the library will not. Such programs must inherit real files. The wrappers of exec
 * and spawn call this. Raw system calls, no allocation.
 */
#ifndef FS_CLIENT_REAL_PROGRAM_H
#define FS_CLIENT_REAL_PROGRAM_H

#include <limits.h>

#include "util/base.h"

enum fs_loads {
  FS_LOADS_ENDS,  /* musl's dynamic linker would end it at this library */
  FS_LOADS_NOT,   /* static, or it changes user */
  FS_LOADS_MAYBE, /* it cannot be read, or is no program */
  FS_LOADS,       /* it has the dynamic linker of this process */
};
/* Returns whether the program will load what LD_PRELOAD names. `path` is relative to dirfd as in
   execveat. elf, which may be NULL, gets the path of the interpreter that "#!" leads to, or "" if
   the program is no script. */
enum fs_loads fs_program_loads(int dirfd, const char *path, char elf[PATH_MAX]);
/* Returns whether an environment names this library and a dataset. */
bool fs_program_names_us(char *const envp[]);
/* Returns the value of a variable, or NULL if it is not set. */
const char *fs_program_value(char *const envp[], const char *name);
/* Returns whether the program will load this library: the answers of fs_program_loads and
   fs_program_names_us together. FS_LOADS_MAYBE counts as true. */
bool fs_program_loads_us(int dirfd, const char *path, char *const envp[]);
/* Returns the path that execvp finds for a name without a slash, in `out`, or `file` itself. */
const char *fs_program_find(const char *file, char out[PATH_MAX]);

#endif
