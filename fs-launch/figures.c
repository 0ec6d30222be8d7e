/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes the timeline, the epochs and the waiting from the nodes' histories (figures.h). The
 * history has sums at times that differ from node to node. So each sum is interpolated at the
 * bounds of intervals that all nodes share, and the sums of the intervals are the totals.
 */
#include "figures.h"

#include <stdlib.h>
#include <string.h>

#include "launch.h"

#define FS_INTERVALS_MAX 300u
#define FS_INTERVALS_MIN 60u
#define FS_INTERVALS_ALL 32768u /* of all nodes together */
#define FS_SAMPLE_GAP_MS                                                                                               \
  1500u /* a sample has what happened in this time before it: daemons send none while                                  \
           nothing happens */

static const enum fs_sample_key keys[FS_SERIES_COUNT] = {
    [FS_SERIES_LOCAL] = FS_SAMPLE_BYTES_LOCAL,   [FS_SERIES_CACHE] = FS_SAMPLE_BYTES_CACHE,
    [FS_SERIES_REMOTE] = FS_SAMPLE_BYTES_REMOTE, [FS_SERIES_SHARED] = FS_SAMPLE_BYTES_SHARED,
    [FS_SERIES_FILES] = FS_SAMPLE_OPENS,         [FS_SERIES_WAIT_MS] = FS_SAMPLE_WAIT_MS,
    [FS_SERIES_CPU_MS] = FS_SAMPLE_CPU_MS,       [FS_SERIES_PROCESSES] = FS_SAMPLE_PROCESSES,
    [FS_SERIES_HOST_BUSY] = FS_SAMPLE_HOST_BUSY,
};

uint64_t *fs_figures_series(const struct fs_figures *f, uint32_t node, enum fs_series s) {
  return f->value + ((size_t)node * FS_SERIES_COUNT + s) * f->intervals;
}

uint64_t fs_figures_sum(const struct fs_figures *f, uint32_t node, enum fs_series s) {
  uint64_t sum = 0, *v = fs_figures_series(f, node, s);
  for (unsigned i = 0; i < f->intervals; i++) sum += v[i];
  return sum;
}

static uint64_t length_ms(const struct fs_figures *f, unsigned i) {
  return f->end_ms[i] - (i > 0 ? f->end_ms[i - 1] : 0);
}

uint64_t fs_figures_process_ms(const struct fs_figures *f, uint32_t node) {
  uint64_t ms = 0, *v = fs_figures_series(f, node, FS_SERIES_PROCESSES);
  for (unsigned i = 0; i < f->intervals; i++) ms += v[i] * length_ms(f, i);
  return ms;
}

/* ---- the timeline ---- */

/* Chooses the intervals: of a round number of seconds, and not too many. The last one ends with
   COMMAND. */
static fs_err set_intervals(struct fs_figures *f, uint64_t total_ms) {
  static const uint32_t round[] = {1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200};
  uint64_t most = FS_MIN(FS_MAX(FS_INTERVALS_ALL / FS_MAX(f->nodes, 1u), FS_INTERVALS_MIN), FS_INTERVALS_MAX);
  uint64_t step = 0;
  for (size_t i = 0; i < FS_ARRAY_LEN(round) && (step == 0 || total_ms > step * most); i++) step = round[i] * 1000ull;
  if (total_ms > step * most) step = (total_ms / most / 3600000 + 1) * 3600000;
  f->intervals = (unsigned)FS_MAX((total_ms + step - 1) / step, 1u);
  f->end_ms = calloc(f->intervals, sizeof(*f->end_ms));
  f->value = calloc((size_t)f->nodes * FS_SERIES_COUNT * f->intervals, sizeof(*f->value));
  if (!f->end_ms || !f->value) return -ENOMEM;
  for (unsigned i = 0; i < f->intervals; i++) f->end_ms[i] = FS_MIN((i + 1) * step, FS_MAX(total_ms, 1u));
  return 0;
}

/* The time of a sample since COMMAND's start. */
static uint64_t when(const struct fs_launch *l, const struct fs_sample *s) {
  return s->ms > l->began_ms ? s->ms - l->began_ms : 0;
}

/* Returns a sum at the time t. Sample j is the first one after t, or there is none. */
static uint64_t sum_at(const struct fs_launch *l, const struct fs_sample_history *h, unsigned j, enum fs_sample_key key,
                       uint64_t t) {
  const struct fs_sample *before = j > 0 ? fs_sample_at(h, j - 1) : NULL, *after = fs_sample_at(h, j);
  uint64_t low = before ? before->value[key] : 0;
  if (!after || after->value[key] <= low) return low;
  uint64_t to = when(l, after), gap = FS_MAX(h->step_ms, 1ull * FS_SAMPLE_GAP_MS);
  uint64_t from = FS_MAX(before ? when(l, before) : 0, to > gap ? to - gap : 0);
  if (t <= from || to <= from) return low;
  return low + (uint64_t)((double)(after->value[key] - low) * (double)(t - from) / (double)(to - from));
}

/* The last interval also has what the daemon reports after COMMAND. So the sums are those of its
   line `stats`. */
static void fill_sums(const struct fs_launch *l, const struct fs_launch_node *n, const struct fs_figures *f,
                      enum fs_sample_key key, uint64_t *out) {
  const struct fs_sample_history *h = &n->history;
  uint64_t before = 0, all = fs_sample_get(n->stats.n > 0 ? &n->stats : &h->last, fs_sample_key_name(key));
  for (unsigned i = 0, j = 0; i < f->intervals; i++) {
    while (j < h->samples && when(l, fs_sample_at(h, j)) <= f->end_ms[i]) j++;
    uint64_t now = i + 1 < f->intervals ? FS_MIN(sum_at(l, h, j, key, f->end_ms[i]), all) : all;
    out[i] = now > before ? now - before : 0;
    before = FS_MAX(now, before);
  }
}

/* A gauge's largest value in each interval, or else its last one before. */
static void fill_gauge(const struct fs_launch *l, const struct fs_sample_history *h, const struct fs_figures *f,
                       enum fs_sample_key key, uint64_t *out) {
  uint64_t held = 0;
  for (unsigned i = 0, j = 0; i < f->intervals; i++) {
    uint64_t most = 0;
    bool any = false;
    for (; j < h->samples && when(l, fs_sample_at(h, j)) <= f->end_ms[i]; j++, any = true) {
      held = fs_sample_at(h, j)->value[key];
      most = FS_MAX(most, held);
    }
    out[i] = any ? most : held;
  }
}

static void fill_node(const struct fs_launch *l, const struct fs_figures *f, uint32_t node) {
  const struct fs_launch_node *n = &l->node[node];
  for (unsigned s = 0; s < FS_SERIES_COUNT; s++) {
    uint64_t *out = fs_figures_series(f, node, s);
    if (s == FS_SERIES_PROCESSES || s == FS_SERIES_HOST_BUSY)
      fill_gauge(l, &n->history, f, keys[s], out);
    else
      fill_sums(l, n, f, keys[s], out);
  }
}

/* ---- epochs ---- */

/* Adds this part of an interval to the epoch. */
static void add_part(const struct fs_figures *f, struct fs_epoch *e, unsigned i, double from, double to) {
  static const enum fs_series place[4] = {FS_SERIES_LOCAL, FS_SERIES_CACHE, FS_SERIES_REMOTE, FS_SERIES_SHARED};
  double part = to - from;
  for (uint32_t n = 0; n < f->nodes; n++) {
    for (unsigned p = 0; p < 4; p++) e->bytes[p] += (uint64_t)(part * (double)fs_figures_series(f, n, place[p])[i]);
    e->wait_ms += (uint64_t)(part * (double)fs_figures_series(f, n, FS_SERIES_WAIT_MS)[i]);
  }
}

static uint64_t time_at(const struct fs_figures *f, unsigned i, double part) {
  return f->end_ms[i] - (uint64_t)((1 - part) * (double)length_ms(f, i));
}

/*
 * An epoch ends when the nodes together have opened as many files as the datasets have. If COMMAND
 * ends in an epoch, that one is not whole; if hardly any files were opened in it, it is left out.
 */
static void find_epochs(struct fs_figures *f, uint64_t files) {
  struct fs_epoch now = {0};
  uint64_t seen = 0; /* files of this epoch */
  if (files < FS_EPOCH_FILES) return;
  for (unsigned i = 0; i < f->intervals; i++) {
    uint64_t opens = 0, used = 0;
    for (uint32_t n = 0; n < f->nodes; n++) opens += fs_figures_series(f, n, FS_SERIES_FILES)[i];
    double done = 0;
    while (f->epochs < FS_EPOCHS_MAX && opens - used >= files - seen) {
      used += files - seen;
      double part = (double)used / (double)opens;
      add_part(f, &now, i, done, part);
      now.end_ms = time_at(f, i, part);
      now.whole = true;
      f->epoch[f->epochs++] = now;
      now = (struct fs_epoch){.start_ms = now.end_ms};
      seen = 0;
      done = part;
    }
    add_part(f, &now, i, done, 1);
    seen += opens - used;
  }
  if (f->epochs == 0 || f->epochs == FS_EPOCHS_MAX || seen < files / 20) return;
  now.end_ms = f->end_ms[f->intervals - 1];
  f->epoch[f->epochs++] = now;
}

struct fs_figures *fs_figures_new(const struct fs_launch *l) {
  struct fs_figures *f = calloc(1, sizeof(*f));
  uint64_t files = 0;
  if (!f) return NULL;
  f->nodes = l->nodes;
  if (set_intervals(f, l->command_ns / 1000000) < 0) {
    fs_figures_free(f);
    return NULL;
  }
  for (uint32_t i = 0; i < l->nodes; i++) fill_node(l, f, i);
  for (unsigned i = 0; i < l->opt.datasets; i++) files += l->dataset[i].manifest.files;
  find_epochs(f, files);
  fs_findings(l, f);
  return f;
}

void fs_figures_free(struct fs_figures *f) {
  if (!f) return;
  free(f->end_ms);
  free(f->value);
  free(f);
}
