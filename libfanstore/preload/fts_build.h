/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of an fts walk that read directories and the attributes of what is in them; fts.c walks with them. */
#ifndef FS_PRELOAD_FTS_BUILD_H
#define FS_PRELOAD_FTS_BUILD_H

#include <fts.h>
#include <stdbool.h>
#include <stddef.h>

/* In a walk's fts_options: ours. libc uses the bits below. */
#define FS_FTS_OURS 0x40000000

/* Why a directory is read: to go on in it, for fts_children, for fts_children's FTS_NAMEONLY. */
enum fs_fts_want { FS_FTS_READ, FS_FTS_CHILDREN, FS_FTS_NAMES };

/* A zeroed entry with that name. */
FTSENT *fs_fts_entry(FTS *walk, const char *name, size_t len);
/* Fills in e's attributes; what fts_info is to be. */
unsigned short fs_fts_stat(FTS *walk, FTSENT *e, bool follow);
/* The children of the current entry; NULL with fts_info, fts_errno or FTS_STOP set where there are none. */
FTSENT *fs_fts_build(FTS *walk, enum fs_fts_want want);
FTSENT *fs_fts_sort(FTS *walk, FTSENT *list, size_t n);
/* Where a child's name goes in the path of its directory. */
size_t fs_fts_append_at(const FTSENT *dir);
/* Changes to e's directory, by descriptor or else by path, if it is still that one. Nothing with FTS_NOCHDIR. */
int fs_fts_enter(FTS *walk, const FTSENT *e, int fd, const char *path);
int fs_fts_back_to_start(FTS *walk);

#endif
