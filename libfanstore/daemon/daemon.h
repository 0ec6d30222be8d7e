/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a node's daemon, and what its parts call of each other. These threads use it:
 *
 *   MPI thread   the main thread: loop.c and all that it calls. Owns everything that is not named below.
 *   guard        listen.c: clients' connections; ensures that the process ends when it must.
 *   worker       worker.c: stages partitions in, then ends.
 *   I/O pool     iopool.c: disk reads that would block the MPI thread.
 *   stage-out    stageout/copy.c: copies outputs; keep.c has another. Both are clients (inside.h).
 *   warmer       warm.c: touches the cache's pages before their use.
 *   space        space.c: with --output-limit, adds up what outputs take.
 *   waits        outputs/locks.c: each waits for a lock of a backing file, then ends.
 *   reader       command.c, rank 0 only: reads the launcher's lines from stdin.
 *
 * The threads share the client table and small queues, each with a mutex. `wake` (an eventfd) ends
 * the MPI thread's sleep.
 */
#ifndef FS_DAEMON_DAEMON_H
#define FS_DAEMON_DAEMON_H

#include <pthread.h>

#include "cache/cache.h"
#include "daemon/core/chain.h"
#include "daemon/core/dataset.h"
#include "daemon/core/net.h"
#include "ipc/control.h"
#include "ipc/layout.h"
#include "ipc/wire.h"

struct fs_daemon;

#define FS_MAX_CLIENTS 1024u
#define FS_JOB_NAME_MAX 200u
#define FS_DAEMON_ENVS 32u

struct fs_daemon_config {
  const char *job;       /* checked by fs_job_name_ok */
  const char *local_dir; /* node-local storage */
  bool local_default;    /* the user did not choose it: fs_own_get */
  uint32_t emulate;      /* 0: this host is one node */
  uint64_t cache_bytes;
  uint64_t cache_disk;   /* --cache-disk in bytes; 0: none; FS_DISK_AUTO */
  uint64_t output_limit; /* limit for outputs on this node in bytes; 0: none */
  uint64_t deadline_ns;
  bool read_only, verbose;
  bool overlay;          /* programs may take names of the datasets */
  bool fill;             /* fetch what nobody has read yet while nobody reads: fill.c */
  bool unverified;       /* --verify never: checksums of other nodes' blocks are not checked */
  bool keep;             /* keep outputs when the job ends */
  bool replicas;         /* each output has a replica on one more node */
  uint32_t local_io;     /* FS_CTL_IO_* */
  const char *stage_out; /* a directory that outlives the job, or NULL */
  uint64_t in_place;     /* inode of stage_out if that is the dataset's own source; 0: it is not */
  const char *stage_in;  /* a directory that outlived an earlier job, or NULL */
  uint32_t node_locals;
  /* patterns of names that each node has its own files for */
  const char *node_local[FS_NODE_LOCALS];
  uint32_t envs;
  const char *env[FS_DAEMON_ENVS]; /* words NAME=VALUE for programs that join the job */
  uint32_t datasets;
  const char *dataset[FS_MAX_DATASETS];
  const char *mount[FS_MAX_DATASETS]; /* NULL: the mount of the dataset's manifest */
};
#define FS_DISK_AUTO UINT64_MAX /* of cache_disk: what is free */
bool fs_job_name_ok(const char *name);

/* ---- memory.c: bytes ---- */
/* A value in a group's file from which on there is no limit. */
#define FS_MEMORY_UNLIMITED (1ull << 60)
/* Returns the machine's available memory, including the page cache. */
uint64_t fs_memory_available(void);
/* Returns how much memory the names of outputs may take. */
uint64_t fs_memory_names(const struct fs_daemon *d);
/* Returns the limit of this process's control groups, or 0. */
uint64_t fs_memory_limit(void);
/* Like fs_memory_limit, for the text of a process's "cgroup" file. */
uint64_t fs_memory_limit_of(const char *top, const char *groups);
/* Returns the machine's memory, or the control groups' limit if that is lower. */
uint64_t fs_memory_all(void);
#define FS_CACHE_DEFAULT (1ull << 30)
/* Returns the default of --cache if `nodes` emulated nodes share `all` bytes: at most half of
   them together. */
uint64_t fs_memory_cache_default(uint64_t all, uint32_t nodes);
/* Returns -ENOMEM, with the reason in `why`, if caches of `bytes` on so many nodes take more
   than `all`. */
fs_err fs_memory_cache_check(uint64_t bytes, uint64_t all, uint32_t nodes, char *why, size_t size);
/* Adds to the line "ready" how the local partitions will be read. */
fs_err fs_memory_tell(const struct fs_daemon *d, struct fs_control_line *l);

/* ---- clients.c ---- */
struct fs_fetch;
struct fs_client;
struct fs_client_call;
struct fs_waiter { /* one request of a client, from its post to its answer */
  struct fs_chain chain;
  struct fs_client *client;
  uint64_t key;
  uint32_t flags;
  bool busy;
};
struct fs_client_opens;
struct fs_client {
  int socket; /* the guard's */
  uint32_t pid, number;
  struct fs_channel *channel;
  uint64_t first_id; /* id of its first output file */
  _Atomic bool gone;
  uint64_t waited_ns;     /* in reads, when the node's last sample was made */
  uint32_t waits_tail;    /* the value that the channel's waits_tail should have */
  uint32_t prefetch_tail; /* the value that the channel's prefetch_tail should have */
  struct fs_waiter waiter[FS_CHANNEL_SLOTS];
  struct fs_client_call *call_slot[FS_CHANNEL_CALLS]; /* calls under way */
  /* other nodes' output files that it has open */
  struct fs_client_opens *holds;
  struct fs_client_written *written; /* what it writes of files with several writers */
};
/* How long each process has waited in reads: the distribution over those that used a dataset. */
struct fs_process_waits {
  struct fs_latency us; /* processes by the microseconds that they waited in all */
  uint64_t worst_us;
  uint32_t worst_pid;
};
struct fs_clients {
  _Atomic(struct fs_client *) slot[FS_MAX_CLIENTS]; /* set by the guard, cleared by the MPI thread */
  _Atomic uint32_t high;                            /* slots ever used */
  _Atomic uint32_t gone;                            /* clients that have to be removed */
  _Atomic uint32_t attached;                        /* clients attached since the start */
  /* the guard's: number of the next client, for the ids of its output files */
  uint32_t serial;
  uint64_t dead[FS_C_COUNT]; /* counters of removed clients, and their histograms: */
  uint64_t dead_latency[FS_LATENCY_KINDS][FS_LATENCY_BUCKETS];
  uint32_t dead_kinds; /* bit FS_LATENCY_KIND: that one is not empty */
  struct fs_process_waits dead_waits;
};

/* ---- warm.c ---- */
struct fs_warm {
  _Atomic uint32_t turn;
  _Atomic uint64_t at;       /* use of the cache at which the thread has work again */
  _Atomic uint64_t expected; /* bytes of other nodes' partitions, once the node has a client */
  bool begun;                /* the MPI thread's: `expected` is set */
};

/* ---- fill.c ---- */
struct fs_fill { /* the MPI thread's */
  uint32_t dataset;
  uint64_t seen, block; /* entries of its index that are done; blocks of the next one */
  uint64_t read_at;     /* when a read or a hint waited last */
  bool done;
};

/* ---- space.c ---- */
struct fs_space {
  _Atomic uint32_t turn;
};
fs_err fs_space_start(struct fs_daemon *d);
void fs_space_freed(struct fs_daemon *d); /* Says that outputs were removed. */
bool fs_space_full(const struct fs_daemon *d);

/* ---- iopool.c ---- */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif
struct fs_span { /* bytes of a mapping */
  const uint8_t *at;
  uint64_t len;
};
struct fs_io {
  struct fs_io *next;
  /* only read into the page cache; if its length is 0, the next fields count */
  struct fs_span span;
  int fd;          /* to read from, or -1 */
  const char *dir; /* if fd is -1: read part-<part> in this directory */
  uint32_t part, len;
  uint64_t off;
  void *buf;
  fs_err (*work)(struct fs_io *io); /* called by a thread of the pool instead */
  fs_err err;
  void (*done)(struct fs_io *io); /* called by the MPI thread */
};
struct fs_iopool {
  pthread_mutex_t lock;
  pthread_cond_t work;
  struct fs_io *head, *tail; /* not started */
  struct fs_io *finished;
  _Atomic uint32_t nfinished;
  uint32_t live; /* submitted and not called back; under the lock */
  int wake;
};
fs_err fs_iopool_start(struct fs_iopool *p, uint32_t threads, int wake);
void fs_iopool_submit(struct fs_iopool *p, struct fs_io *io);
int fs_iopool_reap(struct fs_iopool *p); /* Calls back for finished work. Returns how many. */

struct fs_daemon_counters {
  uint64_t served, served_bytes, fetched, fetched_bytes, prefetched, checksum_errors, timeouts;
  /* messages thrown away, except those about names: fs_ctl_dropped */
  uint64_t dropped;
  uint64_t replicated, replicated_bytes; /* sent to the partner: files, bytes */
  uint64_t disk_bytes, disk_kept_bytes;  /* read from the cache on disk; written to it */
  uint64_t outputs, output_written;      /* of this node as their home: files made, bytes that publications added */
  _Atomic uint64_t staged_bytes, reused_bytes, refused;
  _Atomic uint64_t passed_bytes; /* of staged_bytes: what came from other nodes */
};

struct fs_disk;
struct fs_fetcher;
struct fs_open_files;
struct fs_backing;
struct fs_locks;
struct fs_lock_holders;
struct fs_ns;
struct fs_ns_net;
struct fs_shared_names;
struct fs_leases;
struct fs_parts;
struct fs_server;
struct fs_commands;
struct fs_outputs;
struct fs_stageout;
struct fs_inside;
struct fs_stagein;
struct fs_replicas;
struct fs_sampler;
struct fs_peers;

struct fs_daemon {
  const struct fs_daemon_config *cfg;
  struct fs_net *net;
  struct fs_dataset data[FS_MAX_DATASETS];
  uint32_t datasets;
  char run[PATH_MAX], backing[PATH_MAX], socket_path[PATH_MAX];
  int lock_fd, backing_fd, backing_lock_fd,
      memory_fd; /* memory_fd: the directory of fs_memory_backing, locked; -1: none */
  int wake, doorbell;
  struct fs_ctl *ctl;
  int ctl_fd;
  struct fs_cache *cache;
  struct fs_clients clients;
  struct fs_iopool pool;
  struct fs_warm warm;
  struct fs_fill fill;
  struct fs_space space;
  struct fs_parts *parts;
  struct fs_node_segments *node_segments;
  struct fs_written_files *written;
  struct fs_locks *locks;               /* of files of this node, by other nodes */
  struct fs_lock_holders *lock_holders; /* owners of locks on this node */
  struct fs_leases *leases;
  struct fs_fetcher *fetcher;
  struct fs_disk *disk; /* NULL: the job has no cache on disk */
  struct fs_server *server;
  struct fs_commands *commands;
  struct fs_ns *ns;
  struct fs_ns_net *ns_net;
  struct fs_shared_names *shared_names; /* what clients read of ns: */
  int records_fd;
  uint64_t records_size;
  struct fs_open_files *holds;      /* other nodes' output files that clients have open */
  struct fs_backing *backing_files; /* output files of this node */
  struct fs_chain *forwarders;      /* backing files that stand for other nodes' files */
  uint32_t forwarders_open;         /* number of forwarders */
  uint32_t forwarders_telling;      /* lines about lost writes that are on their way */
  struct fs_stageout *stageout;     /* copies of outputs outside the job, or NULL */
  struct fs_stagein *stagein;       /* files that come from an earlier job, or NULL */
  struct fs_outputs *outputs;       /* the end of the job for outputs, or NULL */
  bool outputs_pending;             /* the end has begun and is not complete */
  bool outputs_saved;               /* all outputs were copied or kept, if none has come since */
  /* some outputs stay in the backing directory for fs-launch clean */
  bool outputs_left;
  struct fs_inside *inside;     /* for keep.c, to keep files of several writers */
  struct fs_replicas *replicas; /* NULL: the job has none */
  struct fs_peers *peers;       /* partitions from node to node, or NULL */
  bool passing;                 /* the placement has some of them */
  struct fs_sampler *sampler;   /* what fs-launch was told last */
  struct fs_daemon_counters count;
  uint64_t now; /* start of this round of the loop */
  _Atomic int listener;
  _Atomic bool worker_done;
  _Atomic bool stop;   /* the daemon has to leave, for whatever reason */
  _Atomic bool orphan; /* the parent process has gone: leave without telling anybody */
  /* the job is over: the launcher has said stop or has gone, or there is no job. If false at the
     end, MPI ended before the job */
  _Atomic bool over;
  _Atomic bool purge;
  /* the launcher's words by signal, if rank 0 passes on no lines */
  _Atomic bool finish_told, stop_told;
  /* the parent process has gone, but outputs have to be kept, copied or named first */
  _Atomic bool alone;
  _Atomic bool left; /* some thread is cleaning up */
};

/* ---- say.c: lines for the launcher, one write each; any thread ---- */
void fs_say_text(const struct fs_daemon *d, const char *verb, const char *format, ...) FS_PRINTF(3, 4);
void fs_say_line(struct fs_control_line *l);
/* Returns whether a line to mpirun would not wait. False if mpirun has gone. */
bool fs_say_room(void);
/* Says that this process is there, before MPI is initialised. */
void fs_say_begun(const char *network); /* before there is an MPI */
void fs_say_failed(const char *why);    /* likewise */
/* Redirects all lines to the run directory, as mpirun has gone */
void fs_say_aside(const struct fs_daemon *d);
fs_err fs_say_begin(const struct fs_daemon *d, struct fs_control_line *l, const char *verb);
void fs_say_have(const struct fs_daemon *d, uint32_t dataset);

/* ---- rundir.c ---- */
fs_err fs_rundir_enter(struct fs_daemon *d, char *why, size_t why_size);
fs_err fs_rundir_backing(struct fs_daemon *d, char *why, size_t why_size);
/* Returns true if something stays for programs of a job that is not over. */
bool fs_rundir_leave(struct fs_daemon *d);

/* ---- place.c ---- */
fs_err fs_place_apply(struct fs_daemon *d, const struct fs_control *c);
void fs_place_lose(struct fs_dataset *ds, uint32_t rank, uint32_t part);

/* ---- ctl.c ---- */
fs_err fs_ctl_build(struct fs_daemon *d);
void fs_ctl_heartbeat(struct fs_daemon *d); /* Called in each round of the loop. */
/* Returns the number of other nodes' messages that were thrown away: malformed, late, of an
   earlier generation, or without room. */
uint64_t fs_ctl_dropped(const struct fs_daemon *d);
/* Writes a copy of the ctl segment into the run directory (ipc/node.h). */
fs_err fs_ctl_leave(const struct fs_daemon *d);
/* Sets the bit of directories that may have outputs (ctl->outputs). */
void fs_ctl_mark(struct fs_daemon *d, uint32_t bit);
/* Sets all bits, also those of taken names: this daemon has been evicted, and is told of no more of them. */
void fs_ctl_mark_all(struct fs_daemon *d);
/* Returns true if nobody asks the records of outputs for attributes of files while the job runs. */
bool fs_ctl_alone(const struct fs_daemon *d);
/* Sets the bits of a name of a dataset that was taken (ctl->taken, ctl->taken_names). */
void fs_ctl_taken(struct fs_daemon *d, uint32_t bit, uint32_t name);
/* Handles a client's FS_NAMES_NODE_LOCAL. */
fs_err fs_ctl_node_local(struct fs_daemon *d, const struct fs_names_call *c);
/* Tells clients that a partition is not local any more. */
void fs_ctl_withdraw(struct fs_daemon *d, uint32_t dataset, uint32_t part);

/* ---- lease.c ---- */
fs_err fs_leases_start(struct fs_daemon *d);
void fs_leases_look(struct fs_daemon *d);

/* ---- thread.c ---- */
fs_err fs_thread_start(void *(*main)(void *), void *arg);
/* Asks the kernel for short turns of the calling thread, so that it preempts a process that
   computes when it wakes up (Linux 6.12; older kernels ignore it). Its share stays the same. */
void fs_thread_prompt(void);

/* ---- worker.c ---- */
fs_err fs_worker_start(struct fs_daemon *d);
/* ---- peers.c ---- */
/* Begins to answer other nodes' requests for partitions, if the placement has some. Before the worker
   starts. */
fs_err fs_peers_start(struct fs_daemon *d);
int fs_peers_run(struct fs_daemon *d); /* Called in each round of the loop. */
bool fs_peers_busy(const struct fs_daemon *d);
/* Ends the staging: removes incomplete copies, and with --purge the complete ones. */
void fs_staging_leave(struct fs_daemon *d, int status);

/* ---- clients.c ---- */
/* fs_clients_add adds a client with a new channel; fs_clients_forget marks a client as gone. Only
   the guard calls them. */
struct fs_client *fs_clients_add(struct fs_daemon *d, uint32_t pid, int *channel_fd, fs_err *err);
void fs_clients_forget(struct fs_daemon *d, struct fs_client *c);
/* fs_clients_scan takes what clients have posted and returns how much; fs_clients_bury removes the
   clients that are gone. Only the MPI thread calls them. */
int fs_clients_scan(struct fs_daemon *d);
void fs_clients_bury(struct fs_daemon *d);
/* Calls visit for each cache line that a client has pinned. */
void fs_clients_pins(void *ctx, void (*visit)(void *arg, uint32_t line), void *arg);
/* Sums the counters of all clients, those that are gone included. */
void fs_clients_sum(struct fs_daemon *d, uint64_t counter[FS_C_COUNT]);
/* Adds up a histogram (FS_LATENCY_KIND) in the same way. Returns false if it is empty. */
bool fs_clients_latency(const struct fs_daemon *d, unsigned kind, struct fs_latency *h);
/* ---- waits.c ---- */
/* Adds up how long each process waited, those that are gone included. */
void fs_clients_waits(const struct fs_daemon *d, struct fs_process_waits *w);
/* The client has gone: counts its waiting. */
void fs_clients_waits_dead(struct fs_daemon *d, const struct fs_client *c);
/* Returns how much of the last `ns` the process that waited most of them was in reads, in percent. */
uint64_t fs_clients_worst(struct fs_daemon *d, uint64_t ns);
/* Returns the next read that waited, which the client has told. False: there is none. */
bool fs_clients_waited(struct fs_client *c, uint64_t *file, uint64_t *us, uint64_t *bytes);

/* Returns how many programs are clients now. */
uint32_t fs_clients_now(const struct fs_daemon *d);
void fs_clients_release_all(struct fs_daemon *d); /* Answers all, at the end of the daemon. */
/* Answers a client's request with a line of the cache or an error. */
void fs_waiter_answer(struct fs_waiter *w, fs_err err, uint32_t line, bool hit);

/* ---- client_calls.c: clients' calls about names of output files ---- */
/* Handles the client's posted calls. Returns how many. */
int fs_client_calls_take(struct fs_daemon *d, struct fs_client *c);
bool fs_client_calls_posted(const struct fs_client *c);
/* Frees the calls of a client that has gone. */
void fs_client_calls_forget(struct fs_daemon *d, struct fs_client *c);
void fs_client_calls_release(struct fs_client *c); /* Answers all, at the end of the daemon. */

/* ---- warm.c: the cache's pages, ahead of their use ---- */
fs_err fs_warm_start(struct fs_daemon *d);
void fs_warm_look(struct fs_daemon *d); /* The MPI thread calls this now and then. */

/* ---- listen.c ---- */
fs_err fs_guard_start(struct fs_daemon *d);
fs_err fs_guard_listen(struct fs_daemon *d);

/* ---- fetch.c: blocks from other nodes into the cache ---- */
fs_err fs_fetcher_new(struct fs_daemon *d);
void fs_fetch_request(struct fs_daemon *d, struct fs_waiter *w);
void fs_fetch_timers(struct fs_daemon *d);
bool fs_fetch_busy(const struct fs_daemon *d);
/* Returns how many requests to other nodes are under way. */
uint32_t fs_fetch_flying(const struct fs_daemon *d);
void fs_fetch_leave(struct fs_daemon *d, int status);

/* ---- prefetch.c: blocks that clients want ahead ---- */
int fs_prefetch_run(struct fs_daemon *d); /* Returns how many were taken or begun. */
/* A client says that it has opened a file of this node for writing. backing_watch.c. */
void fs_backing_to_write(struct fs_daemon *d, uint64_t id);
/* Says that a program has unlinked the backing file of what it removed. */
void fs_backing_was_unlinked(struct fs_daemon *d, uint64_t id);
/* A client gives a snapshot back, as by the call CLOSE. outputs/open_files.c. */
void fs_open_files_given_back(struct fs_daemon *d, struct fs_client *c, uint32_t snapshot);
/* A client has ended: what it opened for writing is still to be looked at. */
void fs_prefetch_gone(struct fs_daemon *d, struct fs_client *c);
bool fs_prefetch_posted(const struct fs_client *c);
int fs_fill_run(struct fs_daemon *d); /* fill.c: Returns how many blocks were begun. */
uint32_t fs_prefetch_waiting(const struct fs_daemon *d);

/* ---- serve.c: blocks for other nodes ---- */
fs_err fs_server_new(struct fs_daemon *d);
void fs_server_timers(struct fs_daemon *d);
bool fs_server_busy(const struct fs_daemon *d);

/* ---- command.c ---- */
fs_err fs_commands_start(struct fs_daemon *d);
int fs_commands_run(struct fs_daemon *d);
bool fs_commands_go(const struct fs_daemon *d);
uint64_t fs_commands_heard(const struct fs_daemon *d); /* Returns when the last line came. */
void fs_commands_finished(struct fs_daemon *d);        /* Says that this rank has finished. */
/* Passes the stop on, and waits briefly for all ranks to hear it. */
void fs_commands_stop(struct fs_daemon *d);

/* ---- loop.c ---- */
int fs_daemon_run(const struct fs_daemon_config *cfg, struct fs_net *net);
/* Reports, cleans up and ends the process. Any thread may call it; the first caller does it. */
_Noreturn void fs_daemon_leave(struct fs_daemon *d, int status);
void fs_daemon_wake(const struct fs_daemon *d);

#endif
