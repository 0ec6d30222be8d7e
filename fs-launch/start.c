/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The start of the daemons, before COMMAND begins: they start, get the placement and stage. If one
 * of them is lost, or makes no progress for --start-timeout, the job ends. One line says why.
 */
#include <stdio.h>
#include <string.h>

#include "launch.h"

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

/* Returns the first node whose daemon died without a reason, and counts the others in *more. If
   mpirun says that one was killed, the others die as a consequence and are skipped. */
static const struct fs_launch_node *first_dead(const struct fs_launch *l, uint32_t *more) {
  const struct fs_launch_node *found = NULL;
  bool killed = false;
  for (uint32_t i = 0; i < l->nodes; i++) killed = killed || (l->node[i].killed != 0 && !l->node[i].failed);
  *more = 0;
  for (uint32_t i = 0; i < l->nodes; i++) {
    const struct fs_launch_node *n = &l->node[i];
    if (n->failed || (killed ? n->killed == 0 : !n->dead)) continue;
    if (found) ++*more;
    if (!found) found = n;
  }
  return found;
}

static void tell_dead(const struct fs_launch *l, const struct fs_launch_node *n, uint32_t more) {
  char host[300] = "", others[64] = "", signal[64] = "";
  if (n->host[0]) snprintf(host, sizeof(host), " (%s)", n->host);
  if (more > 0) snprintf(others, sizeof(others), ", and of %u more,", more);
  if (n->killed) snprintf(signal, sizeof(signal), " of signal %d", n->killed);
  /* Another daemon's reason is the cause or a consequence. */
  const char *why = l->fail[0] ? l->fail : fs_noise_with(l, "Unable to connect to the peer");
  fs_say("the daemon of node %u%s%s died%s while it started%s%s%s", (unsigned)(n - l->node), host, others, signal,
         why ? "; " : "", why ? why : "", l->opt.place ? "; the same command goes on" : "");
}

int fs_start_failed(struct fs_launch *l) {
  char why[900];
  uint32_t more;
  uint64_t until = fs_now_ns() + FS_NS_PER_S / 2; /* the reason may still arrive */
  while (fs_now_ns() < until && !l->fail[0] && (l->err.fd >= 0 || !l->daemons_ended)) fs_events_step(l, until);
  if (l->signal) return 128 + l->signal; /* the daemons may have received it too */
  fs_daemons_look(l);
  const struct fs_launch_node *n = first_dead(l, &more);
  bool all = more + 1 == l->nodes && (l->daemons_ended || l->out.fd < 0); /* mpirun says why */
  if (l->daemons_killed) {
    fs_say("the daemons' mpirun died of signal %d while they started%s", l->daemons_killed,
           l->opt.place ? "; the same command goes on" : "");
  } else if (n && (n->killed || !(l->fail[0] || all))) {
    tell_dead(l, n, more);
  } else {
    fs_daemons_reason(l, why, sizeof(why));
    fs_say("%s", why);
  }
  return FS_EXIT_FAILED;
}

int fs_daemons_begin(struct fs_launch *l) {
  l->starting = true;
  int status = fs_daemons_start(l);
  if (status == 0) status = fs_daemons_place(l);
  if (status == 0) fs_rsh_ready(l);
  if (status == 0) status = fs_stage_in(l);
  if (status == 0) l->starting = false;
  return status;
}
