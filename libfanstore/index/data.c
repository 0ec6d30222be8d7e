/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The builder's data: checks the blocks against the partitions, numbers the block records and the
 * symlink targets, and computes the totals. Files of equal content share block records. Called once
 * by fs_builder_finish. One thread.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "index/build.h"
#include "util/util.h"

static fs_err fs_check_blocks(const struct fs_layout *l, const struct fs_node *node) {
  for (uint64_t i = 0; i < fs_node_nblocks(l->b, node); i++) {
    const struct fs_built_block *block = &node->blocks[i];
    if (block->partition >= l->b->nparts) return fs_layout_refuse(l, "a block is in no partition", node);
    uint64_t size = l->b->parts[block->partition].size;
    if (block->offset < FS_PART_HEADER_SIZE || block->offset > size || block->stored_len > size - block->offset)
      return fs_layout_refuse(l, "a block lies outside its partition", node);
  }
  return 0;
}

/* An open hash table of the files that own block records, keyed by the place of their first
   block. */
struct fs_owners {
  uint32_t *slots; /* entry number + 1 */
  uint64_t mask;
};

/* Gives the node the records of an earlier file with the same blocks, or new ones. */
static void fs_share_records(struct fs_layout *l, struct fs_owners *owners, uint32_t entry) {
  struct fs_node *node = l->sorted[entry];
  const uint64_t nblocks = fs_node_nblocks(l->b, node);
  const uint64_t place[2] = {node->blocks[0].offset, node->blocks[0].partition};
  uint64_t at = fs_xxh3(place, sizeof(place)) & owners->mask;
  for (; owners->slots[at] != 0; at = (at + 1) & owners->mask) {
    const struct fs_node *other = l->sorted[owners->slots[at] - 1];
    if (fs_node_nblocks(l->b, other) == nblocks &&
        memcmp(other->blocks, node->blocks, nblocks * sizeof(*node->blocks)) == 0) {
      node->first = other->first;
      node->blocks = NULL; /* shares the other file's records */
      return;
    }
  }
  owners->slots[at] = entry + 1;
  node->first = l->nblocks;
  l->nblocks += nblocks;
}

static fs_err fs_number_records(struct fs_layout *l) {
  uint64_t many = 0, room = 2;
  for (uint64_t i = 0; i < l->n; i++) many += fs_node_has_records(l->b, l->sorted[i]);
  if (many == 0) return 0;
  while (room < many * 2) room *= 2;
  FS_AUTO_FREE uint32_t *slots = calloc(room, sizeof(*slots));
  struct fs_owners owners = {slots, room - 1};
  if (!slots) return -ENOMEM;
  for (uint64_t i = 0; i < l->n; i++) {
    struct fs_node *node = l->sorted[i];
    if (!fs_node_has_records(l->b, node)) continue;
    if (node->inode == i)
      fs_share_records(l, &owners, (uint32_t)i);
    else
      node->first = l->sorted[node->inode]->first;
  }
  return 0;
}

/* A block of a node, by numbers: there may be millions. */
struct fs_block_ref {
  uint32_t node, block;
};

static int fs_block_order(const void *pa, const void *pb, void *ctx) {
  const struct fs_block_ref *ra = pa, *rb = pb;
  const struct fs_layout *l = ctx;
  const struct fs_built_block *a = &l->sorted[ra->node]->blocks[ra->block];
  const struct fs_built_block *b = &l->sorted[rb->node]->blocks[rb->block];
  if (a->partition != b->partition) return a->partition < b->partition ? -1 : 1;
  return (a->offset > b->offset) - (a->offset < b->offset);
}

/* Sums the stored bytes. A block that several files share counts once. */
static fs_err fs_sum_stored(struct fs_layout *l) {
  uint64_t count = 0;
  for (uint64_t i = 0; i < l->n; i++) {
    uint64_t nblocks = fs_node_nblocks(l->b, l->sorted[i]);
    if (nblocks > UINT32_MAX) return fs_layout_refuse(l, "has too many blocks", l->sorted[i]);
    count += l->sorted[i]->inode == i ? nblocks : 0;
  }
  if (count == 0) return 0;
  FS_AUTO_FREE struct fs_block_ref *all = malloc(count * sizeof(*all));
  if (!all) return -ENOMEM;
  count = 0;
  for (uint64_t i = 0; i < l->n; i++) {
    uint64_t nblocks = l->sorted[i]->inode == i ? fs_node_nblocks(l->b, l->sorted[i]) : 0;
    for (uint64_t k = 0; k < nblocks; k++) all[count++] = (struct fs_block_ref){(uint32_t)i, (uint32_t)k};
  }
  qsort_r(all, count, sizeof(*all), fs_block_order, l);
  for (uint64_t i = 0; i < count; i++) {
    if (i > 0 && fs_block_order(&all[i - 1], &all[i], l) == 0) continue;
    l->hdr.stored_bytes += l->sorted[all[i].node]->blocks[all[i].block].stored_len;
  }
  return 0;
}

fs_err fs_layout_data(struct fs_layout *l) {
  for (uint64_t i = 0; i < l->n; i++) {
    struct fs_node *node = l->sorted[i];
    fs_err err = fs_check_blocks(l, node);
    if (err < 0) return err;
    bool own = node->inode == i;
    l->names_size += node->name_len;
    l->hdr.max_depth = FS_MAX(l->hdr.max_depth, (uint32_t)node->depth);
    if (S_ISREG(node->mode)) {
      l->hdr.files++;
      l->hdr.plain_bytes += own ? node->size : 0;
    } else if (S_ISDIR(node->mode)) {
      l->hdr.dirs++;
    } else {
      l->hdr.symlinks++;
      node->first = own ? l->targets_size : l->sorted[node->inode]->first;
      l->targets_size += own ? node->size : 0;
    }
  }
  fs_err err = fs_sum_stored(l);
  return err < 0 ? err : fs_number_records(l);
}
