/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the report shows of a job's course, computed once at its end from the history of each node
 * (sample.h): a timeline that all nodes share, the epochs, the time that programs waited, and
 * findings: sentences about what went wrong or could be faster. docs/report.md says how each is
 * computed. figures.c and findings.c; the report and the summary read it. One thread.
 */
#ifndef FS_LAUNCH_FIGURES_H
#define FS_LAUNCH_FIGURES_H

#include "sample.h"

#define FS_EPOCHS_MAX 256u
#define FS_EPOCH_FILES 16u /* with fewer files in the datasets there are no epochs */
#define FS_FINDINGS_MAX 8u
#define FS_MATRIX_NODES 64u /* with more nodes, no bytes by pair */

struct fs_launch;

/* The series of the timeline: sums of an interval, but for the last two, which are gauges. */
enum fs_series {
  FS_SERIES_LOCAL,
  FS_SERIES_CACHE,
  FS_SERIES_REMOTE,
  FS_SERIES_SHARED,
  FS_SERIES_FILES,
  FS_SERIES_WAIT_MS,
  FS_SERIES_CPU_MS,
  FS_SERIES_PROCESSES,
  FS_SERIES_HOST_BUSY,
  FS_SERIES_COUNT
};

struct fs_epoch {
  uint64_t start_ms, end_ms; /* since COMMAND's start */
  uint64_t bytes[4];         /* by place, of all nodes */
  uint64_t wait_ms;
  bool whole; /* else COMMAND ended before it was over */
};

struct fs_finding {
  char brief[256]; /* without a remedy, for the page's first sentence */
  char text[512];  /* with one */
};

struct fs_figures {
  uint32_t nodes;
  unsigned intervals;
  uint64_t *end_ms; /* [interval], since COMMAND's start */
  uint64_t *value;  /* fs_figures_series */
  struct fs_epoch epoch[FS_EPOCHS_MAX];
  unsigned epochs;
  struct fs_finding finding[FS_FINDINGS_MAX];
  unsigned findings;
};

/* What the daemons of other nodes had from one of them. */
struct fs_served {
  uint64_t blocks, bytes, us; /* us: from the request to the answer, summed up */
};

/* Computes all, or returns NULL without memory. */
struct fs_figures *fs_figures_new(const struct fs_launch *l);
void fs_figures_free(struct fs_figures *f);
/* [intervals] of one node. */
uint64_t *fs_figures_series(const struct fs_figures *f, uint32_t node, enum fs_series s);
/* Milliseconds that the node's processes lived, as far as it is known. */
uint64_t fs_figures_process_ms(const struct fs_figures *f, uint32_t node);
uint64_t fs_figures_sum(const struct fs_figures *f, uint32_t node, enum fs_series s);
/* findings.c: fills in the findings. */
void fs_findings(const struct fs_launch *l, struct fs_figures *f);
/* Writes what happened as one sentence. */
void fs_figures_headline(const struct fs_launch *l, const struct fs_figures *f, int status, char *out, size_t size);

#endif
