/* SPDX-License-Identifier: BSD-3-Clause */
/* The items of a tree: their array, and the places of their blocks. One thread. */
#include <stdlib.h>
#include <string.h>

#include "pack.h"

/* Appends the shorter array to the longer one: while both are there, they take the least. */
static fs_err append(struct fs_tree *tree, struct fs_items *items) {
  if (items->n > tree->n) {
    const struct fs_items longer = *items;
    *items = (struct fs_items){.item = tree->items, .n = tree->n};
    tree->items = longer.item;
    tree->n = longer.n;
  }
  if (items->n == 0) return 0;
  struct fs_item *more = realloc(tree->items, (tree->n + items->n) * sizeof *more);
  if (more == NULL) return -ENOMEM;
  memcpy(more + tree->n, items->item, items->n * sizeof *more);
  tree->items = more;
  tree->n += items->n;
  return 0;
}

fs_err fs_tree_take(struct fs_tree *tree, struct fs_items *items) {
  fs_err err = 0;
  if (tree->n + items->n > FS_MAX_ENTRIES) {
    fs_say("SOURCE has %zu names; a dataset holds at most %u: pack parts of it", tree->n + items->n, FS_MAX_ENTRIES);
    err = -EFBIG;
  } else {
    err = append(tree, items);
    if (err < 0) return err;
  }
  free(items->item);
  *items = (struct fs_items){0};
  return err;
}

void fs_item_add_block(struct fs_item *item, const struct fs_built_block *block) {
  if (item->many) {
    item->blocks->block[item->blocks->n++] = *block;
  } else {
    item->block = *block;
    item->one = true;
  }
}

void fs_item_place(struct fs_item *item, uint64_t first, uint32_t partition, uint64_t offset) {
  for (uint64_t i = first; i < fs_item_nblocks(item); i++) {
    struct fs_built_block *b = item->many ? &item->blocks->block[i] : &item->block;
    b->partition = partition;
    b->offset = offset;
    offset += b->stored_len;
  }
}

bool fs_item_in_one_piece(const struct fs_item *item) {
  const uint64_t n = fs_item_nblocks(item);
  for (uint64_t i = 1; i < n; i++) {
    const struct fs_built_block *a = fs_item_block(item, i - 1), *b = fs_item_block(item, i);
    if (a->partition != b->partition || a->offset + a->stored_len != b->offset) return false;
  }
  return true;
}
