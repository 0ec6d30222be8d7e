/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments of files of several writers, on the nodes that wrote them (replicas.h). A segment's
 * bytes are copied to this node's partner before the file's home hears of them; so the bytes of
 * each segment in an extent map exist twice. If this node goes, its partner becomes the home of its
 * segments and is asked for them. The MPI thread's.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/replicas/replicas.h"

#define FS_SEGMENT_TRIES 12u /* calls to home that may time out */

struct fs_segment_call {
  struct fs_daemon *d;
  uint32_t tries;
  fs_err why; /* why there is no replica, or 0 */
  fs_ns_done *done;
  void *ctx;
  struct fs_names_call call; /* followed by its ranges */
};

static void fs_segment_replicated(void *ctx, fs_err err);

/* Takes home's answer. A home that lives but has timed out has much of its own to send to its
   partner, so it is asked again. */
static void fs_segment_extended(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_segment_call *p = ctx;
  bool lives = fs_member(fs_ns_members(p->d->ns), fs_home_of(p->d, p->call.extend.id));
  if (err == -ETIMEDOUT && lives && p->tries++ < FS_SEGMENT_TRIES) {
    fs_segment_replicated(p, p->why);
    return;
  }
  if (err == 0 && p->why < 0)
    p->done(p->ctx, p->why, NULL, 0);
  else
    p->done(p->ctx, err, body, n);
  free(p);
}

/* Tells home of the segment, even if it could not be replicated; the caller then gets that
   error. */
static void fs_segment_replicated(void *ctx, fs_err err) {
  struct fs_segment_call *p = ctx;
  p->why = err;
  fs_ns_call(p->d->ns, p->d->now, &p->call, fs_segment_extended, p);
}

static struct fs_replica_wish fs_segment_wish(const struct fs_names_call *c) {
  struct fs_replica_wish wish = {.sync = c->flags & FS_EXTEND_DURABLE, .begin = UINT64_MAX};
  for (size_t at = 0; at < c->tail_len; at += sizeof(struct fs_range)) {
    struct fs_range r;
    memcpy(&r, fs_call_tail(c) + at, sizeof(r));
    wish.begin = FS_MIN(wish.begin, r.off);
    wish.end = FS_MAX(wish.end, r.off + r.len);
  }
  return wish;
}

void fs_segment_extend(struct fs_daemon *d, const struct fs_names_call *c, fs_ns_done *done, void *ctx) {
  size_t n = fs_call_size(c);
  /* Without ranges, the partner has the bytes and is to write them to its disk. */
  bool bytes = c->tail_len > 0 || (c->flags & FS_EXTEND_DURABLE);
  bool own = bytes && FS_OUTPUT_ID_RANK(c->extend.segment) < d->net->nodes && fs_backing_mine(d, c->extend.segment);
  struct fs_segment_call *p = d->replicas ? malloc(offsetof(struct fs_segment_call, call) + n) : NULL;
  if (!d->replicas) {
    fs_ns_call(d->ns, d->now, c, done, ctx);
    return;
  }
  if (!p || (own && !fs_backing_segment(d, c->extend.segment))) {
    free(p);
    done(ctx, -ENOMEM, NULL, 0);
    return;
  }
  p->d = d;
  p->tries = 0;
  p->done = done;
  p->ctx = ctx;
  memcpy(&p->call, c, n);
  if (own)
    fs_replicate(d, c->extend.segment, fs_segment_wish(c), fs_segment_replicated, p);
  else
    fs_segment_replicated(p, 0);
}

static void fs_segment_there(void *ctx, fs_err err) {
  (void)ctx, (void)err; /* a failure is repaired with the segment's next bytes */
}

void fs_segment_again(struct fs_daemon *d, uint64_t id) {
  const struct fs_replica_wish all = {.behind = true, .end = UINT64_MAX};
  if (fs_backing_segment(d, id)) fs_replicate(d, id, all, fs_segment_there, NULL);
}
