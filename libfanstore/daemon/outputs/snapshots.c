/* SPDX-License-Identifier: BSD-3-Clause */
/* See snapshots.h. Only the MPI thread uses it. */
#include "daemon/outputs/snapshots.h"

#include <stdlib.h>

#define FS_SNAPSHOT_CHAINS 65536u
#define FS_SNAPSHOT_SHARE 16u /* reclaims only if at least one in so many is idle */

struct fs_snapshots {
  struct fs_cache *cache;
  struct fs_snapshot *snapshot;
  uint32_t most, made; /* numbers below `made` were given out at least once */
  uint32_t idle;       /* given out, neither open nor busy */
  uint32_t free;       /* first number to give out again; 0: none */
  uint32_t chain[FS_SNAPSHOT_CHAINS];
};

fs_err fs_snapshots_new(struct fs_snapshots **out, struct fs_cache *cache, uint32_t most) {
  struct fs_snapshots *t = calloc(1, sizeof(*t));
  if (!t) return -ENOMEM;
  *t = (struct fs_snapshots){.cache = cache, .most = most, .made = 1};
  t->snapshot = calloc(most, sizeof(*t->snapshot)); /* pages are used later, one by one */
  *out = t;
  if (t->snapshot) return 0;
  free(t);
  return -ENOMEM;
}

void fs_snapshots_free(struct fs_snapshots *t) {
  if (t) free(t->snapshot);
  free(t);
}

static uint32_t *fs_snapshot_chain(struct fs_snapshots *t, uint64_t id, uint64_t version) {
  return &t->chain[fs_mix64(id + version * 0x9e3779b97f4a7c15ull) % FS_SNAPSHOT_CHAINS];
}

const struct fs_snapshot *fs_snapshots_find(const struct fs_snapshots *t, uint32_t snapshot) {
  return snapshot < t->made && t->snapshot[snapshot].id != 0 ? &t->snapshot[snapshot] : NULL;
}

/* ---- giving numbers out again ---- */

static bool fs_snapshot_idle(const struct fs_snapshot *h) {
  return h->id != 0 && h->refs == 0 && h->busy == 0;
}

static bool fs_snapshot_pick(void *ctx, uint64_t key) {
  const struct fs_snapshots *t = ctx;
  if (!FS_KEY_OF_OUTPUT(key) || FS_KEY_OF_BATCH(key)) return false;
  const struct fs_snapshot *h = fs_snapshots_find(t, FS_OUTPUT_KEY_SNAPSHOT(key));
  return h && fs_snapshot_idle(h);
}

static void fs_snapshot_left(void *ctx, uint64_t key) {
  struct fs_snapshots *t = ctx;
  t->snapshot[FS_OUTPUT_KEY_SNAPSHOT(key)].left = true;
}

static void fs_snapshot_recycle(struct fs_snapshots *t, uint32_t n) {
  struct fs_snapshot *h = &t->snapshot[n];
  uint32_t *link = fs_snapshot_chain(t, h->id, h->version);
  while (*link != n) link = &t->snapshot[*link].next;
  *link = h->next;
  *h = (struct fs_snapshot){.next = t->free};
  t->free = n;
  t->idle--;
}

/* Recycles the numbers of idle snapshots. A block that a client has pinned stays in the cache,
   so its snapshot keeps its number. */
static void fs_snapshots_reclaim(struct fs_snapshots *t) {
  fs_cache_purge(t->cache, fs_snapshot_pick, fs_snapshot_left, t);
  for (uint32_t n = 1; n < t->made; n++) {
    if (fs_snapshot_idle(&t->snapshot[n]) && !t->snapshot[n].left) fs_snapshot_recycle(t, n);
    t->snapshot[n].left = false;
  }
}

/* ---- opening and closing ---- */

static uint32_t fs_snapshot_take(struct fs_snapshots *t) {
  if (t->free == 0 && t->made < t->most) return t->made++;
  if (t->free == 0 && t->idle > 0 && t->idle >= t->most / FS_SNAPSHOT_SHARE) fs_snapshots_reclaim(t);
  uint32_t n = t->free;
  if (n != 0) t->free = t->snapshot[n].next;
  return n;
}

int64_t fs_snapshots_hold(struct fs_snapshots *t, uint64_t id, uint64_t version, uint64_t size, uint64_t list) {
  uint32_t *chain = fs_snapshot_chain(t, id, version), n = *chain;
  while (n != 0 && (t->snapshot[n].id != id || t->snapshot[n].version != version)) n = t->snapshot[n].next;
  if (n == 0) {
    n = fs_snapshot_take(t);
    if (n == 0) return -ENFILE;
    t->snapshot[n] = (struct fs_snapshot){.id = id, .version = version, .size = size, .list = list, .next = *chain};
    *chain = n;
    t->idle++;
  }
  struct fs_snapshot *h = &t->snapshot[n];
  if (fs_snapshot_idle(h)) t->idle--;
  h->refs++;
  return n;
}

void fs_snapshots_release(struct fs_snapshots *t, uint32_t snapshot) {
  struct fs_snapshot *h = &t->snapshot[snapshot];
  h->refs--;
  if (fs_snapshot_idle(h)) t->idle++;
}

void fs_snapshots_fetch(struct fs_snapshots *t, uint32_t snapshot, bool begins) {
  struct fs_snapshot *h = &t->snapshot[snapshot];
  if (fs_snapshot_idle(h)) t->idle--;
  h->busy += begins ? 1 : UINT32_MAX;
  if (fs_snapshot_idle(h)) t->idle++;
}
