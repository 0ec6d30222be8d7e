/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `fs-launch replay`: reads traces of programs (ipc/trace.h), and lists them, joins them, makes their
 * files, or makes their calls again. docs/tracing.md is for users. One process with one thread, and
 * play.c's children. Traces are untrusted: trace.c checks bounds. Unless noted, a function returns 0,
 * or the exit status after it told the user the reason in one line.
 */
#ifndef FS_LAUNCH_REPLAY_REPLAY_H
#define FS_LAUNCH_REPLAY_REPLAY_H

#include <limits.h>

#include "ipc/trace.h"
#include "util/util.h"

/* The calls of one process. They lie in a mapping of the file. */
struct fs_trace_segment {
  struct fs_trace_head head;
  const uint8_t *at, *end; /* the records */
};
struct fs_trace_set {
  struct fs_trace_segment *segment;
  size_t segments, room;
  uint64_t lost;  /* calls that were not recorded */
  uint64_t cut;   /* segments that end early: their processes were killed, or the file is damaged */
  uint64_t start; /* CLOCK_REALTIME of the first call, in ns */
};
/* Reads a trace: the file of this name, or else all files whose names begin with it and a dot. */
int fs_trace_read(struct fs_trace_set *set, const char *name);
/* Adds the segments of n bytes. `bytes` must stay. Returns 0, -EINVAL if this is no trace,
   -EPROTONOSUPPORT for another version, or -ENOMEM. */
fs_err fs_trace_add_bytes(struct fs_trace_set *set, const uint8_t *bytes, size_t n);

/* One call. `path` is not terminated. */
struct fs_trace_item {
  struct fs_trace_record r; /* its size is checked */
  const char *path;
  uint64_t when; /* CLOCK_REALTIME */
};
/* Reads the record at *at and moves *at behind it. Returns false at the end of the segment. */
bool fs_trace_next(const struct fs_trace_segment *s, const uint8_t **at, struct fs_trace_item *item);

/* save.c. Writes the set as one trace. no_names: names are replaced by numbers; their suffixes
   stay. */
int fs_replay_save(const struct fs_trace_set *set, const char *file, bool no_names);
/* list.c. Prints a line for each call. */
int fs_replay_list(const struct fs_trace_set *set);
/* make.c. Makes the files that the trace has opened, with the sizes that they had. */
int fs_replay_make(const struct fs_trace_set *set, const char *dir);
/* play.c. Makes the calls again, with the pauses between them divided by `speed` (0: none). dir: the
   directory in place of the mounts, or NULL. */
int fs_replay_play(const struct fs_trace_set *set, double speed, const char *dir);

#endif
