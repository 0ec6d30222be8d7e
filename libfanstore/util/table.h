/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hash table that grows. Its links lie inside the items. A key is an id, or a hash of what the
 * item is found by. A table of zeros is empty. Adding never fails: if memory is missing, the chains
 * get longer. The caller locks, if anybody must.
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

/* Returns chain number i, from 0 to mask. */
static inline struct fs_table_link **fs_table_chain(struct fs_table *t, uint64_t i) {
  return t->chain ? &t->chain[i] : &t->only;
}

static inline struct fs_table_link *fs_table_match(struct fs_table_link *l, uint64_t key) {
  while (l && l->key != key) l = l->next;
  return l;
}

/* Returns the first link with this key, or NULL. */
static inline struct fs_table_link *fs_table_find(const struct fs_table *t, uint64_t key) {
  return fs_table_match(t->chain ? t->chain[fs_mix64(key) & t->mask] : t->only, key);
}

/* Returns the next link with the key of l, or NULL. */
static inline struct fs_table_link *fs_table_more(const struct fs_table_link *l) {
  return fs_table_match(l->next, l->key);
}

/* Returns the link after l, in no particular order, or NULL. If l is NULL, returns the first one. */
static inline struct fs_table_link *fs_table_next(const struct fs_table *t, const struct fs_table_link *l) {
  if (l && l->next) return l->next;
  if (!t->chain) return l ? NULL : t->only;
  for (uint64_t i = l ? (fs_mix64(l->key) & t->mask) + 1 : 0; i <= t->mask; i++) {
    if (t->chain[i]) return t->chain[i];
  }
  return NULL;
}

/* Goes through all links; the loop may remove the present one. To take the first link until there is
   none would look at all empty chains each time. */
#define FS_TABLE_EACH(t, l)                                                                                            \
  for (struct fs_table_link *l = fs_table_next(t, NULL), *fs_next_; l && (fs_next_ = fs_table_next(t, l), true);       \
       l = fs_next_)

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

/* Adds a link. Returns true if the table grew, so that a walk by chains must begin again. */
static inline bool fs_table_add(struct fs_table *t, struct fs_table_link *l, uint64_t key) {
  bool grew = t->count++ > t->mask && fs_table_grow(t);
  l->key = key;
  fs_table_push(t, l);
  return grew;
}

/* Removes a link, which must be in the table. */
static inline void fs_table_remove(struct fs_table *t, const struct fs_table_link *l) {
  struct fs_table_link **at = fs_table_chain(t, fs_mix64(l->key) & t->mask);
  while (*at != l) at = &(*at)->next;
  *at = l->next;
  t->count--;
}

#endif
