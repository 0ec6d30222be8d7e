/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From stored bytes to the caller's buffer, and a small cache of decoded blocks, so that small reads of a compressed
 * file do not decode its block again and again. One cache a dataset in this process, FS_DECODED_BYTES over all (one
 * block each where blocks are larger). A slot is taken by a try-lock: who finds it busy uses another or a temporary
 * mapping, so nobody waits, also not a signal handler for the thread that it interrupted. Empty in a forked child.
 */

#include "client/data_priv.h"
#include "codec/codec.h"
#include "util/util.h"

#define FS_DECODED_BYTES (4u << 20)
#define FS_DECODED_SLOTS 16u
#define FS_DECODED_DATA 4096u /* offset of the slots' bytes */
#define FS_SLOT_TAKEN UINT32_MAX

struct fs_dslot {
  _Atomic uint32_t lock; /* readers, or FS_SLOT_TAKEN */
  _Atomic uint32_t used; /* read since the hand passed */
  _Atomic uint64_t key;  /* key + 1 of the block whose plain bytes it holds, or 0; changes under FS_SLOT_TAKEN only */
  uint32_t len;
};

struct fs_dcache {
  _Atomic uint32_t hand;
  struct fs_dslot slot[FS_DECODED_SLOTS];
};
static_assert(sizeof(struct fs_dcache) <= FS_DECODED_DATA, "the slots' heads fit before their bytes");

static uint32_t fs_dcache_slots(const struct fs_dataset *ds) {
  uint32_t slots = FS_DECODED_BYTES / FS_MAX(fs_mounts(), 1u) / ds->ix.block_size;
  return FS_MIN(FS_MAX(slots, 1u), FS_DECODED_SLOTS);
}

static struct fs_dcache *fs_dcache_make(struct fs_dataset *ds) {
  size_t bytes = FS_DECODED_DATA + (size_t)fs_dcache_slots(ds) * ds->ix.block_size;
  void *mine = fs_mem_map_wiped(bytes), *cache;
  if (!mine) return NULL;
  if (!fs_publish_ptr(&ds->blocks, mine, &cache)) fs_mem_unmap(mine, bytes);
  return cache;
}

static uint8_t *fs_slot_bytes(const struct fs_dataset *ds, struct fs_dcache *c, uint32_t i) {
  return (uint8_t *)c + FS_DECODED_DATA + (size_t)i * ds->ix.block_size;
}

/* Becomes a reader of the slot if it holds this block. */
static bool fs_slot_read(struct fs_dslot *s, uint64_t key) {
  uint32_t readers = atomic_load_explicit(&s->lock, memory_order_relaxed);
  if (atomic_load_explicit(&s->key, memory_order_relaxed) != key + 1 || readers >= FS_SLOT_TAKEN - 1) return false;
  if (!atomic_compare_exchange_strong_explicit(&s->lock, &readers, readers + 1, memory_order_acquire,
                                               memory_order_relaxed))
    return false;
  if (atomic_load_explicit(&s->key, memory_order_relaxed) == key + 1) return true;
  atomic_fetch_sub_explicit(&s->lock, 1, memory_order_release);
  return false;
}

bool fs_decoded_copy(struct fs_dataset *ds, const struct fs_piece *p) {
  struct fs_dcache *c = atomic_load_explicit(&ds->blocks, memory_order_acquire);
  bool found = false;
  for (uint32_t i = 0, n = c ? fs_dcache_slots(ds) : 0; i < n && !found; i++) {
    struct fs_dslot *s = &c->slot[i];
    if (!fs_slot_read(s, p->b.key)) continue;
    found = p->off + p->n <= s->len;
    if (found) fs_copy(p->dst, fs_slot_bytes(ds, c, i) + p->off, p->n);
    atomic_store_explicit(&s->used, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&s->lock, 1, memory_order_release);
  }
  return found;
}

static bool fs_slot_take(struct fs_dslot *s) {
  uint32_t none = 0;
  if (!atomic_compare_exchange_strong_explicit(&s->lock, &none, FS_SLOT_TAKEN, memory_order_acquire,
                                               memory_order_relaxed))
    return false;
  atomic_store_explicit(&s->key, 0, memory_order_relaxed);
  return true;
}

/* An empty slot, else by second chance the next that nobody reads. */
static int32_t fs_slot_find(struct fs_dcache *c, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (atomic_load_explicit(&c->slot[i].key, memory_order_relaxed) == 0 && fs_slot_take(&c->slot[i]))
      return (int32_t)i;
  }
  for (uint32_t tries = 0; tries < 2 * n; tries++) {
    uint32_t i = atomic_fetch_add_explicit(&c->hand, 1, memory_order_relaxed) % n;
    if (atomic_exchange_explicit(&c->slot[i].used, 0, memory_order_relaxed)) continue;
    if (fs_slot_take(&c->slot[i])) return (int32_t)i;
  }
  return -1;
}

fs_err fs_scratch_get(struct fs_dataset *ds, size_t n, struct fs_scratch *s) {
  struct fs_dcache *c = atomic_load_explicit(&ds->blocks, memory_order_acquire);
  *s = (struct fs_scratch){.process = fs_self_process()};
  if (!c) c = fs_dcache_make(ds);
  int32_t i = c && n <= ds->ix.block_size ? fs_slot_find(c, fs_dcache_slots(ds)) : -1;
  if (i >= 0) {
    s->slot = &c->slot[i];
    s->buf = fs_slot_bytes(ds, c, (uint32_t)i);
    return 0;
  }
  s->buf = fs_mem_map(n);
  s->mapped = n;
  return s->buf ? 0 : -ENOMEM;
}

void fs_scratch_put(struct fs_scratch *s, uint64_t key, uint32_t len) {
  if (!s->slot) {
    fs_mem_unmap(s->buf, s->mapped);
    return;
  }
  if (s->process != fs_self_process()) key = FS_KEY_NONE; /* wiped meanwhile */
  s->slot->len = len;
  atomic_store_explicit(&s->slot->used, key != FS_KEY_NONE, memory_order_relaxed);
  atomic_store_explicit(&s->slot->key, key == FS_KEY_NONE ? 0 : key + 1, memory_order_relaxed);
  atomic_store_explicit(&s->slot->lock, 0, memory_order_release);
}

fs_err fs_decode_piece(struct fs_dataset *ds, const void *stored, const struct fs_piece *p) {
  const struct fs_block *b = &p->b;
  struct fs_scratch s;
  if (fs_piece_raw(p)) {
    fs_copy(p->dst, (const uint8_t *)stored + p->off, p->n);
    return 0;
  }
  if (fs_piece_whole(p)) return fs_block_decode(b->codec, stored, b->stored_len, p->dst, b->plain_len);
  fs_err err = fs_scratch_get(ds, b->plain_len, &s);
  if (err < 0) return err;
  atomic_fetch_add_explicit(&fs_self()->decodes, 1, memory_order_relaxed);
  err = fs_block_decode(b->codec, stored, b->stored_len, s.buf, b->plain_len);
  if (err == 0) fs_copy(p->dst, (uint8_t *)s.buf + p->off, p->n);
  fs_scratch_put(&s, err == 0 ? b->key : FS_KEY_NONE, b->plain_len);
  return err;
}
