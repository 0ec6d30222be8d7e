/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts the bytes of a dataset's partitions that no file uses, which is what updates leave behind, and
   those that several blocks of large files use. One thread. */
#include "passes.h"
#include "prepare.h"

struct waste {
  const struct fs_dataset *ds;
  uint32_t partition;
  uint64_t at;      /* end of the blocks so far */
  uint64_t last;    /* offset of the last block of a large file; 0 before the first one */
  bool aligned;     /* the last block is of a large raw file: padded to `align` before and behind it */
  uint64_t unused;  /* bytes */
  uint64_t records; /* stored bytes of the blocks of large files, each place once */
};

static void *waste_begin(void *ctx, uint32_t partition) {
  struct waste *w = ctx;
  w->partition = partition;
  w->at = FS_PART_HEADER_SIZE;
  w->last = 0;
  w->aligned = false;
  return w;
}

/* Adds a gap, but not if it may be padding. */
static void add_gap(struct waste *w, uint64_t end, uint64_t padding) {
  if (end > w->at && end - w->at >= padding) w->unused += end - w->at;
}

static void waste_block(void *state, const struct fs_passes_block *b) {
  struct waste *w = state;
  const struct fs_entry *e = &w->ds->ix.entries[b->entry];
  const bool aligned = b->codec == FS_CODEC_RAW && e->size >= FS_RAW_ALIGN_MIN;
  add_gap(w, b->offset, aligned || w->aligned ? w->ds->ix.hdr->align : 8);
  w->at = FS_MAX(w->at, b->offset + b->stored_len);
  w->aligned = aligned;
  if (!(FS_NAME_FLAGS(e->name) & FS_ENTRY_BLOCKS) || b->offset == w->last) return;
  w->records += b->stored_len;
  w->last = b->offset;
}

static void waste_end(void *state) {
  struct waste *w = state;
  add_gap(w, w->ds->ix.parts[w->partition].size, w->ds->ix.hdr->align);
}

fs_err fs_dataset_waste(const struct fs_dataset *ds, uint64_t *unused, uint64_t *shared) {
  static const struct fs_passes_calls calls = {waste_begin, waste_block, waste_end};
  struct waste w = {.ds = ds};
  uint64_t all = 0;
  fs_err err = fs_passes(&ds->ix, NULL, 1, &calls, &w);
  for (uint64_t i = 0; i < ds->ix.nblocks; i++) all += ds->ix.blocks[i].stored_len;
  *unused = w.unused;
  *shared = all - w.records;
  return err;
}
