/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes partitions from other nodes (peers.h). The worker thread puts requests into a window of
 * slots and waits for their answers. The MPI thread sends the requests and receives the answers,
 * directly into the slots. If the worker gives a peer up, the window belongs to the MPI thread
 * until MPI has completed all of it, and the worker never asks this peer again. One mutex covers
 * all fields but those of fs_take that only the worker uses.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/staging/peers.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_TAKE_LOOK_NS 100000000ull /* between two looks at whether the daemon stops */

enum take_state { TAKE_IDLE, TAKE_WANTED, TAKE_FLYING, TAKE_DONE };

struct take_window;
struct take_slot {
  struct fs_net_op send, recv;
  struct take_window *w;
  enum take_state state;
  bool sending, receiving;
  fs_err err; /* of sending and receiving */
  uint64_t got;
  struct fs_wire_req req;
  struct fs_wire_rep *rep; /* with its bytes behind it */
};
struct take_window {
  struct fs_take *t;
  bool given_up;
  uint32_t peer;
  struct take_slot slot[FS_PEER_PIECES];
};
struct take_peer {
  bool bad;             /* it is not asked again */
  bool told;            /* the user knows that it does not pass its partitions on */
  uint64_t seen, since; /* its last count of progress, and when it had changed */
};
struct fs_take {
  struct fs_daemon *d;
  pthread_mutex_t lock;
  pthread_cond_t answered;
  struct take_window *window; /* the worker's now; NULL: none */
  _Atomic bool wanted;        /* a slot is TAKE_WANTED */
  _Atomic uint32_t flying;    /* slots that wait for an answer */
  /* the worker's alone */
  struct take_peer *peer;
  uint64_t id;
  struct {
    uint32_t peer, dataset, part;
    uint64_t size, asked, read; /* of the partition: bytes that were asked for, and read */
    bool open;
  } file;
};

/* ---- both threads, under the lock ---- */

static void window_free(struct take_window *w) {
  for (unsigned i = 0; w && i < FS_PEER_PIECES; i++) free(w->slot[i].rep);
  free(w);
}

static bool window_flying(const struct take_window *w) {
  for (unsigned i = 0; i < FS_PEER_PIECES; i++)
    if (w->slot[i].sending || w->slot[i].receiving) return true;
  return false;
}

/* ---- the MPI thread ---- */

static void slot_settle(struct take_slot *s) {
  struct take_window *w = s->w;
  struct fs_take *t = w->t;
  if (s->sending || s->receiving) return;
  if (s->state == TAKE_FLYING) {
    s->state = TAKE_DONE;
    atomic_fetch_sub(&t->flying, 1);
    pthread_cond_signal(&t->answered);
  }
  if (w->given_up && !window_flying(w)) window_free(w);
}

static void slot_sent(struct fs_net_op *op, uint32_t peer, uint64_t bytes, fs_err err) {
  struct take_slot *s = FS_ITEM(op, struct take_slot, send);
  struct fs_take *t = s->w->t;
  (void)peer, (void)bytes;
  pthread_mutex_lock(&t->lock);
  s->sending = false;
  if (err < 0) s->err = err;
  slot_settle(s);
  pthread_mutex_unlock(&t->lock);
}

static void slot_received(struct fs_net_op *op, uint32_t peer, uint64_t bytes, fs_err err) {
  struct take_slot *s = FS_ITEM(op, struct take_slot, recv);
  struct fs_take *t = s->w->t;
  (void)peer;
  pthread_mutex_lock(&t->lock);
  s->receiving = false;
  s->got = bytes;
  if (err < 0) s->err = err;
  slot_settle(s);
  pthread_mutex_unlock(&t->lock);
}

static void slot_start(struct take_slot *s) {
  struct fs_net *net = s->w->t->d->net;
  s->state = TAKE_FLYING;
  atomic_fetch_add(&s->w->t->flying, 1);
  s->err = fs_net_recv(net, s->w->peer, s->req.tag, s->rep, sizeof(*s->rep) + FS_PEER_PIECE, &s->recv);
  s->receiving = s->err == 0;
  if (s->err == 0) s->err = fs_net_send(net, s->w->peer, FS_TAG_PART, &s->req, sizeof(s->req), &s->send);
  s->sending = s->err == 0;
  slot_settle(s);
}

int fs_take_run(struct fs_peers *p) {
  struct fs_take *t = p->take;
  int n = 0;
  if (!atomic_exchange(&t->wanted, false)) return 0;
  pthread_mutex_lock(&t->lock);
  for (unsigned i = 0; t->window && i < FS_PEER_PIECES; i++) {
    if (t->window->slot[i].state != TAKE_WANTED) continue;
    slot_start(&t->window->slot[i]);
    n++;
  }
  pthread_mutex_unlock(&t->lock);
  return n;
}

bool fs_take_busy(const struct fs_peers *p) {
  return atomic_load(&p->take->flying) > 0;
}

/* ---- the worker ---- */

static struct take_window *window_new(struct fs_take *t) {
  struct take_window *w = calloc(1, sizeof(*w));
  if (!w) return NULL;
  w->t = t;
  for (unsigned i = 0; i < FS_PEER_PIECES; i++) {
    struct take_slot *s = &w->slot[i];
    s->w = w;
    s->send.done = slot_sent;
    s->recv.done = slot_received;
    s->rep = malloc(sizeof(*s->rep) + FS_PEER_PIECE);
    if (s->rep) continue;
    window_free(w);
    return NULL;
  }
  return w;
}

/* Gives the window up. A message that is under way may still be written there. */
static void window_give_up(struct fs_take *t) {
  pthread_mutex_lock(&t->lock);
  struct take_window *w = t->window;
  t->window = NULL;
  for (unsigned i = 0; w && i < FS_PEER_PIECES; i++) {
    if (w->slot[i].state == TAKE_FLYING) atomic_fetch_sub(&t->flying, 1);
    w->slot[i].state = TAKE_IDLE;
  }
  if (w) w->given_up = true;
  if (w && !window_flying(w)) window_free(w);
  pthread_mutex_unlock(&t->lock);
}

static void peer_tell(struct fs_take *t, uint32_t peer) {
  if (t->peer[peer].told || atomic_load(&t->d->stop)) return;
  t->peer[peer].told = true;
  fs_say_text(t->d, "warn", "node %u does not pass its partitions on: they are read from shared storage", peer);
}

/* Puts a request into a slot of the window. */
static fs_err slot_want(struct fs_take *t, unsigned i, uint32_t peer, struct fs_wire_req req) {
  if (!t->window) {
    struct take_window *w = window_new(t);
    if (!w) return -ENOMEM;
    pthread_mutex_lock(&t->lock);
    t->window = w;
    pthread_mutex_unlock(&t->lock);
  }
  req.magic = FS_WIRE_MAGIC;
  req.version = FS_WIRE_VERSION;
  req.type = FS_WIRE_READ_PART;
  req.id = ++t->id;
  req.tag = FS_TAG_PIECE_FIRST + i;
  req.sum = fs_wire_sum(&req, 0);
  pthread_mutex_lock(&t->lock);
  t->window->peer = peer;
  t->window->slot[i].req = req;
  t->window->slot[i].state = TAKE_WANTED;
  pthread_mutex_unlock(&t->lock);
  atomic_store(&t->wanted, true);
  fs_daemon_wake(t->d);
  return 0;
}

static struct timespec moment(uint64_t ns) {
  return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

/* Waits for a slot's answer. Returns what the answer says, and its counter. A silent peer, and one
   whose answer makes no sense, is given up. */
static fs_err slot_wait(struct fs_take *t, unsigned i, uint64_t *alive) {
  struct take_slot *s = &t->window->slot[i];
  uint64_t end = fs_now_ns() + FS_PEER_PATIENCE * t->d->cfg->deadline_ns;
  bool stop = false;
  pthread_mutex_lock(&t->lock);
  while (s->state != TAKE_DONE && !stop && fs_now_ns() < end) {
    struct timespec until = moment(FS_MIN(end, fs_now_ns() + FS_TAKE_LOOK_NS));
    pthread_cond_timedwait(&t->answered, &t->lock, &until);
    fs_peers_alive(t->d); /* who waits for this node need not wait longer than this node does */
    stop = atomic_load(&t->d->stop);
  }
  bool done = s->state == TAKE_DONE;
  if (done) s->state = TAKE_IDLE;
  pthread_mutex_unlock(&t->lock);
  const struct fs_wire_rep *r = s->rep;
  bool good = done && s->err == 0 && s->got >= sizeof(*r) && r->magic == FS_WIRE_MAGIC &&
              r->version == FS_WIRE_VERSION && r->type == FS_WIRE_READ_PART && r->id == s->req.id && r->err <= 0 &&
              r->length == (r->err == 0 ? s->req.length : 0) && s->got == sizeof(*r) + (uint64_t)r->length;
  if (!good) {
    peer_tell(t, t->window->peer);
    t->peer[t->window->peer].bad = true;
    window_give_up(t);
    return stop ? -ECANCELED : done ? -EPROTO : -ETIMEDOUT;
  }
  *alive = r->reserved[0];
  return r->err;
}

fs_err fs_take_ask(struct fs_daemon *d, uint32_t peer, uint32_t dataset, uint32_t part) {
  struct fs_take *t = d->peers->take;
  struct take_peer *p = &t->peer[peer];
  uint64_t alive = 0;
  if (p->bad) return -EHOSTDOWN;
  fs_err err = slot_want(t, 0, peer, (struct fs_wire_req){.dataset = dataset, .partition = part});
  if (err == 0) err = slot_wait(t, 0, &alive);
  if (err != -EAGAIN) return err;
  uint64_t now = fs_now_ns();
  if (p->since == 0 || alive != p->seen) {
    p->seen = alive;
    p->since = now;
  }
  fs_peers_alive(d); /* who waits for this node sees that it does not hang itself */
  if (now - p->since < FS_PEER_PATIENCE * d->cfg->deadline_ns) return -EAGAIN;
  peer_tell(t, peer);
  return -ETIMEDOUT;
}

void fs_take_begin(struct fs_daemon *d, uint32_t peer, uint32_t dataset, uint32_t part, uint64_t size) {
  struct fs_take *t = d->peers->take;
  t->file.peer = peer;
  t->file.dataset = dataset;
  t->file.part = part;
  t->file.size = size;
  t->file.asked = t->file.read = 0;
  t->file.open = true;
}

static uint32_t piece_at(const struct fs_take *t, uint64_t off) {
  return (uint32_t)FS_MIN((uint64_t)FS_PEER_PIECE, t->file.size - off);
}

/* Asks for pieces until the window is full. */
static fs_err fill_window(struct fs_take *t) {
  fs_err err = 0;
  while (err == 0 && t->file.asked < t->file.size &&
         t->file.asked - t->file.read < (uint64_t)FS_PEER_PIECES * FS_PEER_PIECE) {
    uint64_t off = t->file.asked;
    struct fs_wire_req req = {
        .dataset = t->file.dataset, .partition = t->file.part, .offset = off, .length = piece_at(t, off)};
    err = slot_want(t, (unsigned)(off / FS_PEER_PIECE % FS_PEER_PIECES), t->file.peer, req);
    if (err == 0) t->file.asked += req.length;
  }
  return err;
}

fs_err fs_take_read(void *ctx, void *buf, size_t n, uint64_t off) {
  struct fs_take *t = ((struct fs_daemon *)ctx)->peers->take;
  uint64_t alive;
  for (size_t done = 0; done < n;) {
    fs_err err = t->file.open && off + done == t->file.read ? fill_window(t) : -EINVAL;
    unsigned i = (unsigned)(t->file.read / FS_PEER_PIECE % FS_PEER_PIECES);
    uint32_t len = piece_at(t, t->file.read);
    if (err == 0 && len > n - done) err = -EINVAL; /* the caller reads whole pieces */
    if (err < 0) return err;
    err = slot_wait(t, i, &alive);
    t->file.read += len; /* the slot is free again, whatever the answer */
    if (err < 0) return err;
    memcpy((char *)buf + done, t->window->slot[i].rep + 1, len);
    done += len;
  }
  return 0;
}

void fs_take_end(struct fs_daemon *d) {
  struct fs_take *t = d->peers->take;
  uint64_t alive;
  t->file.open = false;
  for (; t->window && t->file.read < t->file.asked; t->file.read += FS_MIN(FS_PEER_PIECE, t->file.asked - t->file.read))
    (void)slot_wait(t, (unsigned)(t->file.read / FS_PEER_PIECE % FS_PEER_PIECES), &alive);
}

void fs_take_close(struct fs_daemon *d) {
  window_give_up(d->peers->take);
}

fs_err fs_take_new(struct fs_peers *p) {
  pthread_condattr_t attr;
  struct fs_take *t = p->take = calloc(1, sizeof(*t));
  if (!t) return -ENOMEM;
  t->d = p->d;
  t->peer = calloc(p->d->net->nodes, sizeof(*t->peer));
  pthread_mutex_init(&t->lock, NULL);
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&t->answered, &attr);
  pthread_condattr_destroy(&attr);
  return t->peer ? 0 : -ENOMEM;
}
