/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemons' life, seen from fs-launch: mpirun starts them, they report what they have, get the
 * placement, stage, serve, and are stopped. Each phase has a deadline. The last resort is a signal
 * to every process of the job on this host. One thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

#define FS_STOP_NS (5 * FS_NS_PER_S)       /* silence of a daemon that is to stop */
#define FS_DEAF_NS (2 * FS_NS_PER_S)       /* then signals replace the lines */
#define FS_FAILED_NS (1 * FS_NS_PER_S)     /* the same after a failed start */
#define FS_STOP_MAX_NS (60 * FS_NS_PER_S)  /* in total: purging a large dataset is slow */
#define FS_EXIT_NS (2 * FS_NS_PER_S)       /* for mpirun, after the last daemon's end */
#define FS_HURRY_NS (7 * FS_NS_PER_S / 10) /* for a place that is interrupted */
#define FS_ALONE_NS (45 * FS_NS_PER_S)     /* for daemons whose mpirun has died */

static void exec_mpirun(const struct fs_launch *l, const struct fs_words *w, int in, int out, int err) {
  fs_events_restore(l);
  if (!l->packs) fs_signals_leave();
  if (l->guard == 0) prctl(PR_SET_PDEATHSIG, SIGTERM); /* else the guard ends it */
  setsid();                                            /* the terminal's signals are for COMMAND */
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  fs_mpirun_environment(l, true);
  execv(w->word[0], w->word);
  fprintf(stderr, "%s: %s\n", w->word[0], strerror(errno));
  _exit(127);
}

static int start_failed(const char *what) {
  fs_say("%s: %s", what, strerror(errno));
  return FS_EXIT_FAILED;
}

int fs_daemons_exec(struct fs_launch *l, const struct fs_words *w) {
  int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
  if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0) return start_failed("pipe");
  if (l->opt.verbose)
    for (size_t i = 0; i < w->n; i++) fprintf(stderr, "%s%s", w->word[i], i + 1 < w->n ? " " : "\n");
  l->started_ns = l->progress_ns = l->bar_ns = fs_now_ns();
  l->daemons = fork();
  if (l->daemons == 0) exec_mpirun(l, w, in[0], out[1], err[1]);
  close(in[0]);
  close(out[1]);
  close(err[1]);
  l->to_daemons = in[1];
  l->out.fd = out[0];
  l->err.fd = err[0];
  if (l->daemons < 0) return start_failed("fork");
  fcntl(l->to_daemons, F_SETFL, O_NONBLOCK);
  fcntl(l->out.fd, F_SETFL, O_NONBLOCK);
  fcntl(l->err.fd, F_SETFL, O_NONBLOCK);
  return 0;
}

int fs_daemons_start(struct fs_launch *l) {
  struct fs_words w = {0};
  l->staged = calloc(l->nodes * l->parts + 1, sizeof(*l->staged));
  if (!l->staged) return start_failed("calloc");
  fs_mpirun_daemons(l, &w);
  int status = fs_daemons_exec(l, &w);
  fs_words_free(&w);
  if (status == 0) fs_guard_watch(l, l->daemons);
  return status;
}

static bool all_are(const struct fs_launch *l, size_t offset) {
  for (uint32_t i = 0; i < l->nodes; i++)
    if (!*((const bool *)((const char *)&l->node[i] + offset))) return false;
  return true;
}

/* Writes the hosts that have not answered, as "a, b and 3 more". */
static void silent_nodes(const struct fs_launch *l, char *out, size_t size) {
  uint32_t silent = 0;
  size_t n = 0;
  bool serving = all_are(l, offsetof(struct fs_launch_node, ready));
  out[0] = '\0';
  for (uint32_t i = 0; i < l->nodes; i++) {
    if (serving ? l->node[i].staged_in : l->node[i].ready) continue;
    if (!serving && (l->node[i].hello && l->place[0].owners == 0 && !l->node[i].stage_total)) continue;
    if (++silent > 3 || n + 64 > size) continue;
    n += (size_t)snprintf(out + n, size - n, "%snode %u%s%.40s%s", n > 0 ? ", " : "", i, l->node[i].host[0] ? " (" : "",
                          l->node[i].host, l->node[i].host[0] ? ")" : "");
  }
  if (silent > 3) snprintf(out + n, size - n, " and %u more", silent - 3);
}

void fs_daemons_reason(const struct fs_launch *l, char *why, size_t size) {
  char silent[256], block[400];
  const char *noise = fs_noise_telling(l, block, sizeof(block));
  uint32_t answered = 0;
  for (uint32_t i = 0; i < l->nodes; i++) answered += l->node[i].hello;
  if (l->fail[0]) {
    snprintf(why, size, "%s", l->fail);
  } else if (l->daemons_ended || l->out.fd < 0) {
    const char *end = noise ? noise : "mpirun ended without a word";
    if (l->opt.place)
      snprintf(why, size, "the nodes could not be started: %s", end);
    else
      snprintf(why, size, "the daemons could not be started: %s", end);
    if (noise && strstr(noise, "TCP connection")) fs_network_hint(l, why, size);
  } else if (fs_network_cut(l)) {
    fs_network_reason(l, why, size);
  } else if (answered == 0 && l->where == FS_WHERE_HOSTS) {
    snprintf(why, size, "no answer from the hosts (%s) within %llu s%s%s",
             l->opt.hosts ? l->opt.hosts : l->opt.hostfile, (unsigned long long)l->opt.start_timeout, noise ? ": " : "",
             noise ? noise : "");
    fs_network_hint(l, why, size);
  } else {
    silent_nodes(l, silent, sizeof(silent));
    snprintf(why, size, "no answer from %s within %llu s%s%s", silent, (unsigned long long)l->opt.start_timeout,
             noise ? ": " : "", noise ? noise : "");
  }
}

/* Notices that mpirun died while daemons live. They end too, after they have kept or copied their
   outputs. */
static void look_at_mpirun(struct fs_launch *l) {
  bool alive = false;
  for (uint32_t i = 0; i < l->nodes; i++) alive = alive || (!l->node[i].dead && !l->node[i].bye);
  if (!l->daemons_ended || !alive || l->alone_ns != 0 || l->stopping || !l->begun) return;
  l->alone_ns = fs_now_ns();
  fs_warn(l, "the daemons' mpirun died %.1f s after the start, and so have they",
          (double)(l->alone_ns - l->started_ns) / 1e9);
  for (uint32_t i = 0; i < l->nodes; i++) l->node[i].told = true;
}

/* Finds dead daemons of this host by their pid. Those of other hosts are found by their silence at
   the end. */
void fs_daemons_look(struct fs_launch *l) {
  char here[256] = "";
  gethostname(here, sizeof(here) - 1);
  for (uint32_t i = 0; i < l->nodes; i++) {
    struct fs_launch_node *n = &l->node[i];
    if (n->dead || n->bye || !n->begun || n->pid <= 1 || strcmp(n->host, here) != 0) continue;
    if (fs_process_alive(n->pid)) continue;
    n->dead = true;
    n->dead_ns = fs_now_ns();
    if (l->stopping || l->starting || n->told) continue; /* its last lines may still arrive */
    n->told = true;
    fs_warn(l, "the daemon of node %u (%s) died %.1f s after the start", i, n->host,
            (double)(fs_now_ns() - l->started_ns) / 1e9);
  }
  look_at_mpirun(l);
}

static bool lives_here(const struct fs_launch_node *n, const char *here) {
  return !n->dead && n->hello && n->pid > 1 && strcmp(n->host, here) == 0;
}

void fs_daemons_last_words(struct fs_launch *l, bool deaf) {
  char path[PATH_MAX], here[256] = "";
  bool some = true;
  gethostname(here, sizeof(here) - 1);
  uint64_t until = fs_now_ns() + FS_NS_PER_S; /* its pipes close a moment before its end */
  while ((deaf || l->out.fd < 0) && !l->daemons_ended && fs_now_ns() < until) fs_events_step(l, until);
  fs_daemons_look(l);
  if (l->alone_ns == 0) return;
  while (some && fs_now_ns() - l->alone_ns < FS_ALONE_NS && l->signals_late == 0) {
    some = false;
    fs_daemons_look(l);
    for (uint32_t i = 0; i < l->nodes; i++) some = some || lives_here(&l->node[i], here);
    if (some) fs_events_step(l, fs_now_ns() + FS_NS_PER_S / 20);
  }
  for (uint32_t i = 0; i < l->nodes; i++)
    if (fs_run_said(l->run, i, path, sizeof(path)) > 0) fs_lines_file(l, path);
}

static bool all_said_hello(const struct fs_launch *l) {
  uint64_t all = l->opt.datasets >= 64 ? ~0ull : (1ull << l->opt.datasets) - 1;
  for (uint32_t i = 0; i < l->nodes; i++)
    if (!l->node[i].hello || l->node[i].have != all) return false;
  return true;
}

static void time_left(uint64_t bytes, double rate, char *out, size_t size) {
  double seconds = (double)bytes / FS_MAX(rate, 1.0);
  if (seconds >= 90)
    snprintf(out, size, ", about %.0f min left", seconds / 60);
  else
    snprintf(out, size, ", about %.0f s left", seconds);
}

/* Shows the progress of staging. A line on a terminal is short so that it does not wrap. */
static void show_staging(struct fs_launch *l) {
  uint64_t done = 0, total = 0;
  char a[32], b[32], c[32], left[64];
  for (uint32_t i = 0; i < l->nodes; i++) {
    done += l->node[i].stage_done;
    total += l->node[i].stage_total;
  }
  if (total == 0 || !fs_progress_due(l)) return;
  double rate = (double)done * 1e9 / (double)(fs_now_ns() - l->started_ns);
  fs_format_size(done, a, sizeof(a));
  fs_format_size(total, b, sizeof(b));
  fs_format_size((uint64_t)rate, c, sizeof(c));
  time_left(total - FS_MIN(done, total), rate, left, sizeof(left));
  if (fs_bar_shown())
    fs_progress("staging: %3.0f%%  %s of %s  %s/s", 100.0 * (double)done / (double)total, a, b, c);
  else
    fs_progress("staging: %s of %s on %u node%s, %s/s%s", a, b, l->nodes, l->nodes == 1 ? "" : "s", c, left);
}

/* Waits until all daemons have said hello, or until this flag is set for all. Returns 0, or the
   exit status after it told the reason. */
static int wait_start(struct fs_launch *l, size_t flag, void (*show)(struct fs_launch *l)) {
  for (;;) {
    /* A signal is checked first: it may come in the same step as the last daemon's line. */
    if (l->signal) return 128 + l->signal;
    if (flag ? all_are(l, flag) : all_said_hello(l)) return 0;
    fs_daemons_look(l);
    bool late = fs_now_ns() - l->progress_ns > l->opt.start_timeout * FS_NS_PER_S;
    bool dead = false;
    for (uint32_t i = 0; i < l->nodes; i++) dead = dead || l->node[i].dead;
    if (l->fail[0] || l->out.fd < 0 || late || dead || fs_network_cut(l)) break;
    fs_events_step(l, fs_now_ns() + FS_NS_PER_S / 5);
    if (show) show(l);
  }
  return fs_start_failed(l);
}

int fs_daemons_wait(struct fs_launch *l, size_t flag, void (*show)(struct fs_launch *l)) {
  int status = wait_start(l, flag, show);
  fs_bar(NULL);
  return status;
}

/* Computes the usable space. Nodes on one host share its file system. Some room is left for the
   cache's backing file and for others. */
static void rooms(const struct fs_launch *l, uint32_t *group, uint64_t *room) {
  uint64_t index = 0;
  for (unsigned d = 0; d < l->opt.datasets; d++) index += l->dataset[d].index.map_size;
  for (uint32_t i = 0; i < l->nodes; i++) {
    group[i] = i;
    for (uint32_t k = 0; k < i; k++)
      if (strcmp(l->node[i].host, l->node[k].host) == 0) {
        group[i] = group[k];
        break;
      }
    uint64_t free = l->node[i].free, slack = FS_MIN(free / 20, 64ull << 20);
    uint64_t *r = &room[group[i]];
    if (group[i] == i) *r = free - slack;
    *r = *r > index ? *r - index : 0;
  }
}

/* Returns true if a partition has bytes. Nobody opens one that has none. */
static bool is_read(const struct fs_launch *l, uint64_t p) {
  return l->part[p].size > FS_PART_HEADER_SIZE;
}

/* Refuses a job without the nodes that have the only copies of a dataset's partitions. */
static int check_only_nodes(const struct fs_launch *l) {
  char list[128];
  for (unsigned d = 0; d < l->opt.datasets; d++) {
    const struct fs_launch_dataset *ds = &l->dataset[d];
    uint32_t missing = 0, used = 0;
    size_t n = 0;
    for (uint32_t p = 0; ds->only_nodes && p < ds->index.nparts; p++) {
      const struct fs_owners *o = &l->place[ds->first + p];
      used += is_read(l, ds->first + p);
      if (o->everywhere || o->owners > 0 || !is_read(l, ds->first + p)) continue;
      if (++missing <= 8) n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%u", missing > 1 ? ", " : "", p);
    }
    if (missing == 0) continue;
    fs_say("%s: %u of %u partitions %s on no node of this job (%s%s): it was packed with --nodes-only; start the job "
           "on the nodes that have them, with their --local-dir, or pack what is lost again with --update",
           ds->path, missing, used, missing == 1 ? "is" : "are", list, missing > 8 ? ", ..." : "");
    return FS_EXIT_FAILED;
  }
  return 0;
}

static int compute_placement(struct fs_launch *l) {
  FS_AUTO_FREE uint32_t *group = calloc(l->nodes, sizeof(*group));
  FS_AUTO_FREE uint64_t *room = calloc(l->nodes, sizeof(*room));
  if (!group || !room) return start_failed("calloc");
  rooms(l, group, room);
  struct fs_place_input in = {.nodes = l->nodes,
                              .parts = l->parts,
                              .replicas = (uint32_t)l->opt.replicas,
                              .part = l->part,
                              .staged = l->staged,
                              .group = group,
                              .room = room};
  if (fs_place_compute(&in, l->place) < 0) return start_failed("placement");
  int status = check_only_nodes(l);
  if (status != 0) return status;
  uint64_t left = 0, bytes = 0;
  char size[32];
  for (uint64_t p = 0; p < l->parts; p++) {
    if (!is_read(l, p)) continue;
    if (fs_place_lacks(&in, l->place, p)) l->lacking++;
    if (l->place[p].everywhere || l->place[p].owners > 0) continue;
    left++;
    bytes += l->part[p].size;
  }
  if (left > 0)
    fs_warn(l, "no room for %llu of %llu partitions (%s) in the local directories: read from shared storage",
            (unsigned long long)left, (unsigned long long)l->parts, fs_format_size(bytes, size, sizeof(size)));
  if (l->lacking > left)
    fs_warn(l, "no room for all copies of %llu of %llu partitions in the local directories: they have fewer copies",
            (unsigned long long)(l->lacking - left), (unsigned long long)l->parts);
  return 0;
}

int fs_daemons_place(struct fs_launch *l) {
  int status = wait_start(l, 0, NULL);
  if (status == 0) status = compute_placement(l);
  if (status != 0) return status;
  if (fs_control_send_placement(l) < 0) return fs_start_failed(l);
  return fs_daemons_wait(l, offsetof(struct fs_launch_node, ready), show_staging);
}

/* Rank 0 passes commands on to the daemons. If rank 0 is gone, or no daemon has sent a line for a
   while, the daemons get a signal instead, once. */
void fs_daemons_signal(const struct fs_launch *l, int sig, bool *told) {
  bool deaf = l->node[0].dead || fs_now_ns() - l->progress_ns > FS_DEAF_NS;
  if (*told || !deaf || l->nodes == 1 || l->daemons <= 0 || l->daemons_ended) return;
  *told = true;
  kill(l->daemons, sig);
}

/* Returns true if each daemon that can still send lines has sent its last. */
static bool all_over(const struct fs_launch *l) {
  for (uint32_t i = 0; i < l->nodes; i++)
    if (!l->node[i].bye && !l->node[i].dead) return false;
  return true;
}

static void ask_to_stop(struct fs_launch *l) {
  struct fs_control_line line;
  fs_err err = fs_control_begin(&line, "stop");
  if (err == 0 && l->opt.purge) err = fs_control_add_u64(&line, "purge", 1);
  if (err == 0) err = fs_control_end(&line);
  if (err == 0) fs_control_send(l, &line);
  /* The end of its input stops a daemon that did not understand the line. */
  if (l->to_daemons >= 0) close(l->to_daemons);
  l->to_daemons = -1;
}

static void wait_end(struct fs_launch *l, uint64_t ns) {
  for (uint64_t until = fs_now_ns() + ns; (!l->daemons_ended || l->out.fd >= 0) && fs_now_ns() < until;)
    fs_events_step(l, FS_MIN(until, fs_now_ns() + FS_NS_PER_S / 20));
}

static void tell_hanging(struct fs_launch *l) {
  pid_t pid[4];
  unsigned n = fs_processes_hang(pid, FS_ARRAY_LEN(pid));
  for (unsigned i = 0; i < n; i++)
    fs_warn(
        l,
        "process %d hangs in the kernel, and does not let itself be looked at: if it is of this job, it is still there",
        (int)pid[i]);
}

/* Returns true if the remaining daemons were already silent for five seconds when outputs were to
   be reported. */
static bool known_silent(const struct fs_launch *l) {
  bool some = false;
  for (uint32_t i = 0; i < l->nodes; i++) {
    const struct fs_launch_node *n = &l->node[i];
    if (n->bye || n->dead) continue;
    if (n->finished) return false;
    some = true;
  }
  return some;
}

bool fs_daemons_hurry(struct fs_launch *l) {
  if (l->daemons <= 0) return true;
  l->stopping = true;
  ask_to_stop(l);
  wait_end(l, FS_HURRY_NS);
  return l->daemons_ended;
}

void fs_daemons_stop(struct fs_launch *l) {
  if (l->daemons <= 0) return;
  l->stopping = true;
  fs_daemons_look(l); /* do not wait for those that died before */
  ask_to_stop(l);
  uint64_t start = fs_now_ns(), patience = !l->begun ? FS_FAILED_NS : l->node[0].dead ? FS_DEAF_NS : FS_STOP_NS;
  bool told = false;
  l->progress_ns = start;
  while (!l->daemons_ended && !all_over(l)) {
    uint64_t now = fs_now_ns();
    /* Daemons that were silent before get little time after the others' last lines. */
    if (l->begun && known_silent(l)) patience = FS_FAILED_NS;
    if (now - l->progress_ns > patience || now - start > FS_STOP_MAX_NS) break;
    if (l->begun) fs_daemons_signal(l, FS_SIGNAL_STOP, &told);
    fs_events_step(l, now + FS_NS_PER_S / 20);
    fs_daemons_look(l);
  }
  wait_end(l, all_over(l) ? FS_EXIT_NS : FS_NS_PER_S / 2);
  if (!l->daemons_ended) {
    kill(l->daemons, SIGTERM);
    wait_end(l, FS_EXIT_NS);
  }
  fs_job_end(l->job, l->run, true);
  tell_hanging(l);
  wait_end(l, FS_NS_PER_S);
  for (uint32_t i = 0; i < l->nodes; i++)
    if (l->node[i].ready && !l->node[i].bye && !l->node[i].told)
      fs_warn(l, "the daemon of node %u (%s) did not report at the end: its counters are missing", i, l->node[i].host);
}
