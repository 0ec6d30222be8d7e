/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers other nodes' requests (ipc/wire.h) with bytes of a source (source.h), which checks the
 * request's fields and reads them. Jobs and reply buffers are bounded: when they are used up, no
 * receive is posted, and requests wait in MPI at their senders' cost. Replies that nobody takes,
 * since a peer has died or hangs, are put aside and do not count. All of it is the MPI thread's.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "daemon/blocks/partitions.h"
#include "daemon/blocks/source.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_JOBS 256u
#define FS_POSTED 32u /* receives waiting for requests */
/* jobs put aside at most; a peer has 64 requests under way at most */
#define FS_ASIDE 2048u
/* time after which a reply is put aside, or two deadlines if that is longer */
#define FS_ASIDE_NS 1000000000ull
#define FS_REPLY_BYTES (64u << 20)
/* for tests: delays each reply by so many microseconds */
#define FS_DELAY_ENV "FANSTORE_TEST_DELAY_US"

struct fs_job {
  struct fs_net_op recv, send;
  struct fs_chain chain; /* link in the list of free, hungry, delayed or sending jobs */
  struct fs_block_read read;
  const struct fs_block_source *source;
  struct fs_wire_rep bare; /* the whole reply, when it is an error or a pong */
  struct fs_reply *reply;
  /* what a successful bare read sends, in the reply buffer or at the source */
  const void *bytes;
  uint32_t peer;
  uint64_t due;  /* when a delayed reply is sent */
  uint64_t sent; /* when the sending began */
  bool aside;
};

struct fs_reply { /* a reply buffer; free ones are linked through it */
  struct fs_wire_rep rep;
  unsigned char data[];
};

struct fs_server {
  struct fs_job job[FS_JOBS];
  struct fs_chain free_jobs, hungry, delayed, sending;
  struct fs_chain spare_jobs; /* made in place of jobs put aside, and not needed now */
  uint32_t posted, running, aside;
  size_t reply_size;
  uint32_t replies, replies_most; /* made so far, at most */
  uint32_t nfree;
  struct fs_reply **free_reply;
  uint64_t delay_ns;
};

static void fs_job_post(struct fs_server *s);

static struct fs_reply *fs_reply_take(struct fs_server *s) {
  if (s->nfree > 0) return s->free_reply[--s->nfree];
  if (s->replies >= s->replies_most) return NULL;
  void *p = mmap(NULL, s->reply_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  s->replies++;
  return p;
}

/* Takes back a job that was put aside and whose reply was taken after all. Another job has its
   place by now. */
static void fs_job_back(struct fs_job *j) {
  struct fs_server *s = j->read.d->server;
  if (j->reply) {
    munmap(j->reply, s->reply_size);
    s->replies--;
    s->replies_most--;
  }
  j->reply = NULL;
  j->aside = false;
  s->aside--;
  s->running++;
  fs_chain_push(&s->spare_jobs, &j->chain);
}

static void fs_job_free(struct fs_job *j) {
  struct fs_server *s = j->read.d->server;
  bool aside = j->aside;
  fs_chain_drop(&j->chain);
  if (aside) fs_job_back(j);
  if (j->reply) s->free_reply[s->nfree++] = j->reply;
  j->reply = NULL;
  j->bytes = NULL;
  s->running--;
  if (!aside) fs_chain_push(&s->free_jobs, &j->chain);
}

/* ---- replying ---- */

static void fs_job_sent(struct fs_net_op *op, uint32_t peer, uint64_t bytes, fs_err err) {
  struct fs_job *j = FS_ITEM(op, struct fs_job, send);
  (void)peer, (void)bytes, (void)err;
  fs_job_free(j);
}

static void fs_job_send(struct fs_job *j) {
  struct fs_daemon *d = j->read.d;
  const struct fs_wire_rep *rep = j->reply ? &j->reply->rep : &j->bare;
  const void *message = j->bytes ? j->bytes : rep;
  size_t bytes = j->bytes ? j->read.length : sizeof(*rep) + rep->length;
  if (j->bytes || rep->length > 0) {
    d->count.served++;
    d->count.served_bytes += j->read.length;
  }
  j->sent = d->now;
  if (fs_net_send(d->net, j->peer, j->read.req.tag, message, bytes, &j->send) < 0)
    fs_job_free(j);
  else
    fs_chain_push(&d->server->sending, &j->chain);
}

static void fs_job_reply(struct fs_job *j, fs_err err) {
  struct fs_server *s = j->read.d->server;
  const struct fs_wire_req *req = &j->read.req;
  if (err < 0 && j->reply) {
    s->free_reply[s->nfree++] = j->reply;
    j->reply = NULL;
  }
  if (j->reply && req->type == FS_WIRE_READ_BARE) j->bytes = j->reply->data;
  struct fs_wire_rep *rep = j->reply ? &j->reply->rep : &j->bare;
  *rep = (struct fs_wire_rep){.magic = FS_WIRE_MAGIC,
                              .version = FS_WIRE_VERSION,
                              .type = req->type,
                              .id = req->id,
                              .err = err,
                              .length = j->reply ? j->read.length : 0,
                              .xxh3 = j->read.xxh3};
  if (s->delay_ns == 0) {
    fs_job_send(j);
    return;
  }
  j->due = fs_now_ns() + s->delay_ns; /* d->now may be some ms old on a busy machine */
  fs_chain_push(&s->delayed, &j->chain);
}

/* ---- what sources call ---- */

bool fs_serve_room(struct fs_block_read *r) {
  struct fs_job *j = FS_ITEM(r, struct fs_job, read);
  struct fs_server *s = r->d->server;
  j->reply = fs_reply_take(s);
  if (!j->reply) {
    fs_chain_push(&s->hungry, &j->chain);
    return false;
  }
  r->buf = j->reply->data;
  return true;
}

void fs_serve_done(struct fs_block_read *r, fs_err err) {
  fs_job_reply(FS_ITEM(r, struct fs_job, read), err);
}

void fs_serve_bytes(struct fs_block_read *r, const void *bytes) {
  struct fs_job *j = FS_ITEM(r, struct fs_job, read);
  j->bytes = bytes;
  fs_job_reply(j, 0);
}

/* ---- requests ---- */

/* Returns the source of the bytes that a request asks for, or NULL if its type is unknown. */
static const struct fs_block_source *fs_job_source(const struct fs_wire_req *r) {
  switch (r->type) {
  case FS_WIRE_READ:
  case FS_WIRE_READ_BARE:
    return fs_block_sources[FS_BLOCKS_DATASET];
  case FS_WIRE_READ_OUTPUT:
  case FS_WIRE_READ_BATCH:
    return fs_block_sources[FS_BLOCKS_OUTPUT];
  default:
    return NULL;
  }
}

static bool fs_job_understood(const struct fs_daemon *d, const struct fs_wire_req *r, uint64_t bytes) {
  return bytes == sizeof(*r) && r->magic == FS_WIRE_MAGIC && r->version == FS_WIRE_VERSION &&
         r->tag >= FS_TAG_REPLY_FIRST && r->tag <= d->net->tag_max && r->sum == fs_wire_sum(r, 0);
}

static void fs_job_received(struct fs_net_op *op, uint32_t peer, uint64_t bytes, fs_err err) {
  struct fs_job *j = FS_ITEM(op, struct fs_job, recv);
  struct fs_block_read *r = &j->read;
  struct fs_daemon *d = r->d;
  d->server->posted--;
  d->server->running++;
  j->peer = peer;
  j->source = fs_job_source(&r->req);
  r->length = r->req.length;
  r->xxh3 = 0;
  if (err < 0 || peer >= d->net->nodes || !fs_job_understood(d, &r->req, bytes)) {
    d->count.dropped++;
    fs_job_free(j); /* no address for a reply is known */
  } else if (j->source) {
    j->source->serve(d, r);
  } else {
    fs_job_reply(j, r->req.type == FS_WIRE_PING ? 0 : -EINVAL);
  }
  fs_job_post(d->server);
}

static void fs_job_post(struct fs_server *s) {
  while (s->posted < FS_POSTED && !fs_chain_empty(&s->free_jobs)) {
    struct fs_job *j = FS_ITEM(fs_chain_pop(&s->free_jobs), struct fs_job, chain);
    if (fs_net_recv(j->read.d->net, FS_NET_ANY, FS_TAG_REQUEST, &j->read.req, sizeof(j->read.req), &j->recv) < 0) {
      fs_chain_push(&s->free_jobs, &j->chain);
      return;
    }
    s->posted++;
  }
}

static void fs_job_init(struct fs_daemon *d, struct fs_job *j) {
  j->read.d = d;
  j->recv.done = fs_job_received;
  j->send.done = fs_job_sent;
  fs_chain_init(&j->chain);
}

/* Puts aside a job whose reply nobody has taken for long. Another job and another buffer take
   its place. */
static bool fs_job_put_aside(struct fs_job *j) {
  struct fs_server *s = j->read.d->server;
  struct fs_chain *link = fs_chain_pop(&s->spare_jobs);
  struct fs_job *spare = link ? FS_ITEM(link, struct fs_job, chain) : calloc(1, sizeof(*spare));
  if (!spare) return false;
  if (!link) fs_job_init(j->read.d, spare);
  fs_chain_push(&s->free_jobs, &spare->chain);
  fs_chain_drop(&j->chain);
  if (j->reply) s->replies_most++;
  j->aside = true;
  s->aside++;
  s->running--;
  return true;
}

static void fs_server_stuck(struct fs_daemon *d) {
  struct fs_server *s = d->server;
  uint64_t patience = FS_MAX(2 * d->cfg->deadline_ns, FS_ASIDE_NS);
  while (s->aside < FS_ASIDE && !fs_chain_empty(&s->sending)) {
    struct fs_job *j = FS_ITEM(s->sending.next, struct fs_job, chain);
    if (d->now - j->sent < patience || !fs_job_put_aside(j)) break;
  }
}

void fs_server_timers(struct fs_daemon *d) {
  struct fs_server *s = d->server;
  fs_server_stuck(d);
  while (!fs_chain_empty(&s->delayed)) {
    struct fs_job *j = FS_ITEM(s->delayed.next, struct fs_job, chain);
    if (d->now < j->due) break;
    fs_chain_drop(&j->chain);
    fs_job_send(j);
  }
  while (!fs_chain_empty(&s->hungry) && (s->nfree > 0 || s->replies < s->replies_most)) {
    struct fs_job *j = FS_ITEM(fs_chain_pop(&s->hungry), struct fs_job, chain);
    if (!fs_serve_room(&j->read)) break; /* it waits again, as there is no memory for a new buffer */
    j->source->read(d, &j->read);
  }
  fs_job_post(s);
}

bool fs_server_busy(const struct fs_daemon *d) {
  return d->server->running > 0;
}

fs_err fs_server_new(struct fs_daemon *d) {
  struct fs_server *s = calloc(1, sizeof(*s));
  uint64_t delay_us;
  if (fs_parts_new(d) < 0) return -ENOMEM;
  const char *delay = getenv(FS_DELAY_ENV);
  if (!s) return -ENOMEM;
  if (delay && fs_parse_u64(delay, 0, 60000000, &delay_us) == 0) s->delay_ns = delay_us * 1000;
  uint32_t most = FS_OUTPUT_BLOCK;
  for (uint32_t i = 0; i < d->datasets; i++) {
    most = FS_MAX(most, d->data[i].max_stored);
  }
  s->reply_size = fs_round_up(sizeof(struct fs_reply) + most, 4096);
  s->replies_most = (uint32_t)FS_MIN(FS_MAX(FS_REPLY_BYTES / s->reply_size, 8u), FS_JOBS);
  s->free_reply = calloc(s->replies_most + FS_ASIDE, sizeof(*s->free_reply));
  if (!s->free_reply) return -ENOMEM;
  fs_chain_init(&s->free_jobs);
  fs_chain_init(&s->hungry);
  fs_chain_init(&s->delayed);
  fs_chain_init(&s->sending);
  fs_chain_init(&s->spare_jobs);
  for (uint32_t i = 0; i < FS_JOBS; i++) {
    fs_job_init(d, &s->job[i]);
    fs_chain_push(&s->free_jobs, &s->job[i].chain);
  }
  d->server = s;
  fs_job_post(s);
  return 0;
}
