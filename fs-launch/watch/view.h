/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a job's live file, <run>/live, which its fs-launch replaces once a second. Another program
 * may have written any bytes there: nothing in it is trusted, and all numbers of things are bounded.
 * Text in struct fs_view may have any bytes but NUL: print it by fs_printable or fs_json_string.
 * docs/internals/live.md describes the file.
 */
#ifndef FS_LAUNCH_WATCH_VIEW_H
#define FS_LAUNCH_WATCH_VIEW_H

#include "ipc/latency.h"
#include "util/base.h"

#define FS_VIEW_NAME "live"
#define FS_VIEW_BYTES (64u << 20) /* a longer file is refused */
#define FS_VIEW_WARNINGS 32u

/* The keys of a node's line that watchers use; others are ignored. */
#define FS_VIEW_KEYS(X)                                                                                                \
  X(OPENS, opens)                                                                                                      \
  X(STATS, stats)                                                                                                      \
  X(FILES_LOCAL, files_local)                                                                                          \
  X(FILES_CACHE, files_cache)                                                                                          \
  X(FILES_REMOTE, files_remote)                                                                                        \
  X(FILES_SHARED, files_shared)                                                                                        \
  X(BYTES_LOCAL, bytes_local)                                                                                          \
  X(BYTES_CACHE, bytes_cache)                                                                                          \
  X(BYTES_REMOTE, bytes_remote)                                                                                        \
  X(BYTES_SHARED, bytes_shared)                                                                                        \
  X(BLOCKS_LOCAL, blocks_local)                                                                                        \
  X(BLOCKS_CACHE, blocks_cache)                                                                                        \
  X(BLOCKS_REMOTE, blocks_remote)                                                                                      \
  X(BLOCKS_SHARED, blocks_shared)                                                                                      \
  X(FALLBACKS, fallbacks)                                                                                              \
  X(ERRORS, errors)                                                                                                    \
  X(MATERIALIZED, materialized)                                                                                        \
  X(BYTES_DIRECT, bytes_direct)                                                                                        \
  X(OUTPUT_OPENS, output_opens)                                                                                        \
  X(OUTPUT_BYTES, output_bytes)                                                                                        \
  X(SERVED, served)                                                                                                    \
  X(SERVED_BYTES, served_bytes)                                                                                        \
  X(FETCHED, fetched)                                                                                                  \
  X(FETCHED_BYTES, fetched_bytes)                                                                                      \
  X(PREFETCHED, prefetched)                                                                                            \
  X(DISK_BYTES, disk_bytes)                                                                                            \
  X(DISK_KEPT_BYTES, disk_kept_bytes)                                                                                  \
  X(CHECKSUM_ERRORS, checksum_errors)                                                                                  \
  X(TIMEOUTS, timeouts)                                                                                                \
  X(DROPPED, dropped)                                                                                                  \
  X(REFUSED, refused)                                                                                                  \
  X(EVICTIONS, evictions)                                                                                              \
  X(STAGED_BYTES, staged_bytes)                                                                                        \
  X(REUSED_BYTES, reused_bytes)                                                                                        \
  X(CLIENTS, clients)                                                                                                  \
  X(REPLICATED, replicated)                                                                                            \
  X(REPLICATED_BYTES, replicated_bytes)                                                                                \
  X(CACHE_USED, cache_used)                                                                                            \
  X(CACHE_SIZE, cache_size)                                                                                            \
  X(QUEUE, queue)                                                                                                      \
  X(PROCESSES, processes)                                                                                              \
  X(CPU_MS, cpu_ms)                                                                                                    \
  X(HOST_BUSY, host_busy)                                                                                              \
  X(OUTPUTS, outputs)                                                                                                  \
  X(OUTPUT_WRITTEN, output_written)                                                                                    \
  X(WAIT_MS, wait_ms)
enum fs_view_key {
#define FS_VIEW_ENUM(id, name) FS_VIEW_##id,
  FS_VIEW_KEYS(FS_VIEW_ENUM)
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
struct fs_view {
  char job[128], user[64];
  char *command; /* never NULL after fs_view_parse */
  uint64_t pid, started_ms, done, total;
  enum fs_view_state state;
  uint32_t nodes; /* length of node */
  struct fs_view_node *node;
  char *warning[FS_VIEW_WARNINGS];
  unsigned warnings;
};

/* Parses n bytes, which it changes. Returns 0, -EINVAL or -ENOMEM; then *l is empty. */
fs_err fs_view_parse(char *text, size_t n, struct fs_view *l);
/* Reads a run directory's file. Returns 0, -ENOENT if the job has none (now), or another errno. */
fs_err fs_view_read(const char *run, struct fs_view *l);
void fs_view_free(struct fs_view *l);

#endif
