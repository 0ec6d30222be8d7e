/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs programs that are stored in a dataset. The wrappers of exec and spawn share this. */
#ifndef FS_PRELOAD_EXEC_H
#define FS_PRELOAD_EXEC_H

#include <spawn.h>

#include "client/path/path.h"

/* execve and posix_spawn of a program of the real file system. They hand on the open files. `name`
   is what the program was asked for by. */
int fs_exec_real(const char *path, const char *name, char *const argv[], char *const envp[]);
int fs_spawn_real(const char *path, const char *name, pid_t *pid, const posix_spawn_file_actions_t *fa,
                  const posix_spawnattr_t *at, char *const argv[], char *const envp[]);
/* execve of the file below a mount that `path` was resolved to. Runs a script's interpreter, the
   kernel's file that an FS_REDIRECT route names, or a real copy. */
int fs_exec_entry(int route, const struct fs_found *f, const char *path, char *const argv[], char *const envp[]);
/* posix_spawn of the file that fs_exec_entry would run. Returns the error, as posix_spawn does. */
int fs_spawn_entry(int route, const struct fs_found *f, const char *path, pid_t *pid,
                   const posix_spawn_file_actions_t *fa, const posix_spawnattr_t *at, char *const argv[],
                   char *const envp[]);

/* ---- the search of PATH, which libc does inside itself (search.c) ---- */

/* Returns whether the file lies below a mount, or, if it has no slash, whether a directory of PATH
   does. */
bool fs_search_meets_mount(const char *file);
/* execvpe of a file for which fs_search_meets_mount is true. Tries one directory after the other.
   The shell runs a file of no known format. */
int fs_search_exec(const char *file, char *const argv[], char *const envp[]);
/* Finds the first executable file of that name. found has PATH_MAX bytes. */
fs_err fs_search(const char *file, char *found);

/* Returns what dlopen is to open: `file`, or where LD_LIBRARY_PATH has it below a mount. Loads the
   libraries below a mount that it needs. */
const char *fs_library_path(const char *file, char found[PATH_MAX]);

/* Returns `path`, or in `real` the path of a real copy if it is a dataset's file. For libc
   functions that open a path inside themselves. The copy stays open, because the caller may look at
   it again. */
#define FS_REAL_COPY 32
const char *fs_real_copy(const char *path, char real[FS_REAL_COPY]);

#endif
