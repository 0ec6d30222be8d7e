/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reader's side of the node's cache: finding a block in the shared slab and pinning it there. Called by clients on
 * every remote read. Lock-free; nothing in the slab is believed without a bounds check.
 *
 * The pin is a hazard pointer: it is stored before the tag is looked at again, and the daemon clears the tag before it
 * looks at the pins, all four sequentially consistent. So at least one of the two sees the other: either the reader
 * finds the tag gone, or the daemon finds the pin and leaves the line.
 */
#include "cache/cache.h"

#include <string.h>

#include "util/util.h"

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

/* The bytes of a line whose tag was seen to be this key while it was pinned. */
static const void *fs_line_bytes(const struct fs_cache_view *v, uint32_t line, uint32_t *len) {
  const struct fs_line *l = &v->line[line];
  uint64_t off = l->off;
  uint32_t n = l->len;
  if (off > v->size || n > v->size - off) return NULL;
  *len = n;
  return v->base + off;
}

static bool fs_line_is(const struct fs_cache_view *v, uint32_t line, uint64_t key) {
  return atomic_load_explicit(&v->line[line].tag, memory_order_acquire) == (key | FS_CACHE_VALID);
}

static void fs_line_heat(const struct fs_cache_view *v, uint32_t line) {
  /* Written only when it changes, so that a hot line's byte stays shared between the processors' caches. */
  if (v->heat && atomic_load_explicit(&v->heat[line], memory_order_relaxed) == 0)
    atomic_store_explicit(&v->heat[line], 1, memory_order_relaxed);
}

void fs_cache_soon(const struct fs_cache_view *v, uint64_t key) {
  __builtin_prefetch((const void *)(v->bucket + (uint64_t)FS_CACHE_WAYS * (fs_cache_bucket(key) & v->bucket_mask)));
}

bool fs_cache_has(const struct fs_cache_view *v, uint64_t key) {
  const _Atomic uint32_t *bucket = v->bucket + (uint64_t)FS_CACHE_WAYS * (fs_cache_bucket(key) & v->bucket_mask);
  for (unsigned way = 0; way < FS_CACHE_WAYS; way++) {
    uint32_t word = atomic_load_explicit(&bucket[way], memory_order_acquire);
    if (word != 0 && word <= v->lines && fs_line_is(v, word - 1, key)) return true;
  }
  return false;
}

const void *fs_cache_pin(const struct fs_cache_view *v, uint64_t key, _Atomic uint32_t *pin, uint32_t *len) {
  const _Atomic uint32_t *bucket = v->bucket + (uint64_t)FS_CACHE_WAYS * (fs_cache_bucket(key) & v->bucket_mask);
  for (unsigned way = 0; way < FS_CACHE_WAYS; way++) {
    uint32_t word = atomic_load_explicit(&bucket[way], memory_order_acquire);
    if (word == 0 || word > v->lines || !fs_line_is(v, word - 1, key)) continue;
    atomic_store_explicit(pin, word, memory_order_seq_cst);
    uint64_t tag = atomic_load_explicit(&v->line[word - 1].tag, memory_order_seq_cst);
    const void *bytes = tag == (key | FS_CACHE_VALID) ? fs_line_bytes(v, word - 1, len) : NULL;
    if (!bytes) {
      fs_cache_unpin(pin);
      return NULL;
    }
    fs_line_heat(v, word - 1);
    return bytes;
  }
  return NULL;
}

const void *fs_cache_pinned(const struct fs_cache_view *v, uint64_t key, uint32_t line, uint32_t *len) {
  /* The pin keeps the line; its tag is 0 for the moment in which the daemon tries to evict it and finds the pin. */
  uint64_t tag = line < v->lines ? atomic_load_explicit(&v->line[line].tag, memory_order_acquire) : 1;
  if (tag != 0 && tag != (key | FS_CACHE_VALID)) return NULL;
  /* Not heated: a block that was fetched for this read is cold until it is read again; the daemon heats hits. */
  return fs_line_bytes(v, line, len);
}

void fs_cache_unpin(_Atomic uint32_t *pin) {
  atomic_store_explicit(pin, 0, memory_order_release);
}
