/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the daemons report of single processes and files: how long each process waited in reads, and
 * which files reads waited for (the lines `waits` and `files` of ipc/control.h, which are untrusted).
 * A file is a number until it is shown. The live file and the report read this. Memory is bounded.
 * One thread.
 */
#ifndef FS_LAUNCH_WAITS_H
#define FS_LAUNCH_WAITS_H

#include "ipc/control.h"
#include "ipc/latency.h"

#define FS_WAITS_SLOW 16u  /* of a node */
#define FS_WAITS_BUSY 8u   /* of a node */
#define FS_WAITS_SHOWN 32u /* of all nodes */

struct fs_launch;

struct fs_waited_file {
  uint32_t dataset, entry, place, node; /* place: enum fs_place */
  uint64_t reads, bytes, us, longest_us;
};
struct fs_waits {
  struct fs_waited_file slow[FS_WAITS_SLOW], busy[FS_WAITS_BUSY];
  unsigned slows, busies;
  struct fs_latency *processes; /* by the microseconds that they waited; NULL: none was reported */
  uint64_t worst_us, worst_pid;
};

/* Handles a line `waits` or `files` of this node. Others are ignored. */
void fs_waits_line_in(struct fs_waits *w, uint32_t node, const struct fs_control *c);

/* The files of the longest reads, by node and place, the longest first. Returns their number. */
unsigned fs_waits_slow(const struct fs_launch *l, struct fs_waited_file out[FS_WAITS_SHOWN]);
/* The files that most reads of the last seconds waited for, on whichever nodes; `node` is one of
   them. */
unsigned fs_waits_busy(const struct fs_launch *l, struct fs_waited_file out[FS_WAITS_SHOWN]);
/* Writes the path of the file as programs know it. Returns 0, or a negative errno: there is no such
   file. */
fs_err fs_waits_path(const struct fs_launch *l, const struct fs_waited_file *f, char *out, size_t size);
/* How long the processes of one node waited, or of all (node is l->nodes). Returns false if that is
   not known. */
struct fs_waits_spread {
  uint64_t processes, median_us, worst_us, worst_pid;
  uint32_t worst_node;
};
bool fs_waits_spread(const struct fs_launch *l, uint32_t node, struct fs_waits_spread *s);

#endif
