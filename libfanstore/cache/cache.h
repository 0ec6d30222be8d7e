/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The node's cache of stored blocks that came from other nodes. One slab (a memfd): header, buckets, lines, data.
 * The daemon's MPI thread is the only writer; clients read without locks and protect a line by a pin (a hazard
 * pointer in their own channel). Bounded by its size; eviction is approximate LRU by second chance (CLOCK) over the
 * heat bytes. docs/internals/shared-memory.md has the protocol and its argument.
 *
 * Publish (daemon):  fill data; line.off, line.len; line.tag = key | VALID (release); bucket word = line + 1 (release)
 * Pin (client):      read the bucket, line.tag == key | VALID; pin = line + 1; seq_cst fence; tag unchanged? else unpin
 * Copy (client):     without a pin: line.uses, tag (acquire); off, len; copy; fence; tag and uses unchanged? else a
 * miss Evict (daemon):    line.tag = 0; seq_cst fence; any pin == line + 1? then restore the tag; else uses + 1, reuse
 * the line
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
/* A block of an output file (ipc/call.h), with a dataset's number that no dataset has: one for blocks of
   FS_OUTPUT_BLOCK, the next for those of FS_OUTPUT_GRAIN. */
#define FS_OUTPUT_KEY(snapshot, block) FS_CACHE_KEY(FS_MAX_DATASETS, (uint64_t)(snapshot) << 21 | (block))
#define FS_OUTPUT_GRAIN_KEY(snapshot, block) (FS_OUTPUT_KEY(snapshot, block) + (1ull << 41))
#define FS_KEY_OF_OUTPUT(k) ((k) >> 42 == FS_MAX_DATASETS / 2)
#define FS_OUTPUT_KEY_BYTES(k) ((k) >> 41 & 1 ? FS_OUTPUT_GRAIN : FS_OUTPUT_BLOCK)
#define FS_OUTPUT_KEY_SNAPSHOT(k) ((uint32_t)(FS_CACHE_KEY_BLOCK(k) >> 21))
#define FS_OUTPUT_KEY_BLOCK(k) ((uint32_t)(k) & (FS_OUTPUT_BLOCKS - 1))
#define FS_CACHE_KEY_BLOCK(k) ((k) & ((1ull << 41) - 1))

/* The bucket of a key (mask it by buckets - 1): the one hash that both sides use. */
static inline uint32_t fs_cache_bucket(uint64_t key) {
  key = (key ^ key >> 29) * 0xbf58476d1ce4e5b9ull;
  return (uint32_t)(key >> 32);
}

struct fs_line {
  _Atomic uint64_t tag; /* key | FS_CACHE_VALID, or 0 */
  _Atomic uint64_t off; /* of the stored bytes in the slab */
  _Atomic uint32_t len;
  _Atomic uint32_t uses; /* one more whenever the line is taken for a block: tells a reader without a pin of a change */
};
static_assert(sizeof(struct fs_line) == 24, "fs_line is 24 bytes");

struct fs_cache_header {
  uint64_t magic;
  uint32_t version;
  uint32_t lines;
  uint32_t buckets; /* a power of two, of FS_CACHE_WAYS words each */
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
  _Atomic uint64_t *hint; /* FS_CACHE_HINTS words of the process's own: where keys were last found; or NULL */
};
#define FS_CACHE_HINTS (1u << 17)
/* Checks the header against the mapping's size. 0 or -EPROTO. */
fs_err fs_cache_view_init(struct fs_cache_view *v, const void *slab, uint64_t slab_size, void *heat,
                          uint64_t heat_size);
/* The key will be looked for soon: has the processor fetch the first n bytes and what leads to them, without waiting.
 */
void fs_cache_soon(const struct fs_cache_view *v, uint64_t key, uint64_t n);
/* Copies n bytes from `from` on of a block that has stored_len, without a pin: the cheapest way to bytes that need no
   decoding. False when they are not there or went meanwhile; dst then has anything. */
bool fs_cache_copy(const struct fs_cache_view *v, uint64_t key, uint32_t stored_len, void *dst, uint32_t from,
                   uint32_t n);
/* Is this key's line there now? It may be evicted the next moment. */
bool fs_cache_has(const struct fs_cache_view *v, uint64_t key);
/* Pins the line of this key: its bytes stay valid until fs_cache_unpin. NULL on a miss (the pin is then 0). */
const void *fs_cache_pin(const struct fs_cache_view *v, uint64_t key, _Atomic uint32_t *pin, uint32_t *len);
/* The bytes of a line that the daemon has already pinned for this slot. NULL when line or tag do not fit. */
const void *fs_cache_pinned(const struct fs_cache_view *v, uint64_t key, uint32_t line, uint32_t *len);
void fs_cache_unpin(_Atomic uint32_t *pin);

/* ---- writer's side (the daemon's MPI thread only) ---- */
struct fs_cache;
/* Calls visit(arg, line) for every non-zero pin of every channel. */
typedef void fs_cache_pins_fn(void *ctx, void (*visit)(void *arg, uint32_t line), void *arg);
/* Creates the memfds (slab sealed against writes by others). max_stored: largest stored block; a reply header of
   FS_CACHE_HEADROOM bytes precedes each line's bytes so that a message can be received in place. */
#define FS_CACHE_HEADROOM 64u
fs_err fs_cache_new(struct fs_cache **out, uint64_t bytes, uint32_t max_stored, fs_cache_pins_fn *pins, void *ctx);
void fs_cache_free(struct fs_cache *c);
int fs_cache_slab_fd(const struct fs_cache *c, uint64_t *size);
int fs_cache_heat_fd(const struct fs_cache *c, uint64_t *size);
/* Line of a valid key, or -ENOENT. Marks it used. */
int64_t fs_cache_find(struct fs_cache *c, uint64_t key);
/* A line for len stored bytes of key, not yet visible; evicts as needed. Line number, or -ENOBUFS (all pinned or
   in flight: answer the request from elsewhere). *buf points at the headroom before the bytes. */
int64_t fs_cache_alloc(struct fs_cache *c, uint64_t key, uint32_t len, void **buf);
void fs_cache_publish(struct fs_cache *c, uint32_t line);
void fs_cache_abort(struct fs_cache *c, uint32_t line); /* gives an unpublished line back */
/* Before its publication: fewer bytes came than there is room for. */
void fs_cache_shorten(struct fs_cache *c, uint32_t line, uint32_t len);
/* Evicts all lines whose keys `pick` says yes to, but for those that are pinned: `stayed` is told of them. */
void fs_cache_purge(struct fs_cache *c, bool (*pick)(void *ctx, uint64_t key), void (*stayed)(void *ctx, uint64_t key),
                    void *ctx);
/* For one other thread: gives the slab pages ahead of their use, since a first touch in the middle of a receive costs
   several times as much. A step a call, until it is ahead by as much again as was used so far, 8 to 256 MiB; nothing
   before the first use. Returns how far the slab has pages: the same as before when there is nothing to do. */
uint64_t fs_cache_warm(struct fs_cache *c);
uint64_t fs_cache_reached(const struct fs_cache *c); /* the end of what was used so far; 0: nothing */
struct fs_cache_stats {
  uint64_t lines_used, bytes_used, evictions, alloc_failures;
};
void fs_cache_stats(const struct fs_cache *c, struct fs_cache_stats *out);

#endif
