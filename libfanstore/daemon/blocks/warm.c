/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread that touches the cache's pages before messages are received into them (cache/cache.h,
 * fs_cache_warm). When the node has its first client, it touches as many as the other nodes'
 * partitions need, since training reads all of them. Later it sleeps until the MPI thread has come
 * near the end of the touched pages. Nothing depends on it: an untouched page is made by its first
 * use.
 */
#include "daemon/daemon.h"
#include "util/sys.h"

#define FS_WARM_SLEEP_NS 60000000000ull

/* Returns the bytes of the partitions that only other nodes have staged. */
static uint64_t fs_warm_remote(const struct fs_daemon *d) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < d->datasets; i++) {
    const struct fs_dataset *ds = &d->data[i];
    for (uint32_t p = 0; p < ds->partitions; p++)
      bytes += ds->place[p].owners == 0 || ds->have[p] ? 0 : ds->stage.index.parts[p].size;
  }
  return bytes;
}

static void *fs_warm_main(void *arg) {
  struct fs_daemon *d = arg;
  for (;;) {
    uint32_t turn = atomic_load(&d->warm.turn);
    uint64_t expected = atomic_load(&d->warm.expected), warmed = fs_cache_warm(d->cache, expected);
    for (uint64_t before = 0; before != warmed; warmed = fs_cache_warm(d->cache, expected)) before = warmed;
    uint64_t reached = fs_cache_reached(d->cache);
    atomic_store(&d->warm.at, warmed > 0 ? reached + (FS_MAX(warmed, reached) - reached) / 2 + 1 : 1);
    (void)fs_futex_wait(&d->warm.turn, turn, FS_WARM_SLEEP_NS);
  }
  return NULL;
}

void fs_warm_look(struct fs_daemon *d) {
  bool first = !d->warm.begun && atomic_load_explicit(&d->clients.attached, memory_order_relaxed) > 0;
  if (!first && fs_cache_reached(d->cache) < atomic_load_explicit(&d->warm.at, memory_order_relaxed)) return;
  if (first) atomic_store(&d->warm.expected, fs_warm_remote(d));
  d->warm.begun = d->warm.begun || first;
  atomic_store(&d->warm.at, UINT64_MAX);
  atomic_fetch_add(&d->warm.turn, 1);
  fs_futex_wake(&d->warm.turn, 1);
}

fs_err fs_warm_start(struct fs_daemon *d) {
  atomic_store(&d->warm.at, UINT64_MAX);
  return fs_thread_start(fs_warm_main, d);
}
