/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partitions that go from node to node while the nodes stage. give.c answers other nodes, in the
 * MPI thread. take.c asks them: its worker thread waits, and its MPI thread sends and receives.
 * docs/internals/staging.md, "From node to node"; ipc/wire.h has the messages.
 */
#ifndef FS_DAEMON_STAGING_PEERS_H
#define FS_DAEMON_STAGING_PEERS_H

#include "daemon/daemon.h"

#define FS_PEER_PIECE (1u << 20) /* bytes of a message */
#define FS_PEER_PIECES 8u        /* pieces that one node has under way */
/* How long a peer may be silent, or make no progress, in deadlines: it may wait for its disk. */
#define FS_PEER_PATIENCE 10u

/* What this node has of a partition. */
enum fs_part_state {
  FS_PART_COMING, /* not staged yet */
  FS_PART_THERE,
  FS_PART_ABSENT /* this node does not get it, or could not stage it */
};

struct fs_take;
struct fs_give;

struct fs_peers {
  struct fs_daemon *d;
  _Atomic uint8_t *state[FS_MAX_DATASETS]; /* [partition]: enum fs_part_state. The worker's to set */
  _Atomic uint64_t alive;                  /* changes as long as the worker does not hang */
  struct fs_take *take;
  struct fs_give *give;
};

/* ---- the worker ---- */
/* Tells other nodes that this node has the partition, or will not have it. */
void fs_peers_staged(struct fs_daemon *d, uint32_t dataset, uint32_t part, bool there);
void fs_peers_alive(struct fs_daemon *d);
/* Asks whether a node has a partition. Returns 0, -EAGAIN (not yet), -ENOENT, -ECANCELED (this
   daemon stops), or another error: it is not to be waited for. A silent peer is not asked again. */
fs_err fs_take_ask(struct fs_daemon *d, uint32_t peer, uint32_t dataset, uint32_t part);
/* Begins to read a partition of `size` bytes, which the peer has. */
void fs_take_begin(struct fs_daemon *d, uint32_t peer, uint32_t dataset, uint32_t part, uint64_t size);
/* fs_stage_peer_read for the partition that was begun. ctx: the daemon. */
fs_err fs_take_read(void *ctx, void *buf, size_t n, uint64_t off);
/* Ends the reading, also in the middle of the partition. */
void fs_take_end(struct fs_daemon *d);
/* Frees what no message needs, when the node has staged everything. */
void fs_take_close(struct fs_daemon *d);

/* ---- the MPI thread ---- */
fs_err fs_take_new(struct fs_peers *p);
int fs_take_run(struct fs_peers *p);
bool fs_take_busy(const struct fs_peers *p);
fs_err fs_give_new(struct fs_peers *p);
/* Returns true if another node asked a moment ago. */
bool fs_give_busy(const struct fs_peers *p);

#endif
