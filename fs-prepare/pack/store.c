/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes the chunks in order and decides their places: equal content is stored once, a segment goes
 * to the least filled partition, large raw files are aligned. One thread, so the result depends on
 * the order only.
 */
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "pack.h"

#define SMALL_ALIGN 8u /* alignment of everything except large raw files */

struct kept_place {
  uint64_t offset;
  uint32_t partition, item;
};

struct fs_seen {
  uint64_t key;
  uint64_t item1; /* item + 1; 0: free */
};

/* Returns a hash of the content, from the blocks' checksums: equal files are stored equally. The
   bytes are compared in any case. */
static uint64_t next_key(uint64_t key, uint64_t xxh3) {
  return key * 0x9e3779b97f4a7c15u + xxh3;
}

static uint64_t content_key(const struct fs_chunk *c) {
  if (c->stored == NULL) return c->key;
  uint64_t key = c->blocks[0].xxh3;
  for (uint32_t i = 1; i < c->nblocks; i++) key = next_key(key, c->blocks[i].xxh3);
  return key;
}

static bool in_one_piece(const struct fs_item *item) {
  for (uint64_t i = 1; i < item->nblocks; i++) {
    const struct fs_built_block *a = &item->blocks[i - 1], *b = &item->blocks[i];
    if (a->partition != b->partition || a->offset + a->stored_len != b->offset) return false;
  }
  return true;
}

static int by_place(const void *va, const void *vb) {
  const struct kept_place *a = va, *b = vb;
  if (a->partition != b->partition) return a->partition < b->partition ? -1 : 1;
  if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
  return a->item < b->item ? -1 : a->item > b->item;
}

/* An update finds new content among what it keeps. Of kept files that share their bytes one is
   enough. A file that was cut is not found: it is no chunk of this run. */
static fs_err see_kept(struct fs_store *s) {
  const struct fs_tree *tree = s->plan->tree;
  FS_AUTO_FREE struct kept_place *place = malloc((tree->n + 1) * sizeof *place);
  size_t n = 0;
  fs_err err = 0;
  if (place == NULL) return -ENOMEM;
  for (size_t i = 0; i < tree->n; i++) {
    const struct fs_item *item = &tree->items[i];
    if (item->kept && item->size <= s->plan->chunk && in_one_piece(item))
      place[n++] = (struct kept_place){item->blocks[0].offset, item->blocks[0].partition, (uint32_t)i};
  }
  qsort(place, n, sizeof *place, by_place);
  for (size_t i = 0; i < n && err == 0; i++)
    if (i == 0 || place[i].partition != place[i - 1].partition || place[i].offset != place[i - 1].offset)
      err = fs_store_seen(s, place[i].item);
  return err;
}

fs_err fs_store_open(struct fs_store *s, const struct fs_plan *plan, int dir, bool resume) {
  *s = (struct fs_store){.plan = plan, .seen_size = 1024};
  s->seen = calloc(s->seen_size, sizeof *s->seen);
  if (s->seen == NULL) return -ENOMEM;
  FS_AUTO_FREE bool *here = NULL;
  if (fs_pack_nodes != NULL && (here = calloc(plan->nparts + plan->nreplicated, sizeof *here)) == NULL) return -ENOMEM;
  fs_err err = plan->update != NULL ? see_kept(s) : 0;
  return err < 0 ? err : fs_parts_create(&s->parts, dir, plan, resume, here);
}

void fs_store_forget(struct fs_store *s) {
  free(s->seen);
  s->seen = NULL;
}

void fs_store_free(struct fs_store *s) {
  fs_store_forget(s);
  fs_parts_free(&s->parts);
}

static void seen_put(struct fs_store *s, const struct fs_seen *e) {
  uint64_t i = e->key & (s->seen_size - 1);
  while (s->seen[i].item1 != 0) i = (i + 1) & (s->seen_size - 1);
  s->seen[i] = *e;
}

static fs_err seen_add(struct fs_store *s, uint64_t key, uint64_t item) {
  if (s->seen_used * 4 >= s->seen_size * 3) {
    struct fs_seen *old = s->seen;
    uint64_t n = s->seen_size;
    s->seen = calloc(n * 2, sizeof *s->seen);
    if (s->seen == NULL) {
      s->seen = old;
      return -ENOMEM;
    }
    s->seen_size = n * 2;
    for (uint64_t i = 0; i < n; i++)
      if (old[i].item1 != 0) seen_put(s, &old[i]);
    free(old);
  }
  struct fs_seen e = {key, item + 1};
  seen_put(s, &e);
  s->seen_used++;
  return 0;
}

/* Decodes the blocks of a whole file. Returns 0 or a negative errno. */
static fs_err decode(const struct fs_store *s, uint32_t row, const uint8_t *stored, const struct fs_chunk_block *blocks,
                     uint64_t size, uint8_t *plain) {
  const uint64_t block_size = s->plan->opts->block_size;
  struct fs_decoder d;
  fs_err err = fs_decoder_open(&d, &s->plan->codecs.row[row], block_size);
  for (uint64_t at = 0; at < size && err == 0; at += block_size) {
    const uint32_t len = blocks[at / block_size].stored_len;
    err = fs_decoder_block(&d, stored, len, plain + at, (size_t)FS_MIN(size - at, block_size));
    stored += len;
  }
  fs_decoder_close(&d);
  return err;
}

/* Like same_bytes, for files of kinds that are encoded differently. */
static int same_decoded(struct fs_store *s, const struct fs_item *item, const struct fs_chunk *c) {
  FS_AUTO_FREE struct fs_chunk_block *blocks = calloc(c->nblocks, sizeof *blocks);
  FS_AUTO_FREE uint8_t *room = malloc(3 * item->size);
  if (blocks == NULL || room == NULL) return -ENOMEM;
  uint64_t stored = 0;
  for (uint32_t i = 0; i < c->nblocks; i++) {
    blocks[i].stored_len = item->blocks[i].stored_len;
    stored += blocks[i].stored_len;
  }
  fs_err err = fs_parts_read(&s->parts, item->blocks[0].partition, item->blocks[0].offset, room, stored);
  if (err == 0) err = decode(s, item->codec, room, blocks, item->size, room + item->size);
  if (err == 0) err = decode(s, c->codec, c->stored, c->blocks, item->size, room + 2 * item->size);
  return err < 0 ? err : memcmp(room + item->size, room + 2 * item->size, item->size) == 0;
}

fs_err fs_store_seen(struct fs_store *s, uint64_t number) {
  const struct fs_item *item = &s->plan->tree->items[number];
  uint64_t key = item->blocks[0].xxh3;
  for (uint64_t i = 1; i < item->nblocks; i++) key = next_key(key, item->blocks[i].xxh3);
  fs_err err = seen_add(s, key, number);
  return err == 0 && item->same != 0 ? seen_add(s, item->same, number) : err;
}

/* Compares the chunk's stored bytes with those of an item that was stored as one chunk. Returns 1
   if equal, 0, or a negative errno. */
static int same_bytes(struct fs_store *s, const struct fs_item *item, const struct fs_chunk *c) {
  if (item->nblocks != c->nblocks) return 0;
  if (item->codec != c->codec && c->stored == NULL) /* the keys are equal too: 128 bits in all */
    return s->plan->opts->codec == FS_CHOOSE_AUTO && item->plain_key == c->plain_key;
  if (item->codec != c->codec) return s->plan->opts->codec == FS_CHOOSE_AUTO ? same_decoded(s, item, c) : 0;
  for (uint32_t i = 0; i < c->nblocks; i++)
    if (item->blocks[i].stored_len != c->blocks[i].stored_len) return 0;
  if (c->stored == NULL) { /* the keys are equal too: 128 bits in all */
    for (uint32_t i = 0; i < c->nblocks; i++)
      if (item->blocks[i].xxh3 != c->blocks[i].xxh3) return 0;
    return 1;
  }
  return fs_parts_equal(&s->parts, item->blocks[0].partition, item->blocks[0].offset, c->stored, c->stored_len);
}

/* Looks for a stored file of the same content. Returns 1 and *found, 0, or a negative errno. */
static int find_same(struct fs_store *s, const struct fs_chunk *c, uint64_t key, uint64_t *found) {
  const struct fs_item *items = s->plan->tree->items, *item = &items[c->item];
  for (uint64_t i = key & (s->seen_size - 1); s->seen[i].item1 != 0; i = (i + 1) & (s->seen_size - 1)) {
    if (s->seen[i].key != key) continue;
    const struct fs_item *other = &items[s->seen[i].item1 - 1];
    if (other->size != item->size || other->replicate != item->replicate) continue;
    int same = same_bytes(s, other, c);
    if (same == 0) continue;
    *found = s->seen[i].item1 - 1;
    return same;
  }
  return 0;
}

static bool is_large_raw(const struct fs_item *item) {
  return item->codec == FS_CODEC_RAW && item->size >= FS_RAW_ALIGN_MIN;
}

static fs_err place(struct fs_store *s, struct fs_item *item, const struct fs_chunk *c) {
  uint64_t align = 1, offset;
  /* A replicated file is not cut. Every node has all replicated partitions, so nothing must be
     balanced, and a file in one piece can be mapped. */
  bool cut = !item->replicate && item->size > s->plan->cut_above && c->offset % s->plan->segment == 0;
  if (c->offset == 0 || cut) {
    s->current = fs_parts_least(&s->parts, item->replicate);
    align = is_large_raw(item) ? s->plan->opts->align : SMALL_ALIGN;
  }
  fs_err err = fs_parts_append(&s->parts, s->current, c->stored, c->stored_len, align, &offset);
  if (err < 0) return err;
  for (uint32_t i = 0; i < c->nblocks; i++) {
    const struct fs_chunk_block *b = &c->blocks[i];
    item->blocks[item->nblocks++] = (struct fs_built_block){offset, b->xxh3, b->stored_len, s->current};
    offset += b->stored_len;
  }
  s->stored_bytes += c->stored_len;
  return 0;
}

/* Pads a file after its last chunk, and records whether it lies in one piece. */
static fs_err finish_item(struct fs_store *s, struct fs_item *item) {
  if (item->codec != FS_CODEC_RAW) return 0;
  bool contig = true;
  for (uint64_t i = 1; i < item->nblocks && contig; i++) {
    const struct fs_built_block *a = &item->blocks[i - 1], *b = &item->blocks[i];
    contig = a->partition == b->partition && a->offset + a->stored_len == b->offset;
  }
  if (contig) item->flags |= FS_ENTRY_CONTIG;
  if (!is_large_raw(item)) return 0;
  if (contig) item->flags |= FS_ENTRY_ALIGNED;
  return fs_parts_pad(&s->parts, s->current, s->plan->opts->align);
}

static fs_err begin_item(const struct fs_store *s, struct fs_item *item, const struct fs_chunk *c) {
  uint64_t block = s->plan->opts->block_size;
  item->codec = c->codec;
  item->plain_key = c->plain_key;
  item->blocks = calloc((item->size + block - 1) / block, sizeof *item->blocks);
  return item->blocks != NULL ? 0 : -ENOMEM;
}

/* Returns true if equal files are found by their plain bytes too: those of another kind may be stored
   in another way. */
static bool other_key(const struct fs_store *s, const struct fs_chunk *c, uint64_t key) {
  return s->plan->opts->codec == FS_CHOOSE_AUTO && c->plain_xxh3 != key;
}

fs_err fs_store_chunk(struct fs_store *s, const struct fs_chunk *c) {
  struct fs_item *item = &s->plan->tree->items[c->item];
  const uint64_t key = c->whole ? content_key(c) : 0;
  if (c->whole) {
    uint64_t found;
    int same = find_same(s, c, key, &found);
    if (same == 0 && other_key(s, c, key)) same = find_same(s, c, c->plain_xxh3, &found);
    if (same < 0) return same;
    if (same > 0) {
      item->alias = true;
      item->same = found;
      return 0;
    }
  }
  fs_err err = c->offset == 0 ? begin_item(s, item, c) : 0;
  if (err == 0) err = place(s, item, c);
  if (err == 0 && c->offset + c->plain_len == item->size) err = finish_item(s, item);
  if (err == 0 && c->whole) err = seen_add(s, key, c->item);
  if (err < 0 || !c->whole || !other_key(s, c, key)) return err;
  item->same = c->plain_xxh3;
  return seen_add(s, c->plain_xxh3, c->item);
}
