/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gets blocks from other nodes. A *fetch* is one block that somebody waits for, however many times
 * it has to be tried. An *exchange* is one request message and its reply. fetch.c has the fetches;
 * their sources decide where to ask (source.h); exchange.c has the exchanges, their deadlines, and
 * the state of each peer. All of it is the MPI thread's.
 *
 * If an exchange's deadline passes, it loses its fetch. It keeps its cache line and its number
 * until MPI has completed the receive, because a late reply may still be written there.
 */
#ifndef FS_DAEMON_BLOCKS_FETCH_H
#define FS_DAEMON_BLOCKS_FETCH_H

#include "daemon/blocks/source.h"
#include "daemon/daemon.h"

#define FS_FETCHES 4096u      /* blocks in work at once; further requests wait their turn */
#define FS_FETCH_HASH 4096u   /* buckets, a power of two */
#define FS_EXCHANGES 1024u    /* exchanges, with those whose deadline has passed */
#define FS_IN_FLIGHT 256u     /* exchanges, without those */
#define FS_PEER_IN_FLIGHT 64u /* exchanges with one peer */
/* bytes under way with one peer; more would only evict the processor's caches; the last block
   may exceed it */
#define FS_PEER_BYTES (4u << 20)
/* one peer gets at most 1/8 of the cache, as its lines are lost if it dies */
#define FS_PEER_SHARE 8u
/* a peer with so many overdue blocks is asked only for blocks that nobody else has */
#define FS_PEER_OWED 2u
#define FS_PEER_PINGS 4u /* unanswered pings to one peer at once */
/* unanswered pings to all peers; from half of it on, only one to each peer */
#define FS_PINGS 512u
#define FS_PING_SPARE 64u /* exchanges reserved for pings */
/* how long a fetch waits for room in a cache full of pinned lines */
#define FS_FULL_NS 50000000ull
#define FS_FULL_RETRY_NS 500000ull /* pause between two tries to get that room */
#define FS_PING_NS 1000000000ull
#define FS_PING_MAX_NS 30000000000ull

struct fs_fetch {
  struct fs_chain chain; /* free list, or queue of a peer or of the disk */
  struct fs_chain waiters;
  struct fs_fetch *hash_next;
  uint64_t key, started;
  uint64_t full_since; /* when the cache was first found full; 0: not found full */
  const struct fs_block_source *source;
  struct fs_wanted want;
  bool ahead;     /* for a prefetch */
  bool fill;      /* for fill.c */
  bool disk;      /* it comes from the cache on disk */
  bool patient;   /* some waiter has no other source: FS_REQ_PATIENT */
  uint32_t tried; /* the source's: where the block was asked for; 0 at first */
  struct fs_daemon *d;
  struct fs_io io; /* for a read of a local partition */
  uint32_t line;
};

struct fs_exchange {
  struct fs_net_op send, recv;
  struct fs_chain chain; /* link in the free list or in `in_flight`; in neither when overdue */
  struct fs_daemon *d;
  struct fs_fetch *fetch; /* NULL if it is a ping or overdue */
  uint64_t id, sent, deadline;
  uint32_t peer, line, number;
  bool sending, receiving, ping, has_line, in_flight, owed;
  struct fs_wire_req req;
  unsigned char *bytes; /* the line's bytes */
  /* the reply's head: in front of `bytes`; for a bare reply at their place; for a ping `pong` */
  struct fs_wire_rep *rep;
  struct fs_wire_rep pong;
};

struct fs_peer {
  struct fs_chain queue;   /* fetches that wait for their exchange */
  struct fs_chain ready;   /* link in the fetcher's list of peers with a queue and room */
  struct fs_chain suspect; /* link in the list of suspected peers */
  uint32_t in_flight, pings;
  uint32_t owed; /* exchanges that have lost their fetch and that MPI has not completed */
  uint64_t bytes;
  uint64_t heard; /* when it last answered anything */
  uint64_t ping_at, ping_every;
  uint64_t fetched, fetched_bytes, fetched_ns; /* blocks that it gave, and the time that they took */
  bool suspected;
};

/* Keys of blocks that clients want ahead. Each client's keys are in their order; the clients
   have turns. */
#define FS_PREFETCH_QUEUE 16384u
struct fs_prefetch_queue {
  uint32_t count;
  uint32_t turn;  /* place of the client whose turn is next */
  uint32_t fresh; /* items from here on were never used */
  uint16_t free;  /* first of the list of used and free items; item numbers begin with 1 */
  uint16_t next[FS_PREFETCH_QUEUE];
  uint64_t key[FS_PREFETCH_QUEUE];
  struct fs_wishes {
    uint16_t first, last, count;
    /* by place in the client table; a new client at a place inherits the wishes */
  } of[FS_MAX_CLIENTS];
};

struct fs_fetcher {
  struct fs_chain free_fetches, free_exchanges, in_flight, ready, suspects;
  struct fs_chain deferred;        /* waiters that found no free fetch */
  uint32_t flying, reading, spare; /* exchanges in flight; local reads; free exchanges */
  uint32_t live, ahead;            /* fetches in work; of them, prefetches */
  uint64_t ahead_bytes;
  uint32_t tags;       /* reply tags in use: FS_TAG_REPLY_FIRST ... */
  uint32_t pings;      /* unanswered pings */
  uint64_t peer_bytes; /* limit of bytes in flight with one peer */
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
/* Ends a fetch and answers all waiters. Either its line is filled, checked and published, or err
   is negative. */
void fs_fetch_finish(struct fs_daemon *d, struct fs_fetch *f, fs_err err, uint32_t line);
/* Returns whether nobody waits for the block: it was only asked for ahead of its read. False if
   it fills the cache, since it need not be read soon. */
bool fs_fetch_awaited(const struct fs_fetch *f);
/* Begins to fetch a block ahead. fill: for fill.c, else for a hint. Returns false if it is there, on
   its way, or unavailable. */
bool fs_fetch_ahead(struct fs_daemon *d, uint64_t key, bool fill);
/* Takes the bytes of a block that came with another answer. Ignores them if there is no such block
   with so many bytes, or if it is there or on its way. */
void fs_fetch_given(struct fs_daemon *d, uint64_t key, const void *bytes, size_t n);
/* Returns true if the bytes have this checksum, or checksums are not verified. */
bool fs_fetch_intact(struct fs_daemon *d, const void *bytes, uint32_t len, uint64_t xxh3);

/* ---- exchange.c ---- */
fs_err fs_exchange_init(struct fs_daemon *d);
/* Returns true if the peer can be asked for a block that only it has. */
bool fs_peer_usable(const struct fs_daemon *d, uint32_t peer);
/* Returns true if the peer can be asked for a block that other peers may have, too. */
bool fs_peer_prompt(const struct fs_daemon *d, uint32_t peer);
void fs_peer_enqueue(struct fs_daemon *d, uint32_t peer, struct fs_fetch *f);
void fs_exchange_pump(struct fs_daemon *d);
void fs_exchange_timers(struct fs_daemon *d);

#endif
