/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks that clients want ahead (posix_fadvise, readahead, fanstore_prefetch). They are taken from
 * the rings of the clients' channels into a bounded queue, and fetched a few at a time, after the
 * blocks that reads wait for. The clients take turns. A client has no more items than are free, at
 * most half of all, so that a later client finds room. Items without room stay in the client's
 * ring, so that the client notices. The MPI thread's. What is read from a ring is checked like any
 * request.
 */
#include "daemon/blocks/fetch.h"
#include "util/util.h"

#define FS_PREFETCH_TAKE 256u        /* items of one client in one round */
#define FS_PREFETCH_FLYING 32u       /* under way at once */
#define FS_PREFETCH_FLYING_BUSY 4u   /* the same while a read waits */
#define FS_PREFETCH_BYTES (8u << 20) /* bytes under way at once, but at most 1/8 of the cache */

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

static void fs_prefetch_push(struct fs_prefetch_queue *q, struct fs_wishes *w, uint64_t key) {
  uint16_t item = q->free ? q->free : (uint16_t)++q->fresh;
  if (item == q->free) q->free = q->next[item - 1];
  q->key[item - 1] = key;
  q->next[item - 1] = 0;
  if (w->last)
    q->next[w->last - 1] = item;
  else
    w->first = item;
  w->last = item;
  w->count++;
  q->count++;
}

static uint64_t fs_prefetch_pop(struct fs_prefetch_queue *q, struct fs_wishes *w) {
  uint16_t item = w->first;
  w->first = q->next[item - 1];
  if (!w->first) w->last = 0;
  w->count--;
  q->count--;
  q->next[item - 1] = q->free;
  q->free = item;
  return q->key[item - 1];
}

/* Returns the wishes of the next client in turn that has any, or NULL. */
static struct fs_wishes *fs_prefetch_next(struct fs_prefetch_queue *q, uint32_t high) {
  for (uint32_t i = 0; i < high; i++) {
    struct fs_wishes *w = &q->of[(q->turn + i) % high];
    if (w->count == 0) continue;
    q->turn = (q->turn + i + 1) % high;
    return w;
  }
  return NULL;
}

/* Does what a word that is no key asks for. Returns false if it is a key. */
static bool fs_prefetch_told(struct fs_daemon *d, struct fs_client *c, uint64_t word) {
  if ((word & FS_WANT_GONE) && (word & FS_OUTPUT_ID)) /* a snapshot is without FS_OUTPUT_ID */
    fs_backing_was_unlinked(d, word & ~FS_WANT_GONE);
  else if (word & FS_WANT_CLOSE)
    fs_open_files_given_back(d, c, (uint32_t)word);
  else if (word & FS_OUTPUT_ID)
    fs_backing_to_write(d, word);
  return word & (FS_WANT_CLOSE | FS_OUTPUT_ID);
}

static void fs_prefetch_taken(struct fs_client *c) {
  atomic_store_explicit(&c->channel->prefetch[c->prefetch_tail % FS_PREFETCH_RING], 0, memory_order_relaxed);
  atomic_store_explicit(&c->channel->prefetch_tail, ++c->prefetch_tail, memory_order_release);
}

static int fs_prefetch_take(struct fs_daemon *d, uint32_t place, struct fs_client *c) {
  struct fs_prefetch_queue *q = &d->fetcher->prefetch;
  struct fs_wishes *w = &q->of[place];
  uint64_t word;
  uint32_t n = 0;
  for (; n < FS_PREFETCH_TAKE && (word = fs_prefetch_word(c)) != 0; n++) {
    bool told = fs_prefetch_told(d, c, word);
    if (!told && w->count < FS_PREFETCH_QUEUE - q->count)
      fs_prefetch_push(q, w, word - 1);
    else if (!told)
      break;
    fs_prefetch_taken(c);
  }
  return (int)n;
}

/* A place that a killed thread has not filled is passed over. */
void fs_prefetch_gone(struct fs_daemon *d, struct fs_client *c) {
  uint32_t left = atomic_load_explicit(&c->channel->prefetch_head, memory_order_seq_cst) - c->prefetch_tail;
  for (left = FS_MIN(left, FS_PREFETCH_RING); left > 0; left--) {
    (void)fs_prefetch_told(d, c, fs_prefetch_word(c));
    fs_prefetch_taken(c);
  }
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
    if (c) n += fs_prefetch_take(d, i, c);
  }
  struct fs_wishes *w;
  for (; q->count > 0 && looked < FS_PREFETCH_TAKE && fs_prefetch_room(d); looked++) {
    if (!(w = fs_prefetch_next(q, high))) break;
    n++;
    (void)fs_fetch_ahead(d, fs_prefetch_pop(q, w), false);
  }
  return n;
}
