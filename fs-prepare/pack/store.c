/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes the chunks in order and decides their places: equal content is stored once, a segment goes
 * to the least filled partition, large raw files are aligned. One thread, so the result depends on
 * the order only.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "store.h"

#define FORGET 1024u   /* chunks after which the pages of their blocks are given back */
#define SMALL_ALIGN 8u /* alignment of everything except large raw files */

struct kept_place {
  uint64_t offset;
  uint32_t partition, item;
};

/* A slot of an open hash table of content. There may be millions, so it has half of the key only. */
struct fs_seen {
  uint32_t key;   /* the upper half */
  uint32_t item1; /* item + 1; 0: free */
};

/* Returns a hash of the content, from the blocks' checksums: equal files are stored equally. The
   bytes are compared in any case. */
static uint64_t next_key(uint64_t key, uint64_t xxh3) {
  return key * 0x9e3779b97f4a7c15u + xxh3;
}

static uint64_t content_key(const struct fs_chunk *c) {
  uint64_t key = c->blocks[0].xxh3;
  for (uint32_t i = 1; i < c->nblocks; i++) key = next_key(key, c->blocks[i].xxh3);
  return key;
}

static int by_place(const void *va, const void *vb) {
  const struct kept_place *a = va, *b = vb;
  if (a->partition != b->partition) return a->partition < b->partition ? -1 : 1;
  if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
  return a->item < b->item ? -1 : a->item > b->item;
}

/* An update finds new content among what it keeps, if it can read that. Of kept files that share their bytes one is
   enough. A file that was cut is not found: it is no chunk of this run. */
static fs_err see_kept(struct fs_store *s) {
  const struct fs_tree *tree = s->plan->tree;
  FS_AUTO_FREE struct kept_place *place = malloc((tree->n + 1) * sizeof *place);
  size_t n = 0;
  fs_err err = 0;
  if (place == NULL) return -ENOMEM;
  for (size_t i = 0; i < tree->n; i++) {
    const struct fs_item *item = &tree->items[i];
    if (item->kept && item->size <= s->plan->chunk && fs_item_in_one_piece(item))
      place[n++] = (struct kept_place){fs_item_block(item, 0)->offset, fs_item_block(item, 0)->partition, (uint32_t)i};
  }
  qsort(place, n, sizeof *place, by_place);
  for (size_t i = 0; i < n && err == 0; i++)
    if (i == 0 || place[i].partition != place[i - 1].partition || place[i].offset != place[i - 1].offset)
      err = fs_store_seen(s, place[i].item, 0);
  return err;
}

fs_err fs_store_open(struct fs_store *s, const struct fs_plan *plan, int dir, bool resume) {
  *s = (struct fs_store){.plan = plan, .seen_size = FS_MAX(plan->norder + plan->norder / 2, 1024u)};
  s->seen = calloc(s->seen_size, sizeof *s->seen);
  if (fs_pack_nodes != NULL) s->keys = calloc(plan->tree->n, sizeof *s->keys);
  if (s->seen == NULL || (fs_pack_nodes != NULL && s->keys == NULL)) return -ENOMEM;
  FS_AUTO_FREE bool *here = NULL;
  if (fs_pack_nodes != NULL && (here = calloc(plan->nparts + plan->nreplicated + 1u, sizeof *here)) == NULL)
    return -ENOMEM;
  fs_err err = plan->update != NULL && !plan->update->on_nodes ? see_kept(s) : 0;
  if (err == 0) err = fs_chunks_open(s);
  return err < 0 ? err : fs_parts_create(&s->parts, dir, plan, resume, here);
}

void fs_store_forget(struct fs_store *s) {
  free(s->seen);
  free(s->keys);
  s->seen = NULL;
  s->keys = NULL;
  fs_chunks_free(s);
  malloc_trim(0);
}

void fs_store_free(struct fs_store *s) {
  fs_store_forget(s);
  fs_parts_free(&s->parts);
}

/* Returns the slot at which the search for half a key begins. */
static uint64_t slot_of(const struct fs_store *s, uint32_t key) {
  return (key * s->seen_size) >> 32;
}

static uint64_t slot_after(const struct fs_store *s, uint64_t slot) {
  return slot + 1 < s->seen_size ? slot + 1 : 0;
}

static void seen_put(struct fs_store *s, const struct fs_seen *e) {
  uint64_t i = slot_of(s, e->key);
  while (s->seen[i].item1 != 0) i = slot_after(s, i);
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
  struct fs_seen e = {(uint32_t)(key >> 32), (uint32_t)(item + 1)};
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

/* Reads the stored bytes of a file that was one chunk back. Returns their number, or a negative errno. */
static fs_ssize read_stored(struct fs_store *s, const struct fs_item *item, uint8_t *stored) {
  uint64_t n = 0;
  for (uint64_t i = 0; i < fs_item_nblocks(item); i++) n += fs_item_block(item, i)->stored_len;
  const struct fs_built_block *first = fs_item_block(item, 0);
  fs_err err = fs_parts_read(&s->parts, first->partition, first->offset, stored, n);
  return err < 0 ? err : (fs_ssize)n;
}

/* Does the same, and decodes them to `plain`. `stored` has room for the file's size. */
static fs_err read_decoded(struct fs_store *s, const struct fs_item *item, uint8_t *stored, uint8_t *plain) {
  FS_AUTO_FREE struct fs_chunk_block *blocks = calloc(fs_item_nblocks(item), sizeof *blocks);
  if (blocks == NULL) return -ENOMEM;
  for (uint64_t i = 0; i < fs_item_nblocks(item); i++) blocks[i].stored_len = fs_item_block(item, i)->stored_len;
  fs_ssize n = read_stored(s, item, stored);
  return n < 0 ? (fs_err)n : decode(s, item->codec, stored, blocks, item->size, plain);
}

/* Like same_bytes, for files of kinds that are encoded differently. */
static int same_decoded(struct fs_store *s, const struct fs_item *item, const struct fs_chunk *c) {
  FS_AUTO_FREE uint8_t *room = malloc(3 * item->size);
  if (room == NULL) return -ENOMEM;
  uint8_t *one = room + item->size, *other = one + item->size;
  fs_err err = read_decoded(s, item, room, one);
  if (err == 0) err = decode(s, c->codec, c->stored, c->blocks, item->size, other);
  return err < 0 ? err : memcmp(one, other, item->size) == 0;
}

fs_err fs_store_seen(struct fs_store *s, uint64_t number, uint64_t plain_xxh3) {
  const struct fs_item *item = &s->plan->tree->items[number];
  uint64_t key = fs_item_block(item, 0)->xxh3;
  for (uint64_t i = 1; i < fs_item_nblocks(item); i++) key = next_key(key, fs_item_block(item, i)->xxh3);
  return seen_add(s, plain_xxh3 != 0 ? plain_xxh3 : key, number);
}

/* Returns true if equal files are found by their plain bytes: those of another kind may be stored in another
   way. Of files that an update keeps, only the stored bytes have a hash. */
static bool by_plain(const struct fs_store *s) {
  return s->plan->opts->codec == FS_CHOOSE_AUTO;
}

/* Compares the chunk's stored bytes with those of an item that was stored as one chunk. Returns 1
   if equal, 0, or a negative errno. */
static int same_bytes(struct fs_store *s, const struct fs_item *item, const struct fs_chunk *c) {
  if (fs_item_nblocks(item) != c->nblocks) return 0;
  if (item->codec != c->codec) return by_plain(s) ? same_decoded(s, item, c) : 0;
  for (uint32_t i = 0; i < c->nblocks; i++) {
    const struct fs_built_block *b = fs_item_block(item, i);
    if (b->stored_len != c->blocks[i].stored_len || b->xxh3 != c->blocks[i].xxh3) return 0;
  }
  const struct fs_built_block *first = fs_item_block(item, 0);
  return fs_parts_equal(&s->parts, first->partition, first->offset, c->stored, c->stored_len);
}

/* Like same_keys, for a file of the dataset that is updated: its bytes can be read here. */
static int same_kept(struct fs_store *s, const struct fs_item *item, const struct fs_chunk *c) {
  FS_AUTO_FREE uint8_t *stored = malloc(2 * item->size);
  if (stored == NULL) return -ENOMEM;
  if (item->codec == c->codec) {
    fs_ssize n = read_stored(s, item, stored);
    return n < 0 ? (int)n : fs_second_hash(s->plan, stored, (uint64_t)n) == c->key;
  }
  uint8_t *plain = stored + item->size;
  fs_err err = read_decoded(s, item, stored, plain);
  if (err < 0) return err;
  return fs_xxh3(plain, item->size) == c->plain_xxh3 && fs_second_hash(s->plan, plain, item->size) == c->plain_key;
}

/* Like same_bytes, for a chunk that another node has: 128 bits are compared. */
static int same_keys(struct fs_store *s, uint64_t number, const struct fs_chunk *c) {
  const struct fs_item *item = &s->plan->tree->items[number];
  const struct fs_long_key *k = &s->keys[number];
  const bool encoded_alike = item->codec == c->codec;
  if (fs_item_nblocks(item) != c->nblocks) return 0;
  if (by_plain(s) && !item->kept) return k->first == c->plain_xxh3 && k->second == c->plain_key;
  if (!encoded_alike && !by_plain(s)) return 0;
  for (uint32_t i = 0; i < c->nblocks && encoded_alike; i++) {
    const struct fs_built_block *b = fs_item_block(item, i);
    if (b->stored_len != c->blocks[i].stored_len || b->xxh3 != c->blocks[i].xxh3) return 0;
  }
  return item->kept ? same_kept(s, item, c) : k->second == c->key;
}

/* Looks for a stored file of the same content. Returns 1 and *found, 0, or a negative errno. */
static int find_same(struct fs_store *s, const struct fs_chunk *c, uint64_t key, uint64_t *found) {
  const struct fs_item *items = s->plan->tree->items, *item = &items[c->item];
  const uint32_t half = (uint32_t)(key >> 32);
  for (uint64_t i = slot_of(s, half); s->seen[i].item1 != 0; i = slot_after(s, i)) {
    if (s->seen[i].key != half) continue;
    const struct fs_item *other = &items[s->seen[i].item1 - 1];
    if (other->size != item->size || other->replicate != item->replicate) continue;
    int same = c->stored == NULL ? same_keys(s, s->seen[i].item1 - 1, c) : same_bytes(s, other, c);
    if (same == 0) continue;
    *found = s->seen[i].item1 - 1;
    return same;
  }
  return 0;
}

static bool is_large_raw(const struct fs_item *item) {
  return item->codec == FS_CODEC_RAW && item->size >= FS_RAW_ALIGN_MIN;
}

/* Stores a chunk, and sets its `partition` and `at`, or finds where it is stored. */
static fs_err find_place(struct fs_store *s, struct fs_chunk *c, uint64_t align, struct fs_built_block *at) {
  const struct fs_built_block *found;
  int same = c->whole ? 0 : fs_chunks_find(s, c, &found);
  if (same < 0) return same;
  if (same) {
    *at = *found;
    return 0;
  }
  s->stored_bytes += c->stored_len;
  c->partition = at->partition = s->current;
  fs_err err = fs_parts_append(&s->parts, s->current, c->stored, c->stored_len, align, &at->offset);
  c->at = at->offset;
  return err;
}

static fs_err place(struct fs_store *s, struct fs_item *item, struct fs_chunk *c) {
  const uint64_t first = fs_item_nblocks(item);
  uint64_t align = is_large_raw(item) ? s->plan->opts->align : 1; /* chunks of such a file are multiples of it */
  /* A replicated file is not cut. Every node has all replicated partitions, so nothing must be
     balanced, and a file in one piece can be mapped. */
  bool cut = !item->replicate && item->size > s->plan->cut_above && c->offset % s->plan->segment == 0;
  if (c->offset == 0 || cut) {
    s->current = fs_parts_least(&s->parts, item->replicate);
    align = FS_MAX(align, (uint64_t)SMALL_ALIGN);
  }
  for (uint32_t i = 0; i < c->nblocks; i++)
    fs_item_add_block(item, &(struct fs_built_block){.xxh3 = c->blocks[i].xxh3, .stored_len = c->blocks[i].stored_len});
  struct fs_built_block at;
  fs_err err = find_place(s, c, align, &at);
  if (err < 0) return err;
  fs_item_place(item, first, at.partition, at.offset);
  if (!c->whole) fs_chunks_note(s, c->item, c->offset / s->plan->chunk, c->key);
  if (item->many && ++s->placed % FORGET == 0) fs_block_file_forget(&s->plan->tree->blocks);
  return 0;
}

/* Pads a file after its last chunk, and records whether it lies in one piece. */
static fs_err finish_item(struct fs_store *s, struct fs_item *item, bool whole) {
  if (item->codec != FS_CODEC_RAW) return 0;
  item->contig = (whole || !fs_chunks_referred(s)) && fs_item_in_one_piece(item);
  if (!is_large_raw(item)) return 0;
  item->aligned = item->contig;
  return fs_parts_pad(&s->parts, s->current, s->plan->opts->align);
}

static fs_err begin_item(const struct fs_store *s, struct fs_item *item, const struct fs_chunk *c) {
  item->codec = c->codec;
  return fs_item_room(&s->plan->tree->blocks, item);
}

/* Notes the content of a whole file. */
static fs_err see(struct fs_store *s, const struct fs_chunk *c, uint64_t key) {
  if (s->keys != NULL) s->keys[c->item] = (struct fs_long_key){c->plain_xxh3, by_plain(s) ? c->plain_key : c->key};
  if (by_plain(s) && c->plain_xxh3 != key) s->plain_xxh3 = c->plain_xxh3;
  return seen_add(s, by_plain(s) ? c->plain_xxh3 : key, c->item);
}

fs_err fs_store_chunk(struct fs_store *s, struct fs_chunk *c) {
  struct fs_item *item = &s->plan->tree->items[c->item];
  const uint64_t key = c->whole ? content_key(c) : 0;
  s->plain_xxh3 = 0;
  if (c->whole) {
    uint64_t found;
    int same = find_same(s, c, key, &found);
    if (same == 0 && by_plain(s)) same = find_same(s, c, c->plain_xxh3, &found);
    if (same < 0) return same;
    if (same > 0) {
      fs_item_make_alias(item, found);
      return 0;
    }
  }
  fs_err err = c->offset == 0 ? begin_item(s, item, c) : 0;
  if (err == 0) err = place(s, item, c);
  if (err == 0 && c->offset + c->plain_len == item->size) err = finish_item(s, item, c->whole);
  return err == 0 && c->whole ? see(s, c, key) : err;
}
