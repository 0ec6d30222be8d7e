/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tells how far a command is: a bar on a terminal, else a line a minute; a line at SIGUSR1; and an
 * object a second with --json-progress. A thread of its own does this, so it does not depend on
 * threads that read or write. The command's threads only add to atomic counters.
 */
#ifndef FS_PREPARE_PROGRESS_H
#define FS_PREPARE_PROGRESS_H

#include <pthread.h>

#include "prepare.h"

enum fs_stage {
  FS_STAGE_LIST,
  FS_STAGE_COMPARE,
  FS_STAGE_PACK,
  FS_STAGE_INDEX,
  FS_STAGE_SYNC,
  FS_STAGE_VERIFY,
  FS_STAGE_REPAIR,
  FS_STAGE_UNPACK,
  FS_STAGE_DONE,
  FS_STAGE_FAILED
};

/* What a stage has done, and in *_all what it has to do. Zero at the start of a stage that has counts of its
   own. */
struct fs_counts {
  _Atomic uint64_t names; /* that the walk has seen */
  _Atomic uint64_t files, files_all;
  _Atomic uint64_t bytes, bytes_all;
  _Atomic uint64_t stored; /* of `bytes`, after compression and without duplicates */
  _Atomic uint64_t left_out;
};

/* Of a command over several nodes: the one that is the slowest now. Its host is never freed. */
struct fs_slowest {
  _Atomic(const char *) host; /* NULL: there is none, or it is not known */
  _Atomic uint32_t node;
  _Atomic uint64_t rate; /* bytes a second */
  _Atomic bool writes;   /* others wait until it has written */
};

#define FS_RATE_SECONDS 10u
struct fs_progress {
  struct fs_counts now;
  struct fs_slowest slowest;
  _Atomic int stage; /* enum fs_stage */
  uint64_t start_ns;
  /* If this is set and the process is still there 0.8 s after a signal, the thread calls it. Then
     the command hangs in a read or a write. It does not return. */
  void (*hangs)(void *ctx);
  void *ctx;
  /* The rest belongs to the thread. */
  _Atomic uint64_t stage_ns;
  _Atomic uint64_t old_files, old_bytes; /* of the counts: what an earlier run has done of the stage */
  uint64_t shown_ns, json_ns, signal_ns;
  struct {
    uint64_t ns, files, bytes;
  } sample[FS_RATE_SECONDS]; /* of each second, for the rate */
  uint64_t samples;
  int shown_stage;
  int json; /* descriptor; -1: none */
  bool started;
  _Atomic bool stop;
  pthread_t thread;
};

/* Starts the thread. `json` is the FILE of --json-progress, "-" for standard error, or NULL. Returns
   0, or a negative errno after one line on stderr. */
fs_err fs_progress_start(struct fs_progress *p, const char *json);
/* Begins a stage with this much to do. Stages that count nothing (making the index, for example) leave the counts as
   they are. */
void fs_progress_stage(struct fs_progress *p, enum fs_stage stage, uint64_t files, uint64_t bytes);
/* Counts what an earlier run has done of this stage. It does not count for the rate and for the time
   that is left. */
void fs_progress_resume(struct fs_progress *p, uint64_t files, uint64_t bytes);
/* Wipes the bar, writes the last JSON object, and ends the thread. Does nothing if none runs. */
void fs_progress_stop(struct fs_progress *p, bool done);

#endif
