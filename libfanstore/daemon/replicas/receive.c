/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The partner's side of replicas (replicas.h). Blocks of a file come in any order and are written
 * as they come. The last word says how many blocks there are; it is answered when all are written.
 * A newer generation ends the one before. A replica is no output of this node until its home has
 * gone and this node has become the home.
 *
 * A block's buffer returns to the network only after the block has been written, so the senders
 * wait for this disk. The MPI thread's.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/replicas/replicas.h"

#define FS_REPLICA_PATIENCE 2u /* deadlines of the job that may pass without any block */

/* ---- the table ---- */

static struct fs_replica *fs_replica_find(struct fs_replicas *t, uint64_t id) {
  struct fs_table_link *l = fs_table_find(&t->files, id);
  return l ? FS_ITEM(l, struct fs_replica, by_id) : NULL;
}

static void fs_replica_written(struct fs_io *io);

static struct fs_replica *fs_replica_make(struct fs_replicas *t, uint64_t id) {
  struct fs_replica *r = fs_replica_find(t, id);
  if (r || (r = calloc(1, sizeof(*r))) == NULL) return r;
  r->d = t->d;
  r->id = id;
  r->from = FS_NO_RANK;
  r->io = (struct fs_io){.work = fs_replica_write, .done = fs_replica_written};
  fs_chain_init(&r->chain);
  fs_chain_init(&r->blocks);
  fs_chain_init(&r->writing);
  fs_table_add(&t->files, &r->by_id, id);
  return r;
}

/* ---- buffers ---- */

static fs_err fs_replica_post(struct fs_replicas *t, struct fs_replica_block *b) {
  fs_err err = fs_net_recv(t->d->net, FS_NET_ANY, FS_TAG_REPLICA, &b->head, sizeof(b->head) + FS_OUTPUT_BLOCK, &b->op);
  if (err < 0) fs_chain_push(&t->unposted, &b->chain);
  return err;
}

static void fs_replica_give_back(struct fs_replicas *t, struct fs_chain *blocks) {
  for (struct fs_chain *l; (l = fs_chain_pop(blocks)) != NULL;)
    (void)fs_replica_post(t, FS_ITEM(l, struct fs_replica_block, chain));
}

/* ---- the end of one ---- */

static void fs_replica_free(struct fs_replica *r) {
  struct fs_replicas *t = r->d->replicas;
  fs_table_remove(&t->files, &r->by_id);
  fs_chain_drop(&r->chain);
  fs_replica_give_back(t, &r->blocks);
  free(r->last);
  free(r->segments);
  fs_listing_free(&r->list);
  free(r);
}

/* Cuts a replica to its last complete size. The blocks of an unfinished generation came in any
   order, so bytes beyond that size may be incomplete. */
static void fs_replica_cut(const struct fs_replica *r, const char *name) {
  struct stat st;
  FS_AUTO_CLOSE int fd = openat(r->d->backing_fd, name, FS_BACKING_WRITE);
  if (fd >= 0 && fstat(fd, &st) == 0 && (uint64_t)st.st_size > r->size) (void)ftruncate(fd, (off_t)r->size);
}

/* Makes this node the home of a replica. A replica that was never complete is removed: nobody
   has been told of its file. */
static void fs_replica_adopt(struct fs_replica *r) {
  struct fs_daemon *d = r->d;
  char name[FS_BACKING_NAME_SIZE];
  fs_backing_name(r->id, name);
  if (r->whole) {
    if (!r->done) fs_replica_cut(r, name);
    (void)fchmodat(d->backing_fd, name, r->mode & 07777, 0);
  } else {
    fs_backing_unlink(d, &r->id, 1);
  }
  bool segment = r->whole && r->segment;
  if (r->whole && !segment) {
    fs_backing_adopt(d, r->id, r->dir, r->seq, r->mode, r->segments);
    struct fs_backing_file *f = fs_backing_find(d, r->id);
    if (f) f->adopted = r->size;
    r->segments = NULL;
  }
  uint64_t id = r->id;
  fs_replica_free(r);
  if (segment) fs_segment_again(d, id);
}

static void fs_replica_leave(struct fs_replica *r) {
  fs_backing_unlink(r->d, &r->id, 1);
  fs_replica_free(r);
}

/* ---- writing ---- */

static bool fs_replica_complete(const struct fs_replica *r) {
  return r->asked && !r->done && r->err == 0 && r->got >= r->call.replica.blocks;
}

static void fs_replica_answer(struct fs_replica *r, fs_err err) {
  if (!r->asked) return;
  r->asked = false;
  fs_chain_drop(&r->chain);
  fs_ns_answer(r->d->ns, r->question, err, NULL, 0);
}

static void fs_replica_run(struct fs_replica *r) {
  if (r->busy) return;
  if (r->asked && r->err < 0) fs_replica_answer(r, r->err);
  r->settling = fs_replica_complete(r);
  if (fs_chain_empty(&r->blocks) && !r->settling) return;
  for (struct fs_chain *l; (l = fs_chain_pop(&r->blocks)) != NULL;) fs_chain_push(&r->writing, l);
  r->busy = true;
  fs_iopool_submit(&r->d->replicas->pool, &r->io);
}

static void fs_replica_settled(struct fs_replica *r) {
  free(r->last);
  r->last = NULL;
  if (r->io.err < 0 || r->generation != r->call.replica.generation) return;
  r->io.err = fs_replica_list(r);
  if (r->io.err < 0) {
    r->err = r->io.err;
    return;
  }
  r->done = r->whole = true;
  r->segment = r->call.flags & FS_REPLICA_SEGMENT;
  r->dir = r->call.replica.dir;
  r->seq = FS_MAX(r->seq, r->call.replica.number);
  r->size = r->call.replica.size;
  r->mode = r->call.replica.mode;
  fs_replica_answer(r, 0);
}

static void fs_replica_written(struct fs_io *io) {
  struct fs_replica *r = FS_ITEM(io, struct fs_replica, io);
  bool settled = r->settling;
  r->busy = r->settling = false;
  r->d->replicas->moved = r->d->now;
  fs_replica_give_back(r->d->replicas, &r->writing);
  if (io->err < 0 && !r->done) r->err = io->err;
  if (settled) fs_replica_settled(r);
  if (r->dropped)
    fs_replica_leave(r);
  else if (r->promoted)
    fs_replica_adopt(r);
  else
    fs_replica_run(r);
}

/* ---- what comes ---- */

static void fs_replica_renew(struct fs_replica *r, uint32_t from, uint32_t generation) {
  fs_replica_answer(r, -EILSEQ);
  fs_listing_free(&r->list);
  r->from = from;
  r->generation = generation;
  r->got = 0;
  r->err = 0;
  r->done = false;
  r->since = r->d->now;
}

/* Returns true if the message places bytes, or a hole, where a file can have them. */
static bool fs_replica_placed(const struct fs_wire_replica *h) {
  const uint64_t most = (uint64_t)FS_OUTPUT_BLOCK * FS_OUTPUT_BLOCKS;
  return h->length <= FS_OUTPUT_BLOCK && (h->length == 0 || h->hole == 0) && h->hole <= most &&
         h->offset <= most - FS_MAX(h->hole, h->length);
}

static bool fs_replica_sane(const struct fs_daemon *d, const struct fs_wire_replica *h, uint32_t from, uint64_t bytes) {
  return bytes >= sizeof(*h) && h->magic == FS_WIRE_REPLICA_MAGIC && h->version == FS_WIRE_VERSION &&
         h->sum == fs_wire_sum(h, 0) && fs_replica_placed(h) && bytes == sizeof(*h) + h->length &&
         (h->file & FS_OUTPUT_ID) && h->file >> 63 == 0 && from < d->net->nodes && from != d->net->rank &&
         fs_home_of(d, h->file) == from;
}

static bool fs_replica_newer(const struct fs_replica *r, uint32_t from, uint32_t generation) {
  return from != r->from || generation > r->generation;
}

static void fs_replica_received(struct fs_net_op *op, uint32_t from, uint64_t bytes, fs_err err) {
  struct fs_replica_block *b = FS_ITEM(op, struct fs_replica_block, op);
  struct fs_replicas *t = b->replicas;
  const struct fs_wire_replica *h = &b->head;
  t->moved = t->d->now;
  if (err == 0 && from < t->d->net->nodes) t->heard[from]++;
  struct fs_replica *r = err == 0 && fs_replica_sane(t->d, h, from, bytes) ? fs_replica_make(t, h->file) : NULL;
  if (r && fs_replica_newer(r, from, h->generation)) fs_replica_renew(r, from, h->generation);
  if (!r || h->generation != r->generation || r->done) {
    t->d->count.dropped++;
    (void)fs_replica_post(t, b);
    return;
  }
  r->got++;
  r->since = t->d->now;
  fs_chain_push(&r->blocks, &b->chain);
  fs_replica_run(r);
}

/* Takes the block that came in the last word. Returns false if it is malformed or there is no
   memory. */
static bool fs_replica_inline(struct fs_replica *r, const struct fs_names_call *c) {
  size_t n = c->tail_len;
  struct fs_replica_block *b = n > 0 ? malloc(sizeof(*b) + n) : NULL;
  if (!b) return n == 0;
  memcpy(&b->head, fs_call_tail(c), sizeof(b->head));
  n -= sizeof(b->head);
  memcpy(b->bytes, fs_call_tail(c) + sizeof(b->head), n);
  if (b->head.length != n || !fs_replica_placed(&b->head)) {
    free(b);
    return false;
  }
  free(r->last);
  r->last = b;
  return true;
}

void fs_replica_call(struct fs_daemon *d, struct fs_asked a, const struct fs_names_call *c) {
  struct fs_replicas *t = d->replicas;
  uint32_t generation = c->replica.generation;
  struct fs_replica *r = t ? fs_replica_make(t, c->replica.id) : NULL;
  if (r && fs_replica_newer(r, a.from, generation)) fs_replica_renew(r, a.from, generation);
  bool current = r && generation == r->generation;
  if (current && r->busy && r->settling && generation != r->call.replica.generation) {
    /* the last word of an older generation is still at work */
    fs_ns_answer(d->ns, a, -EAGAIN, NULL, 0);
    return;
  }
  if (!current || r->done || r->dropped) {
    fs_ns_answer(d->ns, a, !r ? -ENOMEM : current && r->done ? 0 : -EILSEQ, NULL, 0);
    return;
  }
  fs_err listed = fs_replica_listed(r, c);
  if (listed < 0 || (c->flags & FS_REPLICA_MORE)) {
    fs_ns_answer(d->ns, a, listed, NULL, 0);
    return;
  }
  if (!r->busy || !r->settling) { /* else this word is already at work */
    if (!fs_replica_inline(r, c)) {
      fs_ns_answer(d->ns, a, -ENOMEM, NULL, 0);
      return;
    }
    r->call = *c;
  }
  r->question = a;
  if (!r->asked) fs_chain_push(&t->asked, &r->chain);
  r->asked = true;
  fs_replica_run(r);
}

void fs_replica_drop(struct fs_daemon *d, uint64_t id) {
  struct fs_replica *r = d->replicas ? fs_replica_find(d->replicas, id) : NULL;
  if (!r) return;
  fs_replica_answer(r, -EILSEQ);
  r->dropped = true;
  if (!r->busy) fs_replica_leave(r);
}

bool fs_replica_waits(const struct fs_daemon *d, uint64_t id) {
  const struct fs_replica *r = d->replicas ? fs_replica_find(d->replicas, id) : NULL;
  return r && r->promoted;
}

/* Returns true if blocks of this replica may still be on their way, behind those of others. */
static bool fs_replica_expects(const struct fs_replicas *t, const struct fs_replica *r) {
  if ((int32_t)(t->heard[r->from] - r->call.replica.sent) >= 0) return false;
  return t->d->now - t->moved < FS_REPLICA_PATIENCE * t->d->cfg->deadline_ns;
}

/* Answers last words that have waited for long. If the replica waits for a disk or for its turn,
   the answer is -EAGAIN: it is at work. If blocks are lost, the answer is -EILSEQ: start again. */
void fs_replica_timers(struct fs_replicas *t) {
  uint64_t patience = t->d->cfg->deadline_ns / 8;
  for (struct fs_chain *l = t->asked.next, *next; l != &t->asked; l = next) {
    struct fs_replica *r = FS_ITEM(l, struct fs_replica, chain);
    next = l->next;
    if (t->d->now - r->since < patience) continue;
    r->since = t->d->now;
    fs_replica_answer(r, r->busy || fs_replica_expects(t, r) ? -EAGAIN : -EILSEQ);
  }
  for (struct fs_chain *l; (l = fs_chain_pop(&t->unposted)) != NULL;) {
    if (fs_replica_post(t, FS_ITEM(l, struct fs_replica_block, chain)) < 0) break;
  }
}

void fs_replica_members(struct fs_replicas *t) {
  FS_TABLE_EACH(&t->files, l) {
    struct fs_replica *r = FS_ITEM(l, struct fs_replica, by_id);
    if (fs_home_of(t->d, r->id) != t->d->net->rank) continue;
    fs_replica_answer(r, -ESTALE);
    r->promoted = true;
    if (!r->busy) fs_replica_adopt(r);
  }
}

fs_err fs_replica_start(struct fs_replicas *t) {
  for (uint32_t i = 0; i < FS_REPLICA_POSTED; i++) {
    struct fs_replica_block *b = calloc(1, sizeof(*b) + FS_OUTPUT_BLOCK);
    if (!b) return -ENOMEM;
    b->op.done = fs_replica_received;
    b->replicas = t;
    fs_err err = fs_replica_post(t, b);
    if (err < 0) return err;
  }
  return 0;
}
