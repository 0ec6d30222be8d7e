/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Home's side of replicas (replicas.h). A file is read, its changes are sent, and the partner is
 * told the last word: what the file should contain. The partner's answer ends the wait of all
 * programs that wait for the file. Each try has a number of its own, the generation. A new partner
 * gets everything from the beginning. The MPI thread's.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/metadata/ns_priv.h"
#include "daemon/replicas/replicas.h"
#include "util/sys.h"

#define FS_WORD_TRIES 60u   /* last words without an answer */
#define FS_COPY_RESTARTS 8u /* restarts within one round */
#define FS_COPY_SOON_NS 5000000ull

struct fs_copy_wait {
  struct fs_chain chain;
  fs_replicated *done;
  void *ctx;
};

static void fs_copy_next(struct fs_replicas *t);
static void fs_copy_word(struct fs_copy *c);
static void fs_copy_begin(struct fs_copy *c);

/* ---- the end of one ---- */

static void fs_copy_free(struct fs_copy *c) {
  fs_listing_free(&c->listed);
  fs_listing_free(&c->list);
  free(c->sum);
  free(c);
}

static void fs_copy_tell_gone(struct fs_copy *c, fs_ns_done *done) {
  struct fs_names_call drop = {.op = FS_NAMES_DROP, .drop.id = c->id};
  fs_ns_ask(c->d->ns, c->to, &drop, done, c);
}

static void fs_copy_soon(struct fs_copy *c, bool restart) {
  struct fs_replicas *t = c->d->replicas;
  c->restart = restart;
  c->again = c->d->now + FS_COPY_SOON_NS;
  fs_chain_drop(&c->chain);
  fs_chain_push(&t->again, &c->chain);
}

/* Returns true if the partner may not have heard that the file has gone, and is still a member. */
static bool fs_copy_unheard(const struct fs_copy *c, fs_err err) {
  return (err == -ETIMEDOUT || err == -ENOMEM) && c->to != FS_NO_RANK && fs_member(fs_ns_members(c->d->ns), c->to);
}

static void fs_copy_left(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_copy *c = ctx;
  (void)body, (void)n;
  c->refs--;
  if (fs_copy_unheard(c, err))
    fs_copy_soon(c, false);
  else if (c->refs == 0)
    fs_copy_free(c);
  else
    c->leaving = false;
}

/* Tells the partner that the file has gone. The message is repeated until it is answered; no
   program waits for it. */
static void fs_copy_leave(struct fs_copy *c, uint32_t rank) {
  c->to = rank;
  c->leaving = true;
  c->refs++;
  fs_copy_tell_gone(c, fs_copy_left);
}

static void fs_copy_answer(struct fs_chain *waiters, fs_err err) {
  for (struct fs_chain *l; (l = fs_chain_pop(waiters)) != NULL;) {
    struct fs_copy_wait *w = FS_ITEM(l, struct fs_copy_wait, chain);
    w->done(w->ctx, err);
    free(w);
  }
}

static void fs_copy_queue(struct fs_replicas *t, struct fs_copy *c) {
  c->queued = true;
  fs_chain_drop(&c->chain);
  fs_chain_push(c->behind ? &t->later : &t->first, &c->chain);
}

static void fs_copy_discard(struct fs_copy *c) {
  /* the partner did not get the whole list */
  if (c->list.count > 0 || c->list_all) c->unlisted = true;
  c->list_all = false;
  for (uint32_t i = 0; i < c->n; i++) free(c->block[i]);
  c->n = 0;
  free(c->last);
  c->last = NULL;
  fs_listing_free(&c->list);
}

static void fs_copy_finish(struct fs_copy *c, fs_err err) {
  struct fs_replicas *t = c->d->replicas;
  struct fs_chain waiters;
  fs_chain_init(&waiters);
  for (struct fs_chain *l; (l = fs_chain_pop(&c->waiters)) != NULL;) fs_chain_push(&waiters, l);
  fs_copy_discard(c);
  fs_chain_drop(&c->chain);
  fs_chain_drop(&c->busy);
  c->active = false;
  t->active--;
  t->behind -= c->behind;
  if (err < 0) c->rank = FS_NO_RANK;
  if (c->removed) {
    fs_copy_leave(c, c->to);
  } else if (!fs_chain_empty(&c->waiting)) {
    c->behind = false;
    fs_copy_queue(t, c);
  }
  fs_copy_answer(&waiters, err);
  fs_copy_next(t);
}

/* ---- the last word ---- */

static void fs_copy_restart(struct fs_copy *c) {
  c->rank = FS_NO_RANK;
  if (c->removed)
    fs_copy_finish(c, 0);
  else if (++c->restarts > FS_COPY_RESTARTS)
    fs_copy_finish(c, -EIO);
  else
    fs_copy_soon(c, true);
}

static void fs_copy_done(struct fs_copy *c) {
  fs_listing_free(&c->list);
  c->list_all = false;
  c->rank = c->to;
  c->st = c->now;
  c->synced = c->sync;
  c->blocks = (uint32_t)(((uint64_t)c->st.st_size + FS_OUTPUT_BLOCK - 1) / FS_OUTPUT_BLOCK);
  c->d->count.replicated++;
  c->d->count.replicated_bytes += c->bytes;
  fs_copy_finish(c, 0);
}

static void fs_copy_told(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_copy *c = ctx;
  (void)body, (void)n;
  if (c->removed) {
    fs_copy_finish(c, 0);
    return;
  }
  switch (err) {
  case 0: /* the answer may be from a rank that has been evicted since */
    c->told += c->telling;
    if (!fs_member(fs_ns_members(c->d->ns), c->to))
      fs_copy_restart(c);
    else if (c->more)
      fs_copy_word(c);
    else
      fs_copy_done(c);
    return;
  /* the partner's directory is missing; -ENOENT would tell the program that the file has no name */
  case -ENOENT:
    fs_copy_finish(c, -EIO);
    return;
  case -ETIMEDOUT:
    fs_suspected(c->d->ns, c->to);
    if (++c->tries > FS_WORD_TRIES)
      fs_copy_finish(c, -EIO);
    else
      fs_copy_soon(c, false);
    return;
  case -EAGAIN: /* the partner is at work */
    fs_copy_soon(c, false);
    return;
  case -ESTALE:
  case -EHOSTDOWN:
  case -EILSEQ:
    fs_copy_restart(c);
    return;
  default:
    fs_copy_finish(c, err);
  }
}

static void fs_copy_word(struct fs_copy *c) {
  struct {
    struct fs_names_call call;
    struct fs_wire_replica head;
    unsigned char bytes[FS_NAMES_BODY - sizeof(struct fs_names_call) - sizeof(struct fs_wire_replica)];
  } m = {0};
  const struct fs_backing_file *f = fs_backing_find(c->d, c->id);
  m.call = (struct fs_names_call){
      .op = FS_NAMES_REPLICA, .flags = (c->sync ? FS_REPLICA_DURABLE : 0) | (f && f->segment ? FS_REPLICA_SEGMENT : 0)};
  m.call.replica = (struct fs_call_replica){.id = c->id,
                                            .dir = f ? f->dir : 0,
                                            .number = c->d->backing_files->published + 1,
                                            .size = (uint64_t)c->now.st_size,
                                            .mtime = c->now.st_mtim.tv_sec,
                                            .mtime_ns = (uint32_t)c->now.st_mtim.tv_nsec,
                                            .mode = S_IFREG | (c->now.st_mode & 07777),
                                            .generation = c->generation,
                                            .blocks = c->sent,
                                            .sent = c->upto};
  fs_copy_list_put(c, &m.call, sizeof(m) - sizeof(m.call) - (c->last ? FS_REPLICA_INLINE + sizeof(m.head) : 0));
  if (c->last && !c->more) {
    m.call.tail_len = (uint16_t)(sizeof(m.head) + c->last->head.length);
    m.head = c->last->head;
    memcpy(m.bytes, c->last->bytes, c->last->head.length);
  }
  fs_ns_ask(c->d->ns, c->to, (const void *)&m, fs_copy_told, c);
}

/* ---- blocks ---- */

static void fs_copy_read_on(struct fs_copy *c) {
  c->reading = true;
  fs_iopool_submit(&c->d->replicas->pool, &c->io);
}

static void fs_copy_sent(struct fs_net_op *op, uint32_t peer, uint64_t bytes, fs_err err) {
  struct fs_replica_block *b = FS_ITEM(op, struct fs_replica_block, op);
  struct fs_copy *c = b->copy;
  bool current = c->active && b->head.generation == c->generation;
  (void)peer, (void)bytes, (void)err;
  free(b);
  c->refs--;
  c->flight -= current;
  if (current && !c->reading && !c->restart && !c->ended && c->flight + FS_REPLICA_STEP <= FS_REPLICA_FLIGHT)
    fs_copy_read_on(c);
  else if (c->removed && !c->active && !c->leaving && c->refs == 0)
    fs_copy_free(c);
}

/* Sends a block. If the network refuses it, the partner finds that a block is missing. */
static void fs_copy_send(struct fs_copy *c, struct fs_replica_block *b) {
  b->op.done = fs_copy_sent;
  b->head.sum = fs_wire_sum(&b->head, 0);
  c->sent++;
  c->bytes += b->head.length;
  if (fs_net_send(c->d->net, c->to, FS_TAG_REPLICA, &b->head, sizeof(b->head) + b->head.length, &b->op) < 0) {
    free(b);
    return;
  }
  c->d->replicas->sent++;
  c->flight++;
  c->refs++;
}

static void fs_copy_was_read(struct fs_io *io) {
  struct fs_copy *c = FS_ITEM(io, struct fs_copy, io);
  c->reading = false;
  if (c->removed || io->err < 0) {
    fs_copy_finish(c, c->removed || io->err == -ENOENT ? 0 : io->err);
    return;
  }
  if (c->to != c->d->replicas->partner) {
    fs_copy_restart(c);
    return;
  }
  if (c->ended && c->sent == 0 && c->n == 1 && c->block[0]->head.length <= FS_REPLICA_INLINE) {
    c->last = c->block[0];
    c->bytes = c->last->head.length;
    c->n = 0;
  }
  for (uint32_t i = 0; i < c->n; i++) fs_copy_send(c, c->block[i]);
  c->n = 0;
  c->upto = c->d->replicas->sent;
  if (c->ended)
    fs_copy_word(c);
  else if (c->flight + FS_REPLICA_STEP <= FS_REPLICA_FLIGHT)
    fs_copy_read_on(c);
}

/* ---- one file ---- */

/* Begins a round of an active copy, or begins it again. */
static void fs_copy_begin(struct fs_copy *c) {
  struct fs_replicas *t = c->d->replicas;
  const struct fs_backing_file *f = fs_backing_find(c->d, c->id);
  fs_copy_discard(c);
  c->restart = false;
  c->to = t->partner;
  fs_err err = f && !c->removed && c->to != FS_NO_RANK ? fs_copy_list(c, f->extents) : 0;
  if (!f || c->removed || c->to == FS_NO_RANK || err < 0) {
    fs_copy_finish(c, err);
    return;
  }
  if (c->rank != c->to) c->blocks = 0;
  c->generation = ++t->generation;
  c->begun = c->ended = false;
  c->at = c->bytes = 0;
  c->sent = c->flight = c->tries = 0;
  fs_copy_read_on(c);
}

static void fs_copy_start(struct fs_replicas *t, struct fs_copy *c) {
  c->queued = false;
  c->active = true;
  c->restarts = 0;
  t->active++;
  t->behind += c->behind;
  fs_chain_push(&t->busy, &c->busy);
  for (struct fs_chain *l; (l = fs_chain_pop(&c->waiting)) != NULL;) fs_chain_push(&c->waiters, l);
  c->sync = c->sync_next;
  c->begin = c->begin_next;
  c->end = c->end_next;
  c->sync_next = false;
  c->begin_next = UINT64_MAX;
  c->end_next = 0;
  fs_copy_begin(c);
}

static void fs_copy_next(struct fs_replicas *t) {
  struct fs_chain *l;
  if (t->starting) return; /* a copy with nothing to do ended inside this loop */
  t->starting = true;
  while (t->active < FS_REPLICA_ACTIVE && (l = fs_chain_pop(&t->first)) != NULL)
    fs_copy_start(t, FS_ITEM(l, struct fs_copy, chain));
  while (t->behind < FS_REPLICA_BEHIND && t->active < FS_REPLICA_ACTIVE && (l = fs_chain_pop(&t->later)) != NULL)
    fs_copy_start(t, FS_ITEM(l, struct fs_copy, chain));
  t->starting = false;
}

static struct fs_copy *fs_copy_of(struct fs_daemon *d, struct fs_backing_file *f) {
  struct fs_copy *c = f->copy;
  if (c || (c = calloc(1, sizeof(*c))) == NULL) return c;
  c->d = d;
  c->id = f->id;
  c->rank = c->to = FS_NO_RANK;
  c->begin_next = UINT64_MAX;
  c->io = (struct fs_io){.work = fs_copy_read, .done = fs_copy_was_read};
  fs_chain_init(&c->chain);
  fs_chain_init(&c->busy);
  fs_chain_init(&c->waiting);
  fs_chain_init(&c->waiters);
  f->copy = c;
  return c;
}

/* Is what the partner has what the backing file is? */
static bool fs_copy_current(const struct fs_daemon *d, const struct fs_copy *c, bool sync) {
  char name[FS_BACKING_NAME_SIZE];
  struct stat st;
  if (c->active || c->queued || c->loose || c->rank != d->replicas->partner || (sync && !c->synced)) return false;
  if (c->listed.count > 0 || c->unlisted) return false;
  return fstatat(d->backing_fd, fs_backing_name(c->id, name), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
         fs_same_contents(&st, &c->st);
}

void fs_replicate(struct fs_daemon *d, uint64_t id, struct fs_replica_wish wish, fs_replicated *done, void *ctx) {
  struct fs_replicas *t = d->replicas;
  struct fs_backing_file *f = t && t->partner != FS_NO_RANK ? fs_backing_find(d, id) : NULL;
  if (!f || f->gone) {
    done(ctx, 0);
    return;
  }
  struct fs_copy *c = fs_copy_of(d, f);
  struct fs_copy_wait *w = c ? malloc(sizeof(*w)) : NULL;
  if (!w || fs_copy_current(d, c, wish.sync)) {
    free(w);
    done(ctx, w ? 0 : -ENOMEM);
    return;
  }
  *w = (struct fs_copy_wait){.done = done, .ctx = ctx};
  fs_chain_push(&c->waiting, &w->chain);
  c->sync_next = c->sync_next || wish.sync;
  c->begin_next = FS_MIN(c->begin_next, wish.begin);
  c->end_next = FS_MAX(c->end_next, wish.end);
  if (c->active) return; /* another round follows this one */
  if (!c->queued || !wish.behind) {
    c->behind = wish.behind;
    fs_copy_queue(t, c);
  }
  fs_copy_next(t);
}

void fs_copy_loosen(const struct fs_daemon *d, uint64_t id) {
  const struct fs_backing_file *f = fs_backing_find(d, id);
  if (f && f->copy) f->copy->loose = true;
}

void fs_copy_forget(struct fs_daemon *d, struct fs_backing_file *f) {
  struct fs_copy *c = f->copy;
  struct fs_chain waiting;
  f->copy = NULL;
  if (!c) return;
  fs_chain_init(&waiting);
  for (struct fs_chain *l; (l = fs_chain_pop(&c->waiting)) != NULL;) fs_chain_push(&waiting, l);
  c->removed = true;
  if (!c->active) {
    fs_chain_drop(&c->chain);
    if (c->rank != FS_NO_RANK && c->rank != d->net->rank)
      fs_copy_leave(c, c->rank);
    else if (c->refs == 0)
      fs_copy_free(c);
  }
  fs_copy_answer(&waiting, 0);
}

void fs_copy_timers(struct fs_replicas *t) {
  for (struct fs_chain *l; (l = t->again.next) != &t->again;) {
    struct fs_copy *c = FS_ITEM(l, struct fs_copy, chain);
    if (c->d->now < c->again) break; /* in order of time */
    fs_chain_drop(l);
    if (c->leaving)
      fs_copy_leave(c, c->to);
    else if (c->removed)
      fs_copy_finish(c, 0);
    else if (c->restart)
      fs_copy_begin(c);
    else
      fs_copy_word(c);
  }
  fs_copy_next(t);
}

/* Starts the copies again that were on their way to the last partner, which may never finish.
   The new partner lacks everything. */
void fs_copy_members(struct fs_replicas *t) {
  const struct fs_table *files = &t->d->backing_files->files;
  for (struct fs_chain *l = t->busy.next, *next; l != &t->busy; l = next) {
    struct fs_copy *c = FS_ITEM(l, struct fs_copy, busy);
    next = l->next;
    if (!c->reading && !c->ended && !c->restart && c->to != t->partner) fs_copy_restart(c);
  }
  for (struct fs_table_link *l = NULL; t->partner != FS_NO_RANK && (l = fs_table_next(files, l)) != NULL;) {
    struct fs_backing_file *f = FS_ITEM(l, struct fs_backing_file, by_id);
    bool file = f->mode != 0 && f->dir != 0;
    if ((!file && !f->segment) || f->removed || (f->copy && f->copy->rank == t->partner)) continue;
    if (f->segment)
      fs_segment_again(t->d, f->id);
    else
      fs_backing_again(t->d, f);
  }
}
