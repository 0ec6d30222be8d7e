/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Histograms of how long programs wait. A histogram has a fixed number of buckets, eight for each
 * power of two from 64 ns to 68 s, so a bucket's bounds differ by 12.5 % at most. Clients count in
 * their channel (ipc/layout.h), the daemon adds up and sends the text form (ipc/control.h), and
 * fs-launch keeps and shows it. No state. Text is untrusted.
 */
#ifndef FS_IPC_LATENCY_H
#define FS_IPC_LATENCY_H

#include "util/base.h"

#define FS_LATENCY_LOW_SHIFT 6u /* all below 64 + 8 ns is bucket 0 */
#define FS_LATENCY_HIGH_SHIFT 36u
#define FS_LATENCY_SUB_SHIFT 3u
#define FS_LATENCY_BUCKETS ((FS_LATENCY_HIGH_SHIFT - FS_LATENCY_LOW_SHIFT) << FS_LATENCY_SUB_SHIFT)

/* What was called, and where it was answered. The first four places are those of enum fs_place. */
enum fs_latency_op { FS_LATENCY_OPEN, FS_LATENCY_READ, FS_LATENCY_STAT, FS_LATENCY_OPS };
enum fs_latency_place {
  FS_LATENCY_LOCAL,
  FS_LATENCY_CACHE,
  FS_LATENCY_REMOTE,
  FS_LATENCY_SHARED,
  FS_LATENCY_OUTPUT, /* files and names that programs make: calls to a daemon */
  FS_LATENCY_PLACES
};
/* A histogram for each op and place. */
#define FS_LATENCY_KINDS ((unsigned)FS_LATENCY_OPS * FS_LATENCY_PLACES)
#define FS_LATENCY_KIND(op, place) ((unsigned)(op)*FS_LATENCY_PLACES + (unsigned)(place))

struct fs_latency {
  uint64_t count[FS_LATENCY_BUCKETS];
};

/* Returns the bucket of a time. */
static inline unsigned fs_latency_bucket(uint64_t ns) {
  if (ns < 1ull << FS_LATENCY_LOW_SHIFT) return 0;
  if (ns >= 1ull << FS_LATENCY_HIGH_SHIFT) return FS_LATENCY_BUCKETS - 1;
  unsigned power = 63u - (unsigned)__builtin_clzll(ns);
  unsigned sub = (unsigned)(ns >> (power - FS_LATENCY_SUB_SHIFT)) & ((1u << FS_LATENCY_SUB_SHIFT) - 1);
  return ((power - FS_LATENCY_LOW_SHIFT) << FS_LATENCY_SUB_SHIFT) + sub;
}

/* A bucket has the times from low on, and below high. Bucket 0 begins at 0. The last one also has
   all that is longer. */
uint64_t fs_latency_low(unsigned bucket);
uint64_t fs_latency_high(unsigned bucket);

uint64_t fs_latency_total(const struct fs_latency *h);
/* Returns a time, in ns, that so many of 1000 calls did not reach: the high bound of a bucket. 500
   is the median; 1000 is the bound of all calls. Returns 0 if nothing was counted. */
uint64_t fs_latency_percentile(const struct fs_latency *h, unsigned per_mille);

/* Writes the buckets from *from on that are not empty, as "B:N,B:N,...", as many as there is room
   for. Then *from is the first bucket that was not written, FS_LATENCY_BUCKETS at the end. Returns
   the length. */
size_t fs_latency_text(const struct fs_latency *h, unsigned *from, char *out, size_t size);
/* Sets the buckets that the text names; the others stay as they are. Returns 0, or -EINVAL: then h
   may have some of them. */
fs_err fs_latency_parse(const char *text, struct fs_latency *h);

/* The names in lines and files. The second kind returns -1 for a name that is none. */
const char *fs_latency_op_name(unsigned op);
const char *fs_latency_place_name(unsigned place);
int fs_latency_op(const char *name);
int fs_latency_place(const char *name);

#endif
