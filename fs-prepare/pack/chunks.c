/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds chunks of large files that are stored already. The store then refers to them and stores them
 * no second time. Two tables have the chunks that were stored last, 12 bytes for each. When the first
 * table is full, it becomes the second one, and what that one has is forgotten. So memory has a bound,
 * and which chunks are found depends only on their order. A file that lies in one piece, so that it can
 * be mapped, is never broken up. One thread.
 */
#include <stdlib.h>
#include <string.h>

#include "store.h"

#define LEAST (64u << 10) /* stored bytes; fewer are not worth a read of another place */
#define SLOTS (1u << 20)  /* of a table, at most */
#define MOST 15u          /* further places of one copy; else one node would serve the zeros of all files */

/* A slot of an open hash table. */
struct slot {
  uint32_t tag;   /* the upper 28 bits of the key, then the number of further places */
  uint32_t item1; /* item + 1; 0: free */
  uint32_t chunk; /* of this item */
};

struct table {
  struct slot *slot;
  uint64_t *second; /* of nodes: fs_chunk.key of each slot */
  uint64_t used;
};

struct fs_chunks {
  struct table young, old;
  uint64_t size; /* of each */
  bool referred; /* a chunk of the file at hand is stored elsewhere */
};

/* A chunk whose blocks the item has. */
struct view {
  const struct fs_item *item;
  const struct fs_built_block *block;
  uint64_t n, plain;
};

/* Returns false if the item does not have all blocks of its chunk k. */
static bool look(const struct fs_plan *plan, uint64_t number, uint64_t k, struct view *v) {
  const uint64_t block = plan->opts->block_size, first = k * (plan->chunk / block);
  v->item = &plan->tree->items[number];
  v->plain = FS_MIN(v->item->size - k * plan->chunk, plan->chunk);
  v->n = (v->plain + block - 1) / block;
  if (fs_item_nblocks(v->item) < first + v->n) return false; /* the file was left out */
  v->block = fs_item_block(v->item, first);
  return true;
}

static uint64_t stored_len(const struct view *v) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < v->n; i++) sum += v->block[i].stored_len;
  return sum;
}

/* Blocks that were not shortened are the same in all codecs. */
static bool same(const struct view *a, const struct view *b) {
  if (a->item->replicate != b->item->replicate || a->plain != b->plain) return false;
  if (a->item->codec != b->item->codec && stored_len(a) != a->plain) return false;
  for (uint64_t i = 0; i < a->n; i++)
    if (a->block[i].xxh3 != b->block[i].xxh3 || a->block[i].stored_len != b->block[i].stored_len) return false;
  return true;
}

/* Returns the slot of a chunk of this content in a table, by lengths and checksums, or the free one for it. */
static struct slot *slot_in(const struct fs_store *s, const struct table *t, const struct view *v, uint32_t tag) {
  const uint64_t size = s->chunks->size;
  for (uint64_t i = (tag * size) >> 32;; i = i + 1 < size ? i + 1 : 0) {
    struct slot *e = &t->slot[i];
    struct view other;
    if (e->item1 == 0) return e;
    if ((e->tag & ~MOST) == tag && look(s->plan, e->item1 - 1, e->chunk, &other) && same(v, &other)) return e;
  }
}

static uint32_t tag_of(const struct view *v) {
  uint64_t key = 0;
  for (uint64_t i = 0; i < v->n; i++) key = key * 0x9e3779b97f4a7c15u + v->block[i].xxh3;
  return (uint32_t)(key >> 32) & ~MOST;
}

/* Returns the slot of such a chunk in either table, or a free one of the first. *second: fs_chunk.key's place. */
static struct slot *slot_of(const struct fs_store *s, const struct view *v, uint64_t **second) {
  struct fs_chunks *t = s->chunks;
  const uint32_t tag = tag_of(v);
  struct table *in = &t->young;
  struct slot *e = slot_in(s, in, v, tag);
  if (e->item1 == 0 && t->old.used != 0) {
    struct slot *old = slot_in(s, &t->old, v, tag);
    if (old->item1 != 0) e = old, in = &t->old;
  }
  *second = in->second != NULL ? &in->second[e - in->slot] : NULL;
  return e;
}

/* Puts a chunk into the first table. A later copy takes the place of an earlier one. */
static void put(const struct fs_store *s, const struct view *v, const struct slot *new, uint64_t second) {
  struct fs_chunks *t = s->chunks;
  if (t->young.used * 4 >= t->size * 3) {
    const struct table empty = t->old;
    memset(empty.slot, 0, t->size * sizeof *empty.slot);
    t->old = t->young;
    t->young = (struct table){empty.slot, empty.second, 0};
  }
  struct slot *e = slot_in(s, &t->young, v, new->tag);
  t->young.used += e->item1 == 0;
  *e = *new;
  if (t->young.second != NULL) t->young.second[e - t->young.slot] = second;
}

/* Returns true if the file's bytes come one behind the other, and can be mapped or read as one. */
static bool in_one_piece(const struct fs_plan *plan, const struct fs_item *item) {
  return item->codec == FS_CODEC_RAW && (item->replicate || item->size <= plan->cut_above || plan->nparts == 1);
}

int fs_chunks_find(struct fs_store *s, const struct fs_chunk *c, const struct fs_built_block **place) {
  struct view v, found;
  uint64_t *second;
  if (!look(s->plan, c->item, c->offset / s->plan->chunk, &v)) return 0;
  if (c->stored_len < LEAST || in_one_piece(s->plan, v.item)) return 0;
  const struct slot *e = slot_of(s, &v, &second);
  if (e->item1 == 0 || (e->tag & MOST) == MOST || !look(s->plan, e->item1 - 1, e->chunk, &found)) return 0;
  *place = found.block;
  if (c->stored == NULL) return second != NULL && *second == c->key;
  return fs_parts_equal(&s->parts, found.block->partition, found.block->offset, c->stored, c->stored_len);
}

void fs_chunks_note(struct fs_store *s, uint64_t item, uint64_t k, uint64_t second) {
  struct fs_chunks *t = s->chunks;
  struct view v, found;
  uint64_t *unused;
  if (k == 0) t->referred = false;
  if (!look(s->plan, item, k, &v) || stored_len(&v) < LEAST) return;
  struct slot *e = slot_of(s, &v, &unused);
  if (e->item1 != 0 && look(s->plan, e->item1 - 1, e->chunk, &found) && found.block->partition == v.block->partition &&
      found.block->offset == v.block->offset) {
    e->tag++;
    t->referred = true;
    s->shared_chunks++;
    s->shared_bytes += v.plain;
    return;
  }
  put(s, &v, &(struct slot){tag_of(&v), (uint32_t)(item + 1), (uint32_t)k}, second);
}

uint64_t fs_chunks_second(const struct fs_store *s, uint64_t item, uint64_t k) {
  struct view v;
  uint64_t *second;
  if (!look(s->plan, item, k, &v) || stored_len(&v) < LEAST) return 0;
  const struct slot *e = slot_of(s, &v, &second);
  return second != NULL && e->item1 == item + 1 && e->chunk == k ? *second : 0;
}

bool fs_chunks_referred(const struct fs_store *s) {
  return s->chunks->referred;
}

static fs_err table_make(struct table *t, uint64_t size) {
  t->slot = calloc(size, sizeof *t->slot);
  if (fs_pack_nodes != NULL) t->second = calloc(size, sizeof *t->second);
  return t->slot != NULL && (fs_pack_nodes == NULL || t->second != NULL) ? 0 : -ENOMEM;
}

static uint64_t most_slots(void) {
  const char *text = getenv("FANSTORE_TEST_CHUNK_SLOTS"); /* for tests */
  uint64_t n;
  return text != NULL && fs_parse_u64(text, 4, SLOTS, &n) == 0 ? n : SLOTS;
}

fs_err fs_chunks_open(struct fs_store *s) {
  const struct fs_plan *plan = s->plan;
  struct fs_chunks *t = s->chunks = calloc(1, sizeof *t);
  if (t == NULL) return -ENOMEM;
  for (size_t i = 0; i < plan->tree->n; i++) {
    const struct fs_item *item = &plan->tree->items[i];
    if (!S_ISREG(item->mode) || item->alias || item->kept || item->size <= plan->chunk) continue;
    t->size += (item->size + plan->chunk - 1) / plan->chunk;
  }
  t->size = FS_MIN(t->size + t->size / 3 + 4, most_slots());
  fs_err err = table_make(&t->young, t->size);
  return err == 0 ? table_make(&t->old, t->size) : err;
}

void fs_chunks_free(struct fs_store *s) {
  if (s->chunks == NULL) return;
  free(s->chunks->young.slot);
  free(s->chunks->young.second);
  free(s->chunks->old.slot);
  free(s->chunks->old.second);
  free(s->chunks);
  s->chunks = NULL;
}
