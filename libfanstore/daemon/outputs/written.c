/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Publishes the ranges that clients have noted in their channels (ipc/written.h): when a client
 * asks (fsync, close), and when they are a second old. So other nodes see the bytes of a program that
 * writes and then sleeps, computes or is stopped. One EXTEND of a file
 * and client is under way at a time. Calls that come meanwhile wait for the next one. Nothing read
 * from a channel is trusted: ranges and ids are copied and checked as those of a call. All runs in
 * the MPI thread.
 */
#include "daemon/outputs/written.h"

#include <stdlib.h>

#include "daemon/outputs/locks.h"
#include "daemon/outputs/node_segment.h"
#include "daemon/outputs/replicate.h"

#define FS_WRITTEN_LOOK_NS 100000000ull /* between two looks at all clients */
#define FS_WRITTEN_OLD_NS 900000000ull  /* from the look that finds a range to its publication */
#define FS_WRITTEN_FLIGHT 256u          /* publications at once that nobody waits for */

struct fs_written_files { /* of all clients */
  uint64_t look_at;
  uint32_t flight; /* publications under way */
  uint32_t next;   /* the client that comes first at the next look */
};

/* One EXTEND. */
struct fs_written_sent {
  struct fs_daemon *d;
  struct fs_client *client; /* NULL: it has gone */
  uint32_t number, upto;    /* of its struct fs_written; the ranges before this number */
  struct fs_client_call *calls;
  struct fs_names_call call;
  struct fs_range range[FS_WRITTEN_RANGES];
};
static_assert(offsetof(struct fs_written_sent, range) ==
                  offsetof(struct fs_written_sent, call) + sizeof(struct fs_names_call),
              "the ranges follow the call");

/* What the daemon knows of a client's struct fs_written. */
struct fs_written_file {
  uint32_t tail; /* the ranges before this number are published */
  bool durable;  /* one of `calls` is */
  bool untold;   /* the home took some ranges for those of an open file (FS_EXTEND_OPEN) */
  uint64_t due;  /* when to publish what a look has found; 0: nothing */
  struct fs_written_sent *busy;
  struct fs_client_call *calls; /* these wait for the next publication */
};

struct fs_client_written {
  struct fs_written_file file[FS_WRITTEN_FILES];
};

fs_err fs_written_new(struct fs_daemon *d) {
  d->written = calloc(1, sizeof(*d->written));
  return d->written ? 0 : -ENOMEM;
}

bool fs_written_busy(const struct fs_daemon *d) {
  return d->written && d->written->flight > 0;
}

/* Answers a list of calls. */
static void fs_written_answer(struct fs_client_call *call, fs_err err, const void *body, size_t n) {
  for (struct fs_client_call *next; call; call = next) {
    next = call->extend.next;
    fs_client_call_done(call, err, body, n);
  }
}

/* ---- one publication ---- */

static void fs_written_next(struct fs_daemon *d, struct fs_client *c, uint32_t number);

static void fs_written_told(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_written_sent *p = ctx;
  struct fs_client *c = p->client;
  uint32_t number = p->number;
  p->d->written->flight--;
  if (err == -ENOENT) fs_node_segment_useless(p->d, p->call.extend.id);
  bool done = err == 0 || err == -ENOENT;
  if (c) {
    struct fs_written_file *f = &c->written->file[number];
    f->busy = NULL;
    if (done) f->untold = p->call.flags & FS_EXTEND_OPEN;
    if (done) fs_written_published(&c->channel->written[number], f->tail = p->upto);
  }
  fs_written_answer(p->calls, err, body, n);
  if (c) {
    /* Calls that came meanwhile would find the same error, each after the home's whole time. */
    struct fs_written_file *f = &c->written->file[number];
    struct fs_client_call *calls = f->calls;
    if (!done) f->calls = NULL, f->durable = false, fs_written_answer(calls, err, body, n);
    if (f->calls) fs_written_next(p->d, c, number);
  }
  free(p);
}

/* Copies what a client has noted and was not published. Returns how many ranges, or an error. */
static int32_t fs_written_copy(struct fs_written_sent *p, uint32_t tail) {
  struct fs_written *w = &p->client->channel->written[p->number];
  int32_t n = fs_written_take(w, tail, &p->upto, p->range);
  uint64_t id = atomic_load(&w->file), segment = atomic_load(&w->segment);
  if (n < 0) return n;
  p->call = (struct fs_names_call){.op = FS_NAMES_EXTEND,
                                   .tail_len = (uint16_t)((size_t)n * sizeof(p->range[0])),
                                   .extend = {.id = id, .segment = segment}};
  if (!fs_call_ok(&p->call, sizeof(p->call) + sizeof(p->range))) return -EINVAL;
  for (int32_t i = 0; i < n; i++)
    p->call.extend.bytes = FS_MIN(p->call.extend.bytes + p->range[i].len, (uint64_t)INT64_MAX);
  fs_err err = fs_client_call_check_file(p->d, &p->call);
  if (err == 0) err = fs_lock_holders_check(p->d, p->client, id);
  return err < 0 ? err : n;
}

static struct fs_written_sent *fs_written_make(struct fs_daemon *d, struct fs_client *c, uint32_t number, uint32_t tail,
                                               int32_t *n) {
  struct fs_written_sent *p = malloc(sizeof(*p));
  *n = -ENOMEM;
  if (!p) return NULL;
  p->d = d;
  p->client = c;
  p->number = number;
  p->calls = NULL;
  *n = fs_written_copy(p, tail);
  if (*n >= 0) return p;
  free(p);
  return NULL;
}

static void fs_written_send(struct fs_written_sent *p) {
  p->d->written->flight++;
  fs_segment_extend(p->d, &p->call, fs_written_told, p);
}

/* Publishes what a file's client has noted, for all calls that wait. */
static void fs_written_next(struct fs_daemon *d, struct fs_client *c, uint32_t number) {
  struct fs_written_file *f = &c->written->file[number];
  int32_t n;
  struct fs_written_sent *p = fs_written_make(d, c, number, f->tail, &n);
  struct fs_client_call *calls = f->calls;
  bool durable = f->durable;
  f->calls = NULL;
  f->due = 0;
  f->durable = false;
  /* A partner that has the bytes may have to write them to its disk. */
  if (!p || (n == 0 && !f->untold && !(durable && d->replicas))) {
    free(p);
    fs_written_answer(calls, n, NULL, 0);
    return;
  }
  p->calls = calls;
  p->call.flags = (durable ? FS_EXTEND_DURABLE : 0) | (calls ? 0 : FS_EXTEND_OPEN);
  f->busy = p;
  fs_written_send(p);
}

/* ---- calls ---- */

static bool fs_written_know(struct fs_client *c) {
  if (!c->written) c->written = calloc(1, sizeof(*c->written));
  return c->written != NULL;
}

void fs_written_extend(struct fs_client_call *call, const struct fs_names_call *c) {
  struct fs_client *client = call->client;
  uint32_t number = c->extend.written - 1; /* fs_call_ok has checked it */
  bool known = fs_written_know(client);
  if (!known || atomic_load(&client->channel->written[number].file) != c->extend.id) {
    fs_client_call_done(call, known ? -EINVAL : -ENOMEM, NULL, 0);
    return;
  }
  struct fs_written_file *f = &client->written->file[number];
  call->extend.next = f->calls;
  f->calls = call;
  f->durable = f->durable || (c->flags & FS_EXTEND_DURABLE);
  if (!f->busy) fs_written_next(call->d, client, number);
}

/* ---- time ---- */

static void fs_written_look(struct fs_daemon *d, struct fs_client *c, uint32_t number, bool now) {
  struct fs_written_file *f = &c->written->file[number];
  uint32_t head = atomic_load_explicit(&c->channel->written[number].head, memory_order_acquire);
  if (f->busy || head == f->tail) return;
  if (f->due == 0) f->due = d->now + FS_WRITTEN_OLD_NS;
  if (now || (d->now >= f->due && d->written->flight < FS_WRITTEN_FLIGHT)) fs_written_next(d, c, number);
}

static void fs_written_look_client(struct fs_daemon *d, struct fs_client *c, bool now) {
  uint64_t claimed = atomic_load_explicit(&c->channel->written_claimed, memory_order_relaxed);
  if (claimed == 0 || !fs_written_know(c)) return;
  for (; claimed != 0; claimed &= claimed - 1) fs_written_look(d, c, (uint32_t)__builtin_ctzll(claimed), now);
}

static void fs_written_look_clients(struct fs_daemon *d, bool now) {
  uint32_t high = atomic_load_explicit(&d->clients.high, memory_order_acquire);
  for (uint32_t i = 0; i < high; i++) {
    uint32_t at = (d->written->next + i) % high;
    struct fs_client *c = atomic_load_explicit(&d->clients.slot[at], memory_order_acquire);
    if (c) fs_written_look_client(d, c, now);
  }
  d->written->next++; /* so that all have their turn if too much is due */
}

void fs_written_timers(struct fs_daemon *d) {
  if (d->now < d->written->look_at) return;
  d->written->look_at = d->now + FS_WRITTEN_LOOK_NS;
  fs_written_look_clients(d, false);
}

void fs_written_look_all(struct fs_daemon *d) {
  if (d->written) fs_written_look_clients(d, true);
}

/* ---- the client's death ---- */

/* What the client had noted and was not published is not published any more: whoever has waited for
   the client's end may have emptied the file and written it anew. If the home has taken ranges for
   those of an open file, it hears now that nobody has the file open, by an EXTEND without ranges. */
static void fs_written_leave(struct fs_daemon *d, struct fs_client *c, uint32_t number) {
  struct fs_written_file *f = &c->written->file[number];
  bool untold = f->untold || (f->busy && (f->busy->call.flags & FS_EXTEND_OPEN));
  int32_t n;
  fs_written_answer(f->calls, -ESHUTDOWN, NULL, 0);
  struct fs_written_sent *p = untold ? fs_written_make(d, c, number, f->tail, &n) : NULL;
  if (f->busy) f->busy->client = NULL;
  if (!p) return;
  p->client = NULL;
  p->call.tail_len = 0;
  p->call.extend.bytes = 0;
  fs_written_send(p);
}

void fs_written_forget(struct fs_daemon *d, struct fs_client *c) {
  if (!d->written || (atomic_load(&c->channel->written_claimed) == 0 && !c->written)) return;
  for (uint32_t i = 0; fs_written_know(c) && i < FS_WRITTEN_FILES; i++) fs_written_leave(d, c, i);
  free(c->written);
  c->written = NULL;
}
