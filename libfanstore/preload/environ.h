/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment of a program that is about to be executed. The program gets FANSTORE_STATE. It
 * gets this library and its variables, if its caller left them out. In LD_LIBRARY_PATH it gets the
 * shadows of the libraries below a mount that it needs. The wrappers of exec and spawn call this,
 * also in a vfork child: the result lies in the caller's memory.
 */
#ifndef FS_PRELOAD_ENVIRON_H
#define FS_PRELOAD_ENVIRON_H

#include "client/fd/fdtab.h"
#include "client/real/program.h"
#include "ipc/node.h"

struct fs_program_start {
  int dirfd;
  const char *path; /* as in execveat; a file of the kernel's */
  const char *name; /* by which the program was asked for: what $ORIGIN means. NULL: not known */
  char *const *envp;
};

struct fs_env_plan {
  size_t count;          /* strings of envp */
  bool loads_us;         /* the program will load this library */
  bool give;             /* it gets this library and its variables back */
  bool drop;             /* it loses LD_PRELOAD */
  bool state;            /* it gets FANSTORE_STATE */
  bool last;             /* this library goes behind what LD_PRELOAD has */
  char *paths;           /* its new LD_LIBRARY_PATH; NULL: unchanged */
  const char *preloaded; /* what LD_PRELOAD has */
  char text[sizeof(FS_ENV_STATE) + FS_STATE_TEXT];
};

/* Plans what to change in the environment. Returns how many bytes fs_env_build needs, or 0 if
   nothing changes. */
size_t fs_env_plan(struct fs_env_plan *p, const struct fs_program_start *start);
/* Builds the environment in `room`, once the state's table is ready. Ends the plan. */
char **fs_env_build(struct fs_env_plan *p, char *const envp[], char *room);

/* Remembers what programs get back, and takes the shadows out of this program's LD_LIBRARY_PATH.
   The constructor calls this. */
void fs_env_start(void);
/* Returns whether programs that libc starts with this process's environment get the library
   back. */
bool fs_env_gives(void);
/* Makes this process's own environment name the library again. Called before libc runs a shell by
   itself. */
void fs_env_restore(void);

/* ---- libpath.c ---- */

#define FS_PATHS_MAX (16 * PATH_MAX)
/* Makes shadows of the libraries below a mount that the program needs. Returns the LD_LIBRARY_PATH
   by which the linker finds them: memory of FS_PATHS_MAX bytes, for munmap. Returns NULL if the
   program needs none. */
char *fs_library_paths(const struct fs_program_start *start);
/* Returns whether the program needs a sanitizer's run-time that must be loaded first. */
bool fs_library_asan(const struct fs_program_start *start);

#endif
