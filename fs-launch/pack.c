/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch --pack OPTION... -- WORD...: for fs-prepare pack and its --local-dir. Starts
 * fanstore-pack WORD... on each node as the daemons are started, passes its lines on, and tells in
 * one line why it ended if no rank has told. One thread.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

#define FS_PACK_FAILED_NS (5 * FS_NS_PER_S) /* for the ranks, after a failure; then mpirun ends them */
#define FS_PACK_END_NS (10 * FS_NS_PER_S)   /* for mpirun */
#define FS_PACK_STOP_NS (1 * FS_NS_PER_S)   /* for all, after a signal; then they end without us */
#define FS_PACK_LEFT_OUT 3                  /* status: packed, but for what --keep-going has left out */
#define FS_PACK_BEGUN "begun"               /* the first line of rank 0 */
#define FS_PACK_FAILED "failed"             /* its last one, if it could not pack */

enum { P_HOSTS = 1, P_HOSTFILE, P_EMULATE, P_NETWORK, P_START_TIMEOUT, P_VERBOSE };

static const struct fs_opt pack_opts[] = {{"hosts", 0, "A,B", "", P_HOSTS},
                                          {"hostfile", 0, "FILE", "", P_HOSTFILE},
                                          {"emulate", 0, "N", "", P_EMULATE},
                                          {"network", 0, "IFACE|CIDR", "", P_NETWORK},
                                          {"start-timeout", 0, "SECONDS", "", P_START_TIMEOUT},
                                          {"verbose", 0, NULL, "", P_VERBOSE}};

static fs_err pack_option(void *ctx, int id, const char *value) {
  struct fs_launch_options *o = ctx;
  switch (id) {
  case P_HOSTS:
    o->hosts = value;
    return 0;
  case P_HOSTFILE:
    o->hostfile = value;
    return 0;
  case P_EMULATE:
    return fs_parse_u64(value, 1, 64, &o->emulate);
  case P_NETWORK:
    o->network = value;
    return fs_network_ok(value) ? 0 : fs_option_bad("network", value, "an interface, or a network as 10.1.0.0/16");
  case P_START_TIMEOUT:
    return fs_parse_u64(value, 1, 86400, &o->start_timeout);
  case P_VERBOSE:
    o->verbose = true;
    return 0;
  default:
    return -EINVAL;
  }
}

static bool told; /* a rank has said why it ends, or what it leaves */

static bool is_line(const char *line, size_t n, const char *text) {
  return n == strlen(text) && memcmp(line, text, n) == 0;
}

/* Lines of the ranks' standard output. */
static void pack_out(struct fs_launch *l, const char *line, size_t n) {
  if (!l->begun && is_line(line, n, FS_PACK_BEGUN)) {
    l->begun = true;
    return;
  }
  if (l->begun && is_line(line, n, FS_PACK_FAILED)) { /* mpirun may wait for a host that is gone */
    if (!l->stopping) l->progress_ns = fs_now_ns();
    l->stopping = true;
    return;
  }
  /* Until then mpirun alone says something, also for its daemons on other hosts. Later UCX does: "[time] [host:pid]
     FILE UCX ERROR ...". */
  if (!l->begun || (n > 0 && line[0] == '[' && memmem(line, n, " UCX ", 5) != NULL)) {
    fs_noise_line(l, line, n);
    return;
  }
  fs_bar(NULL);
  printf("%.*s\n", (int)n, line);
  fflush(stdout);
}

/* Returns true for a line that is no reason for an end: progress, and warnings. */
static bool is_progress(const char *line, size_t n) {
  static const char *const begins[] = {"what is packed is in ",
                                       "what an interrupted pack has packed is in ",
                                       "resuming: ",
                                       "the interrupted pack of ",
                                       "pack: warning: ",
                                       "listing",
                                       "comparing large files",
                                       "packing",
                                       "making the index",
                                       "syncing"};
  const size_t own = strlen("fs-prepare: ");
  for (size_t i = 0; i < FS_ARRAY_LEN(begins); i++)
    if (n >= own + strlen(begins[i]) && memcmp(line + own, begins[i], strlen(begins[i])) == 0) return true;
  return false;
}

/* Lines of the ranks' standard error, and of mpirun's. A rank that mpirun ends says that it was
   interrupted: that is news only if the user has interrupted it. */
static void pack_err(struct fs_launch *l, const char *line, size_t n) {
  static const char own[] = "fs-prepare: ", interrupted[] = "fs-prepare: interrupted", json[] = "{\"time\": ";
  bool ours = n > strlen(own) && memcmp(line, own, strlen(own)) == 0;
  char bar[512];
  if (n >= strlen(FS_BAR_LINE) && memcmp(line, FS_BAR_LINE, strlen(FS_BAR_LINE)) == 0) {
    snprintf(bar, sizeof bar, "%.*s", (int)(n - strlen(FS_BAR_LINE)), line + strlen(FS_BAR_LINE));
    fs_bar(l->begun && bar[0] != '\0' ? bar : NULL);
    return;
  }
  fs_bar(NULL);
  if (n > strlen(json) && memcmp(line, json, strlen(json)) == 0) { /* --json-progress - */
    fprintf(stderr, "%.*s\n", (int)n, line);
    return;
  }
  if (!ours) {
    fs_noise_line(l, line, n);
    return;
  }
  if (n >= strlen(interrupted) && memcmp(line, interrupted, strlen(interrupted)) == 0 && !l->signal) return;
  fprintf(stderr, "%.*s\n", (int)n, line);
  told = told || l->signal || !is_progress(line, n);
}

static void pack_words(struct fs_launch *l, char **words, struct fs_words *w) {
  char *slash = strrchr(l->fanstored, '/');
  fs_mpirun_ranks(l, w);
  fs_words_add(w, "%.*s/fanstore-pack", (int)(slash - l->fanstored), l->fanstored);
  if (l->where == FS_WHERE_HERE) fs_words_add(w, "--emulated");
  if (fs_bar_shown()) fs_words_add(w, "--bar");
  fs_network_daemons(l, w);
  fs_words_add(w, "--version");
  fs_words_add(w, FS_VERSION);
  fs_words_add(w, "--");
  for (; *words; words++) fs_words_add(w, "%s", *words);
}

static void pack_end(struct fs_launch *l, int sig) {
  if (!l->daemons_ended) kill(l->daemons, sig);
}

/* Leaves mpirun, which ends what it has started, to a child. It may wait for a host that does not answer. */
static void leave_mpirun(const struct fs_launch *l) {
  struct pollfd p = {.fd = (int)syscall(SYS_pidfd_open, l->daemons, 0), .events = POLLIN};
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (p.fd < 0 || null < 0 || fork() != 0) return; /* with this process's end mpirun gets SIGTERM */
  setsid();
  for (int i = 0; i < 3; i++) dup2(null, i);
  if (poll(&p, 1, (int)(FS_PACK_END_NS / 1000000)) <= 0) syscall(SYS_pidfd_send_signal, p.fd, SIGKILL, NULL, 0);
  fs_session_remove(l->daemons);
  _exit(0);
}

/* Waits for mpirun's end. Each wait has a limit, but for the pack itself: its ranks watch each other. */
static void pack_wait(struct fs_launch *l) {
  uint64_t ended = 0;
  bool asked = false;
  while (!l->daemons_ended || l->out.fd >= 0 || l->err.fd >= 0) {
    uint64_t now = fs_now_ns();
    bool late = !l->begun && now - l->started_ns > l->opt.start_timeout * FS_NS_PER_S;
    if (l->daemons_ended && ended == 0) ended = now;
    if (l->daemons_ended && now - ended > FS_NS_PER_S) return; /* a process below mpirun holds its pipe */
    if (!l->stopping && (l->signal || late)) {
      l->stopping = true;
      l->progress_ns = now;
      pack_end(l, l->begun ? FS_SIGNAL_STOP : SIGTERM);
    }
    if (l->stopping && l->signal && now - l->progress_ns > FS_PACK_STOP_NS) {
      leave_mpirun(l);
      return;
    }
    if (l->stopping && !asked && now - l->progress_ns > FS_PACK_FAILED_NS) {
      asked = true;
      pack_end(l, SIGTERM);
    }
    if (l->stopping && now - l->progress_ns > FS_PACK_END_NS) pack_end(l, SIGKILL);
    fs_events_step(l, now + FS_NS_PER_S / 5);
  }
}

/* A rank's line may be a consequence of a death, or older than that. So a death is told in any case. */
static void pack_tell(struct fs_launch *l) {
  char block[400], hint[512];
  const struct fs_launch_node *killed = NULL;
  for (uint32_t i = 0; i < l->nodes && !killed; i++)
    if (l->node[i].killed) killed = &l->node[i];
  const char *noise = fs_noise_telling(l, block, sizeof(block));
  const char *hosts = l->opt.hosts ? l->opt.hosts : l->opt.hostfile;
  snprintf(hint, sizeof(hint), "%s", noise ? noise : "mpirun ended without a word");
  if (noise && strstr(noise, "TCP connection")) fs_network_hint(l, hint, sizeof(hint));
  if (killed)
    fs_say("node %u (%s) was killed by signal %d while it packed; pack again to go on, or to remove what it has left",
           (unsigned)(killed - l->node), killed->host, killed->killed);
  else if (l->daemons_killed && !l->stopping)
    fs_say("mpirun was killed by signal %d while it packed; pack again to go on, or to remove what it has left",
           l->daemons_killed);
  else if (told)
    return;
  else if (!l->begun && l->stopping)
    fs_say("the nodes%s%s%s have not started within %llu s%s%s", hosts ? " (" : "", hosts ? hosts : "",
           hosts ? ")" : "", (unsigned long long)l->opt.start_timeout, noise ? ": " : "", noise ? hint : "");
  else if (!l->begun)
    fs_say("the nodes%s%s%s could not be started: %s", hosts ? " (" : "", hosts ? hosts : "", hosts ? ")" : "", hint);
  else
    fs_say("the pack on the nodes ended: %s; pack again to go on, or to remove what it has left", hint);
}

static int pack_status(struct fs_launch *l) {
  if (l->signal && !told) fs_say("interrupted; the same command goes on from a checkpoint, or removes what is left");
  if (l->signal) return 128 + l->signal;
  if (l->daemons_status == FS_PACK_LEFT_OUT) return FS_PACK_LEFT_OUT;
  if (l->daemons_status != 0 || l->daemons_killed) pack_tell(l);
  return l->daemons_killed || l->daemons_status != 0 ? 1 : 0;
}

static int pack_run(struct fs_launch *l, int argc, char **argv) {
  struct fs_words w = {0};
  fs_say_as("fs-prepare");
  l->opt.start_timeout = 60;
  int first =
      fs_opt_parse("fs-launch --pack", pack_opts, FS_ARRAY_LEN(pack_opts), argc, argv, 2, true, pack_option, &l->opt);
  if (first < 0 || first >= argc) return FS_EXIT_USAGE;
  int status = fs_hosts_find(l);
  if (status == 0) status = fs_find_programs(l);
  if (status == 0) status = fs_network_choose(l);
  if (status == 0) status = fs_events_open(l);
  if (status != 0) return status;
  pack_words(l, argv + first, &w);
  l->starting = true;
  l->on_out = pack_out;
  l->on_err = pack_err;
  l->packs = true;
  status = fs_daemons_exec(l, &w);
  fs_words_free(&w);
  if (status != 0) return status;
  close(l->to_daemons);
  l->to_daemons = -1;
  pack_wait(l);
  if (l->daemons_ended) fs_session_remove(l->daemons);
  return pack_status(l);
}

int fs_pack(struct fs_launch *l, int argc, char **argv) {
  int status = pack_run(l, argc, argv);
  return status == FS_EXIT_FAILED ? 1 : status;
}
