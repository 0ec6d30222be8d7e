/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extents of the cache's data area: first fit by size bins, joined with free neighbours when released, kept in
 * address order so that a sweep of the hand frees neighbouring extents and thus room for large ones. All of it is in
 * the daemon's own memory. Used by cache.c only; one thread; amounts are granules of FS_SLAB_GRANULE bytes.
 */
#ifndef FS_CACHE_SLAB_H
#define FS_CACHE_SLAB_H

#include "util/base.h"

#define FS_SLAB_GRANULE 64u
#define FS_SLAB_NONE UINT32_MAX
#define FS_SLAB_BINS 128u /* four to each power of two */

struct fs_extent {
  uint32_t off, size;
  uint32_t prev, next;         /* by address, a ring */
  uint32_t bin_prev, bin_next; /* free: its bin's list; unused record: bin_next is the list of those */
  uint32_t owner;              /* line, or FS_SLAB_NONE when free */
};

struct fs_slab {
  struct fs_extent *extent;
  uint32_t capacity, made; /* records: all, ever used */
  uint32_t spare;          /* records given back */
  uint32_t hand;           /* where the sweep goes on: any live record */
  uint64_t used;           /* granules */
  uint32_t bin[FS_SLAB_BINS];
  uint64_t filled[FS_SLAB_BINS / 64];
};

/* granules: size of the area; most: how many extents can be in use at once. */
fs_err fs_slab_init(struct fs_slab *s, uint32_t granules, uint32_t most);
void fs_slab_fini(struct fs_slab *s);
/* An extent of at least this size for an owner, or FS_SLAB_NONE. */
uint32_t fs_slab_alloc(struct fs_slab *s, uint32_t size, uint32_t owner);
void fs_slab_release(struct fs_slab *s, uint32_t extent);
/* Moves the hand one extent on and returns the owner of the one that it left: a line, or FS_SLAB_NONE. */
uint32_t fs_slab_sweep(struct fs_slab *s);

#endif
