/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for decoding zstd and shuffled blocks. Each dataset has a few pieces of it in this process.
 * A piece is taken by a try-lock, or else a temporary mapping is made. So nobody waits, and no signal
 * handler waits for the thread that it interrupted.
 *
 * The pieces are not wiped in a forked child: if a signal handler has forked in the middle of a
 * decoding, the child goes on with it. But the pointer to them is wiped, so the child makes pieces of
 * its own: in those of its parent, the locks of other threads would never be released.
 */

#include "client/data_priv.h"
#include "util/util.h"

#define FS_WORK_BYTES (16u << 20) /* of address space for the pieces; memory is used as they are */
#define FS_WORK_MOST 32u
#define FS_WORK_LEAST 2u
#define FS_WORK_DATA 4096u /* offset of the pieces */

struct fs_works {
  _Atomic uint32_t taken[FS_WORK_MOST];
};
static_assert(sizeof(struct fs_works) <= FS_WORK_DATA, "the locks fit before the pieces");

static size_t fs_work_room(const struct fs_dataset *ds) {
  return (size_t)fs_round_up(ds->work_size, 4096);
}

static uint32_t fs_work_count(const struct fs_dataset *ds) {
  size_t count = FS_WORK_BYTES / fs_work_room(ds);
  return (uint32_t)FS_MIN(FS_MAX(count, (size_t)FS_WORK_LEAST), (size_t)FS_WORK_MOST);
}

static struct fs_works *fs_works_of(const struct fs_dataset *ds, void *_Atomic *word) {
  void *works = atomic_load_explicit(word, memory_order_acquire);
  if (works) return works;
  size_t bytes = FS_WORK_DATA + fs_work_count(ds) * fs_work_room(ds);
  void *mine = fs_mem_map(bytes);
  if (mine && !fs_publish_ptr(word, mine, &works)) fs_mem_unmap(mine, bytes);
  return works;
}

/* The first free piece is taken, which the processor's caches may still have. */
static bool fs_work_find(const struct fs_dataset *ds, struct fs_works *works, struct fs_work_hold *hold) {
  for (uint32_t i = 0, n = fs_work_count(ds); i < n; i++) {
    uint32_t none = 0;
    if (atomic_load_explicit(&works->taken[i], memory_order_relaxed) != 0) continue;
    if (!atomic_compare_exchange_strong_explicit(&works->taken[i], &none, 1, memory_order_acquire,
                                                 memory_order_relaxed))
      continue;
    *hold =
        (struct fs_work_hold){.mem = (uint8_t *)works + FS_WORK_DATA + i * fs_work_room(ds), .lock = &works->taken[i]};
    return true;
  }
  return false;
}

fs_err fs_work_take(const struct fs_dataset *ds, uint32_t row, void *_Atomic *word, struct fs_work_hold *hold) {
  *hold = (struct fs_work_hold){0};
  if (!fs_codec_works(&ds->ix.codecs, row)) return 0;
  struct fs_works *works = word ? fs_works_of(ds, word) : NULL;
  if (works && fs_work_find(ds, works, hold)) return 0;
  hold->mapped = fs_work_room(ds);
  hold->mem = fs_mem_map(hold->mapped);
  return hold->mem ? 0 : -ENOMEM;
}

void fs_work_give(const struct fs_work_hold *hold) {
  if (hold->mapped > 0) fs_mem_unmap(hold->mem, hold->mapped);
  if (hold->lock) atomic_store_explicit(hold->lock, 0, memory_order_release);
}
