/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which stored blocks were compared with their checksums. Each is compared at its first use in a
 * process. There is one bit for each block and kind of copy, since the staged and the shared copy
 * of a block may be damaged independently. FANSTORE_VERIFY says which copies are checked at all
 * (ipc/node.h). data.c, shared.c and materialize.c call this. No locks.
 */
#include "client/data_priv.h"
#include "util/util.h"

static _Atomic uint8_t *fs_checked_bits(struct fs_dataset *ds, enum fs_check which) {
  void *bits = atomic_load_explicit(&ds->checked[which], memory_order_acquire);
  if (FS_LIKELY(bits != NULL)) return bits;
  size_t bytes = (size_t)((ds->ix.nentries + ds->ix.nblocks) / 8 + 1);
  void *mine = fs_mem_map_shared(bytes);
  if (mine && !fs_publish_ptr(&ds->checked[which], mine, &bits)) fs_mem_unmap(mine, bytes);
  return mine ? bits : NULL;
}

static uint64_t fs_checked_bit(const struct fs_dataset *ds, uint64_t key) {
  return key & FS_KEY_BLOCK ? ds->ix.nentries + (key & ~FS_KEY_BLOCK) : key;
}

void fs_checked_start(struct fs_dataset *ds) {
  if (ds->verify == FS_VERIFY_ALWAYS) fs_checked_bits(ds, FS_CHECK_LOCAL);
}

bool fs_checked(struct fs_dataset *ds, enum fs_check which, uint64_t key) {
  if (!fs_is_verified(ds, which)) return true;
  _Atomic uint8_t *bits = fs_checked_bits(ds, which);
  uint64_t i = fs_checked_bit(ds, key);
  return bits && (atomic_load_explicit(&bits[i / 8], memory_order_relaxed) >> (i % 8) & 1);
}

fs_err fs_check_block(struct fs_dataset *ds, enum fs_check which, const struct fs_block *b, const void *stored,
                      const struct fs_scratch *in) {
  if (fs_checked(ds, which, b->key)) return 0;
  if (fs_xxh3(stored, b->stored_len) != b->xxh3) {
    if (in && fs_scratch_wiped(in)) return -EAGAIN;
    fs_count(FS_C_DAMAGED, 1);
    return -EBADMSG;
  }
  _Atomic uint8_t *bits = fs_checked_bits(ds, which);
  uint64_t i = fs_checked_bit(ds, b->key);
  if (bits) atomic_fetch_or_explicit(&bits[i / 8], (uint8_t)(1u << (i % 8)), memory_order_relaxed);
  return 0;
}

bool fs_checked_range(struct fs_dataset *ds, enum fs_check which, uint32_t entry, uint64_t off, size_t n) {
  const struct fs_entry *e = &ds->ix.entries[entry];
  uint64_t key = FS_NAME_FLAGS(e->name) & FS_ENTRY_BLOCKS ? FS_KEY_BLOCK | e->data : entry;
  uint64_t last = (off + n - 1) >> ds->ix.block_shift;
  if (!fs_is_verified(ds, which)) return true;
  for (uint64_t i = off >> ds->ix.block_shift; i <= last; i++) {
    if (!fs_checked(ds, which, key + i)) return false;
  }
  return true;
}
