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

/* Messages. The first word of each is one of these; wire.c checks all bounds. Their numbers of
   partitions count the new ones only, as fs_parts_new does. */
enum fs_nodes_kind {
  FS_NODES_HOLD,    /* lead -> all: keep your copies of this dataset, which is updated */
  FS_NODES_HELD,    /* node -> lead: which of its partitions it has */
  FS_NODES_SOURCE,  /* lead -> others: a directory that is to be walked */
  FS_NODES_WALK,    /* lead -> others: tasks of the walk */
  FS_NODES_FOUND,   /* others -> lead: what they found, and which tasks are done */
  FS_NODES_WALKED,  /* lead -> others: the walk of this directory is over */
  FS_NODES_SCAN,    /* lead -> others: an archive whose headers are to be read */
  FS_NODES_SCANNED, /* others -> lead: what they found in it */
  FS_NODES_PLAN,    /* lead -> all: the local directory, partitions, options, sizes of chunks */
  FS_NODES_CODEC,   /* lead -> all: a row of the table of codecs */
  FS_NODES_READY,   /* node -> lead: how many threads it has */
  FS_NODES_OPEN,    /* lead -> all: the directories, and the states of a checkpoint to go back to */
  FS_NODES_OPENED,  /* owner -> lead: whether it could */
  FS_NODES_SYNC,    /* lead -> all: the partitions' sizes; a checkpoint is made */
  FS_NODES_WORK,    /* lead -> worker: a batch to read and encode */
  FS_NODES_ENCODED, /* worker -> lead: the batch's lengths and checksums */
  FS_NODES_PLACED,  /* lead -> worker: where the chunks go */
  FS_NODES_BYTES,   /* worker -> owner: chunks of one batch */
  FS_NODES_KEPT,    /* owner -> lead: such a message is in the partitions */
  FS_NODES_FINISH,  /* lead -> all: the partitions' sizes */
  FS_NODES_STATES,  /* owner -> lead: after SYNC or FINISH, sizes and checksums of its partitions */
  FS_NODES_SEAL,    /* lead -> all: the dataset id */
  FS_NODES_SEALED,  /* owner -> lead: its partitions are on the disk */
  FS_NODES_ADOPT,   /* lead -> all: index and manifest are there; make staged copies */
  FS_NODES_ADOPTED, /* owner -> lead: how many bytes are staged */
  FS_NODES_END,     /* lead -> all: it is over; whether the pack can go on */
  FS_NODES_FAILED,  /* node -> lead: a line for the user */
  FS_NODES_ALIVE,   /* node -> lead */
  FS_NODES_KINDS
};

/* The records of FOUND and SCANNED. */
enum fs_found {
  FS_FOUND_ITEM,
  FS_FOUND_PROBLEM,
  FS_FOUND_TASK,  /* of the walk, for any node */
  FS_FOUND_BEGIN, /* of an archive: the first bytes of a member */
  FS_FOUND_DONE   /* of a task, or of the archive */
};

/* A message that is being made or sent. It grows; if memory is out, sending it fails. */
struct fs_msg {
  struct fs_net_op op;
  uint8_t *data;
  size_t n, room;
  uint32_t to; /* once it is sent */
  bool failed;
  struct fs_msg *next;
};
struct fs_msg *fs_msg_new(enum fs_nodes_kind kind); /* NULL: out of memory; the others accept that */
void fs_msg_put(struct fs_msg *m, const void *data, size_t n);
void fs_msg_u32(struct fs_msg *m, uint32_t value);
void fs_msg_u64(struct fs_msg *m, uint64_t value);
void fs_msg_text(struct fs_msg *m, const char *text);
void fs_msg_free(struct fs_msg *m);
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
/* Like fs_in_text, for a path below a directory: all its components are names. "": the directory. */
const char *fs_in_path(struct fs_in *in);
bool fs_in_name_ok(const char *name, size_t n);

struct fs_nodes;
typedef fs_err fs_nodes_fn(struct fs_nodes *n, uint32_t from, struct fs_in *in);
struct fs_worker;
struct fs_owner;
struct fs_held;
struct fs_lead;
struct fs_lead_walk;
struct fs_node_walk;
struct fs_lead_scan;
struct fs_node_scan;

struct fs_nodes {
  struct fs_net *net;
  uint32_t rank, nodes;
  int emulated; /* this rank, if all nodes are on this host; else -1 */
  char host[256];
  struct fs_pack_options o;
  struct fs_plan plan;      /* the part of it that workers and owners need */
  struct fs_tree tree;      /* the sources; no items */
  struct fs_update numbers; /* of the plan: numbers of the new partitions, and how many there are with the old ones */
  size_t most;              /* bytes of a message */
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
  pid_t parent;                   /* mpirun's daemon */
  bool moved;                     /* this turn did something */
  bool over;                      /* FS_NODES_END */
  bool discard;                   /* the pack cannot go on: no directory is kept */
  bool leaving;                   /* nothing else is handled any more */
  fs_err err;                     /* after a line for the user */
  const struct fs_target *target; /* of the lead */
  struct fs_worker *worker;
  struct fs_owner *owner;
  struct fs_held *held; /* the copies of the dataset that is updated; NULL: it has its partitions */
  struct fs_lead *lead;
  struct fs_lead_walk *lead_walk; /* lead: while it walks */
  struct fs_node_walk *node_walk; /* others: the same */
  struct fs_lead_scan *lead_scan; /* lead: while archives are scanned */
  struct fs_node_scan *node_scan; /* others: a list of those that they scan */
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
/* Runs fn(ctx) in a thread of its own, for a handler. Until it is done, this rank only says that it lives. After a
   signal it ends, as the disk may hang. The lead goes on: its progress ends it. */
fs_err fs_nodes_aside(struct fs_nodes *n, fs_err (*fn)(void *ctx), void *ctx);
/* After a signal, in a rank that is not the lead: gives the lead time for its line. When a rank has ended, mpirun
   passes nothing on. */
void fs_nodes_let_lead_tell(void);
/* Waits until all that was sent has left, for a second at most. */
void fs_nodes_flush(struct fs_nodes *n);

/* Returns the node that writes new partition k on shared storage. The partitions go round the nodes. After
   an update with one new partition, the next update gives its own to another node. */
static inline uint32_t fs_nodes_owner(const struct fs_plan *plan, uint32_t nodes, uint32_t k) {
  return (fs_parts_new(plan, 0) + k) % nodes;
}
/* Returns true if this rank writes it to its local directory. All nodes write those that are replicated. */
static inline bool fs_nodes_owns(const struct fs_plan *plan, uint32_t nodes, uint32_t rank, uint32_t k) {
  return k >= plan->nparts || fs_nodes_owner(plan, nodes, k) == rank;
}

/* walk.c. Sets the handlers. */
void fs_walk_begin(struct fs_nodes *n);
/* Walks with the threads of all nodes. */
void fs_walk_lead(struct fs_nodes *n, struct fs_walk *walk);
/* scan.c. Sets the handlers. */
void fs_scan_begin(struct fs_nodes *n);
/* Scans the archives of a tree with the threads of all nodes; scan[i] is of source i. Returns 0, -ENOMEM, or the
   error of fs_nodes_step. */
fs_err fs_scan_lead(struct fs_nodes *n, const struct fs_pack_options *o, struct fs_tree *tree, struct fs_scan *scan);
/* Ends this node's scans. */
void fs_scan_stop(struct fs_nodes *n);
/* tell.c. Tells, for --verbose, what the nodes have done since began_ns: each[rank] things of a kind. `of` follows
   the kind. */
void fs_nodes_say_each(const struct fs_nodes *n, const char *did, const char *kind, const char *of, uint64_t began_ns,
                       const uint64_t *each);
/* found.c. Put a record, or take what follows its number, all in the message. `path` is below the SOURCE. */
void fs_found_put_item(struct fs_msg *m, const struct fs_item *item, const char *path);
/* The item's path is below the SOURCE and in the message, and its target in `text`. The caller sets dev, source and
   depth. Returns 0, -EPROTO or -ENOMEM. */
fs_err fs_found_take_item(struct fs_in *in, struct fs_arena *text, struct fs_item *item);
void fs_found_put_problem(struct fs_msg *m, const char *path, const char *what);
fs_err fs_found_take_problem(struct fs_in *in, const char **path, const char **what);
/* plan.c. Sets the handlers. */
void fs_plan_begin(struct fs_nodes *n);
/* Size and time of a file, in a message. The others of a stat are 0. */
void fs_msg_stat(struct fs_msg *m, const struct stat *st);
struct stat fs_in_stat(struct fs_in *in);
/* Opens src->path, and sets src->fd and src->st. Returns a negative errno; -ESTALE if it is an archive whose size or
   time is not what the lead has seen. lead: NULL for a directory. Any thread. */
fs_err fs_nodes_open_source(struct fs_source *src, const struct stat *lead);
/* Ends this rank after an error of a SOURCE. -ESTALE: it is another one than the lead's. */
fs_err fs_nodes_fail_source(struct fs_nodes *n, const char *path, fs_err err);
/* Makes a path absolute. */
void fs_nodes_absolute(const char *path, char out[PATH_MAX]);
/* lead.c. Runs the pack. Returns the exit status. */
int fs_lead_run(struct fs_nodes *n, int argc, char **argv);
/* checkpoints.c: sets the lead's functions `open` and `sync`. */
void fs_checkpoints_begin(struct fs_nodes *n, struct fs_pack_nodes *functions);
/* worker.c, owner.c: they are started by FS_NODES_PLAN. */
void fs_codecs_send(struct fs_nodes *n, const struct fs_pack_codecs *c);
void fs_encoder_begin(struct fs_nodes *n);
fs_err fs_encoder_start(struct fs_nodes *n);
/* After a failure: ends the threads. */
void fs_encoder_stop(struct fs_nodes *n);
void fs_owner_begin(struct fs_nodes *n);
fs_err fs_owner_start(struct fs_nodes *n);
/* Removes what is not a staged copy, unless the pack can go on with it. */
void fs_owner_stop(struct fs_nodes *n);
/* Does the same while another thread works for the owner, and ends this process. */
void fs_owner_abandon(const struct fs_nodes *n) __attribute__((noreturn));

#endif
