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
  return S_ISREG(item->mode) && !item->alias && !item->kept && item->size != 0;
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

/* The members of one stream, in plan->order. */
struct run {
  uint64_t at, end;
  uint64_t bytes; /* that were taken */
};

static int by_stream(const void *va, const void *vb, void *ctx) {
  const struct fs_tree *tree = ctx;
  const uint32_t x = *(const uint32_t *)va, y = *(const uint32_t *)vb;
  const struct fs_item *a = &tree->items[x], *b = &tree->items[y];
  const bool sa = fs_item_stream(tree, a) != NULL, sb = fs_item_stream(tree, b) != NULL;
  if (sa != sb) return sa ? 1 : -1;
  if (sa && a->source != b->source) return a->source < b->source ? -1 : 1;
  if (sa && a->ino != b->ino) return a->ino < b->ino ? -1 : 1;
  return x < y ? -1 : x > y;
}

/* Takes about a batch from a stream. */
static void take_run(const struct fs_plan *plan, struct run *r, uint32_t *out, uint64_t *n) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < FS_BATCH_CHUNKS && bytes < FS_BATCH_BYTES && r->at < r->end; i++) {
    bytes += plan->tree->items[plan->order[r->at]].size;
    out[(*n)++] = plan->order[r->at++];
  }
  r->bytes += bytes;
}

/* Lets STREAMS_AT_ONCE streams take turns, so that the threads decompress several at once. The next
   turn has the one with the fewest bytes so far. A stream that ends gives its place to the next. */
#define STREAMS_AT_ONCE 16u
static fs_err interleave(struct fs_plan *plan, struct run *runs, uint32_t nruns, uint64_t from) {
  uint32_t *out = malloc((plan->norder - from + 1) * sizeof *out);
  uint64_t n = 0;
  if (out == NULL) return -ENOMEM;
  for (uint32_t first = 0; first < nruns;) {
    uint32_t best = first;
    const uint32_t open = FS_MIN(nruns - first, STREAMS_AT_ONCE);
    for (uint32_t i = first + 1; i < first + open; i++)
      if (runs[i].bytes < runs[best].bytes) best = i;
    take_run(plan, &runs[best], out, &n);
    if (runs[best].at < runs[best].end) continue;
    const uint64_t ended = runs[best].bytes;
    runs[best] = runs[first++];
    if (first + open <= nruns) runs[first + open - 1].bytes = ended;
  }
  memcpy(plan->order + from, out, n * sizeof *out);
  free(out);
  return 0;
}

/* Puts the members of streams behind all other items, in the order in which they can be read. */
static fs_err order_streams(struct fs_plan *plan) {
  const struct fs_tree *tree = plan->tree;
  uint64_t from = 0;
  uint32_t nruns = 0;
  bool any = false;
  for (uint32_t i = 0; i < tree->nsources; i++) any |= tree->sources[i].kind == FS_SOURCE_STREAM;
  if (!any) return 0;
  FS_AUTO_FREE struct run *runs = calloc(tree->nsources, sizeof *runs);
  if (runs == NULL) return -ENOMEM;
  qsort_r(plan->order, plan->norder, sizeof *plan->order, by_stream, plan->tree);
  while (from < plan->norder && fs_item_stream(tree, &tree->items[plan->order[from]]) == NULL) from++;
  for (uint64_t i = from; i < plan->norder; i++) {
    const uint32_t source = tree->items[plan->order[i]].source;
    tree->sources[source].last = tree->items[plan->order[i]].ino;
    if (i == from || tree->items[plan->order[i - 1]].source != source) runs[nruns++].at = i;
    runs[nruns - 1].end = i + 1;
  }
  return interleave(plan, runs, nruns, from);
}

fs_err fs_plan_order(struct fs_plan *plan) {
  const struct fs_tree *tree = plan->tree;
  plan->order = calloc(tree->n + 1, sizeof *plan->order);
  if (plan->order == NULL) return -ENOMEM;
  for (size_t i = 0; i < tree->n; i++)
    if (has_content(&tree->items[i])) plan->order[plan->norder++] = (uint32_t)i;
  if (plan->norder == 0) return 0;
  fs_err err = plan->opts->order != FS_ORDER_PATH ? sort(plan, plan->opts->order) : 0;
  return err < 0 ? err : order_streams(plan);
}
