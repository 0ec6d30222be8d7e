/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a job's live file, <run>/live, which its fs-launch replaces once a second. Another program
 * may have written any bytes there: nothing in it is trusted, and all numbers of things are bounded.
 * Text in struct fs_view may have any bytes but NUL: print it by fs_printable or fs_json_string.
 * docs/internals/live.md describes the file.
 */
#ifndef FS_LAUNCH_WATCH_VIEW_H
#define FS_LAUNCH_WATCH_VIEW_H

#include "../keys.h"
#include "ipc/latency.h"
#include "util/base.h"

#define FS_VIEW_NAME "live"
#define FS_VIEW_BYTES (64u << 20) /* a longer file is refused */
#define FS_VIEW_WARNINGS 32u

/* The keys of a node's line that watchers use (keys.h); others are ignored. */
enum fs_view_key {
#define FS_VIEW_ENUM(id, name) FS_VIEW_##id,
  FS_NODE_KEYS(FS_VIEW_ENUM, FS_VIEW_ENUM, FS_VIEW_ENUM, FS_VIEW_ENUM)
#undef FS_VIEW_ENUM
      FS_VIEW_NKEYS
};
enum fs_view_state { FS_VIEW_STARTING, FS_VIEW_STAGING, FS_VIEW_RUNNING, FS_VIEW_FINISHING, FS_VIEW_NSTATES };
extern const char *const fs_view_key_name[FS_VIEW_NKEYS];
extern const char *const fs_view_state_name[FS_VIEW_NSTATES];

struct fs_view_node {
  bool sampled; /* there is a sample of this node */
  char host[256];
  uint64_t ms;   /* the sample's time, CLOCK_REALTIME of the node */
  uint64_t have; /* bit K: key K was there */
  uint64_t value[FS_VIEW_NKEYS];
  struct fs_latency *latency[FS_LATENCY_KINDS]; /* NULL: none */
};
#define FS_VIEW_FILES 32u
struct fs_view_file {
  char *path;
  unsigned place;
  uint64_t node, reads, bytes, us, longest_us;
};
struct fs_view {
  char job[128], user[64];
  char *command; /* never NULL after fs_view_parse */
  uint64_t pid, started_ms, done, total;
  enum fs_view_state state;
  uint32_t nodes; /* length of node */
  struct fs_view_node *node;
  struct fs_view_file busy[FS_VIEW_FILES]; /* files that most reads of the last seconds waited for */
  unsigned files;
  char *warning[FS_VIEW_WARNINGS];
  unsigned warnings;
};

/* Parses n bytes, which it changes. Returns 0, -EINVAL or -ENOMEM; then *l is empty. */
fs_err fs_view_parse(char *text, size_t n, struct fs_view *l);
/* Reads a run directory's file. Returns 0, -ENOENT if the job has none (now), or another errno. */
fs_err fs_view_read(const char *run, struct fs_view *l);
void fs_view_free(struct fs_view *l);

#endif
