/* SPDX-License-Identifier: BSD-3-Clause */
/* Doubly linked lists whose links lie inside the items. Used by the daemon's MPI thread; nothing is locked. */
#ifndef FS_DAEMON_CORE_CHAIN_H
#define FS_DAEMON_CORE_CHAIN_H

#include "util/base.h"

struct fs_chain {
  struct fs_chain *prev, *next;
};

/* The item that contains this link. */
#define FS_ITEM(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void fs_chain_init(struct fs_chain *c) {
  c->prev = c->next = c;
}
static inline bool fs_chain_empty(const struct fs_chain *c) {
  return c->next == c;
}
static inline void fs_chain_push(struct fs_chain *list, struct fs_chain *item) {
  item->prev = list->prev;
  item->next = list;
  list->prev->next = item;
  list->prev = item;
}
static inline void fs_chain_push_front(struct fs_chain *list, struct fs_chain *item) {
  fs_chain_push(list->next, item);
}
/* Takes an item out of its list. Harmless if it is in none. */
static inline void fs_chain_drop(struct fs_chain *item) {
  item->prev->next = item->next;
  item->next->prev = item->prev;
  fs_chain_init(item);
}
static inline struct fs_chain *fs_chain_pop(struct fs_chain *list) {
  struct fs_chain *item = list->next;
  if (item == list) return NULL;
  fs_chain_drop(item);
  return item;
}

#endif
