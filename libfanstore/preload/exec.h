/* SPDX-License-Identifier: BSD-3-Clause */
/* Running programs that are stored in a dataset; shared by the wrappers of exec and spawn. */
#ifndef FS_PRELOAD_EXEC_H
#define FS_PRELOAD_EXEC_H

#include <spawn.h>

#include "client/path.h"

/* execve of a program of the real file system, with the open files handed on. */
int fs_exec_real(const char *path, char *const argv[], char *const envp[]);
/* execve of a dataset's file that `path` was resolved to: a script's interpreter, or a real copy. */
int fs_exec_entry(int route, const struct fs_found *f, const char *path, char *const argv[], char *const envp[]);
/* posix_spawn of one. Returns the error, as posix_spawn does. */
int fs_spawn_entry(int route, const struct fs_found *f, const char *path, pid_t *pid,
                   const posix_spawn_file_actions_t *fa, const posix_spawnattr_t *at, char *const argv[],
                   char *const envp[]);

#endif
