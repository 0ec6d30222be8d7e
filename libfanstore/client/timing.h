/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long the program's calls take, for the histograms of this process's channel (ipc/latency.h).
 * Each open, stat and read says where it begins and ends. What waits says so, and then the call is
 * timed from its first wait on and counts once. Of the calls that do not wait, one in 128 on average
 * is timed and counts 128 times. The begin and the end of the others make no system call and look at
 * no clock.
 *
 * The state is the thread's. A signal handler's call within a call may take the outer one's place:
 * that one is then not counted. Without a channel nothing is counted.
 */
#ifndef FS_CLIENT_TIMING_H
#define FS_CLIENT_TIMING_H

#include "ipc/latency.h"

#define FS_TIMING_SAMPLE 128u

struct fs_timing {
  uint32_t turn;  /* calls until the next one that is timed */
  bool slow;      /* of the call with `began`: it has waited */
  uint64_t began; /* when it began, or began to wait; 0: it is not timed */
};
extern FS_INTERNAL FS_TLS struct fs_timing fs_timing;

/* Begins to time a call that was chosen. */
void fs_timing_sample(void);
/* Counts the call that ends. */
void fs_timing_count(enum fs_latency_op op, unsigned place);
/* Counts a read of a dataset's file. If it has waited, the daemon is told of it. */
struct fs_timed_read {
  uint32_t dataset, entry; /* the daemon's number of the dataset */
  unsigned place;
  int64_t bytes; /* what the read returned */
};
void fs_timing_count_read(const struct fs_timed_read *r);
/* The call waits since `now` (fs_now_ns). */
void fs_timing_slow(uint64_t now);

static inline void fs_timing_begin(void) {
  fs_timing.began = 0;
  if (FS_UNLIKELY(--fs_timing.turn == 0)) fs_timing_sample();
}

/* Returns whether the call that ends is to be counted. */
static inline bool fs_timing_chosen(void) {
  return FS_UNLIKELY(fs_timing.began != 0);
}

/* place: enum fs_latency_place. */
static inline void fs_timing_end(enum fs_latency_op op, unsigned place) {
  if (fs_timing_chosen()) fs_timing_count(op, place);
}

/* Decoding blocks is timed in the same way, one in FS_DECODE_SAMPLE on average. */
#define FS_DECODE_SAMPLE 16u
extern FS_INTERNAL FS_TLS uint32_t fs_decode_turn; /* decodes until the next one that is timed */

/* Returns 0, or the time at which a decode begins that is timed. */
uint64_t fs_decode_sample(void);
/* Counts such a decode, to so many plain bytes of so many stored ones. */
void fs_decode_count(uint64_t began, uint32_t plain, uint32_t stored);

static inline uint64_t fs_decode_begin(void) {
  return FS_UNLIKELY(--fs_decode_turn == 0) ? fs_decode_sample() : 0;
}

#endif
