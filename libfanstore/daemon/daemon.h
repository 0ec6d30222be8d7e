/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a node's daemon, and what its parts call of each other. Threads:
 *
 *   MPI thread   the main thread: loop.c and all that it calls. Owns everything that is not named below.
 *   guard        listen.c: clients' connections; sees to it that the process ends when it must.
 *   worker       worker.c: stages partitions in, then ends.
 *   I/O pool     iopool.c, partitions.c: disk reads that would block the MPI thread.
 *   stage-out    stageout/copy.c: copies of outputs; and one for keep.c. They ask as clients do (inside.h).
 *   warmer       warm.c: the cache's pages, ahead of their use.
 *   space        space.c: with --output-limit, adds up what outputs take.
 *   reader       command.c, rank 0 only: the launcher's lines from stdin.
 *
 * They meet in the client table and in small queues with a mutex each; `wake` (an eventfd) ends the MPI thread's sleep.
 */
#ifndef FS_DAEMON_DAEMON_H
#define FS_DAEMON_DAEMON_H

#include <pthread.h>

#include "cache/cache.h"
#include "daemon/blocks/partitions.h"
#include "daemon/core/chain.h"
#include "daemon/core/net.h"
#include "daemon/staging/stage.h"
#include "ipc/control.h"
#include "ipc/layout.h"
#include "ipc/wire.h"

#define FS_MAX_CLIENTS 1024u
#define FS_JOB_NAME_MAX 200u

struct fs_daemon_config {
  const char *job;       /* checked: fs_job_name_ok */
  const char *local_dir; /* node-local storage */
  bool local_default;    /* nobody chose it: fs_own_get */
  uint32_t emulate;      /* 0: this host is one node */
  uint64_t cache_bytes;
  uint64_t output_limit; /* bytes of outputs on this node; 0: as many as there is room for */
  uint64_t deadline_ns;
  uint32_t io_threads;
  bool read_only, verbose;
  bool unverified;       /* blocks of other nodes are taken as they come: --verify never */
  bool keep;             /* outputs, when the job ends */
  bool replicas;         /* of outputs, each on one more node */
  uint32_t local_io;     /* FS_CTL_IO_* */
  const char *stage_out; /* a directory that outlives the job, or NULL */
  uint64_t in_place;     /* stage_out is the dataset's own source, of this inode: nothing of the user's is replaced */
  const char *stage_in;  /* one that outlived another */
  uint32_t node_locals;
  const char *node_local[FS_NODE_LOCALS]; /* patterns of files that are each node's own */
  uint32_t datasets;
  const char *dataset[FS_MAX_DATASETS];
  const char *mount[FS_MAX_DATASETS]; /* NULL: the dataset's own */
};
bool fs_job_name_ok(const char *name);

struct fs_dataset {
  struct fs_stage stage;
  char mount[PATH_MAX];
  uint32_t partitions;
  uint32_t max_stored; /* no stored block is longer */
  struct fs_placement *place;
  bool *have; /* staged on this node */
  int *fd;    /* of staged partitions; -1: open by name */
};

/* ---- memory.c: bytes ---- */
#define FS_MEMORY_UNLIMITED (1ull << 60)             /* so much in a group's file says that there is no limit */
uint64_t fs_memory_available(void);                  /* of the machine's, the page cache's among them */
uint64_t fs_memory_names(const struct fs_daemon *d); /* that the names of outputs may take */
uint64_t fs_memory_limit(void);                      /* by this process's control groups; 0: none */
uint64_t fs_memory_limit_of(const char *top, const char *groups); /* the same by the text of a process's "cgroup" */
uint64_t fs_memory_all(void); /* the machine's, or the limit of its control groups if that is lower */
#define FS_CACHE_DEFAULT (1ull << 30)
/* The default of --cache where `nodes` emulated nodes share `all` bytes: at most half of them together. */
uint64_t fs_memory_cache_default(uint64_t all, uint32_t nodes);
/* -ENOMEM, with the reason, if caches of `bytes` on so many nodes are more than `all`. */
fs_err fs_memory_cache_check(uint64_t bytes, uint64_t all, uint32_t nodes, char *why, size_t size);
/* Adds to "ready" how the local partitions are going to be read. */
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
  uint64_t first_id; /* of its output files */
  _Atomic bool gone;
  uint32_t prefetch_tail; /* what its channel's word should say */
  struct fs_waiter waiter[FS_CHANNEL_SLOTS];
  struct fs_client_call *call_slot[FS_CHANNEL_CALLS]; /* calls under way */
  struct fs_client_opens *holds;                      /* of other nodes' output files */
};
struct fs_clients {
  _Atomic(struct fs_client *) slot[FS_MAX_CLIENTS]; /* set by the guard, cleared by the MPI thread */
  _Atomic uint32_t high;                            /* slots ever used */
  _Atomic uint32_t gone;                            /* clients to be removed */
  _Atomic uint32_t attached;                        /* in all */
  uint32_t serial;           /* of the next client, in the ids of its output files: the guard's */
  uint64_t dead[FS_C_COUNT]; /* counters of removed clients */
};

/* ---- warm.c ---- */
struct fs_warm {
  _Atomic uint32_t turn;
  _Atomic uint64_t at; /* the cache's use from which on the thread has work */
};

/* ---- space.c: what this node's outputs take, and whether that is too much ---- */
struct fs_space {
  _Atomic uint32_t turn;
  bool tight; /* as it was at: */
  uint64_t tight_at;
  uint64_t elsewhere[FS_MAX_NODES / 64]; /* nodes that said so when they were last heard */
};
fs_err fs_space_start(struct fs_daemon *d);
void fs_space_freed(struct fs_daemon *d); /* some of it was given back */
bool fs_space_full(const struct fs_daemon *d);
/* Is so little left that what is accepted now may find none? The MPI thread's; */
bool fs_space_tight(struct fs_daemon *d);
/* as of another node's, as it has said; */
bool fs_space_tight_at(const struct fs_daemon *d, uint32_t rank);
void fs_space_told(struct fs_daemon *d, uint32_t rank, bool tight);
/* and whether that concerns who writes on this node. */
void fs_space_await(struct fs_daemon *d, bool await);

/* ---- iopool.c ---- */
struct fs_io {
  struct fs_io *next;
  struct fs_span span; /* read into the page cache alone; or with a length of 0: */
  int fd;              /* or -1: */
  const char *dir;     /* open part-<part> in it */
  uint32_t part, len;
  uint64_t off;
  void *buf;
  fs_err (*work)(struct fs_io *io); /* instead of all that, in a thread of the pool */
  fs_err err;
  void (*done)(struct fs_io *io); /* in the MPI thread */
};
struct fs_iopool {
  pthread_mutex_t lock;
  pthread_cond_t work;
  struct fs_io *head, *tail; /* to do */
  struct fs_io *finished;
  _Atomic uint32_t nfinished;
  uint32_t live; /* submitted and not called back: of whoever submits, under the lock */
  int wake;
};
fs_err fs_iopool_start(struct fs_iopool *p, uint32_t threads, int wake);
void fs_iopool_submit(struct fs_iopool *p, struct fs_io *io);
int fs_iopool_reap(struct fs_iopool *p); /* calls back what is finished; how many */

struct fs_daemon_counters {
  uint64_t served, served_bytes, fetched, fetched_bytes, prefetched, checksum_errors, timeouts;
  uint64_t dropped;                      /* messages; those about names are counted apart: fs_ctl_dropped */
  uint64_t replicated, replicated_bytes; /* to the partner: files, bytes sent */
  _Atomic uint64_t staged_bytes, reused_bytes, refused;
};

enum fs_worker_state { FS_WORKER_IDLE, FS_WORKER_RUNNING, FS_WORKER_DONE };

struct fs_fetcher;
struct fs_open_files;
struct fs_backing;
struct fs_ns;
struct fs_ns_net;
struct fs_leases;
struct fs_parts;
struct fs_server;
struct fs_commands;
struct fs_outputs;
struct fs_stageout;
struct fs_inside;
struct fs_stagein;
struct fs_replicas;

struct fs_daemon {
  const struct fs_daemon_config *cfg;
  struct fs_net *net;
  struct fs_dataset data[FS_MAX_DATASETS];
  uint32_t datasets;
  char run[PATH_MAX], backing[PATH_MAX], socket_path[PATH_MAX];
  int lock_fd, backing_fd, backing_lock_fd,
      memory_fd; /* memory_fd: of fs_memory_backing's directory, locked; -1: none */
  int wake, doorbell;
  struct fs_ctl *ctl;
  int ctl_fd;
  struct fs_cache *cache;
  struct fs_clients clients;
  struct fs_iopool pool;
  struct fs_warm warm;
  struct fs_space space;
  struct fs_parts *parts;
  struct fs_node_segments *node_segments;
  struct fs_leases *leases;
  struct fs_fetcher *fetcher;
  struct fs_server *server;
  struct fs_commands *commands;
  struct fs_ns *ns;
  struct fs_ns_net *ns_net;
  struct fs_open_files *holds;      /* output files of other nodes */
  struct fs_backing *backing_files; /* and of this one */
  struct fs_chain *forwarders;      /* backing files that stand for other nodes' files */
  uint32_t forwarders_open;         /* their number */
  uint32_t forwarders_telling;      /* lines of what they have lost on their way */
  struct fs_stageout *stageout;     /* copies of them */
  struct fs_stagein *stagein;       /* where some of them come from */
  struct fs_outputs *outputs;       /* what is done with them at the end */
  bool outputs_pending;             /* the end has begun, and something has still to be done with them */
  bool outputs_saved;               /* all of them, if none has come since */
  bool outputs_left;                /* some stay in the backing directory for fs-launch clean */
  struct fs_inside *inside;         /* for keeping those of several writers */
  struct fs_replicas *replicas;     /* NULL: there are none */
  struct fs_daemon_counters count;
  uint64_t now; /* of this round of the loop */
  _Atomic int listener;
  _Atomic int worker;  /* enum fs_worker_state */
  _Atomic bool stop;   /* leave, by whatever cause */
  _Atomic bool orphan; /* the process above is gone: no time for good-byes */
  _Atomic bool over;   /* the launcher has said stop, or has gone, or there is no job: else MPI has ended before it */
  _Atomic bool purge;
  _Atomic bool finish_told, stop_told; /* by a signal, where rank 0 passes on no lines */
  _Atomic bool alone; /* the process above is gone, and outputs are to be kept, copied or named first */
  _Atomic bool left;  /* somebody is cleaning up */
};

/* ---- say.c: lines for the launcher, one write each; any thread ---- */
void fs_say_text(const struct fs_daemon *d, const char *verb, const char *format, ...) FS_PRINTF(3, 4);
void fs_say_line(struct fs_control_line *l);
void fs_say_aside(const struct fs_daemon *d); /* from now on into the run directory: mpirun has gone */
fs_err fs_say_begin(const struct fs_daemon *d, struct fs_control_line *l, const char *verb);
void fs_say_have(const struct fs_daemon *d, uint32_t dataset);

/* ---- rundir.c ---- */
fs_err fs_rundir_enter(struct fs_daemon *d, char *why, size_t why_size);
fs_err fs_rundir_backing(struct fs_daemon *d, char *why, size_t why_size);
bool fs_rundir_leave(struct fs_daemon *d); /* true: for programs of a job that is not over, something stays */

/* ---- place.c ---- */
fs_err fs_place_apply(struct fs_daemon *d, const struct fs_control *c);
void fs_place_lose(struct fs_dataset *ds, uint32_t rank, uint32_t part);

/* ---- ctl.c ---- */
fs_err fs_ctl_build(struct fs_daemon *d);
void fs_ctl_heartbeat(struct fs_daemon *d); /* in each round */
/* Messages of other nodes that were thrown away: not understood, late, of an earlier generation, or without room. */
uint64_t fs_ctl_dropped(const struct fs_daemon *d);
fs_err fs_ctl_leave(const struct fs_daemon *d);      /* in the run directory (ipc/node.h) */
void fs_ctl_mark(struct fs_daemon *d, uint32_t bit); /* there may be outputs (ctl->outputs) */
void fs_ctl_mark_all(struct fs_daemon *d);
fs_err fs_ctl_node_local(struct fs_daemon *d, const struct fs_names_call *c); /* of a client: FS_NAMES_NODE_LOCAL */
void fs_ctl_withdraw(struct fs_daemon *d, uint32_t dataset, uint32_t part);   /* it is not local any more */

/* ---- lease.c: partitions that somebody is about to write to ---- */
fs_err fs_leases_start(struct fs_daemon *d);
void fs_leases_look(struct fs_daemon *d);

/* ---- thread.c ---- */
fs_err fs_thread_start(void *(*main)(void *), void *arg);

/* alive.c: from before MPI is initialised until the daemon serves, and has staged in. */
void fs_alive_begin(void);
void fs_alive_end(void);

/* ---- worker.c ---- */
fs_err fs_worker_start(struct fs_daemon *d);

/* ---- clients.c ---- */
struct fs_client *fs_clients_add(struct fs_daemon *d, uint32_t pid, int *channel_fd, fs_err *err); /* guard */
void fs_clients_forget(struct fs_daemon *d, struct fs_client *c);                                  /* guard */
int fs_clients_scan(struct fs_daemon *d);
void fs_clients_bury(struct fs_daemon *d);
void fs_clients_pins(void *ctx, void (*visit)(void *arg, uint32_t line), void *arg);
void fs_clients_sum(struct fs_daemon *d, uint64_t counter[FS_C_COUNT]);
void fs_clients_release_all(struct fs_daemon *d); /* answers all, at the end */
/* Answers a request: line of the cache, or an error. */
void fs_waiter_answer(struct fs_waiter *w, fs_err err, uint32_t line, bool hit);

/* ---- client_calls.c: clients' calls about names of output files ---- */
int fs_client_calls_take(struct fs_daemon *d, struct fs_client *c); /* what is posted; how many */
bool fs_client_calls_posted(const struct fs_client *c);
void fs_client_calls_forget(struct fs_daemon *d, struct fs_client *c); /* it is gone */
void fs_client_calls_release(struct fs_client *c);                     /* answers all, at the end */

/* ---- warm.c: the cache's pages, ahead of their use ---- */
fs_err fs_warm_start(struct fs_daemon *d);
void fs_warm_look(struct fs_daemon *d); /* MPI thread, now and then */

/* ---- listen.c ---- */
fs_err fs_guard_start(struct fs_daemon *d);
fs_err fs_guard_listen(struct fs_daemon *d);

/* ---- fetch.c: blocks from other nodes into the cache ---- */
fs_err fs_fetcher_new(struct fs_daemon *d);
void fs_fetch_request(struct fs_daemon *d, struct fs_waiter *w);
void fs_fetch_timers(struct fs_daemon *d);
bool fs_fetch_busy(const struct fs_daemon *d);

/* ---- prefetch.c: blocks that clients want ahead ---- */
int fs_prefetch_run(struct fs_daemon *d); /* how many were taken or begun */
bool fs_prefetch_posted(const struct fs_client *c);
uint32_t fs_prefetch_waiting(const struct fs_daemon *d);

/* ---- serve.c: blocks for other nodes ---- */
fs_err fs_server_new(struct fs_daemon *d);
void fs_server_timers(struct fs_daemon *d);
bool fs_server_busy(const struct fs_daemon *d);

/* ---- command.c ---- */
fs_err fs_commands_start(struct fs_daemon *d);
int fs_commands_run(struct fs_daemon *d);
bool fs_commands_go(const struct fs_daemon *d);
uint64_t fs_commands_heard(const struct fs_daemon *d); /* when the last line came */
void fs_commands_finished(struct fs_daemon *d);        /* this rank is done with `finish` */
void fs_commands_stop(struct fs_daemon *d);            /* passes the stop on, and waits a little for all to know */

/* ---- loop.c ---- */
int fs_daemon_run(const struct fs_daemon_config *cfg, struct fs_net *net);
/* Reports, cleans up, ends the process. Any thread; the first caller does it. */
_Noreturn void fs_daemon_leave(struct fs_daemon *d, int status);
void fs_daemon_wake(const struct fs_daemon *d);

#endif
