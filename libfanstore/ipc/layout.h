/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that a node's daemon and its clients share, all of it memfds handed over at attach (ipc/handover.h):
 *
 *   ctl      struct fs_ctl      written by the daemon, read-only for clients (sealed)
 *   slab     cache/cache.h      written by the daemon, read-only for clients (sealed)
 *   records  ipc/record_table.h  written by the daemon, read-only for clients (sealed)
 *   heat     one byte a line    written by all; a hint for eviction, harmless when wrong
 *   channel  struct fs_channel  one per client process; written by that client and the daemon
 *
 * A client is a process. A forked child makes its own channel at its first use; threads share their process's.
 * A channel dies with its client's socket; the daemon then drops its pins and requests and keeps its counters.
 * docs/internals/shared-memory.md gives the protocol: who writes each word, in which order, and what a dead process
 * leaves. The daemon believes nothing that it reads from a channel without a bounds check.
 */
#ifndef FS_IPC_LAYOUT_H
#define FS_IPC_LAYOUT_H

#include <assert.h>
#include <limits.h>

#include "ipc/call.h"
#include "ipc/latency.h"
#include "ipc/written.h"
#include "util/base.h"

/* Raised with each change of this file or of ipc/call.h: clients and daemons of one job agree. */
#define FS_IPC_VERSION 22u
#define FS_CTL_MAGIC 0x4c54435346000001ull
#define FS_CHANNEL_MAGIC 0x4e48435346000001ull
#define FS_MAX_DATASETS 16u
#define FS_MAX_NODES 4096u
#define FS_MAX_OWNERS 6u

/* Where a partition is. Made by fs-launch, published by every daemon; nothing else computes a placement. */
struct fs_placement {
  uint16_t owner[FS_MAX_OWNERS]; /* ranks that have it staged, the preferred first; this node first when LOCAL */
  uint8_t owners;                /* 0: only on shared storage */
  _Atomic uint8_t flags;
  uint16_t reserved;
  uint64_t inode; /* when LOCAL: of the copy that was checked, 0 when it is not known; */
  int64_t mtime;  /* and its mtime then, in ns: one that differs is another file, or was written to */
};
static_assert(sizeof(struct fs_placement) == 32, "fs_placement is 32 bytes");
#define FS_PLACE_LOCAL 0x1u /* staged on this node: the file is fs_ctl_dataset.local/part-NNNNN; may be cleared */

struct fs_ctl_dataset {
  char mount[PATH_MAX];  /* normalised */
  char source[PATH_MAX]; /* the dataset on shared storage: the last resort */
  char local[PATH_MAX];  /* this node's directory: index, part-NNNNN */
  uint8_t id[16];
  uint32_t partitions;
  uint32_t placement;   /* number of its first record in the placement table */
  uint64_t index_inode; /* of the index in `local`, as of a partition there (fs_placement) */
  int64_t index_mtime;
};

/* Where bytes came from, the counters that a client keeps in its channel, and those of the daemon itself. */
enum fs_place { FS_PLACE_IS_LOCAL, FS_PLACE_IS_CACHE, FS_PLACE_IS_REMOTE, FS_PLACE_IS_SHARED, FS_PLACE_COUNT };
enum fs_counter {
  FS_C_OPENS,                                    /* opens of the datasets' regular files */
  FS_C_STATS,                                    /* stat calls of any kind */
  FS_C_FILES,                                    /* + place: open files by where their first read was served */
  FS_C_BYTES = FS_C_FILES + FS_PLACE_COUNT,      /* + place: plain bytes given to the caller */
  FS_C_BLOCKS = FS_C_BYTES + FS_PLACE_COUNT,     /* + place: block accesses */
  FS_C_FALLBACKS = FS_C_BLOCKS + FS_PLACE_COUNT, /* blocks taken from the shared copy after an owner failed */
  FS_C_ERRORS,                                   /* reads that ended in EIO */
  FS_C_MATERIALIZED,                             /* files written out whole for mmap or exec */
  FS_C_DAMAGED,                                  /* copies of blocks whose bytes were not those of the index */
  FS_C_DIRECT,                                   /* of the local bytes: read past the page cache */
  FS_C_OUT_OPENS,                                /* opens of outputs of other nodes, or of several writers */
  FS_C_OUT_BYTES,                                /* given to the caller of what other nodes have of outputs */
  FS_C_WAIT_NS,                                  /* in reads; those that do not wait are sampled (client/timing.h) */
  FS_C_DECODES,                                  /* blocks that were decoded, by samples (client/timing.h), */
  FS_C_DECODE_NS,                                /* how long that took, */
  FS_C_DECODE_SAVED,                             /* and how many bytes less than the plain ones were read for them */
  FS_C_COUNT
};
enum fs_node_counter {
  FS_N_CLIENTS,
  FS_N_SERVED,
  FS_N_SERVED_BYTES,
  FS_N_FETCHED,
  FS_N_FETCHED_BYTES,
  FS_N_PREFETCHED,
  FS_N_PREFETCH_WAITING,
  FS_N_EVICTIONS,
  FS_N_TIMEOUTS,
  FS_N_CHECKSUM_ERRORS,
  FS_N_DROPPED,
  FS_N_COUNT
};

struct fs_ctl {
  uint64_t magic;
  uint32_t version;
  uint32_t node; /* this node's rank */
  uint32_t nodes;
  uint32_t datasets;
  uint64_t size;        /* of the whole segment */
  uint64_t deadline_ns; /* a client gives up a request after this and goes to the shared copy */
  uint64_t placements;  /* offset of struct fs_placement[] in the segment */
  uint64_t nplacements;
  uint64_t memory_limit; /* bytes that the job may use on this node, its page cache among them; 0: all there is */
  uint32_t flags;        /* FS_CTL_* */
  uint32_t reserved;
  char backing[PATH_MAX];                    /* directory for materialised files, on this node's local storage */
  alignas(64) _Atomic uint64_t heartbeat_ns; /* CLOCK_MONOTONIC, by the MPI thread at least every 100 ms */
  alignas(64) _Atomic uint32_t asleep;       /* 1: the MPI thread waits in poll; write the doorbell after posting */
  _Atomic uint32_t stopping;                 /* 1: no new requests, the job ends */
  alignas(64) struct fs_ctl_dataset dataset[FS_MAX_DATASETS];
  /* For whoever is curious, renewed every 100 ms: sums over this node's clients, and the daemon's own. */
  alignas(64) _Atomic uint64_t counter[FS_C_COUNT];
  _Atomic uint64_t node_counter[FS_N_COUNT];
  /* Output files (docs/outputs.md): bumped when a directory was renamed or removed; which directories may have
   * some. */
  alignas(64) _Atomic uint64_t tree; /* FS_TREE_UNKNOWN: nothing is to be kept of output directories */
  alignas(64) _Atomic uint64_t outputs[FS_MARK_BITS / 64]; /* bit fs_mark_bit(directory's id) */
  alignas(64) _Atomic uint64_t
      lists;                 /* changed when a list of a file's segments has; FS_LISTS_UNKNOWN: none is to be kept */
  _Atomic uint64_t appended; /* raised when a client of this node has appended to another node's file */
  uint64_t output_limit;     /* bytes of outputs on this node; 0: no limit */
  alignas(64) _Atomic uint64_t output_used; /* when it was last added up */
  _Atomic uint32_t output_full;             /* not 0: that is the limit, or more */
  /* Owners of locks, on other nodes, of files of this node. Not 0: unlocking publishes (docs/internals/locks.md). */
  _Atomic uint32_t lock_owners;
  /* Names of this node (section 13): FS_NL_*; which directories may have some; which files are. */
  _Atomic uint32_t node_local_any;
  _Atomic uint64_t node_local[FS_NL_BITS / 64]; /* bit fs_nl_bit(directory's id) */
  char node_local_globs[FS_NL_GLOBS];           /* patterns, one after the other, then an empty one */
  /* With --overlay: directories where names of a dataset were taken, and these names. A client reads FS_NL_TAKEN of
   * node_local_any, then these. */
  alignas(64) _Atomic uint64_t taken[FS_MARK_BITS / 64]; /* bit fs_mark_bit(directory's id) */
  _Atomic uint64_t taken_names[FS_TAKEN_BITS / 64];      /* bit fs_taken_bit(directory's id, name) */
};
#define FS_TREE_UNKNOWN (1ull << 63)
#define FS_LISTS_UNKNOWN (1ull << 63)
#define FS_CTL_READ_ONLY 0x1u
#define FS_CTL_OVERLAY 0x10u /* programs may take names of the datasets */
#define FS_CTL_REPLICAS 0x2u /* publishing waits for another node */
#define FS_CTL_CTIME 0x20u   /* each change of an output, but through a mapping, changes its ctime */
#define FS_CTL_LOOK 0x80u    /* a client looks for an answer for a while before it sleeps */
#define FS_CTL_ALONE 0x40u   /* while the job runs, nobody asks the records of outputs for attributes of files */
/* How local partitions that are not in memory are read. Neither: directly what there is no room for (ipc/room.h). */
#define FS_CTL_IO_CACHED 0x4u /* through the page cache */
#define FS_CTL_IO_DIRECT 0x8u /* past it */

/* A heartbeat older than this means that the daemon hangs: go round it. */
#define FS_HEARTBEAT_STALE_NS 2000000000ull

/* Requests for blocks. ipc/channel.h has the functions that change their words. */
#define FS_CHANNEL_SLOTS 64u
enum fs_req_state { FS_REQ_FREE = 0, FS_REQ_POSTED = 1, FS_REQ_DONE = 2, FS_REQ_ABANDONED = 3, FS_REQ_ASLEEP = 4 };
enum fs_req_flags {
  FS_REQ_PREFETCH = 1, /* nobody waits: the daemon frees the slot itself */
  FS_REQ_PATIENT = 2   /* the shared copy is not there: asked of nodes, too, that owe blocks */
};

struct fs_req {
  _Atomic uint32_t state;
  uint32_t flags;
  uint64_t key; /* FS_CACHE_KEY(dataset, block key) */
  int32_t err;  /* 0, or a negative errno: the block cannot be had from any node (go to the shared copy) */
  uint32_t line;
  uint32_t hit; /* DONE without a fetch for this request: it was in the cache */
  uint32_t reserved[9];
};
static_assert(sizeof(struct fs_req) == 64, "a request is a cache line");

/*
 * What a client tells its daemon without waiting: blocks that it wants ahead, by a hint of the program's; outputs
 * that it has opened for writing or changed; removed ones that it has unlinked; snapshots that it gives back. A thread
 * of the client takes place `prefetch_head` by compare and swap while head - tail < FS_PREFETCH_RING, and stores a word
 * there (release): a block's key + 1, an id (with FS_OUTPUT_ID), FS_WANT_GONE with an id, or FS_WANT_CLOSE with the
 * snapshot. The daemon takes what it finds at its own tail, stores 0 there, and publishes the tail; a place that is
 * not filled yet stops it.
 */
#define FS_PREFETCH_RING 1024u
#define FS_WANT_CLOSE (1ull << 63) /* | snapshot: as the call CLOSE */
#define FS_WANT_GONE (1ull << 63)  /* | id, with FS_OUTPUT_ID: the backing file of a removed output was unlinked */

/* Calls about names of output files. A call slot holds the call (struct fs_names_call), then its answer
   (records). ipc/channel.h has the functions that change its words. */
#define FS_CHANNEL_CALLS 8u

struct fs_call_slot {
  _Atomic uint32_t state; /* enum fs_req_state */
  uint32_t length;        /* of the body, by whoever wrote it last */
  int32_t err;            /* of the answer: 0, or a negative errno */
  uint32_t reserved[13];
  alignas(64) char body[FS_NAMES_BODY];
};

/* A read of a dataset's file that waited. If there is no room for it, it is left out: the daemon looks ten times a
   second, and a place in two is kept for reads of FS_WAIT_LONG_US and more. */
#define FS_WAIT_RING 256u
#define FS_WAIT_LONG_US 1000u
#define FS_WAIT_FILE(dataset, place, entry)                                                                            \
  (((uint64_t)(dataset) + 1) << 40 | (uint64_t)(place) << 32 | (uint32_t)(entry))
#define FS_WAIT_DATASET(file) ((uint32_t)((file) >> 40) - 1)
#define FS_WAIT_PLACE(file) ((uint32_t)((file) >> 32) & 0xffu)
#define FS_WAIT_ENTRY(file) ((uint32_t)(file))
struct fs_wait_rec {
  _Atomic uint64_t file; /* FS_WAIT_FILE; 0: empty */
  _Atomic uint64_t read; /* microseconds << 32 | bytes, each 32 bits at most */
};

struct fs_channel {
  uint64_t magic;
  uint32_t version;
  uint32_t pid;
  uint64_t first_id; /* of the client's output files; 0: the daemon has no more of them (ipc/record.h) */
  alignas(64) _Atomic uint64_t posted;
  alignas(64) _Atomic uint64_t claimed;
  alignas(64) struct fs_req req[FS_CHANNEL_SLOTS];
  /* Line + 1 that slot i reads from the slab, 0 for none; a cache hit uses a claimed slot's pin without a request. */
  alignas(64) _Atomic uint32_t pin[FS_CHANNEL_SLOTS];
  alignas(64) _Atomic uint64_t counter[FS_C_COUNT];
  alignas(64) _Atomic uint32_t prefetch_head;
  alignas(64) _Atomic uint32_t prefetch_tail;
  alignas(64) _Atomic uint64_t prefetch[FS_PREFETCH_RING];
  alignas(64) _Atomic uint64_t calls_posted;
  alignas(64) _Atomic uint64_t calls_claimed;
  struct fs_call_slot call_slot[FS_CHANNEL_CALLS];
  alignas(64) _Atomic uint64_t written_claimed; /* a bit for each of `written` that a file has */
  struct fs_written written[FS_WRITTEN_FILES];  /* pages that are not used cost nothing */
  /* How long calls took (client/timing.h). The daemon reads the histograms whose bit is set, for pages that it reads
     are not free any more. */
  alignas(64) _Atomic uint32_t latency_kinds; /* bit FS_LATENCY_KIND */
  _Atomic uint64_t latency[FS_LATENCY_KINDS][FS_LATENCY_BUCKETS];
  /* Reads that waited. A thread of the client takes place `waits_head` by compare and swap while head - tail <
     FS_WAIT_RING, stores what was read, and then the file (release). The daemon takes what it finds at its own tail,
     stores 0 there, and publishes the tail. */
  alignas(64) _Atomic uint32_t waits_head;
  alignas(64) _Atomic uint32_t waits_tail;
  alignas(64) struct fs_wait_rec wait[FS_WAIT_RING];
};
static_assert(FS_LATENCY_KINDS <= 32, "latency_kinds has a bit for each");
static_assert(FS_WRITTEN_FILES <= 64, "written_claimed has a bit for each");

#endif
