/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts timed calls in the channel (client/timing.h). The threads of a process share the channel's
 * histograms, which are counters like the others: relaxed, and read by the daemon alone.
 */
#include "client/timing.h"

#include "client/data_priv.h"
#include "util/util.h"

FS_TLS struct fs_timing fs_timing = {.turn = FS_TIMING_SAMPLE / 2};
FS_TLS uint32_t fs_decode_turn = FS_DECODE_SAMPLE / 2;

/* Draws a number of calls, `mean` on average. It is another one each time, as a program's calls have a period. */
static uint32_t fs_timing_draw(uint64_t now, uint32_t mean) {
  return mean / 2 + 1 + (uint32_t)((now ^ now >> 9) % (mean - 1));
}

__attribute__((noinline, cold)) void fs_timing_sample(void) {
  uint64_t now = fs_now_ns();
  fs_timing.turn = fs_timing_draw(now, FS_TIMING_SAMPLE);
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

/* Takes a place of the channel's ring of reads that waited. Returns NULL if it is too full for this one. */
static struct fs_wait_rec *fs_wait_place(struct fs_channel *c, uint64_t us) {
  uint32_t room = us >= FS_WAIT_LONG_US ? FS_WAIT_RING : FS_WAIT_RING / 2;
  uint32_t head = atomic_load_explicit(&c->waits_head, memory_order_relaxed);
  do {
    if (head - atomic_load_explicit(&c->waits_tail, memory_order_acquire) >= room) return NULL;
  } while (!atomic_compare_exchange_weak_explicit(&c->waits_head, &head, head + 1, memory_order_relaxed,
                                                  memory_order_relaxed));
  return &c->wait[head % FS_WAIT_RING];
}

static void fs_wait_tell(const struct fs_timed_read *r) {
  struct fs_link *link = atomic_load_explicit(&fs_self()->link, memory_order_acquire);
  uint64_t us = (fs_now_ns() - fs_timing.began) / 1000;
  struct fs_wait_rec *rec = link && r->bytes > 0 ? fs_wait_place(link->channel, us) : NULL;
  if (!rec) return;
  uint64_t read = FS_MIN(us, (uint64_t)UINT32_MAX) << 32 | FS_MIN((uint64_t)r->bytes, (uint64_t)UINT32_MAX);
  atomic_store_explicit(&rec->read, read, memory_order_relaxed);
  atomic_store_explicit(&rec->file, FS_WAIT_FILE(r->dataset, r->place, r->entry), memory_order_release);
}

__attribute__((noinline, cold)) void fs_timing_count_read(const struct fs_timed_read *r) {
  if (fs_timing.slow) fs_wait_tell(r);
  fs_timing_count(FS_LATENCY_READ, r->place);
}

__attribute__((noinline, cold)) uint64_t fs_decode_sample(void) {
  uint64_t now = fs_now_ns();
  fs_decode_turn = fs_timing_draw(now, FS_DECODE_SAMPLE);
  return now;
}

__attribute__((noinline, cold)) void fs_decode_count(uint64_t began, uint32_t plain, uint32_t stored) {
  uint64_t now = fs_now_ns();
  fs_count(FS_C_DECODES, FS_DECODE_SAMPLE);
  fs_count(FS_C_DECODE_NS, (now > began ? now - began : 0) * FS_DECODE_SAMPLE);
  fs_count(FS_C_DECODE_SAVED, (uint64_t)(plain > stored ? plain - stored : 0) * FS_DECODE_SAMPLE);
}
