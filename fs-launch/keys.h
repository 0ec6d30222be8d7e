/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keys of the daemons' lines `sample` and `stats` (ipc/control.h) that fs-launch knows by name.
 * One table for those who keep them (sample.h) and those who show them (watch/view.h). Other keys are
 * passed on to the report. docs/internals/messages.md, "stats", describes them.
 */
#ifndef FS_LAUNCH_KEYS_H
#define FS_LAUNCH_KEYS_H

/* KEPT(ID, name): a sum since the start, of which the history has all samples. STATE: the same, but
   a state of the node and no sum. LAST, LAST_STATE: only the last value is kept. */
#define FS_NODE_KEYS(KEPT, STATE, LAST, LAST_STATE)                                                                    \
  KEPT(OPENS, opens)                                                                                                   \
  KEPT(STATS, stats)                                                                                                   \
  KEPT(FILES_LOCAL, files_local)                                                                                       \
  KEPT(FILES_CACHE, files_cache)                                                                                       \
  KEPT(FILES_REMOTE, files_remote)                                                                                     \
  KEPT(FILES_SHARED, files_shared)                                                                                     \
  KEPT(BYTES_LOCAL, bytes_local)                                                                                       \
  KEPT(BYTES_CACHE, bytes_cache)                                                                                       \
  KEPT(BYTES_REMOTE, bytes_remote)                                                                                     \
  KEPT(BYTES_SHARED, bytes_shared)                                                                                     \
  KEPT(WAIT_MS, wait_ms)                                                                                               \
  KEPT(ERRORS, errors)                                                                                                 \
  KEPT(FALLBACKS, fallbacks)                                                                                           \
  KEPT(EVICTIONS, evictions)                                                                                           \
  KEPT(SERVED_BYTES, served_bytes)                                                                                     \
  KEPT(FETCHED_BYTES, fetched_bytes)                                                                                   \
  KEPT(OUTPUTS, outputs)                                                                                               \
  KEPT(OUTPUT_WRITTEN, output_written)                                                                                 \
  KEPT(CPU_MS, cpu_ms)                                                                                                 \
  STATE(CACHE_USED, cache_used)                                                                                        \
  STATE(CACHE_SIZE, cache_size)                                                                                        \
  STATE(QUEUE, queue)                                                                                                  \
  STATE(PROCESSES, processes)                                                                                          \
  STATE(HOST_BUSY, host_busy) /* in percent */                                                                         \
  LAST(BLOCKS_LOCAL, blocks_local)                                                                                     \
  LAST(BLOCKS_CACHE, blocks_cache)                                                                                     \
  LAST(BLOCKS_REMOTE, blocks_remote)                                                                                   \
  LAST(BLOCKS_SHARED, blocks_shared)                                                                                   \
  LAST(MATERIALIZED, materialized)                                                                                     \
  LAST(BYTES_DIRECT, bytes_direct)                                                                                     \
  LAST(OUTPUT_OPENS, output_opens)                                                                                     \
  LAST(OUTPUT_BYTES, output_bytes)                                                                                     \
  LAST(DECODES, decodes)                                                                                               \
  LAST(DECODE_MS, decode_ms)                                                                                           \
  LAST(DECODE_SAVED, decode_saved)                                                                                     \
  LAST(SERVED, served)                                                                                                 \
  LAST(FETCHED, fetched)                                                                                               \
  LAST(PREFETCHED, prefetched)                                                                                         \
  LAST(DISK_BYTES, disk_bytes)                                                                                         \
  LAST(DISK_KEPT_BYTES, disk_kept_bytes)                                                                               \
  LAST(CHECKSUM_ERRORS, checksum_errors)                                                                               \
  LAST(TIMEOUTS, timeouts)                                                                                             \
  LAST(DROPPED, dropped)                                                                                               \
  LAST(REFUSED, refused)                                                                                               \
  LAST(STAGED_BYTES, staged_bytes)                                                                                     \
  LAST(REUSED_BYTES, reused_bytes)                                                                                     \
  LAST(PASSED_BYTES, passed_bytes)                                                                                     \
  LAST(CLIENTS, clients)                                                                                               \
  LAST(REPLICATED, replicated)                                                                                         \
  LAST(REPLICATED_BYTES, replicated_bytes)                                                                             \
  LAST_STATE(FILL_TOTAL, fill_total)                                                                                   \
  LAST_STATE(FILL_DONE, fill_done)                                                                                     \
  LAST_STATE(WAIT_WORST, wait_worst) /* in percent */
#define FS_NODE_KEY_NONE(id, name)

#endif
