/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an ELF file below a mount needs, and where it is; shared by dlopen (depend.c) and exec
 * (libpath.c). No allocation. What is read from the file is bounds-checked.
 */
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

/* False: it is no program or library of 64 bits that can be read. The caller ends a true one by
   fs_library_close. */
bool fs_library_open(struct fs_library *l, int dirfd, const char *path);
void fs_library_close(struct fs_library *l);
/* A name of the string table. False if it is not in there, or longer than `size`. */
bool fs_library_name(const struct fs_library *l, uint64_t at, char *out, size_t size);
/* The directory of a path: what $ORIGIN stands for. */
bool fs_library_origin(const char *path, char out[PATH_MAX]);
/* Looks for the name in a list of directories. The list from the first directory on that has it,
   if that lies below a mount, and the path in `out`; else NULL. */
const char *fs_library_find(const char *list, const char *origin, const char *name, char out[PATH_MAX]);
/* Loads the library at a real path as the loader does that searches for `name`, the path's last component. NULL: it
   cannot be loaded so. needer.c. */
void *fs_library_load_named(const char *path, const char *name);
/* The shadow of a path below a mount (client/real/shadow.h). */
fs_err fs_library_shadow(const char *path, char out[PATH_MAX]);

#endif
