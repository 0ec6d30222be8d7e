/* SPDX-License-Identifier: BSD-3-Clause */
/* How fast the nodes are, for the progress. Called by the lead. */
#include "lead.h"

/* Returns the node for which the others wait: one that has not written half of what may be on its
   way, else the slowest of those that have batches. NULL: there is none, or nobody has encoded anything yet. */
static const struct fs_peer *slowest_node(const struct fs_nodes *n, bool *writes) {
  const struct fs_lead *l = n->lead;
  const struct fs_peer *writer = l->peer, *worker = NULL;
  double most = 0;
  for (uint32_t i = 0; i < n->nodes; i++) {
    const struct fs_peer *p = &l->peer[i];
    if (p->owed > writer->owed) writer = p;
    most = FS_MAX(most, p->rate);
    if (p->unencoded > 0 && (worker == NULL || p->rate < worker->rate)) worker = p;
  }
  *writes = writer->owed >= FS_MAX(l->window / 2, 2u);
  return *writes ? writer : most > 0 ? worker : NULL;
}

void fs_lead_rates(const struct fs_nodes *n) {
  struct fs_lead *l = n->lead;
  struct fs_slowest *s = &l->plan->tree->progress->slowest;
  const uint64_t now = fs_now_ns();
  double seconds = (double)(now - l->looked_ns) / 1e9;
  bool writes, first = l->looked_ns == 0;
  if (n->nodes < 2 || (seconds < 1 && !first)) return;
  l->looked_ns = now;
  for (uint32_t i = 0; i < n->nodes && !first; i++) {
    struct fs_peer *p = &l->peer[i];
    double is = (double)(p->encoded - p->timed) / seconds;
    p->rate = p->timed == 0 ? is : 0.7 * p->rate + 0.3 * is; /* mostly the last three seconds */
    p->timed = p->encoded;
  }
  const struct fs_peer *p = first ? NULL : slowest_node(n, &writes);
  s->host = NULL;
  if (p == NULL) return;
  s->node = (uint32_t)(p - l->peer);
  s->rate = (uint64_t)p->rate;
  s->writes = writes;
  s->host = p->host;
}
