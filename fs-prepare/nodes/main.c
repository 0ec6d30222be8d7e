/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fanstore-pack: one node of `fs-prepare pack --local-dir`. fs-launch starts it as it starts the
 * daemons, and gives it fs-prepare's own words after "--". It ends when the lead says so, when
 * mpirun ends it, or when mpirun is gone.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>

#include "ipc/control.h"
#include "nodes.h"
#include "util/network.h"

#define LEAD_NS (10 * FS_NS_PER_S) /* for the lead to tell a failure */
#define MPI_END_S 30u
#define HANGS_US 700000 /* after a signal */

static const char *peers, *network, *version = "";
static bool emulated, leads;

/* Takes the words before "--". Returns the index of the first one after it, or 0. */
static int own_words(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--") == 0) return i + 1;
    if (strcmp(argv[i], "--emulated") == 0) emulated = true;
    if (strcmp(argv[i], "--bar") == 0) fs_bar_by_lines();
    if (strcmp(argv[i], "--peers") == 0 && i + 1 < argc) peers = argv[++i];
    if (strcmp(argv[i], "--network") == 0 && i + 1 < argc) network = argv[++i];
    if (strcmp(argv[i], "--version") == 0 && i + 1 < argc) version = argv[++i];
  }
  return 0;
}

/* Of the user, by mpirun, or of mpirun itself. If this rank hangs, SIGALRM ends it; the lead's progress ends the lead.
 */
static void on_stop(int sig) {
  if (fs_prep_signal == 0) fs_prep_signal = sig;
  if (!leads) setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = HANGS_US}, NULL);
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

static int follow(struct fs_nodes *n) {
  fs_err err = 0;
  while (!n->over && err == 0) err = fs_nodes_step(n, fs_now_ns() + FS_NS_PER_S);
  if (err == -ECONNABORTED) { /* the lead tells it; if this rank ended first, mpirun would end the lead */
    n->leaving = true;
    n->err = 0;
    for (uint64_t until = fs_now_ns() + LEAD_NS; !n->over && fs_now_ns() < until && err != -EINTR;)
      err = fs_nodes_step(n, until) == -EINTR ? -EINTR : err;
  }
  fs_scan_stop(n);
  fs_owner_stop(n);
  if (fs_prep_signal != 0) fs_nodes_let_lead_tell();
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
  leads = n->rank == 0;
  if (leads) {
    puts("begun"); /* for fs-launch (fs-launch/pack.c) */
    fflush(stdout);
  }
  n->emulated = emulated && n->nodes > 1 ? (int)n->rank : -1;
  fs_plan_begin(n);
  fs_walk_begin(n);
  fs_scan_begin(n);
  fs_encoder_begin(n);
  fs_owner_begin(n);
  int status = n->rank == 0 ? fs_lead_run(n, argc, argv) : follow(n);
  fs_nodes_flush(n);
  if (status != FS_EXIT_OK && status != FS_EXIT_LEFT_OUT) {
    if (n->rank == 0) puts("failed"); /* for fs-launch, too */
    fflush(stdout);
    _exit(status);
  }
  alarm(MPI_END_S);
  fs_net_mpi_close();
  _exit(status);
}

int main(int argc, char **argv) {
  static struct fs_nodes n;
  static const int users[] = {SIGUSR1,
                              SIGUSR2}; /* mpirun passes them to all ranks; the lead's progress answers SIGUSR1 */
  int first = own_words(argc, argv);
  fs_say_as("fs-prepare");
  if (first == 0 || first >= argc) {
    fs_say("fanstore-pack is for fs-launch's own use");
    return FS_EXIT_USAGE;
  }
  if (strcmp(version, FS_VERSION) != 0) {
    gethostname(n.host, sizeof n.host - 1);
    fs_say("%s has FanStore " FS_VERSION ", and fs-launch is of version %.40s; install the same version on all nodes",
           n.host, version);
    return FS_EXIT_FAILED;
  }
  fs_prep_catch_signals();
  sigaction(FS_SIGNAL_STOP, &(struct sigaction){.sa_handler = on_stop}, NULL);
  sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_stop}, NULL);
  prctl(PR_SET_PDEATHSIG, SIGTERM); /* of mpirun's daemon, also if this rank hangs */
  for (size_t i = 0; i < FS_ARRAY_LEN(users); i++)
    sigaction(users[i], &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
  if (fs_pack_options_parse(&n.o, argc - first, argv + first) < 0) return FS_EXIT_USAGE;
  if (choose_network() < 0) return FS_EXIT_FAILED;
  return run(&n, argc - first, argv + first);
}
