/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records which backing file is this node's segment of a file of several writers
 * (docs/internals/several-writers.md). A program offers one when it writes a file that has no
 * segment here, and all later programs get the same one. So all that a node writes of a file is in
 * one backing file, and each byte takes space once. Forwarders have their own segments. An entry
 * lives as long as its backing file. All runs in the MPI thread.
 */
#include "daemon/outputs/node_segment.h"

#include <fcntl.h>
#include <stdlib.h>

#include "daemon/outputs/backing.h"
#include "daemon/outputs/client_calls.h"
#include "daemon/outputs/forwarder.h"
#include "daemon/outputs/locks.h"
#include "daemon/outputs/replicate.h"
#include "daemon/outputs/written.h"
#include "util/table.h"

struct fs_node_segment {
  struct fs_table_link by_file, by_segment;
};

struct fs_node_segments {
  struct fs_table by_file, by_segment;
};

fs_err fs_node_segments_new(struct fs_daemon *d) {
  d->node_segments = calloc(1, sizeof(struct fs_node_segments));
  return d->node_segments ? 0 : -ENOMEM;
}

static struct fs_node_segment *fs_node_segment_of(const struct fs_node_segments *t, uint64_t file) {
  struct fs_table_link *l = fs_table_find(&t->by_file, file);
  return l ? FS_ITEM(l, struct fs_node_segment, by_file) : NULL;
}

static struct fs_node_segment *fs_node_segment_find(const struct fs_node_segments *t, uint64_t segment) {
  struct fs_table_link *l = fs_table_find(&t->by_segment, segment);
  return l ? FS_ITEM(l, struct fs_node_segment, by_segment) : NULL;
}

static void fs_node_segment_forget(struct fs_node_segments *t, struct fs_node_segment *p) {
  fs_table_remove(&t->by_file, &p->by_file);
  fs_table_remove(&t->by_segment, &p->by_segment);
  free(p);
}

static bool fs_node_segment_there(const struct fs_daemon *d, uint64_t segment) {
  char name[FS_BACKING_NAME_SIZE];
  struct stat st;
  return fstatat(d->backing_fd, fs_backing_name(segment, name), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/* Returns true if this backing file exists and may become a segment: it is no named or removed
   file, no forwarder, and no other file's segment. */
static bool fs_node_segment_free(const struct fs_daemon *d, uint64_t segment) {
  const struct fs_backing_file *f = fs_backing_find(d, segment);
  bool named = f && (f->dir != 0 || f->removed || f->gone);
  return !named && !fs_forwarder_find(d, segment) && !fs_node_segment_find(d->node_segments, segment) &&
         fs_node_segment_there(d, segment);
}

static fs_err fs_node_segment_add(struct fs_daemon *d, uint64_t file, uint64_t segment) {
  struct fs_node_segments *t = d->node_segments;
  if (segment == file || !fs_node_segment_free(d, segment)) return -EINVAL;
  struct fs_node_segment *p = malloc(sizeof(*p));
  if (!p) return -ENOMEM;
  fs_table_add(&t->by_file, &p->by_file, file);
  fs_table_add(&t->by_segment, &p->by_segment, segment);
  return 0;
}

fs_err fs_node_segment_offered(struct fs_daemon *d, uint64_t file, uint64_t offered, uint64_t *segment) {
  struct fs_node_segment *p = fs_node_segment_of(d->node_segments, file);
  if (p && !fs_node_segment_there(d, p->by_segment.key)) {
    fs_node_segment_forget(d->node_segments, p);
    p = NULL;
  }
  fs_err err = !p && offered != 0 ? fs_node_segment_add(d, file, offered) : 0;
  *segment = p ? p->by_segment.key : offered;
  return err;
}

void fs_node_segment_dropped(struct fs_daemon *d, uint64_t segment) {
  struct fs_node_segment *p = d->node_segments ? fs_node_segment_find(d->node_segments, segment) : NULL;
  if (p) fs_node_segment_forget(d->node_segments, p);
}

void fs_node_segment_useless(struct fs_daemon *d, uint64_t file) {
  const struct fs_node_segment *p = d->node_segments ? fs_node_segment_of(d->node_segments, file) : NULL;
  if (p) fs_backing_dropped(d, p->by_segment.key);
}

/* ---- clients' calls ---- */

static void fs_node_segment_extended(void *ctx, fs_err err, const void *body, size_t n) {
  const struct fs_client_call *call = ctx;
  if (err == -ENOENT) fs_node_segment_useless(call->d, call->id);
  fs_client_call_done(ctx, err, body, n);
}

static void fs_node_segment_extends(struct fs_client_call *call, const struct fs_names_call *c) {
  if (c->extend.written != 0) {
    fs_written_extend(call, c);
    return;
  }
  call->id = c->extend.id;
  fs_segment_extend(call->d, c, fs_node_segment_extended, call);
}

static fs_err fs_node_segment_may(struct fs_client_call *call, struct fs_names_call *c) {
  return fs_lock_holders_check(call->d, call->client, c->extend.id);
}

const struct fs_client_call_op fs_extend_call = {
    .check = fs_client_call_check_file, .prepare = fs_node_segment_may, .start = fs_node_segment_extends};

static fs_err fs_node_segment_check_offer(const struct fs_daemon *d, const struct fs_names_call *c) {
  return c->offer.segment == 0 || fs_backing_mine(d, c->offer.segment) ? fs_client_call_check_file(d, c) : -EINVAL;
}

static void fs_node_segment_offers(struct fs_client_call *call, const struct fs_names_call *c) {
  uint64_t segment;
  fs_err err = fs_node_segment_offered(call->d, c->offer.file, c->offer.segment, &segment);
  fs_client_call_done(call, err, &segment, err == 0 ? sizeof(segment) : 0);
}

const struct fs_client_call_op fs_offer_call = {.check = fs_node_segment_check_offer, .start = fs_node_segment_offers};
