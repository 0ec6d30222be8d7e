/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Getting blocks from other nodes. A *fetch* is one block that somebody waits for, however many times it has to be
 * tried; an *exchange* is one request message and its reply. fetch.c has the fetches and decides where to ask;
 * exchange.c has the exchanges, their deadlines, and what is known of each peer. All of it is the MPI thread's.
 *
 * An exchange whose deadline passes loses its fetch but keeps its line of the cache and its number until MPI has
 * completed the receive: until then a late reply may still be written there.
 */
#ifndef FS_DAEMON_BLOCKS_FETCH_H
#define FS_DAEMON_BLOCKS_FETCH_H

#include "daemon/daemon.h"

#define FS_FETCHES 4096u           /* blocks that are waited for; further requests wait their turn */
#define FS_FETCH_HASH 4096u        /* buckets, a power of two */
#define FS_EXCHANGES 1024u         /* with those whose deadline has passed */
#define FS_IN_FLIGHT 256u          /* without them */
#define FS_PEER_IN_FLIGHT 64u      /* to one peer */
#define FS_PEER_BYTES (4u << 20)   /* more only pushes buffers out of the caches; the last may exceed it */
#define FS_PEER_SHARE 8u           /* of the cache at most 1/8 for one peer: when it dies its lines are lost */
#define FS_PEER_OWED 2u            /* with so many overdue, a peer is asked for no block that may be elsewhere */
#define FS_PEER_PINGS 4u           /* unanswered at once */
#define FS_PINGS 512u              /* unanswered at once by all peers; from half of it on one a peer */
#define FS_PING_SPARE 64u          /* exchanges that are kept for pings */
#define FS_FULL_NS 50000000ull     /* so long a fetch waits for room in a cache that is full of pinned lines */
#define FS_FULL_RETRY_NS 500000ull /* and looks again so often */
#define FS_PING_NS 1000000000ull
#define FS_PING_MAX_NS 30000000000ull

struct fs_fetch {
  struct fs_chain chain; /* free list, or queue of a peer */
  struct fs_chain waiters;
  struct fs_fetch *hash_next;
  uint64_t key, started;
  uint64_t full_since; /* the cache has no room for it; 0: not that is known */
  uint32_t dataset;
  uint64_t file;  /* of an output file's block; 0: a dataset's */
  uint64_t list;  /* of its parts */
  bool ahead;     /* for a prefetch */
  bool patient;   /* somebody who waits has nothing else: FS_REQ_PATIENT */
  uint32_t tried; /* one bit for each owner in the placement's order */
  struct fs_block block;
  struct fs_daemon *d;
  struct fs_io io; /* reading a local partition */
  uint32_t line;
};

/* Where blocks come from, by the kind of the client's key. The MPI thread calls all functions. */
struct fs_block_source {
  /* Fills in the block of a client's key, or returns -EINVAL. */
  fs_err (*resolve)(const struct fs_daemon *d, uint64_t key, struct fs_block *b);
  /* A fetch of a resolved key begins; it is over. NULL: the source does not want to know. */
  void (*begin)(struct fs_daemon *d, struct fs_fetch *f);
  void (*done)(struct fs_daemon *d, struct fs_fetch *f);
  /* Looks for the next place to ask for the block, or ends the fetch with an error. */
  void (*route)(struct fs_daemon *d, struct fs_fetch *f);
};
/* modules.c has the table. */
enum fs_block_kind { FS_BLOCKS_DATASET, FS_BLOCKS_OUTPUT, FS_BLOCKS_KINDS };
extern const struct fs_block_source *const fs_block_sources[FS_BLOCKS_KINDS];
extern const struct fs_block_source fs_dataset_blocks; /* fetch.c */

struct fs_exchange {
  struct fs_net_op send, recv;
  struct fs_chain chain; /* free list, or in flight; in neither when overdue */
  struct fs_daemon *d;
  struct fs_fetch *fetch; /* NULL: a ping, or overdue */
  uint64_t id, sent, deadline;
  uint32_t peer, line, number;
  bool sending, receiving, ping, has_line, in_flight, owed;
  struct fs_wire_req req;
  unsigned char *bytes;    /* of the line */
  struct fs_wire_rep *rep; /* in front of them, or when they come alone in their place, or: */
  struct fs_wire_rep pong;
};

struct fs_peer {
  struct fs_chain queue;   /* fetches that are to be asked of it */
  struct fs_chain ready;   /* link in the fetcher's list of peers with a queue and room */
  struct fs_chain suspect; /* link in the list of suspects */
  uint32_t in_flight, pings;
  uint32_t owed; /* exchanges that lost their fetch, and that MPI has not completed */
  uint64_t bytes;
  uint64_t heard; /* when it last answered anything */
  uint64_t ping_at, ping_every;
  bool suspected;
};

/* Keys that are wanted ahead: of each client in the order in which they came, of the clients in turn. */
#define FS_PREFETCH_QUEUE 16384u
struct fs_prefetch_queue {
  uint32_t count;
  uint32_t turn;  /* the place of the client that is next */
  uint32_t fresh; /* items from here on were never used */
  uint16_t free;  /* numbers of items begin with 1 here: a list of those that were */
  uint16_t next[FS_PREFETCH_QUEUE];
  uint64_t key[FS_PREFETCH_QUEUE];
  struct fs_wishes {
    uint16_t first, last, count;
  } of[FS_MAX_CLIENTS]; /* by place: one that takes the place of another goes on with its wishes */
};

struct fs_fetcher {
  struct fs_chain free_fetches, free_exchanges, in_flight, ready, suspects;
  struct fs_chain deferred;        /* waiters for whom there was no fetch left */
  uint32_t flying, reading, spare; /* in flight; local reads; free exchanges */
  uint32_t live, ahead;            /* fetches; of them for prefetches */
  uint64_t ahead_bytes;
  uint32_t tags;       /* reply tags in use: FS_TAG_REPLY_FIRST ... */
  uint32_t pings;      /* unanswered */
  uint64_t peer_bytes; /* in flight to one peer */
  uint64_t generation, timer, full_until;
  struct fs_peer *peer;
  struct fs_prefetch_queue prefetch;
  struct fs_fetch *hash[FS_FETCH_HASH];
  struct fs_fetch fetch[FS_FETCHES];
  struct fs_exchange exchange[FS_EXCHANGES];
};

/* ---- fetch.c ---- */
/* Looks for the next place to ask for a block, or ends the fetch with an error. */
void fs_fetch_route(struct fs_daemon *d, struct fs_fetch *f);
/* Its line is filled, checked and published; or with an error there is none. Answers all who wait. */
void fs_fetch_finish(struct fs_daemon *d, struct fs_fetch *f, fs_err err, uint32_t line);
/* Begins to fetch a block for nobody in particular. False: it is there, on its way, or cannot be had. */
bool fs_fetch_ahead(struct fs_daemon *d, uint64_t key);
/* Are these bytes those of this checksum? */
bool fs_fetch_intact(struct fs_daemon *d, const void *bytes, uint32_t len, uint64_t xxh3);
/* How many more owners could be asked, this one included. */
uint32_t fs_fetch_chances(struct fs_daemon *d, const struct fs_fetch *f);

/* ---- exchange.c ---- */
fs_err fs_exchange_init(struct fs_daemon *d);
/* Is it worth asking for a block that only it has? */
bool fs_peer_usable(const struct fs_daemon *d, uint32_t peer);
/* And for one that may be had elsewhere? */
bool fs_peer_prompt(const struct fs_daemon *d, uint32_t peer);
void fs_peer_enqueue(struct fs_daemon *d, uint32_t peer, struct fs_fetch *f);
void fs_exchange_pump(struct fs_daemon *d);
void fs_exchange_timers(struct fs_daemon *d);

#endif
