/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks that clients want ahead (posix_fadvise, readahead, fanstore_prefetch): taken from the rings of their channels
 * into one bounded queue, and fetched a few at a time, after what reads wait for. A full queue leaves the rings full,
 * so that clients notice. All of it is the MPI thread's; what is read from a ring is checked as any request is.
 */
#include "daemon/fetch.h"
#include "util/util.h"

#define FS_PREFETCH_TAKE 256u        /* of one client in one round */
#define FS_PREFETCH_FLYING 32u       /* under way at once */
#define FS_PREFETCH_FLYING_BUSY 4u   /* while a read waits */
#define FS_PREFETCH_BYTES (8u << 20) /* and not more than this, or 1/8 of the cache */

static uint64_t fs_prefetch_word(const struct fs_client *c) {
  if (atomic_load_explicit(&c->channel->prefetch_head, memory_order_seq_cst) == c->prefetch_tail) return 0;
  return atomic_load_explicit(&c->channel->prefetch[c->prefetch_tail % FS_PREFETCH_RING], memory_order_seq_cst);
}

bool fs_prefetch_posted(const struct fs_client *c) {
  return fs_prefetch_word(c) != 0;
}

uint32_t fs_prefetch_waiting(const struct fs_daemon *d) {
  return d->fetcher->prefetch.count;
}

static int fs_prefetch_take(struct fs_prefetch_queue *q, struct fs_client *c) {
  uint64_t word;
  uint32_t n = 0;
  while (n < FS_PREFETCH_TAKE && q->count < FS_PREFETCH_QUEUE && (word = fs_prefetch_word(c)) != 0) {
    atomic_store_explicit(&c->channel->prefetch[c->prefetch_tail % FS_PREFETCH_RING], 0, memory_order_relaxed);
    atomic_store_explicit(&c->channel->prefetch_tail, ++c->prefetch_tail, memory_order_release);
    q->key[(q->head + q->count++) % FS_PREFETCH_QUEUE] = word - 1;
    n++;
  }
  return (int)n;
}

static bool fs_prefetch_room(const struct fs_daemon *d) {
  const struct fs_fetcher *t = d->fetcher;
  if (t->ahead >= (t->live > t->ahead ? FS_PREFETCH_FLYING_BUSY : FS_PREFETCH_FLYING)) return false;
  return t->ahead == 0 || t->ahead_bytes < FS_MIN(d->cfg->cache_bytes / 8, FS_PREFETCH_BYTES);
}

int fs_prefetch_run(struct fs_daemon *d) {
  struct fs_prefetch_queue *q = &d->fetcher->prefetch;
  uint32_t high = atomic_load_explicit(&d->clients.high, memory_order_acquire), looked = 0;
  int n = 0;
  for (uint32_t i = 0; i < high; i++) {
    struct fs_client *c = atomic_load_explicit(&d->clients.slot[i], memory_order_acquire);
    if (c) n += fs_prefetch_take(q, c);
  }
  for (; q->count > 0 && looked < FS_PREFETCH_TAKE && fs_prefetch_room(d); looked++) {
    uint64_t key = q->key[q->head];
    q->head = (q->head + 1) % FS_PREFETCH_QUEUE;
    q->count--;
    n++;
    (void)fs_fetch_ahead(d, key);
  }
  return n;
}
