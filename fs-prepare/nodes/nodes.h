/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fanstore-pack: fs-prepare pack over several nodes (docs/internals/pack-nodes.md). Each node is an
 * MPI rank that fs-launch has started. Rank 0 leads (lead.c): it runs pack's stages, and the nodes
 * do what costs time. A worker (worker.c) reads and encodes batches. An owner (owner.c) writes the
 * partitions of its node. Each rank is worker and owner, rank 0 too. One thread per rank sends and
 * receives (wire.c), and encodes nothing.
 */
#ifndef FS_PREPARE_NODES_H
#define FS_PREPARE_NODES_H

#include "../pack/pack.h"
#include "daemon/core/net.h"

/* Messages. The first word of each is one of these; wire.c checks all bounds. */
enum fs_nodes_kind {
  FS_NODES_PLAN,    /* lead -> all: directories, partitions, sizes of chunks */
  FS_NODES_CODEC,   /* lead -> all: a row of the table of codecs */
  FS_NODES_READY,   /* node -> lead: how many threads it has */
  FS_NODES_WORK,    /* lead -> worker: a batch to read and encode */
  FS_NODES_ENCODED, /* worker -> lead: the batch's lengths and checksums */
  FS_NODES_PLACED,  /* lead -> worker: where the chunks go */
  FS_NODES_BYTES,   /* worker -> owner: chunks of one batch */
  FS_NODES_KEPT,    /* owner -> lead: such a message is in the partitions */
  FS_NODES_FINISH,  /* lead -> all: the partitions' sizes */
  FS_NODES_SUMS,    /* owner -> lead: the checksums of its partitions */
  FS_NODES_SEAL,    /* lead -> all: the dataset id */
  FS_NODES_SEALED,  /* owner -> lead: its partitions are on the disk */
  FS_NODES_ADOPT,   /* lead -> all: index and manifest are there; make staged copies */
  FS_NODES_ADOPTED, /* owner -> lead: how many bytes are staged */
  FS_NODES_END,     /* lead -> all: it is over */
  FS_NODES_FAILED,  /* node -> lead: a line for the user */
  FS_NODES_ALIVE,   /* node -> lead */
  FS_NODES_KINDS
};

/* A message that is being made or sent. It grows; if memory is out, sending it fails. */
struct fs_msg {
  struct fs_net_op op;
  uint8_t *data;
  size_t n, room;
  bool failed;
  struct fs_msg *next;
};
struct fs_msg *fs_msg_new(enum fs_nodes_kind kind); /* NULL: out of memory; the others accept that */
void fs_msg_put(struct fs_msg *m, const void *data, size_t n);
void fs_msg_u32(struct fs_msg *m, uint32_t value);
void fs_msg_u64(struct fs_msg *m, uint64_t value);
void fs_msg_text(struct fs_msg *m, const char *text);
/* Replaces a number that was put at this offset. */
void fs_msg_patch_u32(struct fs_msg *m, size_t at, uint32_t value);

/* A message that is being read. Past its end all is 0, and `bad` is set. */
struct fs_in {
  const uint8_t *data;
  size_t n, at;
  bool bad;
};
const void *fs_in_get(struct fs_in *in, size_t n); /* NULL past the end */
uint32_t fs_in_u32(struct fs_in *in);
uint64_t fs_in_u64(struct fs_in *in);
const char *fs_in_text(struct fs_in *in); /* never NULL */

struct fs_nodes;
typedef fs_err fs_nodes_fn(struct fs_nodes *n, uint32_t from, struct fs_in *in);
struct fs_worker;
struct fs_owner;
struct fs_lead;

struct fs_nodes {
  struct fs_net *net;
  uint32_t rank, nodes;
  int emulated; /* this rank, if all nodes are on this host; else -1 */
  char host[256];
  struct fs_pack_options o;
  struct fs_plan plan; /* the part of it that workers and owners need */
  struct fs_tree tree; /* the sources; no items */
  char shared[PATH_MAX], local[PATH_MAX];
  fs_nodes_fn *handler[FS_NODES_KINDS];
  void (*tick)(struct fs_nodes *n);                         /* called in each turn of fs_nodes_step */
  fs_err (*check)(struct fs_nodes *n, uint64_t stepped_ns); /* so too; stepped_ns: the last turn */
  struct fs_msg *own, **own_last;                           /* messages to this rank */
  uint64_t *heard_ns;                                       /* lead: when each rank last said something */
  uint64_t stepped_ns, said_ns;
  uint64_t sending; /* messages that are not sent yet */
  uint64_t cut_ns;  /* when a message could not be sent or received; 0: none */
  uint32_t cut_from;
  fs_err cut_err;
  pid_t parent; /* mpirun's daemon */
  bool moved;   /* this turn did something */
  bool over;    /* FS_NODES_END */
  bool leaving; /* nothing else is handled any more */
  fs_err err;   /* after a line for the user */
  struct fs_worker *worker;
  struct fs_owner *owner;
  struct fs_lead *lead;
};

/* wire.c */
fs_err fs_nodes_open(struct fs_nodes *n, struct fs_net *net);
/* Sends a message and frees it later. */
void fs_nodes_send(struct fs_nodes *n, uint32_t to, struct fs_msg *m);
/* Sends copies to all ranks, this one too, and frees it. */
void fs_nodes_send_all(struct fs_nodes *n, struct fs_msg *m);
/* Handles what has arrived, and waits for more until `until_ns`. Returns after it did something.
   Returns 0, or the error that ends this rank: -EINTR after a signal, -ECONNABORTED after a line. */
fs_err fs_nodes_step(struct fs_nodes *n, uint64_t until_ns);
/* Ends this rank with a line for the user: the lead prints it, another rank has the lead print it. */
fs_err fs_nodes_fail(struct fs_nodes *n, const char *format, ...) FS_PRINTF(2, 3);
/* Runs fn(ctx) in a thread of its own, and goes on with messages until it is done. */
fs_err fs_nodes_aside(struct fs_nodes *n, fs_err (*fn)(void *ctx), void *ctx);
/* Waits until all that was sent has left, for a second at most. */
void fs_nodes_flush(struct fs_nodes *n);

/* Returns true if this rank writes the partition. Ordinary ones go round the nodes; all nodes write
   those that are replicated. */
static inline bool fs_nodes_owns(const struct fs_plan *plan, uint32_t nodes, uint32_t rank, uint32_t part) {
  return part >= plan->nparts || part % nodes == rank;
}

/* lead.c. Runs the pack. Returns the exit status. */
int fs_lead_run(struct fs_nodes *n, int argc, char **argv);
/* worker.c, owner.c: they are started by FS_NODES_PLAN. */
void fs_encoder_begin(struct fs_nodes *n);
fs_err fs_encoder_start(struct fs_nodes *n);
void fs_owner_begin(struct fs_nodes *n);
fs_err fs_owner_start(struct fs_nodes *n);
void fs_owner_stop(struct fs_nodes *n); /* removes what is not a staged copy */

#endif
