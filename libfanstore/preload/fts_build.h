/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of an fts walk that read directories and the attributes of their entries. fts.c uses
   them to walk. */
#ifndef FS_PRELOAD_FTS_BUILD_H
#define FS_PRELOAD_FTS_BUILD_H

#include <fts.h>
#include <stdbool.h>
#include <stddef.h>

/* The bit in fts_options that marks a walk as this library's. libc uses the bits below it. */
#define FS_FTS_OURS 0x40000000

/* Why a directory is read: to go on in it, for fts_children, or for fts_children with
   FTS_NAMEONLY. */
enum fs_fts_want { FS_FTS_READ, FS_FTS_CHILDREN, FS_FTS_NAMES };

/* Returns a zeroed entry with that name. */
FTSENT *fs_fts_entry(FTS *walk, const char *name, size_t len);
/* Fills in e's attributes and returns its fts_info. */
unsigned short fs_fts_stat(FTS *walk, FTSENT *e, bool follow);
/* Returns the children of the current entry, or NULL with fts_info, fts_errno or FTS_STOP set if
   there are none. */
FTSENT *fs_fts_build(FTS *walk, enum fs_fts_want want);
FTSENT *fs_fts_sort(FTS *walk, FTSENT *list, size_t n);
/* Returns where a child's name goes in the path of its directory. */
size_t fs_fts_append_at(const FTSENT *dir);
/* Changes to e's directory, by descriptor or else by path, if it is still the same directory. With
   FTS_NOCHDIR the call does nothing. */
int fs_fts_enter(FTS *walk, const FTSENT *e, int fd, const char *path);
int fs_fts_back_to_start(FTS *walk);

#endif
