/* SPDX-License-Identifier: BSD-3-Clause */
/* What the lead tells of the nodes: the slowest for the progress, their shares for --verbose, and the summary. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

void fs_nodes_say_each(const struct fs_nodes *n, const char *did, const char *kind, const char *of, uint64_t began_ns,
                       const uint64_t *each) {
  uint64_t least = UINT64_MAX, most = 0, all = 0;
  for (uint32_t i = 0; i < n->nodes; i++) {
    all += each[i];
    least = FS_MIN(least, each[i]);
    most = FS_MAX(most, each[i]);
  }
  fs_say("pack: %u node%s %s %" PRIu64 " %s%s%s in %.2f s, %" PRIu64 " to %" PRIu64 " each", n->nodes,
         fs_plural(n->nodes), did, all, kind, fs_plural(all), of, (double)(fs_now_ns() - began_ns) / 1e9, least, most);
}

void fs_lead_say_shares(const struct fs_nodes *n) {
  const struct fs_lead *l = n->lead;
  FS_AUTO_FREE uint64_t *encoded = calloc(n->nodes, sizeof *encoded), *read = calloc(n->nodes, sizeof *read);
  bool any = false;
  if (encoded == NULL || read == NULL) return;
  for (uint32_t i = 0; i < n->nodes; i++) encoded[i] = l->peer[i].encoded;
  fs_nodes_say_each(n, "encoded", "byte", "", l->began_ns, encoded);
  for (uint32_t i = 0; i < l->plan->tree->nsources; i++) {
    if (l->reader[i] == 0) continue;
    read[l->reader[i] - 1]++;
    any = true;
  }
  if (any) fs_nodes_say_each(n, "read", "archive", " from begin to end", l->began_ns, read);
}

void fs_lead_summary(const struct fs_nodes *n) {
  char least[32], most[32];
  uint64_t min = UINT64_MAX, max = 0;
  FS_AUTO_FREE char *local = fs_prep_name(n->local);
  for (uint32_t i = 0; i < n->nodes; i++) {
    min = FS_MIN(min, n->lead->peer[i].staged);
    max = FS_MAX(max, n->lead->peer[i].staged);
  }
  fs_format_size(min, least, sizeof least);
  fs_format_size(max, most, sizeof most);
  const bool alike = strcmp(least, most) == 0;
  printf("  %u node%s with %s%s%s%s%s in %s, where fs-launch --local-dir finds them\n", n->nodes, fs_plural(n->nodes),
         least, alike ? "" : " to ", alike ? "" : most, n->nodes == 1 ? "" : " each",
         n->o.update ? " of what is new" : "", local);
  if (n->o.nodes_only)
    printf("  the partitions are on these nodes only: if one is lost, so are its files, until pack --update has packed "
           "them again\n");
}
