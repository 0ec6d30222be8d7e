/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fetches blocks of a dataset's file ahead, on a hint of the program. Remote blocks go as keys into
 * a queue of this process's channel. The daemon takes them after what reads wait for. The kernel
 * gets a hint for local and shared blocks. No locks, no allocation.
 */
#include "client/data_priv.h"

/* Several blocks that lie behind one another in a partition are one hint. */
struct fs_hint {
  struct fs_block b;
  bool local, any;
};

static void fs_hint_give(struct fs_dataset *ds, struct fs_hint *h) {
  if (!h->any) return;
  if (h->local)
    fs_local_willneed(ds, &h->b);
  else
    fs_shared_willneed(ds, &h->b);
  h->any = false;
}

static void fs_hint_add(struct fs_dataset *ds, struct fs_hint *h, const struct fs_block *b, bool local) {
  bool next = h->any && h->local == local && h->b.partition == b->partition &&
              h->b.offset + h->b.stored_len == b->offset && h->b.stored_len <= UINT32_MAX - b->stored_len;
  if (next) {
    h->b.stored_len += b->stored_len;
    return;
  }
  fs_hint_give(ds, h);
  *h = (struct fs_hint){.b = *b, .local = local, .any = true};
}

static fs_err fs_prefetch_block(struct fs_dataset *ds, struct fs_link *link, const struct fs_block *b,
                                struct fs_hint *h) {
  bool local = fs_is_local(ds, b->partition);
  if (!local && link && fs_is_remote(ds, b->partition)) return fs_remote_want(ds, link, b);
  fs_hint_add(ds, h, b, local);
  return 0;
}

fs_err fs_dataset_prefetch_from(uint32_t mount, uint32_t entry, uint64_t *off, uint64_t end) {
  fs_err err = 0;
  struct fs_hint hint = {.any = false};
  struct fs_dataset *ds = fs_dataset(mount, &err);
  const struct fs_entry *e = ds ? fs_index_entry(&ds->ix, entry) : NULL;
  if (!e) return ds ? -EUCLEAN : err;
  if (!S_ISREG(e->mode)) return -EUCLEAN;
  struct fs_link *link = ds->node ? fs_link_get() : NULL;
  end = FS_MIN(end, e->size);
  for (unsigned k = 0; *off < end && k < FS_PREFETCH_BLOCKS; k++) {
    struct fs_block b;
    uint64_t i = *off >> ds->ix.block_shift;
    err = fs_index_block(&ds->ix, entry, i, &b);
    if (err == 0) err = fs_prefetch_block(ds, link, &b, &hint);
    if (err < 0) break;
    *off = (i + 1) << ds->ix.block_shift;
  }
  fs_hint_give(ds, &hint);
  if (link) fs_remote_ring(ds, link);
  return err;
}
