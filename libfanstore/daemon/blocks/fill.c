/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fills the cache while nobody reads from other nodes (fs-launch --prefetch idle): at the start, while
 * an accelerator computes, and between two epochs. Fetches the blocks of other nodes in the index's
 * order, a few at a time, and each node begins at another place. Ends when the cache in memory and
 * the one on disk have no more room, or when all blocks were looked at. The MPI thread's.
 */
#include "daemon/blocks/disk.h"
#include "util/util.h"

#define FS_FILL_FLYING 4u          /* blocks under way at once, so that a read waits for few */
#define FS_FILL_IDLE_NS 2000000ull /* time since a read or a hint last waited */
#define FS_FILL_LOOK 4096u         /* entries of the index in one round */

/* Finds the next block of the dataset that only other nodes have staged. Returns 1, 0 at the end of
   the dataset, or -1 if so many entries were looked at that the next round goes on. */
static int fs_fill_find(struct fs_daemon *d, const struct fs_dataset *ds, uint32_t *looked, struct fs_block *b) {
  struct fs_fill *s = &d->fill;
  const struct fs_index *ix = &ds->stage.index;
  for (; s->seen < ix->nentries; s->seen++, s->block = 0) {
    uint64_t n = (s->seen + ix->nentries * d->net->rank / d->net->nodes) % ix->nentries;
    if (++*looked > FS_FILL_LOOK) return -1;
    while (fs_index_block(ix, (uint32_t)n, s->block, b) == 0) {
      s->block++;
      if (b->partition >= ds->partitions || b->stored_len == 0) continue;
      const struct fs_placement *p = &ds->place[b->partition];
      if (p->owners > 0 && !(p->flags & FS_PLACE_LOCAL)) return 1;
    }
  }
  return 0;
}

/* Returns true and the key of the next block, in whichever dataset. */
static bool fs_fill_next(struct fs_daemon *d, uint32_t *looked, uint64_t *key) {
  struct fs_fill *s = &d->fill;
  struct fs_block b;
  int found = 0;
  while (s->dataset < d->datasets && (found = fs_fill_find(d, &d->data[s->dataset], looked, &b)) == 0) {
    s->dataset++;
    s->seen = s->block = 0;
  }
  /* the analyzer takes the 64 bits of the shift for 32 */
  if (found > 0) *key = FS_CACHE_KEY(s->dataset, b.key); // NOLINT(clang-analyzer-core.UndefinedBinaryOperatorResult)
  s->done = s->dataset == d->datasets;
  return found > 0;
}

/* Returns whether there is room for a block. If there will never be, the filling is done. */
static bool fs_fill_room(struct fs_daemon *d) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < d->datasets; i++) most = FS_MAX(most, d->data[i].max_stored);
  if (fs_cache_spare(d->cache, most) || fs_disk_room(d, most) > 0) return true;
  d->fill.done = fs_disk_room(d, most) < 0;
  return false;
}

int fs_fill_run(struct fs_daemon *d) {
  struct fs_fill *s = &d->fill;
  const struct fs_fetcher *t = d->fetcher;
  uint32_t looked = 0;
  uint64_t key;
  int n = 0;
  if (!d->cfg->fill || s->done || atomic_load_explicit(&d->clients.attached, memory_order_relaxed) == 0) return 0;
  if (t->live > t->ahead || t->prefetch.count > 0) s->read_at = d->now;
  if (d->now < s->read_at + FS_FILL_IDLE_NS) return 0;
  while (t->ahead < FS_FILL_FLYING && fs_fill_room(d) && fs_fill_next(d, &looked, &key))
    n += fs_fetch_ahead(d, key, true);
  return n;
}
