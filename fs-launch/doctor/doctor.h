/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch doctor: examines a command, its interpreters and its libraries for anything that
 * bypasses the preloaded library, and prints its findings. Nothing of the command is run. Shared by
 * the doctor's files. Single-threaded. Objects stay mapped until the end.
 */
#ifndef FS_LAUNCH_DOCTOR_DOCTOR_H
#define FS_LAUNCH_DOCTOR_DOCTOR_H

#include <limits.h>

#include "elfread.h"

enum fs_verdict { FS_BYPASS, FS_MAYBE, FS_NOTE };

struct fs_object { /* an ELF file */
  struct fs_object *next, *hash_next;
  const struct fs_object *parent; /* the object that needs it, or NULL */
  char *path;
  char *real; /* of a program: path without symlinks, the base of $ORIGIN */
  dev_t dev;
  ino_t ino;
  unsigned mode, uid, gid;
  void *map; /* NULL: finished */
  uint64_t size;
  struct fs_elf elf;
};

#define FS_OBJECT_HASH 4096u
struct fs_doctor {
  struct fs_object *first, **last, *hash[FS_OBJECT_HASH];
  unsigned objects, scripts, told[FS_NOTE + 1];
  bool libraries; /* follow the libraries that a file needs */
  bool as_is;     /* --env-as-is */
  bool blind;     /* no code was looked at: Zydis is missing */
  bool command;   /* the command is about to start, with this process's user and environment */
};

/* Prints one line: VERDICT PATH: text. */
void fs_doctor_tell(struct fs_doctor *d, enum fs_verdict v, const char *path, const char *format, ...) FS_PRINTF(4, 5);

/* libs.c. Opens a file once: returns 0 with *out NULL if the file was seen before, -ENOEXEC if it
   is no ELF file. */
fs_err fs_object_open(struct fs_doctor *d, const char *path, const struct fs_object *parent, struct fs_object **out);
/* Opens and checks every library that `o` needs, directly or indirectly, in the way of the
   loader. */
void fs_object_closure(struct fs_doctor *d, struct fs_object *o);
/* Unmaps the object; only the fact that it was seen remains. */
void fs_object_done(struct fs_object *o);
void fs_objects_free(struct fs_doctor *d);
bool fs_object_is_libc(const struct fs_object *o); /* true for parts of glibc (interposed) */

/* file.c */
void fs_doctor_object(struct fs_doctor *d, const struct fs_object *o);
/* Returns a reason why this program cannot be preloaded, or NULL. Reads little. */
const char *fs_doctor_hopeless(const struct fs_object *o);
/* Returns the needed library of an MPI other than Open MPI, or NULL. */
const char *fs_doctor_other_mpi(const struct fs_object *o);
#define FS_DOCTOR_MPI_HOW "build it with Open MPI, or start it by srun or its own mpiexec in COMMAND, without --np"

/* command.c. Examines a command. Returns 0, or -ENOENT if there is no such file; fs_doctor_path
   also does. */
fs_err fs_doctor_command(struct fs_doctor *d, char **words);
/* Returns what a program at the command's beginning does to start another one without the library,
   and its name; NULL if it does not. */
const char *fs_doctor_starts(char **words, bool as_is, const char **name);
fs_err fs_doctor_path(struct fs_doctor *d, const char *path);

#endif
