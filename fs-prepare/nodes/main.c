/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fanstore-pack: one node of `fs-prepare pack --local-dir`. fs-launch starts it as it starts the
 * daemons, and gives it fs-prepare's own words after "--". It ends when the lead says so, when
 * mpirun ends it, or when mpirun is gone.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/control.h"
#include "nodes.h"
#include "util/network.h"

#define LEAD_NS (10 * FS_NS_PER_S) /* for the lead to tell a failure */
#define MPI_END_S 30u

static const char *peers, *network;
static bool emulated;

/* Takes the words before "--". Returns the index of the first one after it, or 0. */
static int own_words(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--") == 0) return i + 1;
    if (strcmp(argv[i], "--emulated") == 0) emulated = true;
    if (strcmp(argv[i], "--peers") == 0 && i + 1 < argc) peers = argv[++i];
    if (strcmp(argv[i], "--network") == 0 && i + 1 < argc) network = argv[++i];
  }
  return 0;
}

/* mpirun passes this signal on at once, and SIGTERM after a second. */
static void on_stop(int sig) {
  (void)sig;
  if (fs_prep_signal == 0) fs_prep_signal = SIGTERM;
}

static fs_err choose_network(void) {
  struct fs_network n = {.family = 0};
  char why[2 * FS_NETWORK_LIST];
  if (peers == NULL) return 0;
  if (network != NULL && fs_network_find(network, &n, why, sizeof why) < 0) {
    fs_say("%s", why);
    return -ENODEV;
  }
  if (network == NULL && fs_network_route(peers, &n) < 0) return 0;
  fs_network_set(&n, network != NULL, network != NULL);
  return 0;
}

static fs_err open_source(struct fs_nodes *n, struct fs_source *src, struct fs_in *in) {
  const char *path = fs_in_text(in);
  src->fd = -1;
  src->path = strdup(path);
  src->kind = fs_in_u32(in);
  src->skip = fs_in_u64(in);
  uint64_t size = fs_in_u64(in), sec = fs_in_u64(in);
  uint32_t nsec = fs_in_u32(in);
  if (in->bad || src->path == NULL || (src->kind != FS_SOURCE_DIR && src->kind != FS_SOURCE_FLAT)) return -EPROTO;
  int flags = src->kind == FS_SOURCE_DIR ? O_DIRECTORY : O_NONBLOCK | O_NOCTTY;
  fs_err err = src->fd = fs_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | flags, 0);
  if (err >= 0) err = fs_sys_fstat(src->fd, &src->st);
  if (err < 0)
    return fs_nodes_fail(n, "node %u (%s): SOURCE %s: %s; it must be on storage that all nodes share", n->rank, n->host,
                         path, strerror(-err));
  src->st.st_size = (off_t)size; /* what the lead has read; each read is compared with it */
  src->st.st_mtim = (struct timespec){.tv_sec = (time_t)sec, .tv_nsec = (long)nsec};
  return 0;
}

static fs_err open_sources(struct fs_nodes *n, struct fs_in *in) {
  const uint32_t count = fs_in_u32(in);
  if (count == 0 || count > in->n) return -EPROTO;
  n->tree.sources = calloc(count, sizeof *n->tree.sources);
  if (n->tree.sources == NULL) return -ENOMEM;
  fs_err err = 0;
  for (; n->tree.nsources < count && err == 0; n->tree.nsources++)
    err = open_source(n, &n->tree.sources[n->tree.nsources], in);
  return err;
}

static fs_err read_plan(struct fs_nodes *n, struct fs_in *in) {
  const char *local = fs_in_text(in), *shared = fs_in_text(in);
  n->plan = (struct fs_plan){.opts = &n->o, .tree = &n->tree};
  n->plan.nparts = fs_in_u32(in);
  n->plan.nreplicated = fs_in_u32(in);
  n->plan.plain_bytes = fs_in_u64(in);
  n->plan.cut_above = fs_in_u64(in);
  n->plan.segment = fs_in_u64(in);
  n->plan.chunk = fs_in_u64(in);
  const void *rows = fs_in_get(in, sizeof n->plan.codecs.of_kind);
  if (rows != NULL) memcpy(n->plan.codecs.of_kind, rows, sizeof n->plan.codecs.of_kind);
  bool fits = strlen(local) < sizeof n->local && strlen(shared) < sizeof n->shared;
  if (in->bad || !fits || n->plan.nparts == 0 || n->plan.nparts + n->plan.nreplicated > FS_MAX_PARTITIONS ||
      n->plan.chunk == 0 || n->plan.chunk > FS_MAX(n->o.block_size, FS_BATCH_BYTES))
    return -EPROTO;
  strcpy(n->local, local);
  strcpy(n->shared, shared);
  return open_sources(n, in);
}

static fs_err on_plan(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  if (from != 0 || n->owner != NULL) return -EPROTO;
  fs_err err = read_plan(n, in);
  if (err == 0) err = fs_owner_start(n);
  if (err == 0) err = fs_encoder_start(n);
  if (err < 0) return err;
  struct fs_msg *m = fs_msg_new(FS_NODES_READY);
  fs_msg_u32(m, n->o.jobs);
  fs_msg_text(m, n->host);
  fs_nodes_send(n, 0, m);
  return 0;
}

static fs_err on_end(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  (void)in;
  n->over = true;
  return from == 0 ? 0 : -EPROTO;
}

static int follow(struct fs_nodes *n) {
  fs_err err = 0;
  while (!n->over && err == 0) err = fs_nodes_step(n, fs_now_ns() + FS_NS_PER_S);
  fs_owner_stop(n);
  if (err == -ECONNABORTED) { /* the lead tells it; if this rank ended first, mpirun would end the lead */
    n->err = 0;
    for (uint64_t until = fs_now_ns() + LEAD_NS; !n->over && fs_now_ns() < until && err != -EINTR;)
      err = fs_nodes_step(n, until) == -EINTR ? -EINTR : err;
  }
  return err == 0 ? FS_EXIT_OK : FS_EXIT_FAILED;
}

static int run(struct fs_nodes *n, int argc, char **argv) {
  const char *why;
  struct fs_net *net = fs_net_mpi_open(&argc, &argv, &why);
  if (net == NULL) {
    fs_say("%s", why);
    return FS_EXIT_FAILED;
  }
  if (fs_nodes_open(n, net) < 0) {
    fs_say("out of memory");
    return FS_EXIT_FAILED;
  }
  if (n->rank == 0) {
    puts("begun"); /* for fs-launch (fs-launch/pack.c) */
    fflush(stdout);
  }
  n->emulated = emulated && n->nodes > 1 ? (int)n->rank : -1;
  n->handler[FS_NODES_PLAN] = on_plan;
  n->handler[FS_NODES_END] = on_end;
  fs_encoder_begin(n);
  fs_owner_begin(n);
  int status = n->rank == 0 ? fs_lead_run(n, argc, argv) : follow(n);
  fs_nodes_flush(n);
  if (status != FS_EXIT_OK) _exit(status);
  alarm(MPI_END_S);
  fs_net_mpi_close();
  _exit(status);
}

int main(int argc, char **argv) {
  static struct fs_nodes n;
  int first = own_words(argc, argv);
  fs_say_as("fs-prepare");
  if (first == 0 || first >= argc) {
    fs_say("fanstore-pack is for fs-launch's own use");
    return FS_EXIT_USAGE;
  }
  fs_prep_catch_signals();
  sigaction(FS_SIGNAL_STOP, &(struct sigaction){.sa_handler = on_stop}, NULL);
  if (fs_pack_options_parse(&n.o, argc - first, argv + first) < 0) return FS_EXIT_USAGE;
  if (choose_network() < 0) return FS_EXIT_FAILED;
  return run(&n, argc - first, argv + first);
}
