/* SPDX-License-Identifier: BSD-3-Clause */
/* Running programs that are stored in a dataset; shared by the wrappers of exec and spawn. */
#ifndef FS_PRELOAD_EXEC_H
#define FS_PRELOAD_EXEC_H

#include <spawn.h>

#include "client/path/path.h"

/* execve and posix_spawn of a program of the real file system, with the open files handed on. `name`: by which it was
   asked for. */
int fs_exec_real(const char *path, const char *name, char *const argv[], char *const envp[]);
int fs_spawn_real(const char *path, const char *name, pid_t *pid, const posix_spawn_file_actions_t *fa,
                  const posix_spawnattr_t *at, char *const argv[], char *const envp[]);
/* execve of a file below a mount that `path` was resolved to: a script's interpreter, the file of the kernel's that a
   route of FS_REDIRECT names, or a real copy. */
int fs_exec_entry(int route, const struct fs_found *f, const char *path, char *const argv[], char *const envp[]);
/* posix_spawn of one. Returns the error, as posix_spawn does. */
int fs_spawn_entry(int route, const struct fs_found *f, const char *path, pid_t *pid,
                   const posix_spawn_file_actions_t *fa, const posix_spawnattr_t *at, char *const argv[],
                   char *const envp[]);

/* ---- the search of PATH, which libc does inside itself (search.c) ---- */

/* Does the file, or a directory of PATH where it has no slash, lie below a mount? */
bool fs_search_meets_mount(const char *file);
/* execvpe of such a file: tries one directory after the other; the shell runs what has no known format. */
int fs_search_exec(const char *file, char *const argv[], char *const envp[]);
/* The path of the first executable file of that name (PATH_MAX). */
fs_err fs_search(const char *file, char *found);

/* What dlopen is to open: file, or where LD_LIBRARY_PATH has it below a mount. The libraries below a mount that it
   needs are loaded. */
const char *fs_library_path(const char *file, char found[PATH_MAX]);

/* For libc functions that open a path inside themselves: path, or, in `real`, that of a real copy when it is a
   dataset's file. The copy stays open: the caller may look at it again. */
#define FS_REAL_COPY 32
const char *fs_real_copy(const char *path, char real[FS_REAL_COPY]);

#endif
