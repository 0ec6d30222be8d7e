/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The start of the daemons. COMMAND has not begun, so nothing is lost if a daemon is killed or
 * hangs, or if mpirun is killed: all are ended and started again, once, and staged data is used
 * again. A daemon that reports why it cannot start, and an mpirun that starts none, would fail
 * again: these end the job at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

#define FS_SILENT_NS (10 * FS_NS_PER_S) /* silence, although a line comes each second */
#define FS_ASLEEP_NS (2 * FS_NS_PER_S)  /* we look every 0.2 s, so we were held up ourselves */

/* Returns how long a daemon may be silent. The second start is patient: a slow daemon must not end
   the job. */
static uint64_t patience(const struct fs_launch *l) {
  uint64_t timeout = l->opt.start_timeout * FS_NS_PER_S;
  return l->again ? timeout : FS_MIN(timeout, FS_SILENT_NS);
}

static bool over(const struct fs_launch *l, const struct fs_launch_node *n) {
  return n->ready && (l->stage_in[0] == '\0' || n->staged_in);
}

/* Returns true if a daemon is silent. mpirun starts all at once, when it has all hosts. So a daemon
   that has not begun counts as silent since the last one began. */
static bool is_silent(const struct fs_launch *l, const struct fs_launch_node *n) {
  uint64_t heard = n->begun ? n->heard_ns : l->begun_ns;
  return heard != 0 && !n->failed && !over(l, n) && fs_now_ns() - heard > patience(l);
}

static bool is_dead(const struct fs_launch_node *n) {
  return !n->failed && (n->dead || n->killed != 0);
}

/* Parses "mpirun noticed that process rank 1 with PID 99 on node h exited on signal 9 (Killed)." */
void fs_start_noise(struct fs_launch *l, const char *line) {
  const char *rank = strstr(line, "process rank "), *host = strstr(line, " on node "),
             *sig = strstr(line, " on signal ");
  unsigned r, s;
  if (!l->starting || l->stopping || !rank || !sig) return;
  if (sscanf(rank, "process rank %9u", &r) != 1 || r >= l->nodes || sscanf(sig, " on signal %3u", &s) != 1) return;
  struct fs_launch_node *n = &l->node[r];
  n->killed = (int)s;
  if (n->host[0] == '\0' && host) sscanf(host, " on node %255s", n->host);
}

bool fs_start_lost(struct fs_launch *l) {
  uint64_t now = fs_now_ns();
  bool asleep = now - l->looked_ns > FS_ASLEEP_NS, lost = false;
  l->looked_ns = now;
  for (uint32_t i = 0; i < l->nodes; i++) {
    struct fs_launch_node *n = &l->node[i];
    if (asleep && n->begun) n->heard_ns = now;
    if (asleep && l->begun_ns != 0) l->begun_ns = now;
    lost = lost || is_dead(n) || is_silent(l, n);
  }
  return lost;
}

/* Returns true if a second start may succeed. If all have ended or will end with a reason, they
   would end again. Daemons may end without a reason: mpirun does not report a killed one if another
   has noticed that it cannot be reached and ends by itself. */
static bool worth_it(const struct fs_launch *l) {
  uint32_t dead = 0, lost = 0, killed = 0;
  for (uint32_t i = 0; i < l->nodes; i++) {
    const struct fs_launch_node *n = &l->node[i];
    dead += n->dead || n->failed;
    killed += n->killed != 0 && !n->failed;
    lost += is_dead(n) || is_silent(l, n);
  }
  return killed > 0 || l->daemons_killed != 0 || (lost > 0 && (dead < l->nodes || !l->fail[0]));
}

static const struct fs_launch_node *first_lost(const struct fs_launch *l, uint32_t *more) {
  const struct fs_launch_node *found = NULL;
  bool killed = false;
  for (uint32_t i = 0; i < l->nodes; i++) killed = killed || (l->node[i].killed != 0 && !l->node[i].failed);
  *more = 0;
  for (uint32_t i = 0; i < l->nodes; i++) {
    const struct fs_launch_node *n = &l->node[i];
    /* If one was killed, the others die as a consequence, so they are skipped. */
    if (killed ? n->killed == 0 || n->failed : !is_dead(n) && !is_silent(l, n)) continue;
    if (found) ++*more;
    if (!found) found = n;
  }
  return found;
}

static void tell_lost(const struct fs_launch *l, char *why, size_t size) {
  uint32_t more;
  /* If mpirun was killed, the daemons die as a consequence, so none is named. */
  const struct fs_launch_node *n = l->daemons_killed ? NULL : first_lost(l, &more);
  char host[300] = "", others[64] = "", signal[64] = "";
  const char *twice = l->again ? ", after all had been started again" : "";
  if (!n) {
    snprintf(why, size, "the daemons' mpirun died of signal %d while they started%s", l->daemons_killed, twice);
    return;
  }
  bool ended = l->daemons_ended || l->out.fd < 0; /* else they are silent for the whole time */
  if (n->killed == 0 && more + 1 == l->nodes && ended) {
    fs_daemons_reason(l, why, size);
    snprintf(why + strlen(why), size - strlen(why), "%s", twice);
    return;
  }
  if (n->host[0]) snprintf(host, sizeof(host), " (%s)", n->host);
  if (more > 0) snprintf(others, sizeof(others), ", and of %u more", more);
  if (n->killed) snprintf(signal, sizeof(signal), " of signal %d", n->killed);
  unsigned i = (unsigned)(n - l->node);
  if (is_dead(n))
    snprintf(why, size, "the daemon of node %u%s%s died%s while it started%s", i, host, others, signal, twice);
  else
    snprintf(why, size, "the daemon of node %u%s%s said nothing for %llu s while it started%s", i, host, others,
             (unsigned long long)((fs_now_ns() - (n->begun ? n->heard_ns : l->begun_ns)) / FS_NS_PER_S), twice);
  /* That reason is the cause or a consequence. */
  if (l->fail[0]) snprintf(why + strlen(why), size - strlen(why), "; %s", l->fail);
}

int fs_start_failed(struct fs_launch *l) {
  char why[900];
  uint64_t until = fs_now_ns() + FS_NS_PER_S / 2; /* the reason may still arrive */
  while (fs_now_ns() < until && !l->fail[0] && (l->err.fd >= 0 || !l->daemons_ended)) fs_events_step(l, until);
  if (l->signal) return 128 + l->signal; /* the daemons may have received it too */
  fs_daemons_look(l);
  l->lost = worth_it(l);
  if (l->lost)
    tell_lost(l, why, sizeof(why));
  else
    fs_daemons_reason(l, why, sizeof(why));
  if (l->lost && !l->again)
    fs_warn(l, "%s: all daemons are started again", why);
  else
    fs_say("%s", why);
  return FS_EXIT_FAILED;
}

static void close_lines(struct fs_launch_lines *in) {
  if (in->fd >= 0) close(in->fd);
  *in = (struct fs_launch_lines){.fd = -1};
}

/* Ends the first start. The user was told about the lost daemons already. */
static void end_first(struct fs_launch *l) {
  for (uint32_t i = 0; i < l->nodes; i++) l->node[i].told = true;
  fs_daemons_stop(l);
  fs_remote_end(l);
  fs_session_remove(l->daemons);
  fs_guard_watch(l, 0);
  fs_rsh_not_ready(l);
  close_lines(&l->out);
  close_lines(&l->err);
  memset(l->node, 0, l->nodes * sizeof(*l->node));
  for (unsigned d = 0; d < l->opt.datasets; d++) l->dataset[d].lost = 0;
  memset(l->place, 0, l->parts * sizeof(*l->place));
  free(l->staged);
  l->staged = NULL;
  l->daemons = l->daemons_killed = 0;
  l->daemons_ended = l->stopping = l->lost = false;
  l->shell[0] = l->fail[0] = l->in_dataset[0] = l->in_odd[0] = l->in_why[0] = '\0';
  l->noises = 0;
}

static int begin(struct fs_launch *l) {
  l->looked_ns = l->begun_ns = 0;
  int status = fs_daemons_start(l);
  if (status == 0) status = fs_daemons_place(l);
  if (status == 0) fs_rsh_ready(l);
  if (status == 0) status = fs_stage_in(l);
  return status;
}

int fs_daemons_begin(struct fs_launch *l) {
  l->starting = true;
  int status = begin(l);
  if (status == FS_EXIT_FAILED && l->lost) {
    end_first(l);
    l->again = true;
    status = l->signal ? 128 + l->signal : begin(l);
  }
  if (status == 0) l->starting = false;
  return status;
}
