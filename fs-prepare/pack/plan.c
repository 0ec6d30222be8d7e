/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes the plan from the walked items: the order of the files, hard links, the numbers of
 * partitions, and the sizes of segments and chunks. Everything depends only on SOURCE and the
 * options. One thread.
 */
#include <stdlib.h>
#include <string.h>

#include "pack.h"

#define GIB (1ull << 30)

/* Returns the rank of a byte in a path. The end of a component comes before any byte of a longer
   name. */
static unsigned rank(char c) {
  return c == '/' ? 0 : (unsigned char)c;
}

/* Compares in the index's order: level by level, within a level by the parents' order, then by
   name. */
int fs_item_order(const void *va, const void *vb) {
  const struct fs_item *a = va, *b = vb;
  if (a->depth != b->depth) return a->depth < b->depth ? -1 : 1;
  const char *p = a->path, *q = b->path;
  while (*p == *q && *p != '\0') p++, q++;
  unsigned x = rank(*p), y = rank(*q);
  return x < y ? -1 : x > y;
}

static int by_inode(const void *va, const void *vb, void *ctx) {
  const uint32_t x = *(const uint32_t *)va, y = *(const uint32_t *)vb;
  const struct fs_item *items = ctx, *a = &items[x], *b = &items[y];
  if (a->dev != b->dev) return a->dev < b->dev ? -1 : 1;
  if (a->ino != b->ino) return a->ino < b->ino ? -1 : 1;
  return x < y ? -1 : x > y;
}

/* Makes the names [from, to) one inode. The first in order keeps the content. It is replicated if
   any of them is. */
static void make_group(struct fs_plan *plan, const uint32_t *links, size_t from, size_t to) {
  struct fs_item *items = plan->tree->items;
  struct fs_item *first = &items[links[from]];
  first->group = links[from] + 1;
  for (size_t i = from + 1; i < to; i++) {
    struct fs_item *item = &items[links[i]];
    item->group = first->group;
    fs_item_make_alias(item, links[from]);
    first->replicate |= item->replicate;
    plan->links++;
  }
}

static fs_err find_links(struct fs_plan *plan) {
  const struct fs_tree *tree = plan->tree;
  size_t n = 0, at = 0;
  for (size_t i = 0; i < tree->n; i++) n += tree->items[i].linked;
  if (n == 0) return 0;
  FS_AUTO_FREE uint32_t *links = malloc(n * sizeof *links);
  if (links == NULL) return -ENOMEM;
  for (size_t i = 0; i < tree->n; i++)
    if (tree->items[i].linked) links[at++] = (uint32_t)i;
  qsort_r(links, n, sizeof *links, by_inode, tree->items);
  for (size_t from = 0, to; from < n; from = to) {
    const struct fs_item *first = &tree->items[links[from]];
    for (to = from + 1; to < n; to++)
      if (tree->items[links[to]].dev != first->dev || tree->items[links[to]].ino != first->ino) break;
    if (to - from > 1) make_group(plan, links, from, to);
  }
  return 0;
}

/* Computes the totals. Returns the bytes to be packed and replicated. */
static uint64_t count(struct fs_plan *plan, bool *any_replicated, bool *new_replicated) {
  uint64_t replicated = 0;
  *new_replicated = false;
  for (size_t i = 0; i < plan->tree->n; i++) {
    const struct fs_item *item = &plan->tree->items[i];
    plan->dirs += S_ISDIR(item->mode);
    plan->symlinks += S_ISLNK(item->mode);
    if (!S_ISREG(item->mode)) continue;
    plan->files++;
    *any_replicated |= item->replicate;
    if (item->alias) continue;
    plan->plain_bytes += item->size;
    if (item->kept) continue;
    plan->new_bytes += item->size;
    *new_replicated |= item->replicate;
    if (item->replicate) replicated += item->size;
  }
  return replicated;
}

/* Chooses one partition for each GiB, from `least` to 64; above 4 TiB one for each 64 GiB. */
static uint32_t choose_partitions(uint64_t bytes, uint32_t least) {
  uint64_t n = (bytes + GIB - 1) / GIB;
  if (n < least) return least;
  if (n <= 64) return (uint32_t)n;
  return (uint32_t)FS_MIN(FS_MAX(64, (bytes + 64 * GIB - 1) / (64 * GIB)), (uint64_t)FS_MAX_PARTITIONS - 64);
}

/*
 * Chooses which files are cut. A file of more than a quarter of a partition's share would make the
 * partitions unequal, so it is cut finely. All others stay in one piece, so that they can be
 * mapped.
 */
static void choose_segment(struct fs_plan *plan) {
  const uint64_t unit = FS_MAX(plan->opts->block_size, plan->opts->align), most = 256ull << 20;
  const uint64_t share = plan->new_bytes / FS_MAX(plan->nparts, 1);
  plan->cut_above = FS_MIN(FS_MAX(share / 4, unit), most);
  plan->segment = FS_MIN(FS_MAX(fs_round_up(share / 16, unit), unit), most);
  plan->chunk = FS_MIN(FS_MAX(unit, 1ull << 20), plan->segment);
  plan->segment = plan->segment / plan->chunk * plan->chunk;
}

/* Chooses the numbers of partitions to be written. An update may need none. */
static void choose_numbers(struct fs_plan *plan, uint64_t replicated, bool any) {
  const struct fs_pack_options *o = plan->opts;
  const uint64_t ordinary = plan->new_bytes - replicated;
  plan->nparts = o->partitions != 0 ? (uint32_t)o->partitions : choose_partitions(ordinary, plan->update ? 1 : 8);
  if (plan->update != NULL && ordinary == 0) plan->nparts = 0;
  if (any) plan->nreplicated = (uint32_t)FS_MIN(FS_MAX((replicated + 4 * GIB - 1) / (4 * GIB), 1), 64);
}

fs_err fs_plan_make(struct fs_plan *plan, const struct fs_pack_options *o, struct fs_tree *tree,
                    struct fs_update *update) {
  *plan = (struct fs_plan){.opts = o, .tree = tree, .update = update};
  qsort(tree->items, tree->n, sizeof *tree->items, fs_item_order);
  fs_err err = find_links(plan);
  if (err == 0 && update != NULL) err = fs_update_match(update, plan);
  if (err < 0) return err;
  bool any = false, any_new;
  uint64_t replicated = count(plan, &any, &any_new);
  choose_numbers(plan, replicated, update != NULL ? any_new : any);
  choose_segment(plan);
  if (update != NULL) err = fs_update_number(update, plan);
  if (err < 0) return err;
  if (!any && o->replicate.n != 0) fs_say("pack: warning: no file matches --replicate");
  err = fs_plan_find_equal(plan);
  for (size_t i = 0; i < tree->n; i++) {
    const struct fs_item *item = &tree->items[i];
    if (S_ISREG(item->mode) && !item->alias && !item->kept) plan->pack_bytes += item->size;
  }
  return err < 0 ? err : fs_plan_order(plan);
}

void fs_plan_free(struct fs_plan *plan) {
  free(plan->order);
  plan->order = NULL;
}
