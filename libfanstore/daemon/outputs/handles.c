/* SPDX-License-Identifier: BSD-3-Clause */
/* See handles.h. Used by the MPI thread alone. */
#include "daemon/outputs/handles.h"

#include <stdlib.h>

#define FS_HANDLE_CHAINS 65536u
#define FS_HANDLE_SHARE 16u /* all are looked at only when one of so many at least is of no use to anybody */

struct fs_handles {
  struct fs_cache *cache;
  struct fs_handle *handle;
  uint32_t most, made; /* numbers below `made` were given out at least once */
  uint32_t idle;       /* given out, and neither held nor busy */
  uint32_t free;       /* first of those that can be given out again; 0: none */
  uint32_t chain[FS_HANDLE_CHAINS];
};

fs_err fs_handles_new(struct fs_handles **out, struct fs_cache *cache, uint32_t most) {
  struct fs_handles *t = calloc(1, sizeof(*t));
  if (!t) return -ENOMEM;
  *t = (struct fs_handles){.cache = cache, .most = most, .made = 1};
  t->handle = calloc(most, sizeof(*t->handle)); /* memory is used as numbers are given out */
  *out = t;
  if (t->handle) return 0;
  free(t);
  return -ENOMEM;
}

void fs_handles_free(struct fs_handles *t) {
  if (t) free(t->handle);
  free(t);
}

static uint32_t *fs_handle_chain(struct fs_handles *t, uint64_t id, uint64_t version) {
  return &t->chain[fs_mix64(id + version * 0x9e3779b97f4a7c15ull) % FS_HANDLE_CHAINS];
}

const struct fs_handle *fs_handles_find(const struct fs_handles *t, uint32_t handle) {
  return handle < t->made && t->handle[handle].id != 0 ? &t->handle[handle] : NULL;
}

/* ---- giving numbers out again ---- */

static bool fs_handle_idle(const struct fs_handle *h) {
  return h->id != 0 && h->refs == 0 && h->busy == 0;
}

static bool fs_handle_pick(void *ctx, uint64_t key) {
  const struct fs_handles *t = ctx;
  if (!FS_KEY_OF_OUT(key)) return false;
  const struct fs_handle *h = fs_handles_find(t, FS_OUT_KEY_HANDLE(key));
  return h && fs_handle_idle(h);
}

static void fs_handle_left(void *ctx, uint64_t key) {
  struct fs_handles *t = ctx;
  t->handle[FS_OUT_KEY_HANDLE(key)].left = true;
}

static void fs_handle_recycle(struct fs_handles *t, uint32_t n) {
  struct fs_handle *h = &t->handle[n];
  uint32_t *link = fs_handle_chain(t, h->id, h->version);
  while (*link != n) link = &t->handle[*link].next;
  *link = h->next;
  *h = (struct fs_handle){.next = t->free};
  t->free = n;
  t->idle--;
}

/* Blocks that a client has pinned stay in the cache, and so do their numbers. */
static void fs_handles_reclaim(struct fs_handles *t) {
  fs_cache_purge(t->cache, fs_handle_pick, fs_handle_left, t);
  for (uint32_t n = 1; n < t->made; n++) {
    if (fs_handle_idle(&t->handle[n]) && !t->handle[n].left) fs_handle_recycle(t, n);
    t->handle[n].left = false;
  }
}

/* ---- holding ---- */

static uint32_t fs_handle_take(struct fs_handles *t) {
  if (t->free == 0 && t->made < t->most) return t->made++;
  if (t->free == 0 && t->idle > 0 && t->idle >= t->most / FS_HANDLE_SHARE) fs_handles_reclaim(t);
  uint32_t n = t->free;
  if (n != 0) t->free = t->handle[n].next;
  return n;
}

int64_t fs_handles_hold(struct fs_handles *t, uint64_t id, uint64_t version, uint64_t size, uint64_t list) {
  uint32_t *chain = fs_handle_chain(t, id, version), n = *chain;
  while (n != 0 && (t->handle[n].id != id || t->handle[n].version != version)) n = t->handle[n].next;
  if (n == 0) {
    n = fs_handle_take(t);
    if (n == 0) return -ENFILE;
    t->handle[n] = (struct fs_handle){.id = id, .version = version, .size = size, .list = list, .next = *chain};
    *chain = n;
    t->idle++;
  }
  struct fs_handle *h = &t->handle[n];
  if (fs_handle_idle(h)) t->idle--;
  h->refs++;
  return n;
}

void fs_handles_release(struct fs_handles *t, uint32_t handle) {
  struct fs_handle *h = &t->handle[handle];
  h->refs--;
  if (fs_handle_idle(h)) t->idle++;
}

void fs_handles_fetch(struct fs_handles *t, uint32_t handle, bool begins) {
  struct fs_handle *h = &t->handle[handle];
  if (fs_handle_idle(h)) t->idle--;
  h->busy += begins ? 1 : UINT32_MAX;
  if (fs_handle_idle(h)) t->idle++;
}
