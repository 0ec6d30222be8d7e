/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The node's cache of stored blocks from other nodes, in one memfd (the slab): header, buckets,
 * lines, data. Only the daemon's MPI thread writes. Clients read without locks, and protect a line
 * by a pin: a hazard pointer in their own channel. The size is fixed. Blocks that are read once an
 * epoch do not push each other out: most lines stay as long as they are used.
 * docs/internals/shared-memory.md has the protocol and its proof, and what is evicted.
 *
 *   Publish (daemon):  fill data; set line.off, line.len; line.tag = key | VALID (release);
 *                      bucket word = line + 1 (release)
 *   Pin (client):      read the bucket; line.tag == key | VALID? pin = line + 1; seq_cst fence;
 *                      tag changed? unpin
 *   Copy (client):     without a pin: read line.uses and tag (acquire), off, len; copy; fence;
 *                      tag or uses changed? a miss
 *   Evict (daemon):    line.tag = 0; seq_cst fence; any pin == line + 1? restore the tag;
 *                      else uses + 1, reuse the line
 */
#ifndef FS_CACHE_CACHE_H
#define FS_CACHE_CACHE_H

#include "ipc/layout.h"
#include "util/base.h"

#define FS_CACHE_MAGIC 0x4843414353460001ull
#define FS_CACHE_WAYS 8u
#define FS_CACHE_VALID (1ull << 63)
/* dataset < FS_MAX_DATASETS, block key < 2^41 (index/index.h) */
#define FS_CACHE_KEY(dataset, key) ((uint64_t)(dataset) << 41 | (key))
#define FS_CACHE_KEY_DATASET(k) ((uint32_t)((k) >> 41) & 0xffu)
/* The key of an output file's block (ipc/call.h). The dataset number is one that no dataset has:
   the first for blocks of FS_OUTPUT_BLOCK, the next for blocks of FS_OUTPUT_GRAIN. */
#define FS_OUTPUT_KEY(snapshot, block) FS_CACHE_KEY(FS_MAX_DATASETS, (uint64_t)(snapshot) << 21 | (block))
#define FS_OUTPUT_GRAIN_KEY(snapshot, block) (FS_OUTPUT_KEY(snapshot, block) + (1ull << 41))
/* The key of a batch (ipc/batch.h) is an id, which has the bit FS_OUTPUT_ID. */
#define FS_KEY_OF_BATCH(k) ((k) >> 62 == 1)
#define FS_KEY_OF_OUTPUT(k) ((k) >> 42 == FS_MAX_DATASETS / 2 || FS_KEY_OF_BATCH(k))
#define FS_OUTPUT_KEY_BYTES(k) ((k) >> 41 & 1 ? FS_OUTPUT_GRAIN : FS_OUTPUT_BLOCK)
#define FS_OUTPUT_KEY_SNAPSHOT(k) ((uint32_t)(FS_CACHE_KEY_BLOCK(k) >> 21))
#define FS_OUTPUT_KEY_BLOCK(k) ((uint32_t)(k) & (FS_OUTPUT_BLOCKS - 1))
#define FS_CACHE_KEY_BLOCK(k) ((k) & ((1ull << 41) - 1))

/* Returns the hash of a key for both sides. The bucket is hash & (buckets - 1). */
static inline uint32_t fs_cache_bucket(uint64_t key) {
  key = (key ^ key >> 29) * 0xbf58476d1ce4e5b9ull;
  return (uint32_t)(key >> 32);
}

struct fs_line {
  _Atomic uint64_t tag; /* key | FS_CACHE_VALID, or 0 */
  _Atomic uint64_t off; /* offset of the stored bytes in the slab */
  _Atomic uint32_t len;
  _Atomic uint32_t uses; /* counts reuses of the line: shows a change to a reader without a pin */
};
static_assert(sizeof(struct fs_line) == 24, "fs_line is 24 bytes");

struct fs_cache_header {
  uint64_t magic;
  uint32_t version;
  uint32_t lines;
  uint32_t buckets; /* a power of two; each has FS_CACHE_WAYS words */
  uint32_t reserved;
  uint64_t size;       /* of the slab */
  uint64_t bucket_off; /* _Atomic uint32_t[buckets][FS_CACHE_WAYS] */
  uint64_t line_off;   /* struct fs_line[lines] */
  uint64_t data_off;
};

/* ---- reader's side (clients) ---- */
struct fs_cache_view {
  const uint8_t *base;
  uint64_t size;
  const _Atomic uint32_t *bucket;
  const struct fs_line *line;
  uint32_t bucket_mask, lines;
  _Atomic uint8_t *heat;  /* `lines` bytes, or NULL */
  _Atomic uint64_t *hint; /* NULL, or FS_CACHE_HINTS words of this process: where keys were last
                             found */
};
#define FS_CACHE_HINTS (1u << 17)
/* Sets up a client's view of a mapped slab, after a check of the header against the mapping's size.
   Returns 0 or -EPROTO. */
fs_err fs_cache_view_init(struct fs_cache_view *v, const void *slab, uint64_t slab_size, void *heat,
                          uint64_t heat_size);
/* Prefetches into the processor's cache the first n bytes of a block that will be read soon, and
   the metadata on the way. Does not wait. */
void fs_cache_soon(const struct fs_cache_view *v, uint64_t key, uint64_t n);
/* Copies n bytes, from offset `from` on, of a block that is stored_len long, without a pin. This is
   the cheapest read of bytes that need no decoding. Returns false if the block is not in the cache
   or was evicted during the copy; the contents of dst are then undefined. */
bool fs_cache_copy(const struct fs_cache_view *v, uint64_t key, uint32_t stored_len, void *dst, uint32_t from,
                   uint32_t n);
/* Returns true if the key is in the cache now. The next moment may evict the line. */
bool fs_cache_has(const struct fs_cache_view *v, uint64_t key);
/* Pins the line of a key and returns its bytes, which stay valid until fs_cache_unpin. On a miss
   returns NULL and sets the pin to 0. */
const void *fs_cache_pin(const struct fs_cache_view *v, uint64_t key, _Atomic uint32_t *pin, uint32_t *len);
/* Returns the bytes of a line that the daemon has pinned for this slot, or NULL if line and key do
   not match. */
const void *fs_cache_pinned(const struct fs_cache_view *v, uint64_t key, uint32_t line, uint32_t *len);
void fs_cache_unpin(_Atomic uint32_t *pin);

/* ---- writer's side (the daemon's MPI thread only) ---- */
struct fs_cache;
/* A function that calls visit(arg, line) for each non-zero pin of each channel. */
typedef void fs_cache_pins_fn(void *ctx, void (*visit)(void *arg, uint32_t line), void *arg);
/* Creates the cache and its memfds; the slab is sealed against writes by others. max_stored is the
   length of the largest stored block. FS_CACHE_HEADROOM bytes precede each line's bytes so that the
   network can deliver a message with its reply header in place. */
#define FS_CACHE_HEADROOM 64u
fs_err fs_cache_new(struct fs_cache **out, uint64_t bytes, uint32_t max_stored, fs_cache_pins_fn *pins, void *ctx);
void fs_cache_free(struct fs_cache *c);
int fs_cache_slab_fd(const struct fs_cache *c, uint64_t *size);
int fs_cache_heat_fd(const struct fs_cache *c, uint64_t *size);
/* Returns the line of a published key and marks it used, or returns -ENOENT. */
int64_t fs_cache_find(struct fs_cache *c, uint64_t key);
/* Returns a new invisible line for len stored bytes of a key, and evicts others as needed. Stores
   the address of the headroom before the bytes in *buf. Returns -ENOBUFS if all lines are pinned or
   being filled: the caller must get the block in another way. */
int64_t fs_cache_alloc(struct fs_cache *c, uint64_t key, uint32_t len, void **buf);
/* `awaited`: the block was fetched ahead, and nobody has read it yet. It is kept until then, within
   bounds. */
void fs_cache_publish(struct fs_cache *c, uint32_t line, bool awaited);
/* Returns true if a published line will stay in the cache, and false if it will pass. */
bool fs_cache_stays(const struct fs_cache *c, uint32_t line);
/* Returns true if a new block of so many bytes would stay, and there is some room to spare. */
bool fs_cache_spare(const struct fs_cache *c, uint32_t len);
void fs_cache_abort(struct fs_cache *c, uint32_t line); /* gives back an unpublished line */
/* Reduces the length of an unpublished line when fewer bytes arrived than expected. */
void fs_cache_shorten(struct fs_cache *c, uint32_t line, uint32_t len);
/* Evicts all lines whose keys `pick` accepts. Pinned lines stay, and `stayed` is called for each of
   them. */
void fs_cache_purge(struct fs_cache *c, bool (*pick)(void *ctx, uint64_t key), void (*stayed)(void *ctx, uint64_t key),
                    void *ctx);
/* Allocates pages of the slab before their first use, because a page fault during a receive costs
   several times as much. One thread other than the MPI thread calls this. Each call is one step.
   The goal is to have pages for `expected` bytes of blocks. If more is used, the goal is to be
   ahead of it by as much again, within 16 to 256 MiB. Returns how far the slab has pages; an
   unchanged result means that nothing was to do. */
uint64_t fs_cache_warm(struct fs_cache *c, uint64_t expected);
uint64_t fs_cache_reached(const struct fs_cache *c); /* end of the part used so far; 0: nothing */
struct fs_cache_stats {
  uint64_t lines_used, bytes_used, evictions, alloc_failures;
};
void fs_cache_stats(const struct fs_cache *c, struct fs_cache_stats *out);

#endif
