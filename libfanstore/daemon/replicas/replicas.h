/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replicas of output files (docs/internals/replicas.md): what is published of a file of this node is first
 * brought to its partner, the member after this one round the ring; and what other nodes bring here is kept beside this
 * node's own backing files, until this node is the home of it. The MPI thread's; files are read and written by a pool
 * of threads of its own, so that a disk which takes long to sync keeps nobody else waiting.
 *
 *   send.c      home: which files, when, to whom
 *   read.c      home: what of a file the partner lacks, in a thread of the pool
 *   list.c      home and partner: which segments a file of several writers has
 *   segment.c      a writer's node: its segment, before home is told of it
 *   receive.c   partner: blocks, and the word that all are here
 *   write.c     partner: onto the disk, in a thread of the pool
 *   replicas.c  start, time, and what a change of members brings
 */
#ifndef FS_DAEMON_REPLICAS_REPLICAS_H
#define FS_DAEMON_REPLICAS_REPLICAS_H

#include <stdlib.h>
#include <sys/stat.h>

#include "daemon/outputs/extents.h"
#include "daemon/outputs/replicate.h"

#define FS_REPLICA_CHAINS 65536u
#define FS_REPLICA_STEP 8u     /* blocks that one visit to the pool reads at most */
#define FS_REPLICA_LOOKED 256u /* and looks at, so that others have their turn */
#define FS_REPLICA_FLIGHT 16u  /* of one file, being sent */
#define FS_REPLICA_ACTIVE 32u  /* files at once; */
#define FS_REPLICA_BEHIND 2u   /* of these, for nobody who waits */
#define FS_REPLICA_THREADS 4u
#define FS_REPLICA_POSTED 16u   /* receives */
#define FS_REPLICA_INLINE 8192u /* so few bytes go with the last word */

/* A block on its way. */
struct fs_replica_block {
  struct fs_net_op op;
  struct fs_chain chain;
  struct fs_copy *copy;         /* that is sent; */
  struct fs_replicas *replicas; /* or who receives it */
  struct fs_wire_replica head;
  unsigned char bytes[];
};

/* Changes of an extent map, in order; segment 0: it ends at off. */
struct fs_listing {
  struct fs_output_extent *at;
  uint32_t count, room;
};

/* What the partner has of a file of this node, and how it gets the rest. */
struct fs_copy {
  struct fs_daemon *d;
  uint64_t id;
  uint32_t rank;  /* that has it; FS_NO_RANK: none */
  struct stat st; /* of the backing file as it was then */
  bool loose;     /* it may have changed since without a trace */
  bool synced;
  struct fs_listing listed; /* since the partner was told */
  bool unlisted;            /* some of that is missing: it is to be told all */
  uint64_t *sum;            /* XXH3 of each block */
  uint32_t blocks, room;
  /* while it is being brought up to date: */
  struct fs_chain chain;            /* of those that wait for their turn, or to be asked again */
  struct fs_chain waiting, waiters; /* for the next time; for this one */
  bool queued, active, behind, sync, sync_next;
  uint64_t begin, end, begin_next, end_next; /* what may have changed */
  bool removed;                              /* the file has gone: */
  bool leaving;                              /* the partner is to hear of it */
  bool restart;                              /* from the beginning, at `again` */
  struct fs_chain busy;
  uint32_t to, generation, tries, restarts;
  uint64_t again; /* when the last word is said once more */
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
  uint32_t upto;                 /* blocks that this node had sent of all its files then */
  struct fs_replica_block *last; /* goes with the last word */
  struct fs_listing list;        /* to be told */
  uint32_t told;                 /* so many of it were heard; */
  uint32_t telling;              /* these are on their way, */
  bool list_all, more;           /* of the whole list; and the last word comes after them */
};

/* A file of another node's that is kept here. */
struct fs_replica {
  struct fs_replica *next;
  struct fs_chain chain; /* of those that somebody waits for */
  struct fs_daemon *d;
  uint64_t id, dir, seq, size; /* as of when it was complete last */
  uint32_t from, generation, got;
  bool whole, done;       /* it was complete once; this generation is */
  bool promoted, dropped; /* when the pool has done with it */
  bool asked;
  struct fs_asked question;
  struct fs_names_call call;   /* the last word */
  struct fs_extents *segments; /* as of when it was complete last; */
  struct fs_listing list;      /* what this generation has changed of them, */
  bool list_all;               /* or all */
  bool segment;                /* this is one itself */
  struct fs_replica_block *last;
  uint64_t since; /* of the last block or word */
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
  uint32_t sent; /* blocks, to this partner */
  uint32_t active, behind;
  bool starting;
  struct fs_chain first, later, again; /* copies that wait for their turn, or for time; */
  struct fs_chain busy;                /* those that are active */
  struct fs_replica *chain[FS_REPLICA_CHAINS];
  struct fs_chain asked;
  struct fs_chain unposted; /* receives that the network had no room for */
  uint32_t *heard;          /* blocks from each rank */
  uint64_t moved;           /* when the last one came from any, or was written */
};

/* ---- replicas.c ---- */
fs_err fs_replicas_start(struct fs_daemon *d);
void fs_replicas_timers(struct fs_daemon *d);
void fs_replicas_members(struct fs_daemon *d);
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
/* As much of it as there is room for goes behind the call's name; else c->more is set. */
void fs_copy_list_put(struct fs_copy *c, struct fs_names_call *call, size_t room);
static inline void fs_listing_free(struct fs_listing *l) {
  free(l->at);
  *l = (struct fs_listing){0};
}
/* Partner: what comes with a call; and all of it is to hold. */
fs_err fs_replica_listed(struct fs_replica *r, const struct fs_names_call *c);
fs_err fs_replica_list(struct fs_replica *r);

/* ---- segment.c ---- */
/* A segment whose home this node has become, or that the next partner lacks. */
void fs_segment_again(struct fs_daemon *d, uint64_t id);

/* ---- receive.c ---- */
fs_err fs_replica_start(struct fs_replicas *t);
void fs_replica_timers(struct fs_replicas *t);
/* Files whose home this node has become. */
void fs_replica_members(struct fs_replicas *t);

/* ---- write.c ---- */
fs_err fs_replica_write(struct fs_io *io);

#endif
