/* SPDX-License-Identifier: BSD-3-Clause */
/* What live.c remembers, and its one call. */
#ifndef FS_LAUNCH_LIVE_H
#define FS_LAUNCH_LIVE_H

#include "ipc/layout.h"

struct fs_live_totals { /* sums over all nodes */
  uint64_t files, bytes[FS_PLACE_COUNT], wait_ms, outputs, written, processes;
};
struct fs_live {
  uint64_t since_ns, next_ns; /* the job's start; when the file is due */
  uint64_t stats_ns;          /* when the last line of --stats was said, 0: none yet */
  struct fs_live_totals last; /* then, */
  uint64_t told;              /* and the sum of the times of the nodes' samples */
  bool filling;               /* --prefetch idle fills the caches, and a line has said so */
};

struct fs_launch;
/* Replaces the run directory's file `live`, and says a line of --stats, if it is time. */
void fs_live_step(struct fs_launch *l);

#endif
