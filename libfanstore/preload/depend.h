/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds what an ELF file below a mount needs, and where that is. dlopen (depend.c) and exec
   (libpath.c) share this. No allocation. What is read from the file is bounds-checked. */
#ifndef FS_PRELOAD_DEPEND_H
#define FS_PRELOAD_DEPEND_H

#include <elf.h>

#include "client/path/path.h"

#define FS_NEEDED_MAX 64
#define FS_LIBRARY_SEGMENTS 32
#define FS_SONAME_MAX 256

struct fs_library {
  struct fs_found f;
  int route;
  fs_fd fd; /* -1: f says where the bytes are */
  Elf64_Phdr program[FS_LIBRARY_SEGMENTS];
  uint32_t programs;
  uint64_t strings, strings_size; /* where the names are: in the file */
  uint64_t needed[FS_NEEDED_MAX]; /* in the names */
  uint32_t needs;
  uint64_t runpath; /* in the names; 0: none */
  bool has_runpath; /* it is no DT_RPATH */
};

/* Opens a program or library. Returns false if it is not a readable one of 64 bits. Otherwise the
   caller ends the use by fs_library_close. */
bool fs_library_open(struct fs_library *l, int dirfd, const char *path);
void fs_library_close(struct fs_library *l);
/* Copies a name of the string table to out. Returns false if it is not in the table or longer than
   `size`. */
bool fs_library_name(const struct fs_library *l, uint64_t at, char *out, size_t size);
/* Writes the directory of a path, for which $ORIGIN stands. */
bool fs_library_origin(const char *path, char out[PATH_MAX]);
/* Looks for the name in a list of directories. If the first directory that has it lies below a
   mount, returns the list from that directory on, with the path in `out`. Else returns NULL. */
const char *fs_library_find(const char *list, const char *origin, const char *name, char out[PATH_MAX]);
/* Loads the library at a real path as the loader does when it searches for `name`, the last
   component of the path. Returns NULL if the library cannot be loaded so. Lies in needer.c. */
void *fs_library_load_named(const char *path, const char *name);
/* Writes the shadow of a path below a mount (client/real/shadow.h). */
fs_err fs_library_shadow(const char *path, char out[PATH_MAX]);

#endif
