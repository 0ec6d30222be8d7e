/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps and merges what the daemons report of single processes and files (waits.h). */
#include "waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"

static void on_waits(struct fs_waits *w, const struct fs_control *c) {
  const char *counts = fs_control_get(c, "counts");
  if (!w->processes) w->processes = calloc(1, sizeof(*w->processes));
  if (!counts || !w->processes) return;
  *w->processes = (struct fs_latency){0}; /* a process goes on to another bucket */
  (void)fs_latency_parse(counts, w->processes);
  (void)fs_control_get_u64(c, "worst_pid", &w->worst_pid);
  (void)fs_control_get_u64(c, "worst_us", &w->worst_us);
}

/* Reads a list "D:E:P:N:BYTES:US:LONGEST,...". Returns how many files it has. */
static unsigned parse_list(const char *text, uint32_t node, struct fs_waited_file *out, unsigned most) {
  unsigned n = 0;
  while (text && *text != '\0' && n < most) {
    struct fs_waited_file f = {.node = node};
    unsigned long long v[4];
    if (sscanf(text, "%9u:%10u:%9u:%19llu:%19llu:%19llu:%19llu", &f.dataset, &f.entry, &f.place, &v[0], &v[1], &v[2],
               &v[3]) != 7)
      break;
    f.reads = v[0];
    f.bytes = v[1];
    f.us = v[2];
    f.longest_us = v[3];
    if (f.place < FS_PLACE_COUNT) out[n++] = f;
    text = strchr(text, ',') ? strchr(text, ',') + 1 : NULL;
  }
  return n;
}

void fs_waits_line_in(struct fs_waits *w, uint32_t node, const struct fs_control *c) {
  const char *kind = fs_control_get(c, "kind"), *list = fs_control_get(c, "list");
  if (strcmp(c->verb, "waits") == 0) on_waits(w, c);
  if (strcmp(c->verb, "files") != 0 || !kind || !list) return;
  if (strcmp(kind, "slow") == 0) w->slows = parse_list(list, node, w->slow, FS_WAITS_SLOW);
  if (strcmp(kind, "busy") == 0) w->busies = parse_list(list, node, w->busy, FS_WAITS_BUSY);
}

/* ---- of all nodes ---- */

static int compare(uint64_t a, uint64_t b) {
  return a < b ? -1 : a > b;
}

static int by_file(const void *a, const void *b) {
  const struct fs_waited_file *x = a, *y = b;
  int by = compare(x->dataset, y->dataset);
  if (by == 0) by = compare(x->entry, y->entry);
  return by != 0 ? by : compare(x->place, y->place);
}

static int by_longest(const void *a, const void *b) {
  const struct fs_waited_file *x = a, *y = b;
  int by = compare(y->longest_us, x->longest_us);
  return by != 0 ? by : by_file(a, b);
}

static int by_reads(const void *a, const void *b) {
  const struct fs_waited_file *x = a, *y = b;
  int by = compare(y->reads, x->reads);
  return by != 0 ? by : by_longest(a, b);
}

/* Makes one of what several nodes waited for. Returns how many are left. */
static size_t merge(struct fs_waited_file *f, size_t n) {
  size_t kept = 0;
  qsort(f, n, sizeof(*f), by_file);
  for (size_t i = 0; i < n; i++) {
    if (kept == 0 || by_file(&f[kept - 1], &f[i]) != 0) {
      f[kept++] = f[i];
      continue;
    }
    struct fs_waited_file *to = &f[kept - 1];
    to->reads += f[i].reads;
    to->bytes += f[i].bytes;
    to->us += f[i].us;
    to->longest_us = FS_MAX(to->longest_us, f[i].longest_us);
  }
  return kept;
}

unsigned fs_waits_slow(const struct fs_launch *l, struct fs_waited_file out[FS_WAITS_SHOWN]) {
  FS_AUTO_FREE struct fs_waited_file *all = calloc((size_t)l->nodes * FS_WAITS_SLOW + 1, sizeof(*all));
  size_t n = 0;
  for (uint32_t i = 0; all && i < l->nodes; i++)
    for (unsigned k = 0; k < l->node[i].waits.slows; k++) all[n++] = l->node[i].waits.slow[k];
  if (n > 0) qsort(all, n, sizeof(*all), by_longest);
  n = FS_MIN(n, (size_t)FS_WAITS_SHOWN);
  if (n > 0) memcpy(out, all, n * sizeof(*out));
  return (unsigned)n;
}

unsigned fs_waits_busy(const struct fs_launch *l, struct fs_waited_file out[FS_WAITS_SHOWN]) {
  FS_AUTO_FREE struct fs_waited_file *all = calloc((size_t)l->nodes * FS_WAITS_BUSY + 1, sizeof(*all));
  size_t n = 0;
  for (uint32_t i = 0; all && i < l->nodes; i++)
    for (unsigned k = 0; !l->node[i].dead && k < l->node[i].waits.busies; k++) all[n++] = l->node[i].waits.busy[k];
  if (n > 0) n = merge(all, n);
  if (n > 0) qsort(all, n, sizeof(*all), by_reads);
  n = FS_MIN(n, (size_t)FS_WAITS_SHOWN);
  if (n > 0) memcpy(out, all, n * sizeof(*out));
  return (unsigned)n;
}

fs_err fs_waits_path(const struct fs_launch *l, const struct fs_waited_file *f, char *out, size_t size) {
  if (f->dataset >= l->opt.datasets) return -EINVAL;
  const struct fs_launch_dataset *d = &l->dataset[f->dataset];
  if (!fs_index_entry(&d->index, f->entry)) return -EINVAL;
  int n = snprintf(out, size, "%s/", d->mount);
  if (n < 0 || (size_t)n >= size) return -ENAMETOOLONG;
  fs_ssize len = fs_index_path(&d->index, f->entry, out + n, size - (size_t)n);
  return len < 0 ? (fs_err)len : 0;
}

bool fs_waits_spread(const struct fs_launch *l, uint32_t node, struct fs_waits_spread *s) {
  struct fs_latency all = {0};
  *s = (struct fs_waits_spread){0};
  for (uint32_t i = 0; i < l->nodes; i++) {
    const struct fs_waits *w = &l->node[i].waits;
    if (!w->processes || (node != l->nodes && i != node)) continue;
    for (unsigned b = 0; b < FS_LATENCY_BUCKETS; b++) all.count[b] += w->processes->count[b];
    if (s->worst_pid != 0 && w->worst_us <= s->worst_us) continue;
    s->worst_us = w->worst_us;
    s->worst_pid = w->worst_pid;
    s->worst_node = i;
  }
  s->processes = fs_latency_total(&all);
  s->median_us = FS_MIN(fs_latency_percentile(&all, 500), s->worst_us);
  return s->processes > 0;
}
