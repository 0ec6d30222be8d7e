/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decodes stored bytes to the caller's buffer, and keeps a small cache of decoded blocks, so that
 * small reads of a compressed file do not decode its block again and again. Each dataset has one
 * cache in this process, of FS_DECODED_BYTES in all, or one block each if blocks are larger. A slot
 * is taken by a try-lock: a thread that finds it busy uses another slot or a temporary mapping. So
 * nobody waits, and no signal handler waits for the thread that it interrupted. The cache is empty
 * in a forked child.
 */

#include "client/data_priv.h"
#include "codec/codec.h"
#include "util/util.h"

#define FS_DECODED_BYTES (4u << 20)
#define FS_DECODED_SLOTS 16u
#define FS_DECODED_DATA 4096u /* offset of the slots' bytes */
#define FS_SLOT_TAKEN UINT32_MAX

#define FS_DECODED_HINTS 64u
#define FS_PREFIX_OF 32768u /* no part of a smaller block is decoded alone */

struct fs_dslot {
  _Atomic uint32_t lock; /* number of readers, or FS_SLOT_TAKEN */
  _Atomic uint32_t used; /* read since the hand passed */
  _Atomic uint64_t key;  /* key + 1 of its block, or 0; changes under FS_SLOT_TAKEN only */
  _Atomic int32_t owner; /* the process that put it there: a forked child finds the bytes wiped */
  uint32_t len;          /* how many of the bytes are there, from the block's beginning */
};

struct fs_dcache {
  _Atomic uint32_t hand;
  _Atomic uint32_t spent;                 /* slot + 1 of a block read to its end, or 0 */
  void *_Atomic works;                    /* memory for decoding: work.c */
  _Atomic uint8_t hint[FS_DECODED_HINTS]; /* by a hash of its key: the block's last slot */
  struct fs_dslot slot[FS_DECODED_SLOTS];
};
static_assert(sizeof(struct fs_dcache) <= FS_DECODED_DATA, "the slots' heads fit before their bytes");

static uint32_t fs_dcache_slots(const struct fs_dataset *ds) {
  uint32_t slots = FS_DECODED_BYTES / FS_MAX(fs_mounts(), 1u) / ds->ix.block_size;
  return FS_MIN(FS_MAX(slots, 1u), FS_DECODED_SLOTS);
}

/* Returns the dataset's cache, which the first call makes, or NULL. */
static struct fs_dcache *fs_dcache(struct fs_dataset *ds) {
  void *cache = atomic_load_explicit(&ds->blocks, memory_order_acquire);
  if (FS_LIKELY(cache != NULL)) return cache;
  size_t bytes = FS_DECODED_DATA + (size_t)fs_dcache_slots(ds) * ds->ix.block_size;
  void *mine = fs_mem_map_wiped(bytes);
  if (!mine) return NULL;
  if (!fs_publish_ptr(&ds->blocks, mine, &cache)) fs_mem_unmap(mine, bytes);
  return cache;
}

static uint8_t *fs_slot_bytes(const struct fs_dataset *ds, struct fs_dcache *c, uint32_t i) {
  return (uint8_t *)c + FS_DECODED_DATA + (size_t)i * ds->ix.block_size;
}

/* Ends a reader's use. In a child that was forked meanwhile, the slot was wiped and has no
   readers. */
static void fs_slot_leave(struct fs_dslot *s) {
  uint32_t readers = atomic_load_explicit(&s->lock, memory_order_relaxed);
  while (readers != 0 && readers != FS_SLOT_TAKEN) {
    if (atomic_compare_exchange_weak_explicit(&s->lock, &readers, readers - 1, memory_order_release,
                                              memory_order_relaxed))
      return;
  }
}

/* Becomes a reader of the slot if it holds this block. */
static bool fs_slot_read(struct fs_dslot *s, uint64_t key) {
  uint32_t readers = atomic_load_explicit(&s->lock, memory_order_relaxed);
  if (atomic_load_explicit(&s->key, memory_order_relaxed) != key + 1 || readers >= FS_SLOT_TAKEN - 1) return false;
  if (!atomic_compare_exchange_strong_explicit(&s->lock, &readers, readers + 1, memory_order_acquire,
                                               memory_order_relaxed))
    return false;
  if (atomic_load_explicit(&s->key, memory_order_relaxed) == key + 1) return true;
  fs_slot_leave(s);
  return false;
}

static _Atomic uint8_t *fs_slot_hint(struct fs_dcache *c, uint64_t key) {
  return &c->hint[(key * 0x9e3779b97f4a7c15ull) >> 58];
}

/* Copies the range if slot i holds it. A block whose last byte is read goes first when room is
   needed. So a file that is read to its end passes through one slot, which stays in the processor's
   cache. The copy counts only if no signal handler has forked in the middle of it: in that child
   the rest of the bytes were zeros. */
static bool fs_slot_copy(struct fs_dataset *ds, struct fs_dcache *c, uint32_t i, const struct fs_piece *p) {
  struct fs_dslot *s = &c->slot[i];
  if (!fs_slot_read(s, p->b.key)) return false;
  int32_t owner = atomic_load_explicit(&s->owner, memory_order_relaxed);
  bool found = p->off + p->n <= s->len, end = p->off + p->n == p->b.plain_len;
  if (found) fs_copy(p->dst, fs_slot_bytes(ds, c, i) + p->off, p->n);
  if (FS_UNLIKELY(found && end)) atomic_store_explicit(&c->spent, i + 1, memory_order_relaxed);
  if (!atomic_load_explicit(&s->used, memory_order_relaxed)) atomic_store_explicit(&s->used, 1, memory_order_relaxed);
  fs_slot_leave(s);
  return found && FS_LIKELY(fs_self_process() == owner);
}

bool fs_decoded_copy(struct fs_dataset *ds, const struct fs_piece *p) {
  struct fs_dcache *c = atomic_load_explicit(&ds->blocks, memory_order_acquire);
  if (!c) return false;
  uint32_t n = fs_dcache_slots(ds), hint = atomic_load_explicit(fs_slot_hint(c, p->b.key), memory_order_relaxed);
  if (FS_LIKELY(hint < n && fs_slot_copy(ds, c, hint, p))) return true;
  for (uint32_t i = 0; i < n; i++) {
    if (fs_slot_copy(ds, c, i, p)) return true;
  }
  return false;
}

static bool fs_slot_take(struct fs_dslot *s) {
  uint32_t none = 0;
  if (!atomic_compare_exchange_strong_explicit(&s->lock, &none, FS_SLOT_TAKEN, memory_order_acquire,
                                               memory_order_relaxed))
    return false;
  atomic_store_explicit(&s->key, 0, memory_order_relaxed);
  return true;
}

/* Returns the slot that holds a part of the block, or -1. */
static int32_t fs_slot_of(struct fs_dcache *c, uint32_t n, uint64_t key) {
  for (uint32_t i = 0; i < n; i++) {
    if (atomic_load_explicit(&c->slot[i].key, memory_order_relaxed) == key + 1) return (int32_t)i;
  }
  return -1;
}

/* Returns an empty slot, else one that was read to its end, else by second chance the next that
   nobody reads. */
static int32_t fs_slot_find(struct fs_dcache *c, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (atomic_load_explicit(&c->slot[i].key, memory_order_relaxed) == 0 && fs_slot_take(&c->slot[i]))
      return (int32_t)i;
  }
  uint32_t spent = atomic_exchange_explicit(&c->spent, 0, memory_order_relaxed);
  if (spent > 0 && spent <= n && fs_slot_take(&c->slot[spent - 1])) return (int32_t)spent - 1;
  for (uint32_t tries = 0; tries < 2 * n; tries++) {
    uint32_t i = atomic_fetch_add_explicit(&c->hand, 1, memory_order_relaxed) % n;
    if (atomic_exchange_explicit(&c->slot[i].used, 0, memory_order_relaxed)) continue;
    if (fs_slot_take(&c->slot[i])) return (int32_t)i;
  }
  return -1;
}

/* Like fs_scratch_get. Sets *again if a part of the block was in the cache; its slot is then taken
   if possible. */
static fs_err fs_scratch_for(struct fs_dataset *ds, size_t n, uint64_t key, struct fs_scratch *s, bool *again) {
  struct fs_dcache *c = fs_dcache(ds);
  *s = (struct fs_scratch){.process = fs_self_process()};
  uint32_t slots = fs_dcache_slots(ds);
  int32_t i = c && key != FS_KEY_NONE ? fs_slot_of(c, slots, key) : -1;
  /* Bytes that nobody will look for do not take the only slot from the block that they are decoded
     to. */
  bool find = c && n <= ds->ix.block_size && (slots > 1 || key != FS_KEY_NONE);
  *again = i >= 0;
  if (i < 0 || !fs_slot_take(&c->slot[i])) i = find ? fs_slot_find(c, slots) : -1;
  if (i >= 0) {
    s->slot = &c->slot[i];
    s->hint = key != FS_KEY_NONE ? fs_slot_hint(c, key) : NULL;
    s->number = (uint8_t)i;
    s->buf = fs_slot_bytes(ds, c, (uint32_t)i);
    return 0;
  }
  s->buf = fs_mem_map(n);
  s->mapped = n;
  return s->buf ? 0 : -ENOMEM;
}

fs_err fs_scratch_get(struct fs_dataset *ds, size_t n, struct fs_scratch *s) {
  bool again;
  return fs_scratch_for(ds, n, FS_KEY_NONE, s, &again);
}

bool fs_scratch_wiped(const struct fs_scratch *s) {
  return s->slot && s->process != fs_self_process();
}

void fs_scratch_put(struct fs_scratch *s, uint64_t key, uint32_t len) {
  if (!s->slot) {
    fs_mem_unmap(s->buf, s->mapped);
    return;
  }
  if (fs_scratch_wiped(s)) key = FS_KEY_NONE;
  s->slot->len = len;
  atomic_store_explicit(&s->slot->owner, s->process, memory_order_relaxed);
  atomic_store_explicit(&s->slot->used, key != FS_KEY_NONE, memory_order_relaxed);
  if (key != FS_KEY_NONE && s->hint) atomic_store_explicit(s->hint, s->number, memory_order_relaxed);
  atomic_store_explicit(&s->slot->key, key == FS_KEY_NONE ? 0 : key + 1, memory_order_relaxed);
  atomic_store_explicit(&s->slot->lock, 0, memory_order_release);
}

/*
 * Returns how much of the block to decode for a first small read. At a block's beginning, a program
 * looks at what the file is: a 16th of the block at most is decoded, so that going on from there
 * costs little more. Elsewhere in a large file, a read at random may be the block's only one, so
 * only its part is decoded. From its middle on, and at its second miss, the block is decoded whole.
 * So is a block of which no part can be decoded alone.
 */
static uint32_t fs_prefix_wanted(const struct fs_dataset *ds, const struct fs_piece *p) {
  uint32_t plain = p->b.plain_len, end = (uint32_t)fs_round_up(p->off + p->n, 4096);
  uint32_t most = p->off == 0 ? plain / 16 : p->b.key & FS_KEY_BLOCK ? plain / 2 : 0;
  return plain >= FS_PREFIX_OF && end <= most && fs_codec_partial(&ds->ix.codecs, p->b.codec) ? end : plain;
}

/* Decodes the first len bytes of the block to dst. */
static fs_err fs_decode_to(struct fs_dataset *ds, const void *stored, const struct fs_block *b, void *dst,
                           uint32_t len) {
  struct fs_work_hold hold;
  struct fs_dcache *c = fs_codec_works(&ds->ix.codecs, b->codec) ? fs_dcache(ds) : NULL;
  fs_err err = fs_work_take(ds, b->codec, c ? &c->works : NULL, &hold);
  if (err < 0) return err;
  uint64_t began = fs_decode_begin();
  err = fs_block_decode_prefix(&ds->ix.codecs, b->codec, stored, b->stored_len, dst, b->plain_len, len, hold.mem);
  if (FS_UNLIKELY(began != 0)) fs_decode_count(began, len, b->stored_len);
  fs_work_give(&hold);
  return err;
}

fs_err fs_decode_piece(struct fs_dataset *ds, const void *stored, const struct fs_piece *p) {
  const struct fs_block *b = &p->b;
  struct fs_scratch s;
  bool again;
  if (fs_piece_raw(p)) {
    fs_copy(p->dst, (const uint8_t *)stored + p->off, p->n);
    return 0;
  }
  if (fs_piece_whole(p)) return fs_decode_to(ds, stored, b, p->dst, b->plain_len);
  fs_err err = fs_scratch_for(ds, b->plain_len, b->key, &s, &again);
  if (err < 0) return err;
  uint32_t len = again ? b->plain_len : fs_prefix_wanted(ds, p);
  atomic_fetch_add_explicit(&fs_self()->decodes, 1, memory_order_relaxed);
  err = fs_decode_to(ds, stored, b, s.buf, len);
  if (err == 0) fs_copy(p->dst, (uint8_t *)s.buf + p->off, p->n);
  fs_scratch_put(&s, err == 0 ? b->key : FS_KEY_NONE, len);
  return err;
}
