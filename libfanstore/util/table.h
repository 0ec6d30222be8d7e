/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hash tables that grow, whose links lie inside the items. A key is an id, or a hash of what the item is found by. A
 * table of zeros is empty. Adding cannot fail: without memory the chains just get longer. Nothing is locked.
 */
#ifndef FS_UTIL_TABLE_H
#define FS_UTIL_TABLE_H

#include <stdlib.h>

#include "util/base.h"

#define FS_TABLE_FIRST 256u /* chains of the first array */

struct fs_table_link {
  struct fs_table_link *next;
  uint64_t key;
};

struct fs_table {
  struct fs_table_link **chain, *only; /* only: the one chain while there is no array */
  uint64_t mask, count;                /* chains - 1; links */
};

/* A chain, of mask + 1. */
static inline struct fs_table_link **fs_table_chain(struct fs_table *t, uint64_t i) {
  return t->chain ? &t->chain[i] : &t->only;
}

static inline struct fs_table_link *fs_table_match(struct fs_table_link *l, uint64_t key) {
  while (l && l->key != key) l = l->next;
  return l;
}

/* The first link with this key, or NULL. */
static inline struct fs_table_link *fs_table_find(const struct fs_table *t, uint64_t key) {
  return fs_table_match(t->chain ? t->chain[fs_mix64(key) & t->mask] : t->only, key);
}

/* The next link with the same key, or NULL. */
static inline struct fs_table_link *fs_table_more(const struct fs_table_link *l) {
  return fs_table_match(l->next, l->key);
}

/* The link after l in no order, or NULL; after NULL: the first. */
static inline struct fs_table_link *fs_table_next(const struct fs_table *t, const struct fs_table_link *l) {
  if (l && l->next) return l->next;
  if (!t->chain) return l ? NULL : t->only;
  for (uint64_t i = l ? (fs_mix64(l->key) & t->mask) + 1 : 0; i <= t->mask; i++) {
    if (t->chain[i]) return t->chain[i];
  }
  return NULL;
}

static inline void fs_table_push(struct fs_table *t, struct fs_table_link *l) {
  struct fs_table_link **chain = fs_table_chain(t, fs_mix64(l->key) & t->mask);
  l->next = *chain;
  *chain = l;
}

static inline bool fs_table_grow(struct fs_table *t) {
  struct fs_table to = {.mask = t->chain ? 2 * t->mask + 1 : FS_TABLE_FIRST - 1, .count = t->count};
  to.chain = calloc(to.mask + 1, sizeof(struct fs_table_link *));
  if (!to.chain) return false;
  for (uint64_t i = 0; i <= t->mask; i++) {
    for (struct fs_table_link *l = *fs_table_chain(t, i), *next; l; l = next) {
      next = l->next;
      fs_table_push(&to, l);
    }
  }
  free(t->chain);
  *t = to;
  return true;
}

/* Did the table grow? */
static inline bool fs_table_add(struct fs_table *t, struct fs_table_link *l, uint64_t key) {
  bool grew = t->count++ > t->mask && fs_table_grow(t);
  l->key = key;
  fs_table_push(t, l);
  return grew;
}

/* The link must be in the table. */
static inline void fs_table_remove(struct fs_table *t, const struct fs_table_link *l) {
  struct fs_table_link **at = fs_table_chain(t, fs_mix64(l->key) & t->mask);
  while (*at != l) at = &(*at)->next;
  *at = l->next;
  t->count--;
}

#endif
