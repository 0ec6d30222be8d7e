/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps the extent maps that programs remember up to date (docs/internals/several-writers.md). A
 * program may use a map from home (EXTENTS) again as long as the word `lists` of its own node
 * (ipc/layout.h) has the value that it had before the program asked. If a map changes, the home
 * changes its own node's word. The home also sends FS_NAMES_MAPS to the nodes that have asked for a
 * map since the last such message, and these change their words. Only then is the caller that made
 * the change answered. All runs in the MPI thread.
 */
#include <stdlib.h>

#include "daemon/metadata/ns_priv.h"
#include "daemon/outputs/backing.h"

struct fs_maps_node {
  bool asked;       /* for a map, since the last report to it */
  uint32_t telling; /* unanswered reports to it; a map that it gets meanwhile may be old */
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

/* A map of a member that has gone has another home now. The new home does not know which nodes
   asked for it, so it reports to all. */
void fs_maps_members(struct fs_daemon *d) {
  for (uint32_t rank = 0; rank < d->net->nodes; rank++) fs_maps_asked(d, rank);
  fs_maps_changed(d);
  fs_maps_timers(d);
}

/* A node that stood still may have been evicted, and gets no reports then. Until another node
   has answered, its programs must not use their maps again. */
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
