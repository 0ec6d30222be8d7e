/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between the daemons of a job, as the rest of the daemon sees them: operations that are
 * started and that call back when they are complete. daemon/mpi/net_mpi.c implements them by MPI;
 * unit tests bring their own. Only one thread uses a network.
 */
#ifndef FS_DAEMON_CORE_NET_H
#define FS_DAEMON_CORE_NET_H

#include "util/base.h"

/* One send or receive. It and its buffer belong to the network from the start until `done` is called.
   `peer` is the rank from which something was received; of a send it means nothing. */
struct fs_net_op {
  void (*done)(struct fs_net_op *op, uint32_t peer, uint64_t bytes, fs_err err);
};

#define FS_NET_ANY UINT32_MAX /* receive from any rank */

struct fs_net;
struct fs_net_ops {
  fs_err (*send)(struct fs_net *n, uint32_t peer, uint32_t tag, const void *buf, size_t bytes, struct fs_net_op *op);
  fs_err (*recv)(struct fs_net *n, uint32_t peer, uint32_t tag, void *buf, size_t bytes, struct fs_net_op *op);
  /* Makes progress and calls back for completed operations. Returns how many were completed. */
  int (*poll)(struct fs_net *n);
  /* Adds new connections to what `arrivals` watches. Returns how many were added. */
  int (*find)(struct fs_net *n);
  /* Called if `arrivals` is readable although nothing has arrived: stops watching the
     connections that cause this, until `find` adds them again. */
  void (*drop)(struct fs_net *n);
};

struct fs_net {
  const struct fs_net_ops *ops;
  uint32_t rank, nodes;
  uint32_t tag_max;
  int arrivals; /* a descriptor that is readable when something may have arrived, as a hint; -1: none */
  /* the processor copies what is sent, so it may be any readable memory, such as a file's
     mapping */
  bool copies;
};

static inline fs_err fs_net_send(struct fs_net *n, uint32_t peer, uint32_t tag, const void *buf, size_t bytes,
                                 struct fs_net_op *op) {
  return n->ops->send(n, peer, tag, buf, bytes, op);
}
static inline fs_err fs_net_recv(struct fs_net *n, uint32_t peer, uint32_t tag, void *buf, size_t bytes,
                                 struct fs_net_op *op) {
  return n->ops->recv(n, peer, tag, buf, bytes, op);
}
static inline int fs_net_poll(struct fs_net *n) {
  return n->ops->poll(n);
}

/* Initialises MPI (FUNNELED: only the calling thread may use the network). Returns NULL with a
   reason in *why on failure. The daemon leaves by _exit, because MPI_Finalize
   waits for ranks that may be dead. */
struct fs_net *fs_net_mpi_open(int *argc, char ***argv, const char **why);
/* For fanstore-pack, in which all ranks live and end together: MPI's own end, which waits for all. */
void fs_net_mpi_close(void);

#endif
