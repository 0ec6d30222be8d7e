/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This node's numbers for snapshots of other nodes' output files (docs/internals/output-bytes.md).
 * Each (id, version) has a number, which stands in the cache's keys in place of a dataset. A number
 * keeps its meaning while anybody has the snapshot open, while a block of it is being fetched, and
 * while its blocks may be in the cache. Numbers without any of these are given out again only after
 * all others were given out. One thread.
 */
#ifndef FS_DAEMON_OUTPUTS_SNAPSHOTS_H
#define FS_DAEMON_OUTPUTS_SNAPSHOTS_H

#include "cache/cache.h"

struct fs_snapshot {
  uint64_t id, version, size;
  uint64_t list;       /* version of the extent map at that time */
  uint32_t next;       /* next in its chain, or in the list of free numbers */
  uint32_t refs, busy; /* how often it is open; fetches under way */
  bool left;           /* the cache has blocks of it that could not be dropped */
};

struct fs_snapshots;
/* Numbers 1 ... most - 1. */
fs_err fs_snapshots_new(struct fs_snapshots **out, struct fs_cache *cache, uint32_t most);
void fs_snapshots_free(struct fs_snapshots *t);
/* Opens a snapshot once more. Returns its number, or -ENFILE. */
int64_t fs_snapshots_hold(struct fs_snapshots *t, uint64_t id, uint64_t version, uint64_t size, uint64_t list);
void fs_snapshots_release(struct fs_snapshots *t, uint32_t snapshot);
/* Returns the snapshot with this number, or NULL. */
const struct fs_snapshot *fs_snapshots_find(const struct fs_snapshots *t, uint32_t snapshot);
/* Says that a fetch of one of its blocks begins, or has ended. */
void fs_snapshots_fetch(struct fs_snapshots *t, uint32_t snapshot, bool begins);

#endif
