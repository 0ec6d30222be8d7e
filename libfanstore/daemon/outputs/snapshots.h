/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This node's numbers for the contents of other nodes' output files (docs/internals/output-bytes.md): one for each
 * (id, version), in place of a dataset's entry in the cache's keys. A number stays that of its contents while anybody
 * holds it, while a block of it is being fetched, and as long as its blocks may be in the cache; only when all numbers
 * were given out are those of which nothing is left given out again. One thread.
 */
#ifndef FS_DAEMON_OUTPUTS_SNAPSHOTS_H
#define FS_DAEMON_OUTPUTS_SNAPSHOTS_H

#include "cache/cache.h"

struct fs_snapshot {
  uint64_t id, version, size;
  uint64_t list;       /* of segments: its number then */
  uint32_t next;       /* of its chain, or of those that are free */
  uint32_t refs, busy; /* who holds it; fetches under way */
  bool left;           /* blocks in the cache that could not be dropped */
};

struct fs_snapshots;
/* Numbers 1 ... most - 1. */
fs_err fs_snapshots_new(struct fs_snapshots **out, struct fs_cache *cache, uint32_t most);
void fs_snapshots_free(struct fs_snapshots *t);
/* The number of these contents, held once more; or -ENFILE. */
int64_t fs_snapshots_hold(struct fs_snapshots *t, uint64_t id, uint64_t version, uint64_t size, uint64_t list);
void fs_snapshots_release(struct fs_snapshots *t, uint32_t snapshot);
/* NULL: not given out. */
const struct fs_snapshot *fs_snapshots_find(const struct fs_snapshots *t, uint32_t snapshot);
/* A fetch of one of its blocks begins, or has ended. */
void fs_snapshots_fetch(struct fs_snapshots *t, uint32_t snapshot, bool begins);

#endif
