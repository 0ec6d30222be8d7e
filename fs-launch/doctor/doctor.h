/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch doctor: looks at a command, its interpreters and its libraries for what would bypass the preloaded library,
 * and tells it in lines. Nothing of the command is run. Shared by the doctor's files; single threaded; objects stay
 * mapped until the end.
 */
#ifndef FS_LAUNCH_DOCTOR_DOCTOR_H
#define FS_LAUNCH_DOCTOR_DOCTOR_H

#include <limits.h>

#include "elfread.h"

enum fs_verdict { FS_BYPASS, FS_MAYBE, FS_NOTE };

struct fs_object { /* an ELF file */
  struct fs_object *next, *hash_next;
  const struct fs_object *parent; /* whose dependency it is, or NULL */
  char *path;
  char *real; /* of a program: without symlinks, what $ORIGIN is taken from */
  dev_t dev;
  ino_t ino;
  unsigned mode, uid, gid;
  void *map; /* NULL: done with */
  uint64_t size;
  struct fs_elf elf;
};

#define FS_OBJECT_HASH 4096u
struct fs_doctor {
  struct fs_object *first, **last, *hash[FS_OBJECT_HASH];
  unsigned objects, scripts, told[FS_NOTE + 1];
  bool libraries; /* follow the libraries that a file needs */
  bool as_is;     /* --env-as-is */
  bool command;   /* of a command that is to be started now, by this process's user and environment */
};

/* One line: VERDICT PATH: text. */
void fs_doctor_tell(struct fs_doctor *d, enum fs_verdict v, const char *path, const char *format, ...) FS_PRINTF(4, 5);

/* libs.c: opens a file once. 0 and *out NULL: seen before. -ENOEXEC: no ELF file. */
fs_err fs_object_open(struct fs_doctor *d, const char *path, const struct fs_object *parent, struct fs_object **out);
/* Every library that is needed from `o` on, as the loader would find it, is opened and checked. */
void fs_object_closure(struct fs_doctor *d, struct fs_object *o);
/* Only remembers that it was seen. */
void fs_object_done(struct fs_object *o);
void fs_objects_free(struct fs_doctor *d);
bool fs_object_is_libc(const struct fs_object *o); /* part of glibc: what is interposed */

/* file.c */
void fs_doctor_object(struct fs_doctor *d, const struct fs_object *o);
/* One reason why this program cannot be preloaded, or NULL; reads little. */
const char *fs_doctor_hopeless(const struct fs_object *o);
/* The library of another MPI than Open MPI that it needs, or NULL. */
const char *fs_doctor_other_mpi(const struct fs_object *o);
#define FS_DOCTOR_MPI_HOW "build it with Open MPI, or start it by srun or its own mpiexec in COMMAND, without --np"

/* command.c: 0, or -ENOENT when there is no such file. */
fs_err fs_doctor_command(struct fs_doctor *d, char **words);
/* Does the command begin with a program that starts another one without the library? What that does, and its name. */
const char *fs_doctor_starts(char **words, bool as_is, const char **name);
fs_err fs_doctor_path(struct fs_doctor *d, const char *path);

#endif
