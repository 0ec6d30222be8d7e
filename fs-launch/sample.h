/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a node's daemon has reported while the job runs: its last sample with all keys, samples of
 * the keys that figures need, in order of time, and its histograms. sample.c fills it from the lines
 * `sample`, `latency` and `stats` (ipc/control.h), which are untrusted. The live file, --stats, the
 * report and the figures read it. Memory is bounded: when there is no room, every second sample
 * goes. One thread.
 */
#ifndef FS_LAUNCH_SAMPLE_H
#define FS_LAUNCH_SAMPLE_H

#include "ipc/control.h"
#include "ipc/latency.h"
#include "keys.h"

#define FS_LAUNCH_STATS 64
#define FS_SAMPLES_MAX 1024u /* of a node; fewer if the job has many nodes */
#define FS_SAMPLES_MIN 128u
#define FS_SAMPLES_BYTES (64ull << 20) /* of all nodes, unless that is less than FS_SAMPLES_MIN for each */

/* The keys that each sample of the history has (keys.h). The states are the last ones. */
enum fs_sample_key {
#define FS_SAMPLE_NAME(id, name) FS_SAMPLE_##id,
  FS_NODE_KEYS(FS_SAMPLE_NAME, FS_NODE_KEY_NONE, FS_NODE_KEY_NONE, FS_NODE_KEY_NONE) FS_SAMPLE_SUMS,
  FS_SAMPLE_LAST_SUM = FS_SAMPLE_SUMS - 1, /* so that the next one is FS_SAMPLE_SUMS */
  FS_NODE_KEYS(FS_NODE_KEY_NONE, FS_SAMPLE_NAME, FS_NODE_KEY_NONE, FS_NODE_KEY_NONE) FS_SAMPLE_KEYS
#undef FS_SAMPLE_NAME
};

struct fs_sample {
  uint64_t ms; /* since 1970, by the node's clock; rises from sample to sample */
  uint64_t value[FS_SAMPLE_KEYS];
};

/* A line's keys and values. */
struct fs_sample_values {
  struct {
    char key[32];
    uint64_t value;
  } at[FS_LAUNCH_STATS];
  unsigned n;
};

struct fs_sample_history {
  struct fs_sample_values last; /* all keys of the last `sample` or `stats`; none: n is 0 */
  struct fs_sample *sample;     /* the last one is always the newest */
  unsigned samples, room;
  uint64_t step_ms;                             /* shortest time between two of them, but for the newest */
  struct fs_latency *latency[FS_LATENCY_KINDS]; /* NULL: nothing was reported */
};

/* Takes the numbers of a line, but `rank` and `ms`. Keys that are no words of ours are left out. */
void fs_sample_values(struct fs_sample_values *v, const struct fs_control *c);
/* Returns the value of the key, or 0. */
uint64_t fs_sample_get(const struct fs_sample_values *v, const char *key);

/* Handles a line `sample`, `stats` or `latency` of this node, one of so many. Others are ignored. */
void fs_sample_line_in(struct fs_sample_history *h, uint32_t nodes, const struct fs_control *c);
void fs_sample_free(struct fs_sample_history *h);

/* Number i of h->samples, the oldest first; NULL if there is none. */
const struct fs_sample *fs_sample_at(const struct fs_sample_history *h, unsigned i);
/* How much a key has grown from sample i - 1 to i, or from the start to sample 0. For gauges: the
   value. */
uint64_t fs_sample_step(const struct fs_sample_history *h, unsigned i, enum fs_sample_key key);
/* NULL: no such call was reported. */
const struct fs_latency *fs_sample_latency(const struct fs_sample_history *h, unsigned op, unsigned place);
const char *fs_sample_key_name(enum fs_sample_key key);
/* Returns whether the key is a state and no sum, so that the nodes' values are not added up. */
bool fs_sample_is_gauge(const char *key);

#endif
