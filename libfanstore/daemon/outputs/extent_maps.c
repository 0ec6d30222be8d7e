/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * extent maps that programs keep: a program uses again what home has told it (EXTENTS) as long as its own node's
 * word `lists` (ipc/layout.h) is what it was before it asked. So, when a list has changed, home changes its own node's
 * word, and has the nodes that asked for a list since they were last told (LISTS) change theirs before whoever made the
 * change is answered. docs/internals/several-writers.md.
 */
#include <stdlib.h>

#include "daemon/metadata/ns_priv.h"
#include "daemon/outputs/backing.h"

struct fs_maps_node {
  bool asked;       /* since it was last told */
  uint32_t telling; /* calls that tell it, not answered yet: what it asks meanwhile may be of before */
};

struct fs_telling {
  struct fs_daemon *d;
  fs_ns_done *done;
  void *ctx;
  bool to[];
};

fs_err fs_maps_new(struct fs_daemon *d) {
  d->backing_files->lists = calloc(d->net->nodes, sizeof(struct fs_maps_node));
  return d->backing_files->lists ? 0 : -ENOMEM;
}

void fs_maps_asked(struct fs_daemon *d, uint32_t rank) {
  if (rank != d->net->rank && rank < d->net->nodes) d->backing_files->lists[rank].asked = true;
}

void fs_maps_changed(struct fs_daemon *d) {
  atomic_fetch_add(&d->ctl->lists, 1);
}

/* The lists of whoever has gone are another's now, who does not know who asked for them. */
void fs_maps_members(struct fs_daemon *d) {
  for (uint32_t rank = 0; rank < d->net->nodes; rank++) fs_maps_asked(d, rank);
  fs_maps_changed(d);
  fs_maps_timers(d);
}

/* A node that stood still may have been left out, and not told, until another one has answered. */
void fs_maps_timers(struct fs_daemon *d) {
  uint64_t word = atomic_load(&d->ctl->lists);
  bool sure = fs_ns_sure(d->ns) && fs_member(fs_ns_members(d->ns), d->net->rank);
  if (sure == !(word & FS_LISTS_UNKNOWN)) return;
  atomic_store(&d->ctl->lists, sure ? (word & ~FS_LISTS_UNKNOWN) + 1 : word | FS_LISTS_UNKNOWN);
}

static void fs_maps_reported(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_telling *t = ctx;
  (void)body, (void)n;
  for (uint32_t rank = 0; rank < t->d->net->nodes; rank++) {
    struct fs_maps_node *node = &t->d->backing_files->lists[rank];
    if (!t->to[rank]) continue;
    node->telling--;
    node->asked = node->asked || err < 0;
  }
  t->done(t->ctx, err, NULL, 0);
  free(t);
}

void fs_maps_report(struct fs_daemon *d, fs_ns_done *done, void *ctx) {
  const struct fs_names_call c = {.op = FS_NAMES_MAPS};
  struct fs_maps_node *l = d->backing_files->lists;
  bool any = false;
  for (uint32_t rank = 0; rank < d->net->nodes; rank++) any = any || l[rank].asked || l[rank].telling > 0;
  struct fs_telling *t = any ? calloc(1, sizeof(*t) + d->net->nodes * sizeof(t->to[0])) : NULL;
  if (!t) {
    done(ctx, any ? -ENOMEM : 0, NULL, 0);
    return;
  }
  t->d = d;
  t->done = done;
  t->ctx = ctx;
  for (uint32_t rank = 0; rank < d->net->nodes; rank++) {
    struct fs_maps_node *node = &l[rank];
    t->to[rank] = node->asked || node->telling > 0;
    node->asked = false;
    node->telling += t->to[rank];
  }
  fs_ns_ask_those(d->ns, t->to, &c, fs_maps_reported, t);
}
