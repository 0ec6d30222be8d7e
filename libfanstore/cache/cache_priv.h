/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of the node cache's writer, for cache.c and keep.c only. State that only the writer needs
 * (line states, extents, queues) is in its own memory, so no client can damage it. Only the daemon's
 * MPI thread calls these functions.
 */
#ifndef FS_CACHE_CACHE_PRIV_H
#define FS_CACHE_CACHE_PRIV_H

#include "cache/cache.h"
#include "cache/slab.h"

#define FS_CACHE_BATCH 64u  /* lines evicted after one scan of the pins */
#define FS_CACHE_SEEN 4096u /* blocks whose last fetch is remembered; a power of two */

enum fs_line_class { FS_LINE_PASSING, FS_LINE_RESIDENT, FS_LINE_AWAITED, FS_LINE_CLASSES };
enum fs_line_state { FS_LINE_FREE, FS_LINE_FILLING, FS_LINE_VALID, FS_LINE_LEAVING, FS_LINE_PINNED };

struct fs_own_line {
  uint64_t key;
  uint32_t extent;     /* the line's extent; FREE: the next free line */
  uint32_t prev, next; /* in the queue of its class */
  uint16_t age; /* resident, awaited: rounds of the hand without a use; passing: 1 in its second time in the queue */
  uint8_t state;
  uint8_t way;
  uint8_t class;
  uint8_t counted; /* when a use of a resident line was counted last: how often the cache was filled then */
  bool queued;
};

struct fs_cache_seen {
  uint64_t key, at; /* `filled` when the block was fetched */
};

struct fs_cache {
  struct fs_cache_header *hdr; /* the slab */
  uint64_t size;
  _Atomic uint32_t *bucket;
  struct fs_line *line;
  _Atomic uint8_t *heat;
  uint64_t heat_size;
  struct fs_own_line *own;
  uint32_t lines, mask, free_line, made;
  uint32_t line_share; /* granules that a line takes at least: small blocks use up the lines first */
  int slab_fd, heat_fd;
  struct fs_slab slab;
  /* all in granules, see keep.c */
  uint64_t passing, passing_least; /* room for passing lines */
  uint64_t in[FS_LINE_CLASSES];    /* lines of each class, also those that are being filled */
  uint64_t due;                    /* what the hand has yet to pass */
  uint64_t renew;                  /* what the hand has yet to pass while it renews the residents */
  uint64_t filled;                 /* given out so far */
  uint64_t judge_at;               /* `filled` at the next comparison */
  uint64_t again;                  /* fetched again since the last comparison */
  uint64_t before;                 /* fetched again before that; loses a quarter at each comparison */
  uint64_t used;                   /* of used residents; loses a quarter, too */
  uint64_t near;                   /* fetched again soon, since `filled` was `sized` */
  uint64_t sized;
  uint32_t look; /* the awaited line that is looked at next, or FS_SLAB_NONE: the first */
  struct fs_cache_queue {
    uint32_t first, last;
  } queue[FS_LINE_CLASSES]; /* of passing and of awaited lines, in the order in which they came */
  struct fs_cache_seen seen[FS_CACHE_SEEN];
  fs_cache_pins_fn *pins;
  void *ctx;
  struct fs_cache_stats stats;
  _Atomic uint64_t reached; /* end of the part used so far; writer */
  uint64_t warmed;          /* end of the part with pages; fs_cache_warm's thread */
  bool no_huge;             /* the kernel makes no huge pages here; fs_cache_warm's thread */
};

/* Returns the bucket's words for a key. */
_Atomic uint32_t *fs_cache_ways(struct fs_cache *c, uint64_t key);
/* Returns the granules of a line, at least its share; of the data area. */
uint32_t fs_cache_size(const struct fs_cache *c, uint32_t l);
uint64_t fs_cache_capacity(const struct fs_cache *c);

/* ---- keep.c: which lines stay ---- */

/* Sets up the queues, for blocks of up to max_stored bytes. */
void fs_cache_keep_init(struct fs_cache *c, uint32_t max_stored);
/* Returns a line with room for so many granules, or FS_SLAB_NONE. Evicts others as needed. */
uint32_t fs_cache_room(struct fs_cache *c, uint32_t granules);
/* Gives a new line, whose key is set, its class, and a published one its place in the class's queue. */
void fs_cache_keep(struct fs_cache *c, uint32_t l);
void fs_cache_kept(struct fs_cache *c, uint32_t l, bool awaited);
/* Evicts these lines except the pinned ones, and returns how many were evicted. */
uint32_t fs_cache_evict(struct fs_cache *c, const uint32_t *line, uint32_t n);
/* Frees a line that nobody reads. */
void fs_cache_drop(struct fs_cache *c, uint32_t l);

#endif
