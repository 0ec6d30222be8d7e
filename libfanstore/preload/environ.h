/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment of a program that is about to be executed. It gets FANSTORE_STATE; this library
 * and its variables, if its caller left them out; and in LD_LIBRARY_PATH the shadows of the
 * libraries below a mount that it needs. Called by the wrappers of exec and spawn, also in a vfork
 * child: the result lies in the caller's memory.
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
  bool give;             /* it would not, or finds no dataset */
  bool state;            /* it gets FANSTORE_STATE */
  bool last;             /* this library goes behind what LD_PRELOAD has */
  char *paths;           /* its LD_LIBRARY_PATH; NULL: as it is */
  const char *preloaded; /* what LD_PRELOAD has */
  char text[sizeof(FS_ENV_STATE) + FS_STATE_TEXT];
};

/* What is to be changed in the environment. Bytes of memory that fs_env_build needs; 0: nothing
   is to be changed. */
size_t fs_env_plan(struct fs_env_plan *p, const struct fs_program_start *start);
/* The environment, in `room`, where the state's table has been made ready. Ends the plan. */
char **fs_env_build(struct fs_env_plan *p, char *const envp[], char *room);

/* For the constructor: remembers what is given back, and takes the shadows out of this program's
   LD_LIBRARY_PATH. */
void fs_env_start(void);
/* Will programs that libc starts with this process's environment get the library back? */
bool fs_env_gives(void);
/* Before libc runs a shell by itself: this process's own environment names the library again. */
void fs_env_restore(void);

/* ---- libpath.c ---- */

#define FS_PATHS_MAX (16 * PATH_MAX)
/* The libraries below a mount that the program needs get shadows. The LD_LIBRARY_PATH by which
   the linker finds them: memory of FS_PATHS_MAX bytes for munmap; NULL: it needs none. */
char *fs_library_paths(const struct fs_program_start *start);
/* Does it need a sanitizer's run-time that must be loaded first? */
bool fs_library_asan(const struct fs_program_start *start);

#endif
