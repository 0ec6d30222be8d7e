/* SPDX-License-Identifier: BSD-3-Clause */
/* The items of a tree: their array, and the places of their blocks. One thread. */
#include <stdlib.h>
#include <string.h>

#include "pack.h"

fs_err fs_tree_take(struct fs_tree *tree, struct fs_items *items) {
  fs_err err = 0;
  if (tree->n + items->n > FS_MAX_ENTRIES) {
    fs_say("SOURCE has %zu names; a dataset holds at most %u: pack parts of it", tree->n + items->n, FS_MAX_ENTRIES);
    err = -EFBIG;
  } else if (tree->n == 0) {
    free(tree->items);
    tree->items = items->item;
    tree->n = items->n;
    items->item = NULL;
  } else if (items->n != 0) {
    struct fs_item *more = realloc(tree->items, (tree->n + items->n) * sizeof *more);
    if (more == NULL) return -ENOMEM;
    memcpy(more + tree->n, items->item, items->n * sizeof *more);
    tree->items = more;
    tree->n += items->n;
  }
  free(items->item);
  *items = (struct fs_items){0};
  return err;
}

fs_err fs_item_room(struct fs_item *item, uint64_t block_size) {
  const uint64_t n = (item->size + block_size - 1) / block_size;
  if (n <= 1) return 0;
  struct fs_item_blocks *blocks = malloc(sizeof *blocks + n * sizeof *blocks->block);
  if (blocks == NULL) return -ENOMEM;
  blocks->n = 0;
  item->blocks = blocks;
  item->many = true;
  return 0;
}

void fs_item_add_block(struct fs_item *item, const struct fs_built_block *block) {
  if (item->many) {
    item->blocks->block[item->blocks->n++] = *block;
  } else {
    item->block = *block;
    item->one = true;
  }
}

void fs_item_drop_blocks(struct fs_item *item) {
  if (item->many) free(item->blocks);
  if (item->many || item->one) {
    item->target = NULL;
    item->same = 0;
  }
  item->many = item->one = false;
}

bool fs_item_in_one_piece(const struct fs_item *item) {
  const uint64_t n = fs_item_nblocks(item);
  for (uint64_t i = 1; i < n; i++) {
    const struct fs_built_block *a = fs_item_block(item, i - 1), *b = fs_item_block(item, i);
    if (a->partition != b->partition || a->offset + a->stored_len != b->offset) return false;
  }
  return true;
}
