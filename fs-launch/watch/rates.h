/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happened between two reads of a job's live file (view.h), node by node and in total. `stats`
 * and `top` show it. One thread.
 */
#ifndef FS_LAUNCH_WATCH_RATES_H
#define FS_LAUNCH_WATCH_RATES_H

#include "view.h"

/* Sums of an interval. The functions below make rates of them. */
struct fs_delta {
  double seconds;              /* of the interval; 0: nothing is known yet */
  double process_seconds;      /* the same times the processes */
  double value[FS_VIEW_NKEYS]; /* difference of each counter */
  struct fs_latency remote;    /* reads of other nodes' files */
};

/* A job that is watched. fs_watch_free frees it. */
struct fs_watch_node {
  uint64_t ms;                   /* of the sample that the values are of; 0: none yet */
  uint64_t value[FS_VIEW_NKEYS]; /* cumulative */
  struct fs_latency remote;
  struct fs_delta delta; /* of the last interval */
  uint64_t seen_ns;      /* when this sample was seen (fs_now_ns) */
};
struct fs_watch {
  struct fs_view view; /* the last read */
  uint64_t read_ns;    /* its time (fs_now_ns); 0: none yet */
  uint32_t nodes;
  struct fs_watch_node *node;
};

/* Takes the live file that was just read, which then belongs to w. Returns 0 or -ENOMEM. */
fs_err fs_watch_take(struct fs_watch *w, struct fs_view *l, uint64_t now_ns);
void fs_watch_free(struct fs_watch *w);
/* Adds all nodes' intervals. Its seconds are the longest. */
void fs_watch_total(const struct fs_watch *w, struct fs_delta *sum);

/* A rate in units per second; a share in percent, or -1 if it is a share of nothing. */
double fs_delta_rate(const struct fs_delta *d, enum fs_view_key key);
double fs_delta_bytes(const struct fs_delta *d); /* bytes read per second, from all places */
double fs_delta_share(const struct fs_delta *d, enum fs_latency_place place);
double fs_delta_hit(const struct fs_delta *d);    /* of what was not local, what the cache had */
double fs_delta_waited(const struct fs_delta *d); /* of the processes' time */

#endif
