/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes plan.order, the order in which the pipeline packs the items with content (--order). The
 * store places in this order, so it decides which files become neighbours in a partition. Called
 * by the plan's end. One thread.
 */
#include <stdlib.h>
#include <string.h>

#include "pack.h"

struct key {
  uint64_t first; /* lower ones come first */
  uint32_t item;  /* decides among equals: the index's order */
};

static int by_key(const void *va, const void *vb) {
  const struct key *a = va, *b = vb;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  return a->item < b->item ? -1 : a->item > b->item;
}

static bool has_content(const struct fs_item *item) {
  return S_ISREG(item->mode) && !item->alias && item->size != 0;
}

static uint64_t key_of(enum fs_order how, const struct fs_item *item) {
  return how == FS_ORDER_SHUFFLE ? fs_xxh3(item->path, strlen(item->path)) : UINT64_MAX - item->size;
}

static fs_err sort(struct fs_plan *plan, enum fs_order how) {
  FS_AUTO_FREE struct key *keys = malloc(plan->norder * sizeof *keys);
  if (keys == NULL) return -ENOMEM;
  for (uint64_t i = 0; i < plan->norder; i++)
    keys[i] = (struct key){key_of(how, &plan->tree->items[plan->order[i]]), plan->order[i]};
  qsort(keys, plan->norder, sizeof *keys, by_key);
  for (uint64_t i = 0; i < plan->norder; i++) plan->order[i] = keys[i].item;
  return 0;
}

fs_err fs_plan_order(struct fs_plan *plan) {
  const struct fs_tree *tree = plan->tree;
  plan->order = calloc(tree->n + 1, sizeof *plan->order);
  if (plan->order == NULL) return -ENOMEM;
  for (size_t i = 0; i < tree->n; i++)
    if (has_content(&tree->items[i])) plan->order[plan->norder++] = (uint32_t)i;
  return plan->opts->order == FS_ORDER_PATH || plan->norder == 0 ? 0 : sort(plan, plan->opts->order);
}
