/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocates extents of the cache's data area, for cache.c only. One thread. An allocation takes the
 * first fit by size bins; a release joins the extent with free neighbours. The extents form a list
 * in address order: a sweep of the hand frees neighbouring extents and so makes room for large
 * ones. All state is in the daemon's own memory. Sizes are in granules of FS_SLAB_GRANULE bytes.
 */
#ifndef FS_CACHE_SLAB_H
#define FS_CACHE_SLAB_H

#include "util/base.h"

#define FS_SLAB_GRANULE 64u
#define FS_SLAB_NONE UINT32_MAX
#define FS_SLAB_BINS 128u /* four for each power of two */

struct fs_extent {
  uint32_t off, size;
  uint32_t prev, next;         /* neighbours by address, in a ring */
  uint32_t bin_prev, bin_next; /* free extent: its bin's list; unused record: bin_next is the list
                                  of unused records */
  uint32_t owner;              /* line, or FS_SLAB_NONE when free */
};

struct fs_slab {
  struct fs_extent *extent;
  uint32_t capacity, made; /* records: allocated, ever used */
  uint32_t spare;          /* list of unused records */
  uint32_t hand;           /* where the sweep continues: any live record */
  uint64_t used;           /* granules */
  uint32_t bin[FS_SLAB_BINS];
  uint64_t filled[FS_SLAB_BINS / 64];
};

/* Sets up an area of `granules`. At most `most` extents are in use at once. Returns 0 or
   -ENOMEM. */
fs_err fs_slab_init(struct fs_slab *s, uint32_t granules, uint32_t most);
void fs_slab_fini(struct fs_slab *s);
/* Returns an extent of at least this size for an owner, or FS_SLAB_NONE. */
uint32_t fs_slab_alloc(struct fs_slab *s, uint32_t size, uint32_t owner);
void fs_slab_release(struct fs_slab *s, uint32_t extent);
/* Moves the hand to the next extent and returns the previous extent's owner: a line, or
   FS_SLAB_NONE. */
uint32_t fs_slab_sweep(struct fs_slab *s);

#endif
