/* SPDX-License-Identifier: BSD-3-Clause */
/* Arenas: a list of chunks, of which the first one is being filled. */
#include "util/arena.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "util/base.h"

#define FS_ARENA_CHUNK (1u << 20)

struct fs_arena_chunk {
  struct fs_arena_chunk *next;
  size_t used, room;
  alignas(8) char bytes[];
};

static char *fs_arena_take(struct fs_arena *a, size_t n, size_t align) {
  struct fs_arena_chunk *c = a->first;
  size_t at = c ? (c->used + align - 1) / align * align : 0;
  if (!c || at > c->room || c->room - at < n) {
    size_t room = FS_MAX(n, (size_t)FS_ARENA_CHUNK);
    c = malloc(sizeof(*c) + room);
    if (!c) return NULL;
    *c = (struct fs_arena_chunk){.next = a->first, .room = room};
    a->first = c;
    at = 0;
  }
  c->used = at + n;
  return c->bytes + at;
}

void *fs_arena_get(struct fs_arena *a, size_t n) {
  return fs_arena_take(a, n, 8);
}

char *fs_arena_text(struct fs_arena *a, const char *text, size_t n) {
  char *copy = fs_arena_take(a, n + 1, 1);
  if (!copy) return NULL;
  memcpy(copy, text, n);
  copy[n] = '\0';
  return copy;
}

void fs_arena_join(struct fs_arena *to, struct fs_arena *from) {
  struct fs_arena_chunk **end = &from->first;
  while (*end) end = &(*end)->next;
  *end = to->first;
  to->first = from->first;
  from->first = NULL;
}

void fs_arena_free(struct fs_arena *a) {
  for (struct fs_arena_chunk *c = a->first, *next; c; c = next) {
    next = c->next;
    free(c);
  }
  a->first = NULL;
}
