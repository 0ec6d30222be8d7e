/* SPDX-License-Identifier: BSD-3-Clause */
/* Many small pieces of memory that are freed together. One thread at a time. For code that may
   allocate. */
#ifndef FS_UTIL_ARENA_H
#define FS_UTIL_ARENA_H

#include <stddef.h>

struct fs_arena_chunk;
struct fs_arena {
  struct fs_arena_chunk *first; /* the one with room; NULL: none so far */
};

/* Returns n bytes, aligned to 8, or NULL. */
void *fs_arena_get(struct fs_arena *a, size_t n);
/* Returns a copy of n bytes and a NUL, or NULL. */
char *fs_arena_text(struct fs_arena *a, const char *text, size_t n);
/* Moves all that `from` has to `to`. */
void fs_arena_join(struct fs_arena *to, struct fs_arena *from);
void fs_arena_free(struct fs_arena *a);

#endif
