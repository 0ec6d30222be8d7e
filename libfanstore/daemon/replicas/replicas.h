/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replicas of output files (docs/internals/replicas.md): what is published of a file of this node is first
 * brought to its partner, the member after this one round the ring; and what other nodes bring here is kept beside this
 * node's own backing files, until this node is the home of it. The MPI thread's; files are read and written by a pool
 * of threads of its own, so that a disk which takes long to sync keeps nobody else waiting.
 *
 *   send.c      home: which files are sent, when, to whom
 *   read.c      home: finds what the partner lacks, in a thread of the pool
 *   list.c      home and partner: the extent map of a file of several writers
 *   segment.c   a writer's node: sends its segment to the partner before home is told of it
 *   receive.c   partner: blocks, and the last word, which completes a generation
 *   write.c     partner: writes the blocks, in a thread of the pool
 *   replicas.c  start, timers, changes of members
 */
#ifndef FS_DAEMON_REPLICAS_REPLICAS_H
#define FS_DAEMON_REPLICAS_REPLICAS_H

#include <stdlib.h>
#include <sys/stat.h>

#include "daemon/outputs/extents.h"
#include "daemon/outputs/replicate.h"

#define FS_REPLICA_STEP 8u /* blocks that one job of the pool reads at most */
/* blocks that one job checks at most, so that other files have their turn */
#define FS_REPLICA_LOOKED 256u
#define FS_REPLICA_FLIGHT 16u /* blocks of one file under way */
#define FS_REPLICA_ACTIVE 32u /* files at once */
#define FS_REPLICA_BEHIND 2u  /* of these, files that no program waits for */
#define FS_REPLICA_THREADS 4u
#define FS_REPLICA_POSTED 16u   /* receives posted */
#define FS_REPLICA_INLINE 8192u /* up to so many bytes go in the last word itself */

/* A block that is being sent or was received. */
struct fs_replica_block {
  struct fs_net_op op;
  struct fs_chain chain;
  struct fs_copy *copy;         /* when sending; else NULL */
  struct fs_replicas *replicas; /* when receiving; else NULL */
  struct fs_wire_replica head;
  unsigned char bytes[];
};

/* Changes of an extent map, in order; segment 0: it ends at off. */
struct fs_listing {
  struct fs_output_extent *at;
  uint32_t count, room;
};

/* The partner's copy of a file of this node, and the work of bringing it up to date. */
struct fs_copy {
  struct fs_daemon *d;
  uint64_t id;
  uint32_t rank;  /* the partner that has it; FS_NO_RANK: none */
  struct stat st; /* of the backing file, when the partner's copy was complete */
  bool loose;     /* it may have changed since then without new times */
  bool synced;
  struct fs_listing listed; /* changes of the extent map that the partner has not been told */
  bool unlisted;            /* that list is incomplete: the partner has to be told the whole map */
  uint64_t *sum;            /* XXH3 of each block */
  uint32_t blocks, room;
  /* while it is being brought up to date: */
  /* link in a list of those that wait for their turn, or for time */
  struct fs_chain chain;
  struct fs_chain waiting, waiters; /* programs that wait for the next round; for this one */
  bool queued, active, behind, sync, sync_next;
  /* the range that may have changed: in this round, in the next */
  uint64_t begin, end, begin_next, end_next;
  bool removed; /* the file has gone */
  bool leaving; /* the partner has to be told of that */
  bool restart; /* start from the beginning, at the time `again` */
  struct fs_chain busy;
  uint32_t to, generation, tries, restarts;
  uint64_t again; /* when the last word is repeated */
  /* the pool's: */
  struct fs_io io;
  bool reading, begun, ended;
  struct stat now;
  uint64_t at;
  uint32_t n;
  struct fs_replica_block *block[FS_REPLICA_STEP];
  /* and after it: */
  uint32_t flight, refs, sent;
  uint64_t bytes;
  /* blocks of all files that this node had sent when it was complete */
  uint32_t upto;
  struct fs_replica_block *last; /* its bytes go in the last word */
  struct fs_listing list;        /* what the partner has to be told of the extent map */
  uint32_t told;                 /* entries that the partner has confirmed */
  uint32_t telling;              /* entries under way */
  /* list_all: `list` is the whole map. more: the last word follows in a later call */
  bool list_all, more;
};

/* A replica: a file of another node that is kept here. */
struct fs_replica {
  struct fs_table_link by_id;
  struct fs_chain chain; /* link in the list of replicas whose last word has to be answered */
  struct fs_daemon *d;
  uint64_t id, dir, seq, size; /* as of the last complete generation */
  uint32_t from, generation, got;
  bool whole, done;       /* whole: some generation was complete. done: this one is */
  bool promoted, dropped; /* to be promoted or dropped when the pool has finished with it */
  bool asked;
  struct fs_asked question;
  struct fs_names_call call;   /* the last word that came */
  struct fs_extents *segments; /* as of the last complete generation */
  struct fs_listing list;      /* what this generation changes of them */
  bool list_all;               /* `list` is the whole map */
  bool segment;                /* this file is itself a segment */
  struct fs_replica_block *last;
  uint64_t since; /* when the last block or word came */
  fs_err err;
  uint32_t mode;
  /* the pool's, while `busy`: */
  bool busy, settling;
  struct fs_io io;
  struct fs_chain blocks, writing;
};

struct fs_replicas {
  struct fs_daemon *d;
  uint32_t partner; /* FS_NO_RANK: none */
  struct fs_iopool pool;
  uint32_t generation;
  uint32_t sent; /* blocks sent to this partner */
  uint32_t active, behind;
  bool starting;
  /* copies that wait for their turn (`first` before `later`), or for time */
  struct fs_chain first, later, again;
  struct fs_chain busy; /* active copies */
  struct fs_table files;
  struct fs_chain asked;
  struct fs_chain unposted; /* receives that the network had no room for */
  uint32_t *heard;          /* blocks received from each rank */
  uint64_t moved;           /* when any block was last received or written */
};

/* ---- replicas.c ---- */
/* Start replicas if the job has them, run their timers, and handle a change of members. */
fs_err fs_replicas_start(struct fs_daemon *d);
void fs_replicas_timers(struct fs_daemon *d);
void fs_replicas_members(struct fs_daemon *d);
/* Returns true while files are being sent or a last word waits for its answer. */
bool fs_replicas_busy(const struct fs_daemon *d);
int fs_replicas_reap(struct fs_daemon *d); /* what its threads have done; how much */
/* Asks the successor of a file's last home for the file. done: -EIO if it has none, or there are no replicas. */
void fs_replicas_ask(struct fs_daemon *d, uint64_t id, fs_ns_done *done, void *ctx);

/* ---- send.c ---- */
void fs_copy_timers(struct fs_replicas *t);
void fs_copy_members(struct fs_replicas *t);

/* ---- read.c ---- */
fs_err fs_copy_read(struct fs_io *io);

/* ---- list.c ---- */
/* Home begins anew: what is to be told of the list. */
fs_err fs_copy_list(struct fs_copy *c, struct fs_extents *segments);
/* Home: appends as many entries as fit to the call, behind its name. If some are left, sets
   c->more. */
void fs_copy_list_put(struct fs_copy *c, struct fs_names_call *call, size_t room);
static inline void fs_listing_free(struct fs_listing *l) {
  free(l->at);
  *l = (struct fs_listing){0};
}
/* Partner: fs_replica_listed takes the entries that come with a call. fs_replica_list applies
   all entries of the generation to the replica's extent map. */
fs_err fs_replica_listed(struct fs_replica *r, const struct fs_names_call *c);
fs_err fs_replica_list(struct fs_replica *r);

/* ---- segment.c ---- */
/* A segment whose home this node has become, or that the next partner lacks. */
void fs_segment_again(struct fs_daemon *d, uint64_t id);

/* ---- receive.c ---- */
fs_err fs_replica_start(struct fs_replicas *t);
void fs_replica_timers(struct fs_replicas *t);
/* Adopts the files whose home this node has become. */
void fs_replica_members(struct fs_replicas *t);

/* ---- write.c ---- */
fs_err fs_replica_write(struct fs_io *io);

#endif
