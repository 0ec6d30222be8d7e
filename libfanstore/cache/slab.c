/* SPDX-License-Identifier: BSD-3-Clause */
/* The extent allocator of the node cache (slab.h). Called by cache.c on the daemon's MPI thread. */
#include "cache/slab.h"

#include <stdlib.h>

/* Returns the bin of a size. There are four bins for each power of two; a bin holds sizes from its
   lower bound up to the next bin's. */
static uint32_t fs_slab_bin(uint32_t size) {
  if (size < 4) return size;
  uint32_t log = 31u - (uint32_t)__builtin_clz(size);
  return log * 4 + ((size >> (log - 2)) & 3u);
}

static void fs_slab_link(struct fs_slab *s, uint32_t e) {
  uint32_t b = fs_slab_bin(s->extent[e].size), head = s->bin[b];
  s->extent[e].owner = FS_SLAB_NONE;
  s->extent[e].bin_prev = FS_SLAB_NONE;
  s->extent[e].bin_next = head;
  if (head != FS_SLAB_NONE) s->extent[head].bin_prev = e;
  s->bin[b] = e;
  s->filled[b / 64] |= 1ull << (b % 64);
}

static void fs_slab_unlink(struct fs_slab *s, uint32_t e) {
  struct fs_extent *x = &s->extent[e];
  uint32_t b = fs_slab_bin(x->size);
  if (x->bin_prev != FS_SLAB_NONE)
    s->extent[x->bin_prev].bin_next = x->bin_next;
  else
    s->bin[b] = x->bin_next;
  if (x->bin_next != FS_SLAB_NONE) s->extent[x->bin_next].bin_prev = x->bin_prev;
  if (s->bin[b] == FS_SLAB_NONE) s->filled[b / 64] &= ~(1ull << (b % 64));
}

static uint32_t fs_slab_record(struct fs_slab *s) {
  uint32_t e = s->spare;
  if (e != FS_SLAB_NONE)
    s->spare = s->extent[e].bin_next;
  else if (s->made < s->capacity)
    e = s->made++;
  return e;
}

/* Joins b to a, its left neighbour, and frees b's record. */
static void fs_slab_absorb(struct fs_slab *s, uint32_t a, uint32_t b) {
  s->extent[a].size += s->extent[b].size;
  s->extent[a].next = s->extent[b].next;
  s->extent[s->extent[b].next].prev = a;
  if (s->hand == b) s->hand = a;
  s->extent[b].bin_next = s->spare;
  s->spare = b;
}

fs_err fs_slab_init(struct fs_slab *s, uint32_t granules, uint32_t most) {
  *s = (struct fs_slab){.spare = FS_SLAB_NONE, .capacity = 2 * most + 2};
  for (uint32_t b = 0; b < FS_SLAB_BINS; b++) s->bin[b] = FS_SLAB_NONE;
  s->extent = calloc(s->capacity, sizeof(*s->extent));
  if (!s->extent) return -ENOMEM;
  uint32_t e = fs_slab_record(s);
  s->extent[e] = (struct fs_extent){.size = granules, .prev = e, .next = e};
  fs_slab_link(s, e);
  return 0;
}

void fs_slab_fini(struct fs_slab *s) {
  free(s->extent);
  s->extent = NULL;
}

/* Returns a free extent that fits: the first that fits among a few in the size's own bin, else the
   head of any larger bin. */
static uint32_t fs_slab_find(const struct fs_slab *s, uint32_t size) {
  uint32_t b = fs_slab_bin(size);
  uint32_t e = s->bin[b];
  for (int tries = 0; e != FS_SLAB_NONE && tries < 8; tries++, e = s->extent[e].bin_next) {
    if (s->extent[e].size >= size) return e;
  }
  for (uint32_t w = (b + 1) / 64; w < FS_SLAB_BINS / 64; w++) {
    uint64_t bits = s->filled[w];
    if (w == (b + 1) / 64) bits &= ~0ull << ((b + 1) % 64);
    if (bits) return s->bin[w * 64 + (uint32_t)__builtin_ctzll(bits)];
  }
  return FS_SLAB_NONE;
}

uint32_t fs_slab_alloc(struct fs_slab *s, uint32_t size, uint32_t owner) {
  uint32_t e = fs_slab_find(s, size);
  if (e == FS_SLAB_NONE) return FS_SLAB_NONE;
  fs_slab_unlink(s, e);
  uint32_t rest = s->extent[e].size > size ? fs_slab_record(s) : FS_SLAB_NONE;
  if (rest != FS_SLAB_NONE) {
    struct fs_extent *x = &s->extent[e], *r = &s->extent[rest];
    *r = (struct fs_extent){.off = x->off + size, .size = x->size - size, .prev = e, .next = x->next};
    s->extent[x->next].prev = rest;
    x->next = rest;
    x->size = size;
    fs_slab_link(s, rest);
  }
  s->extent[e].owner = owner;
  s->used += s->extent[e].size;
  return e;
}

void fs_slab_release(struct fs_slab *s, uint32_t e) {
  s->used -= s->extent[e].size;
  s->extent[e].owner = FS_SLAB_NONE;
  uint32_t next = s->extent[e].next, prev = s->extent[e].prev;
  if (next != e && s->extent[next].off > s->extent[e].off && s->extent[next].owner == FS_SLAB_NONE) {
    fs_slab_unlink(s, next);
    fs_slab_absorb(s, e, next);
  }
  if (prev != e && s->extent[prev].off < s->extent[e].off && s->extent[prev].owner == FS_SLAB_NONE) {
    fs_slab_unlink(s, prev);
    fs_slab_absorb(s, prev, e);
    e = prev;
  }
  fs_slab_link(s, e);
}

uint32_t fs_slab_sweep(struct fs_slab *s) {
  uint32_t owner = s->extent[s->hand].owner;
  s->hand = s->extent[s->hand].next;
  return owner;
}
