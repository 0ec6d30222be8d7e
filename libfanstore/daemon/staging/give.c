/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gives staged partitions to other nodes, piece by piece (peers.h). A request is answered from the
 * file that is staged: the other node checks the whole partition. If it is not staged yet, the
 * answer says so and how far the staging is. The MPI thread's; an I/O thread reads.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/staging/peers.h"
#include "util/util.h"

/* Requests at once, and so pieces in memory. Further ones wait in MPI. */
#define FS_GIVE_JOBS 32u
#define FS_GIVE_BUSY_NS 1000000000ull /* how long after a request the loop sleeps little */

struct give_job {
  struct fs_net_op recv, send;
  struct fs_io io;
  struct fs_peers *p;
  struct fs_wire_req req;
  struct fs_wire_rep bare; /* an answer without bytes */
  struct fs_wire_rep *rep; /* an answer with its bytes behind it, or NULL */
  uint32_t peer;
};
struct fs_give {
  uint64_t asked; /* when the last request came */
  struct give_job job[FS_GIVE_JOBS];
};

static void give_post(struct give_job *j) {
  fs_net_recv(j->p->d->net, FS_NET_ANY, FS_TAG_PART, &j->req, sizeof(j->req), &j->recv);
}

static void give_sent(struct fs_net_op *op, uint32_t peer, uint64_t bytes, fs_err err) {
  struct give_job *j = FS_ITEM(op, struct give_job, send);
  (void)peer, (void)bytes, (void)err;
  free(j->rep);
  j->rep = NULL;
  give_post(j);
}

static void give_answer(struct give_job *j, fs_err err) {
  struct fs_daemon *d = j->p->d;
  uint32_t length = err == 0 ? j->req.length : 0;
  struct fs_wire_rep *rep = length > 0 ? j->rep : &j->bare;
  *rep = (struct fs_wire_rep){.magic = FS_WIRE_MAGIC,
                              .version = FS_WIRE_VERSION,
                              .type = j->req.type,
                              .id = j->req.id,
                              .err = err,
                              .length = length,
                              .reserved = {atomic_load(&j->p->alive)}};
  if (fs_net_send(d->net, j->peer, j->req.tag, rep, sizeof(*rep) + length, &j->send) < 0) give_sent(&j->send, 0, 0, 0);
}

static void give_read(struct fs_io *io) {
  give_answer(FS_ITEM(io, struct give_job, io), io->err);
}

static bool give_understood(const struct give_job *j, uint64_t bytes) {
  const struct fs_daemon *d = j->p->d;
  const struct fs_wire_req *r = &j->req;
  return bytes == sizeof(*r) && r->magic == FS_WIRE_MAGIC && r->version == FS_WIRE_VERSION &&
         r->sum == fs_wire_sum(r, 0) && r->type == FS_WIRE_READ_PART && r->tag >= FS_TAG_PIECE_FIRST &&
         r->tag < FS_TAG_PIECE_FIRST + FS_PEER_PIECES && r->dataset < d->datasets &&
         r->partition < d->data[r->dataset].partitions && r->length <= FS_PEER_PIECE && r->offset <= INT64_MAX;
}

/* Reads the piece from the staged file, whose end the read checks. */
static void give_begin(struct give_job *j) {
  struct fs_daemon *d = j->p->d;
  const struct fs_wire_req *r = &j->req;
  j->rep = malloc(sizeof(*j->rep) + r->length);
  if (!j->rep) {
    give_answer(j, -ENOMEM);
    return;
  }
  j->io = (struct fs_io){.fd = -1,
                         .dir = d->data[r->dataset].stage.local,
                         .part = r->partition,
                         .len = r->length,
                         .off = r->offset,
                         .buf = j->rep + 1,
                         .done = give_read};
  fs_iopool_submit(&d->pool, &j->io);
}

static void give_received(struct fs_net_op *op, uint32_t peer, uint64_t bytes, fs_err err) {
  struct give_job *j = FS_ITEM(op, struct give_job, recv);
  struct fs_daemon *d = j->p->d;
  j->peer = peer;
  if (err < 0 || peer >= d->net->nodes || !give_understood(j, bytes)) {
    d->count.dropped++;
    give_post(j);
    return;
  }
  j->p->give->asked = d->now;
  uint8_t state = atomic_load_explicit(&j->p->state[j->req.dataset][j->req.partition], memory_order_acquire);
  if (state == FS_PART_THERE && j->req.length > 0)
    give_begin(j);
  else
    give_answer(j, state == FS_PART_THERE ? 0 : state == FS_PART_COMING ? -EAGAIN : -ENOENT);
}

bool fs_give_busy(const struct fs_peers *p) {
  return p->give->asked != 0 && p->d->now - p->give->asked < FS_GIVE_BUSY_NS;
}

fs_err fs_give_new(struct fs_peers *p) {
  p->give = calloc(1, sizeof(*p->give));
  if (!p->give) return -ENOMEM;
  for (unsigned i = 0; i < FS_GIVE_JOBS; i++) {
    struct give_job *j = &p->give->job[i];
    j->p = p;
    j->recv.done = give_received;
    j->send.done = give_sent;
    give_post(j);
  }
  return 0;
}
