/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests to other nodes and their replies (fetch.h, ipc/wire.h): how many may be under way, their
 * deadlines, and which peers are suspected. A suspected peer is asked nothing but a rare ping, and
 * any answer clears it. A peer that answers and yet owes blocks, as its disk hangs, is asked only
 * for blocks that nobody else may have. Replies are received directly into the cache line that
 * clients will read, checked, and only then published. The MPI thread's.
 */
#include <stdlib.h>

#include "daemon/blocks/disk.h"

/* ---- peers ---- */

/* Returns true if all exchanges are lost to peers that have died. Then nobody can be asked any
   more, and nothing may wait for an exchange. */
static bool fs_exchanges_lost(const struct fs_fetcher *t) {
  return t->flying == 0 && t->spare <= FS_PING_SPARE;
}

bool fs_peer_usable(const struct fs_daemon *d, uint32_t peer) {
  const struct fs_fetcher *t = d->fetcher;
  if (peer >= d->net->nodes || fs_exchanges_lost(t)) return false;
  return !t->peer[peer].suspected && t->peer[peer].owed < FS_PEER_IN_FLIGHT;
}

bool fs_peer_prompt(const struct fs_daemon *d, uint32_t peer) {
  return fs_peer_usable(d, peer) && d->fetcher->peer[peer].owed < FS_PEER_OWED;
}

static bool fs_peer_room(const struct fs_fetcher *t, const struct fs_peer *p) {
  return p->in_flight + p->owed < FS_PEER_IN_FLIGHT && p->bytes < t->peer_bytes;
}

/* Updates the list of ready peers, which have a queue and room. */
static void fs_peer_update(struct fs_fetcher *t, struct fs_peer *p) {
  bool ready = !fs_chain_empty(&p->queue) && fs_peer_room(t, p);
  if (!ready)
    fs_chain_drop(&p->ready);
  else if (fs_chain_empty(&p->ready))
    fs_chain_push(&t->ready, &p->ready);
}

void fs_peer_enqueue(struct fs_daemon *d, uint32_t peer, struct fs_fetch *f) {
  struct fs_peer *p = &d->fetcher->peer[peer];
  fs_chain_push(&p->queue, &f->chain);
  fs_peer_update(d->fetcher, p);
}

static void fs_peer_heard(struct fs_daemon *d, struct fs_peer *p) {
  p->heard = d->now;
  if (!p->suspected) return;
  p->suspected = false;
  fs_chain_drop(&p->suspect);
  if (d->cfg->verbose) fs_say_text(d, "warn", "node %u answers again", (uint32_t)(p - d->fetcher->peer));
}

/* Asks elsewhere for what waits for this peer, at once. Fetches that have no other source stay
   while the peer is usable. */
static void fs_peer_leave(struct fs_daemon *d, struct fs_peer *p) {
  bool usable = fs_peer_usable(d, (uint32_t)(p - d->fetcher->peer));
  struct fs_chain moved, stays;
  fs_chain_init(&moved);
  fs_chain_init(&stays);
  for (struct fs_chain *l; (l = fs_chain_pop(&p->queue)) != NULL;) {
    const struct fs_fetch *f = FS_ITEM(l, struct fs_fetch, chain);
    fs_chain_push(usable && (!f->source->chances || f->patient) ? &stays : &moved, l);
  }
  for (struct fs_chain *l; (l = fs_chain_pop(&stays)) != NULL;) fs_chain_push(&p->queue, l);
  fs_peer_update(d->fetcher, p);
  for (struct fs_chain *l; (l = fs_chain_pop(&moved)) != NULL;) fs_fetch_route(d, FS_ITEM(l, struct fs_fetch, chain));
}

/* Marks a peer as suspected, from which nothing came for a whole deadline. */
static void fs_peer_suspect(struct fs_daemon *d, struct fs_peer *p) {
  struct fs_fetcher *t = d->fetcher;
  if (p->suspected) return;
  p->suspected = true;
  p->ping_every = FS_PING_NS;
  p->ping_at = d->now + p->ping_every;
  fs_chain_push(&t->suspects, &p->suspect);
  if (d->cfg->verbose) fs_say_text(d, "warn", "node %u does not answer", (uint32_t)(p - t->peer));
  fs_peer_leave(d, p);
}

/* ---- exchanges ---- */

/* Ends the time in which an exchange counts as in flight. */
static void fs_exchange_land(struct fs_exchange *x) {
  struct fs_fetcher *t = x->d->fetcher;
  struct fs_peer *p = &t->peer[x->peer];
  if (!x->in_flight) return;
  x->in_flight = false;
  fs_chain_drop(&x->chain);
  t->flying--;
  p->in_flight--;
  p->bytes -= x->req.length;
  fs_peer_update(t, p);
}

/* Takes the fetch from an exchange whose reply may still come. */
static void fs_exchange_owe(struct fs_exchange *x) {
  x->fetch = NULL;
  fs_exchange_land(x);
  if (x->ping || x->owed) return;
  x->owed = true;
  x->d->fetcher->peer[x->peer].owed++;
}

static void fs_exchange_give_line(struct fs_exchange *x) {
  if (x->has_line) fs_cache_abort(x->d->cache, x->line);
  x->has_line = false;
}

/* Frees an exchange, if MPI has completed both messages. */
static void fs_exchange_settle(struct fs_exchange *x) {
  if (x->sending || x->receiving) return;
  fs_exchange_land(x);
  fs_exchange_give_line(x);
  if (x->ping) {
    x->d->fetcher->peer[x->peer].pings--;
    x->d->fetcher->pings--;
  }
  if (x->owed) {
    x->d->fetcher->peer[x->peer].owed--;
    fs_peer_update(x->d->fetcher, &x->d->fetcher->peer[x->peer]);
  }
  x->ping = x->owed = false;
  fs_chain_drop(&x->chain);
  fs_chain_push(&x->d->fetcher->free_exchanges, &x->chain);
  x->d->fetcher->spare++;
}

static bool fs_exchange_bare(const struct fs_exchange *x) {
  return x->req.type == FS_WIRE_READ_BARE;
}

/* Returns true if the message is a reply to this exchange. Of a bare reply only the length is
   known; the checksum is checked later. */
static bool fs_exchange_fits(const struct fs_exchange *x, uint64_t bytes) {
  const struct fs_wire_rep *r = x->rep;
  if (fs_exchange_bare(x) && bytes == x->req.length) return true;
  return bytes >= sizeof(*r) && r->magic == FS_WIRE_MAGIC && r->version == FS_WIRE_VERSION && r->id == x->id &&
         r->type == x->req.type;
}

/* Returns true if the reply has the bytes that were asked for. */
static bool fs_exchange_good(const struct fs_exchange *x, const struct fs_fetch *f, uint64_t bytes) {
  uint32_t len = f->want.block.stored_len;
  const struct fs_wire_rep *r = x->rep;
  bool bare = fs_exchange_bare(x), sized = f->source->sized;
  if (bare && bytes == len) return fs_fetch_intact(x->d, x->bytes, len, f->want.block.xxh3);
  if (r->err != 0) return false;
  bool whole = !bare && bytes == sizeof(*r) + (uint64_t)r->length && (sized ? r->length <= len : r->length == len);
  if (!whole) x->d->count.dropped++;
  return whole && fs_fetch_intact(x->d, x->bytes, r->length, sized ? r->xxh3 : f->want.block.xxh3);
}

static void fs_exchange_count(struct fs_exchange *x, uint32_t bytes) {
  struct fs_daemon *d = x->d;
  struct fs_peer *p = &d->fetcher->peer[x->peer];
  d->count.fetched++;
  d->count.fetched_bytes += bytes;
  p->fetched++;
  p->fetched_bytes += bytes;
  p->fetched_ns += d->now - x->sent;
}

/* Gives the fetch its answer: a good block, or else the fetch goes on to the next peer. */
static void fs_exchange_conclude(struct fs_exchange *x, uint64_t bytes, bool fits) {
  struct fs_daemon *d = x->d;
  struct fs_fetch *f = x->fetch;
  x->fetch = NULL;
  if (!fits || !fs_exchange_good(x, f, bytes)) {
    fs_exchange_give_line(x);
    fs_fetch_route(d, f);
    return;
  }
  x->has_line = false; /* the line belongs to the cache now */
  if (f->source->sized) fs_cache_shorten(d->cache, x->line, x->rep->length);
  fs_exchange_count(x, f->source->sized ? x->rep->length : f->want.block.stored_len);
  fs_cache_publish(d->cache, x->line, fs_fetch_awaited(f));
  fs_disk_keep(d, f, x->line, x->bytes);
  fs_fetch_finish(d, f, 0, x->line);
}

static void fs_exchange_received(struct fs_net_op *op, uint32_t peer, uint64_t bytes, fs_err err) {
  struct fs_exchange *x = FS_ITEM(op, struct fs_exchange, recv);
  (void)peer;
  x->receiving = false;
  bool fits = err == 0 && fs_exchange_fits(x, bytes);
  if (fits) fs_peer_heard(x->d, &x->d->fetcher->peer[x->peer]);
  /* a late reply, or none to this exchange */
  if (!fits || (!x->fetch && !x->ping)) x->d->count.dropped++;
  fs_exchange_land(x);
  if (x->fetch) fs_exchange_conclude(x, bytes, fits);
  fs_exchange_settle(x);
}

static void fs_exchange_sent(struct fs_net_op *op, uint32_t peer, uint64_t bytes, fs_err err) {
  struct fs_exchange *x = FS_ITEM(op, struct fs_exchange, send);
  (void)peer, (void)bytes;
  x->sending = false;
  if (err <
      0) { /* no reply will come, but the receive keeps its line, as in an overdue exchange; so suspect the peer */
    struct fs_fetch *f = x->fetch;
    fs_exchange_owe(x);
    fs_peer_suspect(x->d, &x->d->fetcher->peer[x->peer]);
    if (f) fs_fetch_route(x->d, f);
  }
  fs_exchange_settle(x);
}

static struct fs_exchange *fs_exchange_new(struct fs_daemon *d, uint32_t peer, uint16_t type) {
  struct fs_fetcher *t = d->fetcher;
  struct fs_chain *link = fs_chain_pop(&t->free_exchanges);
  if (!link) return NULL;
  t->spare--;
  struct fs_exchange *x = FS_ITEM(link, struct fs_exchange, chain);
  uint64_t generations = t->tags / FS_EXCHANGES, generation = t->generation++;
  x->peer = peer;
  x->sent = d->now;
  x->id = generation << 16 | x->number;
  x->rep = &x->pong;
  x->req = (struct fs_wire_req){.magic = FS_WIRE_MAGIC, .version = FS_WIRE_VERSION, .type = type, .id = x->id};
  x->req.tag = FS_TAG_REPLY_FIRST + (uint32_t)(generation % generations) * FS_EXCHANGES + x->number;
  return x;
}

/* Posts the receive, then sends the request. If the send fails, the receive stays posted and is
   waited for. */
static fs_err fs_exchange_start(struct fs_exchange *x, uint32_t length) {
  struct fs_net *net = x->d->net;
  size_t most = length + (fs_exchange_bare(x) ? 0 : sizeof(*x->rep));
  fs_err err = fs_net_recv(net, x->peer, x->req.tag, x->rep, most, &x->recv);
  if (err < 0) return err;
  x->receiving = true;
  x->req.sum = fs_wire_sum(&x->req, 0);
  err = fs_net_send(net, x->peer, FS_TAG_REQUEST, &x->req, sizeof(x->req), &x->send);
  x->sending = err == 0;
  return err;
}

/* Asks a peer for a block. Returns false if the cache is full of lines that are pinned or under
   way, which will pass; the caller tries again soon. Else the exchange has the fetch from here
   on, even if it could not be started. */
static bool fs_exchange_ask(struct fs_daemon *d, struct fs_peer *p, struct fs_fetch *f) {
  struct fs_fetcher *t = d->fetcher;
  void *buf;
  const struct fs_wanted *w = &f->want;
  int64_t line = fs_cache_alloc(d->cache, f->key, w->block.stored_len, &buf);
  /* counted from here, as the fetch may have waited for another owner before */
  if (line < 0 && f->full_since == 0) f->full_since = d->now;
  if (line < 0 && (t->flying > 0 || d->now - f->full_since < FS_FULL_NS)) return false;
  if (line < 0) {
    fs_fetch_finish(d, f, (fs_err)line, 0);
    return true;
  }
  uint32_t chances = f->source->chances ? f->source->chances(d, f) : 1;
  struct fs_exchange *x = fs_exchange_new(d, (uint32_t)(p - t->peer), w->type);
  x->line = (uint32_t)line;
  x->has_line = true;
  x->bytes = (unsigned char *)buf + FS_CACHE_HEADROOM;
  x->rep = fs_exchange_bare(x) ? (void *)x->bytes : buf;
  x->req.dataset = w->dataset;
  x->req.file = w->file;
  x->req.list = w->list;
  x->req.partition = w->block.partition;
  x->req.length = w->block.stored_len;
  x->req.offset = w->block.offset;
  x->deadline = d->now + d->cfg->deadline_ns / 4 * 3 / FS_MIN(chances, 3u);
  x->fetch = f;
  x->in_flight = true;
  fs_chain_push(&t->in_flight, &x->chain);
  t->flying++;
  p->in_flight++;
  p->bytes += x->req.length;
  if (fs_exchange_start(x, w->block.stored_len) < 0) {
    bool refused = x->receiving; /* the send was refused, not the receive */
    fs_exchange_owe(x);
    fs_exchange_settle(x);
    if (refused) fs_peer_suspect(d, p);
    fs_fetch_route(d, f);
  }
  return true;
}

void fs_exchange_pump(struct fs_daemon *d) {
  struct fs_fetcher *t = d->fetcher;
  struct fs_chain *link;
  bool going = d->now >= t->full_until;
  while (going && t->flying < FS_IN_FLIGHT && t->spare > FS_PING_SPARE && (link = fs_chain_pop(&t->ready)) != NULL) {
    struct fs_peer *p = FS_ITEM(link, struct fs_peer, ready);
    struct fs_fetch *f = FS_ITEM(fs_chain_pop(&p->queue), struct fs_fetch, chain);
    going = fs_exchange_ask(d, p, f);
    if (!going) {
      fs_chain_push_front(&p->queue, &f->chain);
      t->full_until = d->now + FS_FULL_RETRY_NS;
    }
    fs_peer_update(t, p); /* puts it behind the other ready peers */
  }
}

/* ---- time ---- */

static void fs_exchange_expire(struct fs_daemon *d, struct fs_exchange *x) {
  struct fs_peer *p = &d->fetcher->peer[x->peer];
  struct fs_fetch *f = x->fetch;
  d->count.timeouts++;
  fs_exchange_owe(x);
  if (p->heard <= x->sent) fs_peer_suspect(d, p);
  if (p->owed == FS_PEER_OWED || p->owed == FS_PEER_IN_FLIGHT) fs_peer_leave(d, p);
  if (f) fs_fetch_route(d, f);
}

static void fs_peer_ping(struct fs_daemon *d, struct fs_peer *p) {
  struct fs_fetcher *t = d->fetcher;
  uint32_t most = t->pings < FS_PINGS / 2 ? FS_PEER_PINGS : t->pings < FS_PINGS ? 1 : 0;
  p->ping_at = d->now + p->ping_every;
  p->ping_every = FS_MIN(p->ping_every * 2, FS_PING_MAX_NS);
  if (p->pings >= most) return; /* pings to dead peers are never settled */
  struct fs_exchange *x = fs_exchange_new(d, (uint32_t)(p - t->peer), FS_WIRE_PING);
  if (!x) return;
  x->ping = true;
  p->pings++;
  t->pings++;
  if (fs_exchange_start(x, 0) < 0) fs_exchange_settle(x);
}

/* Ends fetches that have waited in a queue for a whole deadline, as their clients have given up.
   Queues are in order of time. */
static void fs_peer_expire(struct fs_daemon *d, struct fs_peer *p) {
  while (!fs_chain_empty(&p->queue)) {
    struct fs_fetch *f = FS_ITEM(p->queue.next, struct fs_fetch, chain);
    if (d->now - f->started < d->cfg->deadline_ns) break;
    fs_chain_drop(&f->chain);
    fs_fetch_finish(d, f, -ETIMEDOUT, 0);
  }
  fs_peer_update(d->fetcher, p);
}

void fs_exchange_timers(struct fs_daemon *d) {
  struct fs_fetcher *t = d->fetcher;
  for (struct fs_chain *l = t->ready.next, *next; l != &t->ready; l = next) {
    next = l->next;
    fs_peer_expire(d, FS_ITEM(l, struct fs_peer, ready));
  }
  for (struct fs_chain *l = t->in_flight.next, *next; l != &t->in_flight; l = next) {
    struct fs_exchange *x = FS_ITEM(l, struct fs_exchange, chain);
    next = l->next;
    if (d->now < x->deadline) continue;
    fs_exchange_expire(d, x);
    next = t->in_flight.next; /* the list has changed */
  }
  for (struct fs_chain *l = t->suspects.next; l != &t->suspects; l = l->next) {
    struct fs_peer *p = FS_ITEM(l, struct fs_peer, suspect);
    if (d->now >= p->ping_at) fs_peer_ping(d, p);
  }
}

fs_err fs_exchange_init(struct fs_daemon *d) {
  struct fs_fetcher *t = d->fetcher;
  t->peer = calloc(d->net->nodes, sizeof(*t->peer));
  if (!t->peer) return -ENOMEM;
  t->tags = (FS_MIN(d->net->tag_max, (1u << 23) - 1) - FS_TAG_REPLY_FIRST) / FS_EXCHANGES * FS_EXCHANGES;
  fs_chain_init(&t->free_exchanges);
  fs_chain_init(&t->in_flight);
  fs_chain_init(&t->ready);
  fs_chain_init(&t->suspects);
  for (uint32_t i = 0; i < d->net->nodes; i++) {
    fs_chain_init(&t->peer[i].queue);
    fs_chain_init(&t->peer[i].ready);
    fs_chain_init(&t->peer[i].suspect);
  }
  for (uint32_t i = 0; i < FS_EXCHANGES; i++) {
    struct fs_exchange *x = &t->exchange[i];
    x->d = d;
    x->number = i;
    x->send.done = fs_exchange_sent;
    x->recv.done = fs_exchange_received;
    fs_chain_push(&t->free_exchanges, &x->chain);
  }
  t->spare = FS_EXCHANGES;
  uint64_t cache;
  (void)fs_cache_slab_fd(d->cache, &cache);
  t->peer_bytes = FS_MIN(FS_PEER_BYTES, cache / FS_PEER_SHARE);
  return 0;
}
