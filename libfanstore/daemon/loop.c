/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a daemon, and the loop of its MPI thread: start (run directory, datasets, what is
 * staged already), placement, staging, serving, stop. MPI has no blocking wait that others could
 * interrupt, so the loop polls. It yields while there is work, and else sleeps for up to two
 * milliseconds. A client's post or another thread's result ends the sleep by an eventfd; a message
 * ends it only if MPI uses sockets.
 */
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/module.h"
#include "daemon/outputs/service.h"
#include "daemon/staging/stage.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_YIELD_NS 250000ull       /* if nothing is under way */
#define FS_YIELD_BUSY_NS 2000000ull /* while an answer is awaited */
#define FS_SLEEP_MIN_NS 50000ull
#define FS_SLEEP_BUSY_NS 100000ull
#define FS_SLEEP_MAX_NS 1000000ull
#define FS_SLEEP_DEEP_NS 2000000ull /* after a second without work */
#define FS_DEEP_NS 1000000000ull
#define FS_SLEEP_TRUSTED_NS 5000000ull /* if messages are known to end the sleep */
#define FS_SHARED_NS 1500ull           /* if a yield takes so long, another process ran meanwhile */
#define FS_SHARED_PART 5u              /* then the loop yields for a fifth of the time */
#define FS_CROWDED_NS 500000ull        /* if a yield takes so long, other processes compute */
#define FS_CROWDED_MIN_NS 4000000ull
#define FS_CROWDED_MAX_NS 256000000ull
#define FS_CROWDED_AGAIN_NS 50000000ull
/* shortest time between searches for connections; longer if none are found */
#define FS_FIND_NS 100000000ull
#define FS_FIND_MAX_NS 60000000000ull
#define FS_IN_VAIN 1000u
#define FS_SLEEP_START_NS 10000000ull /* before the node serves */
#define FS_ALONE_NS 1000000ull        /* between two looks for messages of a daemon without others */
#define FS_START_NS 600000000000ull   /* longest wait for a line of the launcher before `go` */

static struct fs_daemon daemon_state; /* one per process, static for the signal handler */

void fs_daemon_wake(const struct fs_daemon *d) {
  uint64_t one = 1;
  (void)fs_sys_write(d->wake, &one, sizeof(one));
}

static void fs_daemon_signal(int sig) {
  (void)sig;
  atomic_store(&daemon_state.orphan, true);
  atomic_store(&daemon_state.stop, true);
  fs_daemon_wake(&daemon_state);
}

static void fs_daemon_told(int sig) {
  atomic_store(sig == FS_SIGNAL_FINISH ? &daemon_state.finish_told : &daemon_state.stop_told, true);
  fs_daemon_wake(&daemon_state);
}

static void fs_daemon_signals(void) {
  struct sigaction sa = {.sa_handler = fs_daemon_signal, .sa_flags = SA_RESTART};
  struct sigaction told = {.sa_handler = fs_daemon_told, .sa_flags = SA_RESTART};
  struct sigaction ignore = {.sa_handler = SIG_IGN};
  sigaction(SIGTERM, &sa, NULL);
  sigaction(SIGINT, &sa, NULL);
  sigaction(SIGHUP, &sa, NULL);
  sigaction(FS_SIGNAL_FINISH, &told, NULL);
  sigaction(FS_SIGNAL_STOP, &told, NULL);
  sigaction(SIGUSR1, &ignore, NULL); /* meant for COMMAND */
  sigaction(SIGUSR2, &ignore, NULL);
  sigaction(SIGPIPE, &ignore, NULL);
  sigaction(SIGXFSZ, &ignore, NULL); /* the write fails with EFBIG */
  sigaction(SIGIO, &ignore, NULL);   /* sent for leases; lease.c handles it later */
}

static _Noreturn void fs_daemon_fail(struct fs_daemon *d, const char *why) {
  fs_say_text(d, "fail", "%s", why);
  atomic_store(&d->over, true);
  fs_daemon_leave(d, 1);
}

/* ---- the loop ---- */

static bool fs_loop_posted(struct fs_daemon *d) {
  uint32_t high = atomic_load(&d->clients.high);
  for (uint32_t i = 0; i < high; i++) {
    struct fs_client *c = atomic_load(&d->clients.slot[i]);
    if (c && (atomic_load_explicit(&c->channel->posted, memory_order_seq_cst) != 0 || fs_prefetch_posted(c) ||
              fs_client_calls_posted(c)))
      return true;
  }
  return atomic_load(&d->pool.nfinished) != 0;
}

/* The state of the loop's waiting. `arrivals` (net.h) is only a hint, so it is compared with
   what the network then has. */
static struct fs_idle {
  uint64_t since, nap;
  /* another process needs this processor for long: do not yield */
  uint64_t crowded_for, crowded_until;
  uint64_t find_at, find_every;
  uint64_t poll_at;  /* of one daemon alone: when to look for messages again */
  uint32_t in_vain;  /* hints in a row without a message */
  bool trusted;      /* the last message after a sleep had ended the sleep */
  bool shared;       /* another process ran during the last yield */
  bool told, napped; /* the last sleep ended by a hint; by its timeout */
} idle;

/* Sleeps until something is posted or arrives, for `ns` at most. Clients post and then read
   `asleep`; the loop sets `asleep` and then looks for posts. So at least one side sees the
   other. */
static void fs_loop_sleep(struct fs_daemon *d, uint64_t ns) {
  struct pollfd p[3] = {{.fd = d->wake, .events = POLLIN},
                        {.fd = d->doorbell, .events = POLLIN},
                        {.fd = d->ctl ? d->net->arrivals : -1, .events = POLLIN}};
  struct timespec ts = {.tv_nsec = (long)ns};
  uint64_t sink;
  idle.told = idle.napped = false;
  if (d->ctl) atomic_store(&d->ctl->asleep, 1);
  if (!d->ctl || !fs_loop_posted(d)) {
    int n = ppoll(p, 3, &ts, NULL);
    idle.napped = n == 0;
    if (n > 0 && p[0].revents) (void)fs_sys_read(d->wake, &sink, sizeof(sink));
    /* clients have this descriptor, too: see docs/internals/shared-memory.md */
    if (n > 0 && p[1].revents) fs_eventfd_take(d->doorbell);
    idle.told = n > 0 && p[2].revents;
  }
  if (d->ctl) atomic_store(&d->ctl->asleep, 0);
}

/* Compares the hints with the messages after a sleep. Messages without a hint mean connections
   that are not known yet. Hints without messages mean dead connections, or ones that MPI does
   not read here. */
static void fs_loop_arrivals(struct fs_daemon *d, int messages) {
  if (idle.told && messages == 0 && ++idle.in_vain >= FS_IN_VAIN) {
    d->net->ops->drop(d->net);
    /* a live connection may be among the dropped ones */
    idle.find_at = d->now + (idle.find_every = FS_FIND_NS);
  }
  if (!idle.told || messages > 0 || idle.in_vain >= FS_IN_VAIN) idle.in_vain = 0;
  if (messages > 0 && (idle.told || idle.napped)) idle.trusted = idle.told;
  if (idle.napped && messages > 0 && d->now >= idle.find_at) {
    idle.find_every = d->net->ops->find(d->net) > 0 ? FS_FIND_NS : FS_MIN(2 * idle.find_every, FS_FIND_MAX_NS);
    idle.find_every = FS_MAX(idle.find_every, FS_FIND_NS);
    idle.find_at = d->now + idle.find_every;
  }
  idle.told = idle.napped = false;
}

/* Yields the processor, which the clients share, and on one host other nodes too. A process that
   computes keeps it for milliseconds; sleeping is then better, since a wake-up preempts that
   process. */
static void fs_loop_yield(void) {
  uint64_t begin = fs_now_ns();
  sched_yield();
  uint64_t now = fs_now_ns();
  idle.shared = now - begin >= FS_SHARED_NS;
  if (now - begin < FS_CROWDED_NS) return;
  bool again = idle.crowded_for > 0 && now < idle.crowded_until + FS_CROWDED_AGAIN_NS;
  idle.crowded_for = again ? FS_MIN(2 * idle.crowded_for, FS_CROWDED_MAX_NS) : FS_CROWDED_MIN_NS;
  idle.crowded_until = now + idle.crowded_for;
}

static void fs_loop_idle(struct fs_daemon *d, bool worked) {
  bool serving = d->ctl != NULL;
  bool busy = serving ? fs_modules_busy(d) : fs_peers_busy(d);
  if (worked) {
    idle.since = d->now;
    idle.nap = FS_SLEEP_MIN_NS;
    return;
  }
  uint64_t quiet = d->now - idle.since, patience = busy ? FS_YIELD_BUSY_NS : FS_YIELD_NS;
  if (idle.shared) patience /= FS_SHARED_PART;
  if (serving && d->now >= idle.crowded_until && quiet < patience) {
    fs_loop_yield();
    return;
  }
  uint64_t most = busy                 ? FS_SLEEP_BUSY_NS
                  : !serving           ? FS_SLEEP_START_NS
                  : idle.trusted       ? FS_SLEEP_TRUSTED_NS
                  : quiet < FS_DEEP_NS ? FS_SLEEP_MAX_NS
                                       : FS_SLEEP_DEEP_NS;
  idle.nap = FS_MIN(FS_MAX(idle.nap, FS_SLEEP_MIN_NS), most);
  fs_loop_sleep(d, idle.nap);
  idle.nap *= 2;
}

/* Looks for messages. One daemon alone gets none but its own and those of MPI's runtime, which can
   wait. */
static int fs_loop_messages(struct fs_daemon *d) {
  if (d->net->nodes == 1 && !idle.told && d->now < idle.poll_at) return 0;
  idle.poll_at = d->now + FS_ALONE_NS;
  return fs_net_poll(d->net);
}

/* Runs one round. Returns whether the daemon goes on. */
static bool fs_loop_round(struct fs_daemon *d) {
  d->now = fs_now_ns();
  int n = fs_loop_messages(d);
  if (d->ctl) fs_loop_arrivals(d, n);
  n += fs_commands_run(d);
  n += d->ctl ? fs_modules_run(d) : fs_iopool_reap(&d->pool) + fs_peers_run(d);
  fs_loop_idle(d, n > 0);
  return !atomic_load_explicit(&d->stop, memory_order_acquire);
}

/* ---- start ---- */

static fs_err fs_daemon_dataset(struct fs_daemon *d, uint32_t i, char *why, size_t why_size) {
  struct fs_dataset *ds = &d->data[i];
  const char *mount = d->cfg->mount[i];
  int node = d->cfg->emulate > 1 ? (int)d->net->rank : -1;
  fs_err err = fs_stage_open(&ds->stage, d->cfg->dataset[i], d->cfg->local_dir, node, why, why_size);
  if (err < 0) return err;
  ds->partitions = (uint32_t)ds->stage.index.nparts;
  ds->max_stored = FS_MAX(ds->stage.index.block_size, FS_BLOCK_SIZE_MIN);
  if (fs_path_normalize(mount ? mount : ds->stage.manifest.mount, ds->mount, sizeof(ds->mount)) < 0) {
    snprintf(why, why_size, "%s: the mount is no absolute path", mount ? mount : ds->stage.manifest.mount);
    return -EINVAL;
  }
  ds->place = calloc(ds->partitions + 1, sizeof(*ds->place));
  ds->from = calloc(ds->partitions + 1, sizeof(*ds->from));
  ds->have = calloc(ds->partitions + 1, sizeof(*ds->have));
  ds->fd = malloc((ds->partitions + 1) * sizeof(*ds->fd));
  if (!ds->place || !ds->from || !ds->have || !ds->fd) return -ENOMEM;
  for (uint32_t p = 0; p < ds->partitions; p++) ds->fd[p] = -1;
  err = fs_stage_prepare(&ds->stage, why, why_size);
  if (err < 0) return err;
  fs_stage_scan(&ds->stage, ds->have);
  return 0;
}

static void fs_daemon_hello(struct fs_daemon *d) {
  struct fs_control_line l;
  char host[256] = "?";
  gethostname(host, sizeof(host) - 1);
  if (fs_say_begin(d, &l, "hello") == 0 && fs_control_add(&l, "host", host) == 0 &&
      fs_control_add_u64(&l, "pid", (uint64_t)getpid()) == 0 && fs_control_add(&l, "job", d->cfg->job) == 0 &&
      fs_control_add_u64(&l, "free", fs_stage_free_bytes(d->cfg->local_dir)) == 0) {
    fs_say_line(&l);
  }
  for (uint32_t i = 0; i < d->datasets; i++) fs_say_have(d, i);
}

static void fs_daemon_start(struct fs_daemon *d) {
  char why[1024] = "";
  d->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  d->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (d->wake < 0 || d->doorbell < 0) fs_daemon_fail(d, "no eventfd");
  fs_daemon_signals();
  if (fs_memory_cache_check(d->cfg->cache_bytes, fs_memory_all(), d->cfg->emulate, why, sizeof(why)) < 0)
    fs_daemon_fail(d, why);
  if (fs_guard_start(d) < 0) fs_daemon_fail(d, "no thread can be started");
  if (fs_rundir_enter(d, why, sizeof(why)) < 0) fs_daemon_fail(d, why);
  fs_err err = 0;
  while (err == 0 && d->datasets < d->cfg->datasets) {
    err = fs_daemon_dataset(d, d->datasets, why, sizeof(why));
    if (err == 0) d->datasets++;
  }
  if (err == 0) err = fs_rundir_backing(d, why, sizeof(why));
  if (err == 0) err = fs_modules_open(d, why, sizeof(why));
  if (err < 0) fs_daemon_fail(d, why[0] ? why : strerror(-err));
  if (fs_commands_start(d) < 0) fs_daemon_fail(d, "no thread can be started");
  fs_daemon_hello(d);
}

/* ---- serving ---- */

static void fs_daemon_serve(struct fs_daemon *d) {
  struct fs_control_line l;
  const char *which;
  fs_err err = fs_modules_start(d, &which);
  if (err < 0) {
    char why[256];
    snprintf(why, sizeof(why), "cannot serve: %s: %s", which, strerror(-err));
    fs_daemon_fail(d, why);
  }
  fs_thread_prompt();
  if (fs_say_begin(d, &l, "ready") == 0 && fs_control_add_u64(&l, "staged", d->count.staged_bytes) == 0 &&
      fs_control_add_u64(&l, "reused", d->count.reused_bytes) == 0 &&
      fs_control_add_u64(&l, "passed", d->count.passed_bytes) == 0 && fs_memory_tell(d, &l) == 0) {
    fs_say_line(&l);
  }
  while (fs_loop_round(d)) continue;
}

static bool fs_daemon_placed(struct fs_daemon *d) {
  struct fs_control_line l;
  while (!fs_commands_go(d)) {
    if (!fs_loop_round(d)) return false;
    if (d->now > fs_commands_heard(d) + FS_START_NS) fs_daemon_fail(d, "the launcher says nothing");
  }
  if (fs_say_begin(d, &l, "placed") == 0) fs_say_line(&l);
  return true;
}

static bool fs_daemon_staged(struct fs_daemon *d) {
  if (fs_peers_start(d) < 0) fs_daemon_fail(d, strerror(ENOMEM));
  if (fs_worker_start(d) < 0) fs_daemon_fail(d, "no thread can be started");
  while (!atomic_load(&d->worker_done)) (void)fs_loop_round(d); /* a stop ends the worker too */
  return !atomic_load(&d->stop);
}

static void fs_daemon_stop(struct fs_daemon *d) {
  if (d->ctl) {
    atomic_store(&d->ctl->stopping, 1);
    (void)unlink(d->socket_path);
    (void)fs_clients_scan(d);
    fs_clients_release_all(d);
  }
  if (!atomic_load(&d->orphan)) fs_commands_stop(d);
}

int fs_daemon_run(const struct fs_daemon_config *cfg, struct fs_net *net) {
  struct fs_daemon *d = &daemon_state;
  d->cfg = cfg;
  d->net = net;
  d->lock_fd = d->backing_fd = d->backing_lock_fd = d->memory_fd = d->ctl_fd = -1;
  fs_daemon_start(d);
  if (fs_daemon_placed(d) && fs_daemon_staged(d)) fs_daemon_serve(d);
  fs_daemon_stop(d);
  fs_daemon_leave(d, 0);
}
