/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reader's side of the node's cache: finds a block in the shared slab and pins or copies it.
 * Clients call this on every remote read. Lock-free. Nothing in the slab is used without a bounds
 * check.
 *
 * A pin is a hazard pointer. The reader stores the pin before it reads the tag again; the daemon
 * clears the tag before it reads the pins. All four accesses are sequentially consistent, so at
 * least one side sees the other: the reader finds the tag cleared, or the daemon finds the pin and
 * keeps the line.
 *
 * A copy without a pin may read bytes that are being replaced. The copy is valid only if the tag
 * and `uses` are unchanged afterwards. The daemon increments `uses` and passes a full fence before
 * it stores the first byte of another block.
 */
#include "cache/cache.h"

#include <string.h>

#include "util/util.h"

#define FS_AFTER_PAGE                                                                                                  \
  256u /* where the processor's own prefetching starts again: it stops at the end of a page, and bytes cross pages */

static bool fs_inside(uint64_t off, uint64_t count, uint64_t each, uint64_t size) {
  uint64_t bytes;
  return off % 8 == 0 && off <= size && !__builtin_mul_overflow(count, each, &bytes) && bytes <= size - off;
}

fs_err fs_cache_view_init(struct fs_cache_view *v, const void *slab, uint64_t slab_size, void *heat,
                          uint64_t heat_size) {
  const struct fs_cache_header *h = slab;
  memset(v, 0, sizeof(*v));
  if (slab_size < sizeof(*h) || h->magic != FS_CACHE_MAGIC || h->version != FS_IPC_VERSION) return -EPROTO;
  if (h->size > slab_size || !fs_is_pow2(h->buckets)) return -EPROTO;
  if (!fs_inside(h->bucket_off, (uint64_t)h->buckets * FS_CACHE_WAYS, sizeof(uint32_t), h->size)) return -EPROTO;
  if (!fs_inside(h->line_off, h->lines, sizeof(struct fs_line), h->size)) return -EPROTO;
  v->base = slab;
  v->size = h->size;
  v->bucket = (const _Atomic uint32_t *)(v->base + h->bucket_off);
  v->line = (const struct fs_line *)(v->base + h->line_off);
  v->bucket_mask = h->buckets - 1;
  v->lines = h->lines;
  v->heat = heat && heat_size >= v->lines ? heat : NULL;
  return 0;
}

/* Returns the bytes of a line. The caller has seen this key in the tag while it held a pin, or
   checks tag and `uses` afterwards. Returns NULL if the line's fields are out of bounds. */
static const void *fs_line_bytes(const struct fs_cache_view *v, uint32_t line, uint32_t *len) {
  const struct fs_line *l = &v->line[line];
  uint64_t off = atomic_load_explicit(&l->off, memory_order_relaxed);
  uint32_t n = atomic_load_explicit(&l->len, memory_order_relaxed);
  if (off > v->size || n > v->size - off) return NULL;
  *len = n;
  return v->base + off;
}

static bool fs_line_is(const struct fs_cache_view *v, uint32_t line, uint64_t key) {
  return atomic_load_explicit(&v->line[line].tag, memory_order_acquire) == (key | FS_CACHE_VALID);
}

static void fs_line_heat(const struct fs_cache_view *v, uint32_t line) {
  /* Written only on a change, so that the byte of a hot line stays shared between the processors'
     caches. */
  if (v->heat && atomic_load_explicit(&v->heat[line], memory_order_relaxed) == 0)
    atomic_store_explicit(&v->heat[line], 1, memory_order_relaxed);
}

static const _Atomic uint32_t *fs_ways(const struct fs_cache_view *v, uint64_t key) {
  return v->bucket + (uint64_t)FS_CACHE_WAYS * (fs_cache_bucket(key) & v->bucket_mask);
}

/* Returns the line that has the key at this moment, or v->lines. */
static uint32_t fs_line_find(const struct fs_cache_view *v, uint64_t key) {
  const _Atomic uint32_t *ways = fs_ways(v, key);
  for (unsigned way = 0; way < FS_CACHE_WAYS; way++) {
    uint32_t word = atomic_load_explicit(&ways[way], memory_order_acquire);
    if (word != 0 && word <= v->lines && fs_line_is(v, word - 1, key)) return word - 1;
  }
  return v->lines;
}

/*
 * Returns this process's hint for a key: where the key was last found, as line << 32 | offset of
 * its bytes in cache lines. With a hint the processor fetches line and bytes at once, and skips the
 * bucket. The hint may belong to another key or be older than an eviction, so only the line's tag
 * decides.
 */
static _Atomic uint64_t *fs_hint(const struct fs_cache_view *v, uint64_t key) {
  return v->hint ? &v->hint[(key ^ key >> 24) % FS_CACHE_HINTS] : NULL;
}

static void fs_prefetch(const struct fs_cache_view *v, uint64_t off, uint64_t n) {
  for (uint64_t at = off; at < off + n && at < v->size; at += 64) __builtin_prefetch(v->base + at);
}

void fs_cache_soon(const struct fs_cache_view *v, uint64_t key, uint64_t n) {
  _Atomic uint64_t *hint = fs_hint(v, key);
  uint64_t word = hint ? atomic_load_explicit(hint, memory_order_relaxed) : 0;
  if (word == 0 || word >> 32 >= v->lines) {
    __builtin_prefetch((const void *)fs_ways(v, key));
    return;
  }
  uint64_t off = (word & UINT32_MAX) * 64;
  __builtin_prefetch(&v->line[word >> 32]);
  fs_prefetch(v, off, n);
  fs_prefetch(v, fs_round_up(off, 4096), FS_AFTER_PAGE);
}

static void fs_hint_set(const struct fs_cache_view *v, uint64_t key, uint32_t line) {
  _Atomic uint64_t *hint = fs_hint(v, key);
  uint64_t off = atomic_load_explicit(&v->line[line].off, memory_order_relaxed);
  if (hint) atomic_store_explicit(hint, (uint64_t)line << 32 | (uint32_t)(off / 64), memory_order_relaxed);
}

static uint32_t fs_line_hinted(const struct fs_cache_view *v, uint64_t key) {
  _Atomic uint64_t *hint = fs_hint(v, key);
  uint64_t line = hint ? atomic_load_explicit(hint, memory_order_relaxed) >> 32 : v->lines;
  if (FS_LIKELY(line < v->lines && fs_line_is(v, (uint32_t)line, key))) return (uint32_t)line;
  uint32_t found = fs_line_find(v, key);
  if (found < v->lines) fs_hint_set(v, key, found);
  return found;
}

bool fs_cache_has(const struct fs_cache_view *v, uint64_t key) {
  return fs_line_find(v, key) < v->lines;
}

bool fs_cache_copy(const struct fs_cache_view *v, uint64_t key, uint32_t stored_len, void *dst, uint32_t from,
                   uint32_t n) {
  uint32_t len, line = fs_line_hinted(v, key);
  if (line == v->lines) return false;
  const struct fs_line *l = &v->line[line];
  uint32_t uses = atomic_load_explicit(&l->uses, memory_order_acquire);
  if (!fs_line_is(v, line, key)) return false; /* off and len belong to this use or a later one */
  const uint8_t *bytes = fs_line_bytes(v, line, &len);
  if (!bytes || len != stored_len || from > len || n > len - from) return false;
  fs_line_heat(v, line); /* before the copy, so that the daemon does not evict the line now */
  fs_copy(dst, bytes + from, n);
  atomic_thread_fence(memory_order_acquire);
  /* The tag is read first: if the same key came back, `uses` was incremented before its tag was
     set. */
  return fs_line_is(v, line, key) && atomic_load_explicit(&l->uses, memory_order_relaxed) == uses;
}

const void *fs_cache_pin(const struct fs_cache_view *v, uint64_t key, _Atomic uint32_t *pin, uint32_t *len) {
  uint32_t line = fs_line_find(v, key);
  if (line == v->lines) return NULL;
  atomic_store_explicit(pin, line + 1, memory_order_seq_cst);
  uint64_t tag = atomic_load_explicit(&v->line[line].tag, memory_order_seq_cst);
  const void *bytes = tag == (key | FS_CACHE_VALID) ? fs_line_bytes(v, line, len) : NULL;
  if (!bytes)
    fs_cache_unpin(pin);
  else
    fs_line_heat(v, line);
  return bytes;
}

const void *fs_cache_pinned(const struct fs_cache_view *v, uint64_t key, uint32_t line, uint32_t *len) {
  /* The pin keeps the line. Its tag is 0 while the daemon tries to evict the line and finds the
     pin. */
  uint64_t tag = line < v->lines ? atomic_load_explicit(&v->line[line].tag, memory_order_acquire) : 1;
  if (tag != 0 && tag != (key | FS_CACHE_VALID)) return NULL;
  fs_hint_set(v, key, line);
  /* Not heated: a block that was fetched for this read stays cold until it is read again. The
     daemon heats hits. */
  return fs_line_bytes(v, line, len);
}

void fs_cache_unpin(_Atomic uint32_t *pin) {
  atomic_store_explicit(pin, 0, memory_order_release);
}
