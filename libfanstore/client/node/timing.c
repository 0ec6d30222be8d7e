/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts timed calls in the channel (client/timing.h). The threads of a process share the channel's
 * histograms, which are counters like the others: relaxed, and read by the daemon alone.
 */
#include "client/timing.h"

#include "client/data_priv.h"
#include "util/util.h"

FS_TLS struct fs_timing fs_timing = {.turn = FS_TIMING_SAMPLE / 2};

/* The number of calls to the next one is drawn anew each time: a program's calls have a period. */
__attribute__((noinline, cold)) void fs_timing_sample(void) {
  uint64_t now = fs_now_ns();
  fs_timing.turn = FS_TIMING_SAMPLE / 2 + 1 + (uint32_t)((now ^ now >> 9) % (FS_TIMING_SAMPLE - 1));
  fs_timing.slow = false;
  fs_timing.began = now;
}

void fs_timing_slow(uint64_t now) {
  if (fs_timing.began == 0) fs_timing.began = now;
  fs_timing.slow = true;
}

__attribute__((noinline, cold)) void fs_timing_count(enum fs_latency_op op, unsigned place) {
  struct fs_link *link = atomic_load_explicit(&fs_self()->link, memory_order_acquire);
  uint64_t now = fs_now_ns(), took = now > fs_timing.began ? now - fs_timing.began : 0;
  uint64_t weight = fs_timing.slow ? 1 : FS_TIMING_SAMPLE;
  if (!link || (unsigned)op >= FS_LATENCY_OPS || place >= FS_LATENCY_PLACES) return;
  struct fs_channel *c = link->channel;
  unsigned kind = FS_LATENCY_KIND(op, place);
  atomic_fetch_add_explicit(&c->latency[kind][fs_latency_bucket(took)], weight, memory_order_relaxed);
  if (!(atomic_load_explicit(&c->latency_kinds, memory_order_relaxed) >> kind & 1))
    atomic_fetch_or_explicit(&c->latency_kinds, 1u << kind, memory_order_relaxed);
  if (op == FS_LATENCY_READ) fs_count(FS_C_WAIT_NS, took * weight);
}
