/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps what the daemons report each second (sample.h). Lines come through mpirun and are untrusted:
 * a sample whose time does not rise is left out, and so is a histogram of no known call.
 */
#include "sample.h"

#include <stdlib.h>
#include <string.h>

#include "util/util.h"

#define FS_STEP_MIN_MS 1000u /* between two samples, once some had to go */

static const char *const key_names[FS_SAMPLE_KEYS] = {
#define FS_SAMPLE_TEXT(id, name) #name,
    FS_NODE_KEYS(FS_SAMPLE_TEXT, FS_NODE_KEY_NONE, FS_NODE_KEY_NONE, FS_NODE_KEY_NONE)
        FS_NODE_KEYS(FS_NODE_KEY_NONE, FS_SAMPLE_TEXT, FS_NODE_KEY_NONE, FS_NODE_KEY_NONE)};
static const char *const states[] = {FS_NODE_KEYS(FS_NODE_KEY_NONE, FS_SAMPLE_TEXT, FS_NODE_KEY_NONE, FS_SAMPLE_TEXT)
#undef FS_SAMPLE_TEXT
};

const char *fs_sample_key_name(enum fs_sample_key key) {
  return (unsigned)key < FS_SAMPLE_KEYS ? key_names[key] : "?";
}

bool fs_sample_is_gauge(const char *key) {
  for (size_t k = 0; k < FS_ARRAY_LEN(states); k++)
    if (strcmp(states[k], key) == 0) return true;
  return false;
}

void fs_sample_values(struct fs_sample_values *v, const struct fs_control *c) {
  v->n = 0;
  for (unsigned i = 0; i < c->pairs && v->n < FS_LAUNCH_STATS; i++) {
    uint64_t value;
    const char *key = c->pair[i].key;
    size_t n = strlen(key);
    if (strcmp(key, "rank") == 0 || strcmp(key, "ms") == 0 || n == 0 || n >= sizeof(v->at[0].key)) continue;
    if (strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_") != n) continue;
    if (fs_parse_u64(c->pair[i].value, 0, UINT64_MAX, &value) < 0) continue;
    memcpy(v->at[v->n].key, key, n + 1);
    v->at[v->n++].value = value;
  }
}

uint64_t fs_sample_get(const struct fs_sample_values *v, const char *key) {
  for (unsigned i = 0; i < v->n; i++)
    if (strcmp(v->at[i].key, key) == 0) return v->at[i].value;
  return 0;
}

/* ---- the history ---- */

static unsigned most_samples(uint32_t nodes) {
  uint64_t most = FS_SAMPLES_BYTES / sizeof(struct fs_sample) / FS_MAX(nodes, 1u);
  return (unsigned)FS_MIN(FS_MAX(most, (uint64_t)FS_SAMPLES_MIN), (uint64_t)FS_SAMPLES_MAX);
}

/* Drops every second sample, but for the newest. Each later step is twice as long. */
static void thin(struct fs_sample_history *h) {
  unsigned n = 0;
  for (unsigned i = 0; i < h->samples; i++)
    if (i % 2 == 0 || i + 1 == h->samples) h->sample[n++] = h->sample[i];
  h->samples = n;
  h->step_ms = FS_MAX(2 * h->step_ms, 2ull * FS_STEP_MIN_MS);
}

/* Returns the place of the next sample, or NULL without memory. The newest one gives its place up if
   it came too soon after the one before. */
static struct fs_sample *next_place(struct fs_sample_history *h, uint32_t nodes) {
  unsigned n = h->samples, most = most_samples(nodes);
  if (n >= 2 && h->sample[n - 1].ms - h->sample[n - 2].ms < h->step_ms) return &h->sample[n - 1];
  if (n >= most) thin(h);
  if (h->samples == h->room) {
    unsigned room = FS_MIN(FS_MAX(2 * h->room, 16u), most);
    struct fs_sample *more = room > h->room ? realloc(h->sample, room * sizeof(*more)) : NULL;
    if (!more) return NULL;
    h->sample = more;
    h->room = room;
  }
  return &h->sample[h->samples++];
}

static void on_sample(struct fs_sample_history *h, uint32_t nodes, const struct fs_control *c) {
  uint64_t ms;
  if (fs_control_get_u64(c, "ms", &ms) < 0 || ms > INT64_MAX) return;
  if (h->samples > 0 && ms <= h->sample[h->samples - 1].ms) return;
  fs_sample_values(&h->last, c);
  struct fs_sample *s = next_place(h, nodes);
  if (!s) return;
  s->ms = ms;
  for (unsigned k = 0; k < FS_SAMPLE_KEYS; k++) s->value[k] = fs_sample_get(&h->last, key_names[k]);
}

static void on_latency(struct fs_sample_history *h, const struct fs_control *c) {
  const char *op = fs_control_get(c, "op"), *place = fs_control_get(c, "place"), *counts = fs_control_get(c, "counts");
  int o = op ? fs_latency_op(op) : -1, p = place ? fs_latency_place(place) : -1;
  if (o < 0 || p < 0 || !counts) return;
  struct fs_latency **kind = &h->latency[FS_LATENCY_KIND(o, p)];
  if (!*kind) *kind = calloc(1, sizeof(**kind));
  if (*kind) (void)fs_latency_parse(counts, *kind);
}

void fs_sample_line_in(struct fs_sample_history *h, uint32_t nodes, const struct fs_control *c) {
  if (strcmp(c->verb, "sample") == 0 || strcmp(c->verb, "stats") == 0) on_sample(h, nodes, c);
  if (strcmp(c->verb, "latency") == 0) on_latency(h, c);
}

void fs_sample_free(struct fs_sample_history *h) {
  for (unsigned i = 0; i < FS_LATENCY_KINDS; i++) free(h->latency[i]);
  free(h->sample);
  *h = (struct fs_sample_history){0};
}

const struct fs_sample *fs_sample_at(const struct fs_sample_history *h, unsigned i) {
  return i < h->samples ? &h->sample[i] : NULL;
}

uint64_t fs_sample_step(const struct fs_sample_history *h, unsigned i, enum fs_sample_key key) {
  const struct fs_sample *s = fs_sample_at(h, i);
  if (!s || (unsigned)key >= FS_SAMPLE_KEYS) return 0;
  uint64_t before = i > 0 && key < FS_SAMPLE_SUMS ? h->sample[i - 1].value[key] : 0;
  return s->value[key] > before ? s->value[key] - before : 0;
}

const struct fs_latency *fs_sample_latency(const struct fs_sample_history *h, unsigned op, unsigned place) {
  return op < FS_LATENCY_OPS && place < FS_LATENCY_PLACES ? h->latency[FS_LATENCY_KIND(op, place)] : NULL;
}
