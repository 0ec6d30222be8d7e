/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The extent map of a file of several writers at the home's partner (replicas.h). Home records each
 * change of the map and tells the partner with the last word of the next round, or before it if
 * there are many changes. The partner keeps them apart until that round is complete, and then
 * applies them together with the bytes. A partner that has nothing yet is told the whole map. The
 * MPI thread's.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/replicas/replicas.h"

#define FS_LISTING_FIRST 256u

static fs_err fs_listing_add(struct fs_listing *l, const struct fs_output_extent *e, uint32_t n) {
  if (n > FS_EXTENTS_MAX - l->count) return -EFBIG;
  if (l->count + n > l->room) {
    uint32_t room = FS_MAX(FS_MAX(2 * l->room, l->count + n), FS_LISTING_FIRST);
    struct fs_output_extent *grown = realloc(l->at, room * sizeof(*grown));
    if (!grown) return -ENOMEM;
    l->at = grown;
    l->room = room;
  }
  if (n > 0) memcpy(l->at + l->count, e, n * sizeof(*e));
  l->count += n;
  return 0;
}

/* ---- home ---- */

void fs_copy_listed(struct fs_daemon *d, struct fs_backing_file *f, struct fs_output_extent e) {
  struct fs_copy *c = f->copy;
  if (!c || !d->replicas || d->replicas->partner == FS_NO_RANK || c->unlisted) return;
  if (fs_listing_add(&c->listed, &e, 1) == 0) return;
  fs_listing_free(&c->listed);
  c->unlisted = true;
}

fs_err fs_copy_list(struct fs_copy *c, struct fs_extents *segments) {
  uint32_t count;
  const struct fs_output_extent *e = fs_extents_all(segments, &count);
  c->list_all = c->unlisted || c->rank != c->to;
  c->told = c->telling = 0;
  c->more = false;
  if (!c->list_all) {
    c->list = c->listed;
    c->listed = (struct fs_listing){0};
    return 0;
  }
  fs_err err = fs_listing_add(&c->list, e, count);
  c->unlisted = err < 0;
  fs_listing_free(&c->listed);
  return err;
}

void fs_copy_list_put(struct fs_copy *c, struct fs_names_call *call, size_t room) {
  const struct fs_replica_list head = {.at = c->told, .total = c->list.count, .all = c->list_all};
  uint32_t left = c->list.count - c->told;
  c->telling = FS_MIN(left, (uint32_t)((room - sizeof(head)) / sizeof(c->list.at[0])));
  c->more = c->telling < left;
  if (c->more) call->flags |= FS_REPLICA_MORE;
  if (c->list.count == 0 && !c->list_all) return;
  call->tail2_len = (uint16_t)(sizeof(head) + c->telling * sizeof(c->list.at[0]));
  char *to = (char *)(call + 1) + (c->last && !c->more ? sizeof(struct fs_wire_replica) + c->last->head.length : 0);
  memcpy(to, &head, sizeof(head));
  if (c->telling > 0) memcpy(to + sizeof(head), c->list.at + c->told, c->telling * sizeof(c->list.at[0]));
}

/* ---- partner ---- */

fs_err fs_replica_listed(struct fs_replica *r, const struct fs_names_call *c) {
  struct fs_replica_list head = {0};
  struct fs_output_extent e[(FS_NAMES_BODY - sizeof(*c) - sizeof(head)) / sizeof(struct fs_output_extent)];
  uint32_t n = c->tail2_len > 0 ? (uint32_t)((c->tail2_len - sizeof(head)) / sizeof(e[0])) : 0;
  if (c->tail2_len > 0) memcpy(&head, fs_call_tail2(c), sizeof(head));
  if (n > 0) memcpy(e, fs_call_tail2(c) + sizeof(head), n * sizeof(e[0]));
  if (head.at > r->list.count || head.total > FS_EXTENTS_MAX || n > head.total - head.at) return -EILSEQ;
  bool again = head.at + n <= r->list.count;
  if (!again && head.at != r->list.count) return -EILSEQ;
  r->list_all = head.all != 0;
  fs_err err = again ? 0 : fs_listing_add(&r->list, e, n);
  if (err < 0 || (c->flags & FS_REPLICA_MORE)) return err;
  return r->list.count == head.total ? 0 : -EILSEQ;
}

fs_err fs_replica_list(struct fs_replica *r) {
  struct fs_extents *segments = r->list_all ? NULL : r->segments;
  fs_err err = 0;
  for (uint32_t i = 0; err == 0 && i < r->list.count; i++) {
    if (r->list.at[i].segment == 0)
      fs_extents_truncate(segments, r->list.at[i].off);
    else
      err = fs_extents_put(&segments, r->list.at[i]);
  }
  if (r->list_all && err == 0) free(r->segments);
  if (r->list_all && err < 0) free(segments);
  if (!r->list_all || err == 0) r->segments = segments;
  fs_listing_free(&r->list);
  return err;
}
