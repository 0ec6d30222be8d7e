/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The builder's data: checks the blocks against the partitions, numbers the block records, and
 * computes the totals. Files of equal content share block records. Called once in each run of the
 * builder. One thread.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "index/build.h"
#include "util/util.h"

static fs_err fs_check_blocks(const struct fs_layout *l, const struct fs_build_file *f) {
  for (uint64_t i = 0; S_ISREG(f->mode) && i < f->nblocks; i++) {
    const struct fs_built_block *block = &f->blocks[i];
    if (block->partition >= l->b->nparts) return fs_layout_refuse(l, "a block is in no partition", f);
    uint64_t size = l->b->parts[block->partition].size;
    if (block->offset < FS_PART_HEADER_SIZE || block->offset > size || block->stored_len > size - block->offset)
      return fs_layout_refuse(l, "a block lies outside its partition", f);
  }
  return 0;
}

/* Calls fn for each entry, the first hard link of each group only. Stops at an error. */
typedef fs_err fs_each_fn(struct fs_layout *l, uint64_t i, const struct fs_build_file *f, void *ctx);
static fs_err fs_each_inode(struct fs_layout *l, fs_each_fn *fn, void *ctx) {
  struct fs_build_file f;
  uint64_t next = 0; /* of the members, which come by entries */
  fs_err err = 0;
  for (uint64_t i = 0; i < l->n && err == 0; i++) {
    const bool member = next < l->nmembers && l->members[next].entry == i;
    if (!member || l->members[next].inode == i) {
      fs_layout_get(l, i, &f);
      err = fn(l, i, &f, ctx);
    }
    next += member;
  }
  return err;
}

/* ---- block records ---- */

/* Returns the slot of the file's records, which may be empty. */
static uint32_t *fs_owner_slot(const struct fs_layout *l, const struct fs_build_file *f) {
  const uint64_t place[2] = {f->blocks[0].offset, f->blocks[0].partition};
  uint64_t at = fs_xxh3(place, sizeof(place)) & l->slot_mask;
  for (; l->slots[at] != 0; at = (at + 1) & l->slot_mask) {
    struct fs_build_file other;
    fs_layout_get(l, l->owners[l->slots[at] - 1].entry, &other);
    if (other.nblocks == f->nblocks && memcmp(other.blocks, f->blocks, f->nblocks * sizeof(*f->blocks)) == 0) break;
  }
  return &l->slots[at];
}

const struct fs_owner *fs_layout_owner(const struct fs_layout *l, const struct fs_build_file *f) {
  const uint32_t slot = l->slots ? *fs_owner_slot(l, f) : 0;
  return slot != 0 ? &l->owners[slot - 1] : NULL;
}

static fs_err fs_count_owner(struct fs_layout *l, uint64_t i, const struct fs_build_file *f, void *ctx) {
  (void)l, (void)i;
  *(uint64_t *)ctx += fs_has_records(f);
  return 0;
}

/* Gives the file new records, unless an earlier one has the same. */
static fs_err fs_number_owner(struct fs_layout *l, uint64_t i, const struct fs_build_file *f, void *ctx) {
  (void)ctx;
  if (!fs_has_records(f)) return 0;
  uint32_t *slot = fs_owner_slot(l, f);
  if (*slot != 0) return 0;
  l->owners[l->nowners++] = (struct fs_owner){.first = l->nblocks, .entry = (uint32_t)i};
  *slot = (uint32_t)l->nowners;
  l->nblocks += f->nblocks;
  return 0;
}

static fs_err fs_number_records(struct fs_layout *l) {
  uint64_t many = 0, room = 2;
  fs_each_inode(l, fs_count_owner, &many);
  if (many == 0) return 0;
  while (room * 3 < many * 4) room *= 2;
  l->slots = calloc(room, sizeof(*l->slots));
  l->owners = malloc(many * sizeof(*l->owners));
  l->slot_mask = room - 1;
  return l->slots && l->owners ? fs_each_inode(l, fs_number_owner, NULL) : -ENOMEM;
}

/* ---- the totals ---- */

/* A block of an entry, by numbers: there may be millions. */
struct fs_block_ref {
  uint32_t entry, block;
};
struct fs_block_refs {
  struct fs_block_ref *all;
  uint64_t n;
};

static struct fs_built_block fs_block_of(const struct fs_layout *l, const struct fs_block_ref *ref) {
  struct fs_build_file f;
  fs_layout_get(l, ref->entry, &f);
  return f.blocks[ref->block];
}

static int fs_block_order(const void *pa, const void *pb, void *ctx) {
  const struct fs_built_block a = fs_block_of(ctx, pa), b = fs_block_of(ctx, pb);
  if (a.partition != b.partition) return a.partition < b.partition ? -1 : 1;
  return (a.offset > b.offset) - (a.offset < b.offset);
}

static fs_err fs_list_blocks(struct fs_layout *l, uint64_t i, const struct fs_build_file *f, void *ctx) {
  struct fs_block_refs *refs = ctx;
  if (f->nblocks > UINT32_MAX) return fs_layout_refuse(l, "has too many blocks", f);
  for (uint64_t k = 0; refs->all && k < f->nblocks; k++)
    refs->all[refs->n + k] = (struct fs_block_ref){(uint32_t)i, (uint32_t)k};
  refs->n += f->nblocks;
  return 0;
}

/* Sums the stored bytes. A block that several files share counts once. */
static fs_err fs_sum_stored(struct fs_layout *l) {
  struct fs_block_refs refs = {0};
  fs_err err = fs_each_inode(l, fs_list_blocks, &refs);
  if (err < 0 || refs.n == 0) return err;
  FS_AUTO_FREE struct fs_block_ref *all = refs.all = malloc(refs.n * sizeof(*all));
  if (!all) return -ENOMEM;
  refs.n = 0;
  fs_each_inode(l, fs_list_blocks, &refs);
  qsort_r(all, refs.n, sizeof(*all), fs_block_order, l);
  for (uint64_t i = 0; i < refs.n; i++) {
    if (i > 0 && fs_block_order(&all[i - 1], &all[i], l) == 0) continue;
    l->hdr.stored_bytes += fs_block_of(l, &all[i]).stored_len;
  }
  return 0;
}

static fs_err fs_count_inode(struct fs_layout *l, uint64_t i, const struct fs_build_file *f, void *ctx) {
  (void)i, (void)ctx;
  if (S_ISREG(f->mode)) l->hdr.plain_bytes += f->size;
  if (S_ISLNK(f->mode)) l->targets_size += strlen(f->target);
  return 0;
}

fs_err fs_layout_data(struct fs_layout *l) {
  struct fs_build_file f;
  for (uint64_t i = 0; i < l->n; i++) {
    fs_layout_get(l, i, &f);
    fs_err err = fs_check_blocks(l, &f);
    if (err < 0) return err;
    l->names_size += fs_name_len(f.path, strlen(f.path));
    l->hdr.files += S_ISREG(f.mode);
    l->hdr.dirs += S_ISDIR(f.mode);
    l->hdr.symlinks += S_ISLNK(f.mode);
  }
  fs_each_inode(l, fs_count_inode, NULL);
  fs_err err = fs_sum_stored(l);
  return err < 0 ? err : fs_number_records(l);
}
