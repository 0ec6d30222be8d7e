/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Differences between two reads of a live file (rates.h). A node's sample may be older than the
 * file: a node without news sends none. So a node's interval is the time between its own samples,
 * and a node counts as idle if it has sent none for FS_RATES_QUIET_NS. A counter that has become
 * smaller counts as unchanged.
 */
#include "rates.h"

#include <stdlib.h>
#include <string.h>

#include "util/sys.h"

#define FS_RATES_QUIET_NS (5 * FS_NS_PER_S / 2)
#define FS_RATES_SAMPLE_NS FS_NS_PER_S /* between two samples of a busy node */

static uint64_t more(uint64_t now, uint64_t before) {
  return now > before ? now - before : 0;
}

/* Returns the seconds from the last sample to this one. After an idle time, only what can have
   passed since the last read counts: what happened came after it. */
static double seconds_of(const struct fs_watch_node *n, const struct fs_view_node *sample, uint64_t since_read_ns) {
  double s = (double)more(sample->ms, n->ms) / 1e3, most = (double)(since_read_ns + FS_RATES_SAMPLE_NS) / 1e9;
  return FS_MIN(s, most);
}

static void take_sample(struct fs_watch_node *n, const struct fs_view_node *sample, uint64_t now, uint64_t read) {
  const struct fs_latency *remote = sample->latency[FS_LATENCY_KIND(FS_LATENCY_READ, FS_LATENCY_REMOTE)];
  struct fs_delta *d = &n->delta;
  bool first = n->ms == 0;
  memset(d, 0, sizeof(*d));
  if (!first) d->seconds = seconds_of(n, sample, now - read);
  d->process_seconds = d->seconds * (double)sample->value[FS_VIEW_PROCESSES];
  for (int k = 0; k < FS_VIEW_NKEYS; k++) {
    if (!first) d->value[k] = (double)more(sample->value[k], n->value[k]);
    n->value[k] = sample->value[k];
  }
  for (unsigned b = 0; b < FS_LATENCY_BUCKETS; b++) {
    uint64_t count = remote ? remote->count[b] : 0;
    if (!first) d->remote.count[b] = more(count, n->remote.count[b]);
    n->remote.count[b] = count;
  }
  n->ms = sample->ms;
  n->seen_ns = now;
}

/* The node has sent nothing since the last read. */
static void no_sample(struct fs_watch_node *n, uint64_t now) {
  if (now - n->seen_ns < FS_RATES_QUIET_NS) return; /* it may be late: its last rates hold */
  double seconds = n->ms > 0 ? (double)FS_RATES_SAMPLE_NS / 1e9 : 0;
  memset(&n->delta, 0, sizeof(n->delta));
  n->delta.seconds = seconds;
  n->delta.process_seconds = seconds * (double)n->value[FS_VIEW_PROCESSES];
}

fs_err fs_watch_take(struct fs_watch *w, struct fs_view *l, uint64_t now_ns) {
  if (l->nodes > w->nodes) {
    struct fs_watch_node *node = realloc(w->node, l->nodes * sizeof(*node));
    if (!node) return -ENOMEM;
    memset(node + w->nodes, 0, (l->nodes - w->nodes) * sizeof(*node));
    w->node = node;
    w->nodes = l->nodes;
  }
  for (uint32_t i = 0; i < l->nodes; i++) {
    const struct fs_view_node *sample = &l->node[i];
    if (sample->sampled && sample->ms != w->node[i].ms)
      take_sample(&w->node[i], sample, now_ns, w->read_ns);
    else
      no_sample(&w->node[i], now_ns);
  }
  fs_view_free(&w->view);
  w->view = *l;
  *l = (struct fs_view){0};
  w->read_ns = now_ns;
  return 0;
}

void fs_watch_free(struct fs_watch *w) {
  fs_view_free(&w->view);
  free(w->node);
  *w = (struct fs_watch){0};
}

void fs_watch_total(const struct fs_watch *w, struct fs_delta *sum) {
  memset(sum, 0, sizeof(*sum));
  for (uint32_t i = 0; i < w->view.nodes; i++) sum->seconds = FS_MAX(sum->seconds, w->node[i].delta.seconds);
  for (uint32_t i = 0; i < w->view.nodes; i++) {
    const struct fs_delta *d = &w->node[i].delta;
    if (d->seconds <= 0) continue;
    /* Each node's rate counts, whatever its interval was. */
    double scale = sum->seconds / d->seconds;
    sum->process_seconds += d->process_seconds * scale;
    for (int k = 0; k < FS_VIEW_NKEYS; k++) sum->value[k] += d->value[k] * scale;
    for (unsigned b = 0; b < FS_LATENCY_BUCKETS; b++) sum->remote.count[b] += d->remote.count[b];
  }
}

double fs_delta_rate(const struct fs_delta *d, enum fs_view_key key) {
  return d->seconds > 0 ? d->value[key] / d->seconds : 0;
}

static double bytes_of(const struct fs_delta *d) {
  double sum = 0;
  for (int k = FS_VIEW_BYTES_LOCAL; k <= FS_VIEW_BYTES_SHARED; k++) sum += d->value[k];
  return sum;
}

double fs_delta_bytes(const struct fs_delta *d) {
  return d->seconds > 0 ? bytes_of(d) / d->seconds : 0;
}

static double percent(double part, double all) {
  return all > 0 ? FS_MIN(100 * part / all, 100) : -1;
}

double fs_delta_share(const struct fs_delta *d, enum fs_latency_place place) {
  return percent(d->value[FS_VIEW_BYTES_LOCAL + (int)place], bytes_of(d));
}

double fs_delta_hit(const struct fs_delta *d) {
  return percent(d->value[FS_VIEW_BYTES_CACHE], bytes_of(d) - d->value[FS_VIEW_BYTES_LOCAL]);
}

double fs_delta_waited(const struct fs_delta *d) {
  return percent(d->value[FS_VIEW_WAIT_MS] / 1e3, d->process_seconds);
}
