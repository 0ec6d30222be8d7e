/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts the bytes of a dataset's partitions that no file uses, which is what updates leave behind, and
   those that several blocks of large files use. */
#include <stdlib.h>

#include "prepare.h"

struct piece {
  uint64_t offset, end;
  uint32_t partition;
  bool aligned; /* of a large raw file: padded to `align` before and behind it */
};

static int by_place(const void *va, const void *vb) {
  const struct piece *a = va, *b = vb;
  if (a->partition != b->partition) return a->partition < b->partition ? -1 : 1;
  return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* Stores the pieces that files use, if `out` is not NULL. Returns their number. */
static uint64_t collect(const struct fs_index *ix, struct piece *out) {
  uint64_t n = 0;
  struct fs_block b;
  for (uint64_t i = 0; i < ix->nentries; i++) {
    const struct fs_entry *e = &ix->entries[i];
    const uint64_t count = S_ISREG(e->mode) ? fs_index_block_count(ix, e) : 0;
    const bool aligned = FS_NAME_CODEC(e->name) == FS_CODEC_RAW && e->size >= FS_RAW_ALIGN_MIN;
    for (uint64_t k = 0; k < count; k++) {
      if (fs_index_block(ix, (uint32_t)i, k, &b) < 0) break;
      if (out != NULL) out[n] = (struct piece){b.offset, b.offset + b.stored_len, b.partition, aligned};
      n++;
    }
  }
  return n;
}

/* Returns the unused bytes of a gap. Padding is not counted. */
static uint64_t unused(uint64_t gap, uint64_t padding) {
  return gap >= padding ? gap : 0;
}

/* Adds up the gaps of one partition: before, between and behind its pieces. */
static uint64_t gaps(const struct fs_dataset *ds, uint32_t partition, const struct piece *p, uint64_t n) {
  const uint64_t align = ds->ix.hdr->align;
  uint64_t at = FS_PART_HEADER_SIZE, sum = 0;
  bool aligned = false;
  for (uint64_t i = 0; i < n; i++) {
    if (p[i].offset > at) sum += unused(p[i].offset - at, aligned || p[i].aligned ? align : 8);
    at = FS_MAX(at, p[i].end);
    aligned = p[i].aligned;
  }
  const uint64_t size = ds->ix.parts[partition].size;
  return size > at ? sum + unused(size - at, align) : sum;
}

fs_err fs_dataset_unused(const struct fs_dataset *ds, uint64_t *bytes) {
  const uint64_t n = collect(&ds->ix, NULL);
  uint64_t at = 0;
  *bytes = 0;
  FS_AUTO_FREE struct piece *all = malloc((n + 1) * sizeof *all);
  if (all == NULL) return -ENOMEM;
  collect(&ds->ix, all);
  qsort(all, n, sizeof *all, by_place);
  for (uint32_t p = 0; p < ds->ix.nparts; p++) {
    const uint64_t first = at;
    while (at < n && all[at].partition == p) at++;
    *bytes += gaps(ds, p, all + first, at - first);
  }
  return 0;
}

fs_err fs_dataset_shared(const struct fs_dataset *ds, uint64_t *bytes) {
  const struct fs_block_rec *rec = ds->ix.blocks;
  const uint64_t n = ds->ix.nblocks;
  *bytes = 0;
  FS_AUTO_FREE struct piece *all = malloc((n + 1) * sizeof *all);
  if (all == NULL) return -ENOMEM;
  for (uint64_t i = 0; i < n; i++)
    all[i] = (struct piece){rec[i].offset, rec[i].offset + rec[i].stored_len, rec[i].partition, false};
  qsort(all, n, sizeof *all, by_place);
  for (uint64_t i = 1; i < n; i++)
    if (by_place(&all[i - 1], &all[i]) == 0) *bytes += all[i].end - all[i].offset;
  return 0;
}
