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

/*
 * The places of blocks, of which files may share some. There may be any number of them. So a pass over
 * all entries looks at the places in [from, to) only, and has them in a hash table of bounded size. If
 * they are too many for it, the pass is repeated with the lower half of [from, to). If they are few, the
 * next pass takes twice as wide a range, since some blocks are small and others large.
 */
#define FS_PLACES (1u << 20) /* slots of the table, at most */
struct fs_places {
  uint64_t *slot; /* place + 1; 0: free */
  uint64_t size, used;
  const uint64_t *base; /* of each partition: the sizes of those before it */
  uint64_t from, to;
  uint64_t sum; /* of the stored bytes in this pass */
};

/* Adds a block, unless its place is there. Returns false if the table is full. */
static bool fs_places_add(struct fs_places *p, uint64_t place, uint32_t stored_len) {
  const uint64_t hash = (place + 1) * 0x9e3779b97f4a7c15u;
  for (uint64_t i = ((hash >> 32) * p->size) >> 32;; i = i + 1 < p->size ? i + 1 : 0) {
    if (p->slot[i] == place + 1) return true;
    if (p->slot[i] != 0) continue;
    if (p->used * 4 >= p->size * 3) return false;
    p->slot[i] = place + 1;
    p->used++;
    p->sum += stored_len;
    return true;
  }
}

static fs_err fs_add_places(struct fs_layout *l, uint64_t i, const struct fs_build_file *f, void *ctx) {
  struct fs_places *p = ctx;
  (void)l, (void)i;
  for (uint64_t k = 0; k < f->nblocks; k++) {
    const struct fs_built_block *b = &f->blocks[k];
    const uint64_t place = p->base[b->partition] + b->offset;
    if (place >= p->from && place < p->to && !fs_places_add(p, place, b->stored_len)) return -EAGAIN;
  }
  return 0;
}

/* Prepares the next pass: behind this one, or if it was too wide for the table, over its lower half. */
static void fs_places_next(struct fs_places *p, bool fits, uint64_t end) {
  const uint64_t width = p->to - p->from;
  uint64_t next = width;
  if (!fits) next = (width + 1) / 2;
  if (fits && p->used * 8 <= p->size * 3) next += FS_MIN(width, end); /* half of what it holds */
  if (fits) p->from = p->to;
  p->to = p->from + FS_MIN(next, end - p->from);
  p->used = p->sum = 0;
}

static fs_err fs_count_blocks(struct fs_layout *l, uint64_t i, const struct fs_build_file *f, void *ctx) {
  (void)l, (void)i;
  *(uint64_t *)ctx += f->nblocks;
  return 0;
}

/* Sums the stored bytes. A block that several files share counts once. */
static fs_err fs_sum_stored(struct fs_layout *l) {
  FS_AUTO_FREE uint64_t *base = malloc((l->b->nparts + 1) * sizeof(*base));
  uint64_t end = 0, blocks = 0;
  if (!base) return -ENOMEM;
  for (uint64_t k = 0; k < l->b->nparts; k++) {
    base[k] = end;
    end += l->b->parts[k].size;
  }
  fs_each_inode(l, fs_count_blocks, &blocks);
  struct fs_places p = {.size = FS_MIN(blocks + blocks / 3 + 4, (uint64_t)FS_PLACES), .base = base, .to = end};
  FS_AUTO_FREE uint64_t *slot = p.slot = calloc(p.size, sizeof(*slot));
  if (!slot) return -ENOMEM;
  while (p.from < end) {
    const bool fits = fs_each_inode(l, fs_add_places, &p) == 0;
    if (fits) l->hdr.stored_bytes += p.sum;
    fs_places_next(&p, fits, end);
    if (p.from < end) memset(slot, 0, p.size * sizeof(*slot));
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
