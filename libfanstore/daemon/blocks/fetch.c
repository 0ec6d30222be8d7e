/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The blocks that this node's clients wait for (fetch.h). Each block has one fetch, however many
 * clients wait. The block's source says where to ask for it (source.h), and every request gets an
 * answer. The MPI thread's. Requests come from clients' memory, so the source checks every key.
 */
#include "daemon/blocks/fetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/util.h"

#define FS_TIMER_NS 5000000ull

static struct fs_fetch **fs_fetch_bucket(struct fs_fetcher *t, uint64_t key) {
  return &t->hash[fs_cache_bucket(key) & (FS_FETCH_HASH - 1)];
}

static struct fs_fetch *fs_fetch_lookup(struct fs_fetcher *t, uint64_t key) {
  struct fs_fetch *f = *fs_fetch_bucket(t, key);
  while (f && f->key != key) f = f->hash_next;
  return f;
}

bool fs_fetch_intact(struct fs_daemon *d, const void *bytes, uint32_t len, uint64_t xxh3) {
  if (d->cfg->unverified) return true;
  if (fs_xxh3(bytes, len) == xxh3) return true;
  d->count.checksum_errors++;
  return false;
}

/* ---- the life of a fetch ---- */

static const struct fs_block_source *fs_fetch_source(uint64_t key) {
  return fs_block_sources[FS_KEY_OF_OUTPUT(key) ? FS_BLOCKS_OUTPUT : FS_BLOCKS_DATASET];
}

static fs_err fs_fetch_resolve(const struct fs_daemon *d, uint64_t key, struct fs_wanted *w) {
  return fs_fetch_source(key)->resolve(d, key, w);
}

void fs_fetch_route(struct fs_daemon *d, struct fs_fetch *f) {
  f->source->route(d, f);
}

static struct fs_fetch *fs_fetch_new(struct fs_daemon *d, uint64_t key, const struct fs_wanted *w) {
  struct fs_fetcher *t = d->fetcher;
  struct fs_chain *link = fs_chain_pop(&t->free_fetches);
  if (!link) return NULL;
  struct fs_fetch *f = FS_ITEM(link, struct fs_fetch, chain);
  t->live++;
  f->key = key;
  f->source = fs_fetch_source(key);
  f->want = *w;
  f->tried = 0;
  f->ahead = f->fill = f->patient = f->disk = false;
  f->started = d->now;
  f->full_since = 0;
  f->d = d;
  fs_chain_init(&f->waiters);
  struct fs_fetch **bucket = fs_fetch_bucket(t, f->key);
  f->hash_next = *bucket;
  *bucket = f;
  if (f->source->begin) f->source->begin(d, f);
  return f;
}

void fs_fetch_request(struct fs_daemon *d, struct fs_waiter *w) {
  struct fs_fetcher *t = d->fetcher;
  struct fs_wanted want;
  int64_t line = fs_cache_find(d->cache, w->key);
  if (line >= 0) {
    fs_waiter_answer(w, 0, (uint32_t)line, true);
    return;
  }
  struct fs_fetch *f = fs_fetch_lookup(t, w->key);
  if (f) {
    f->patient = f->patient || w->flags & FS_REQ_PATIENT;
    fs_chain_push(&f->waiters, &w->chain);
    return;
  }
  fs_err err = fs_fetch_resolve(d, w->key, &want);
  if (err < 0) {
    fs_waiter_answer(w, err, 0, false);
    return;
  }
  f = fs_fetch_new(d, w->key, &want);
  if (!f) {
    fs_chain_push(&t->deferred, &w->chain);
    return;
  }
  f->patient = w->flags & FS_REQ_PATIENT;
  fs_chain_push(&f->waiters, &w->chain);
  fs_fetch_route(d, f);
}

bool fs_fetch_ahead(struct fs_daemon *d, uint64_t key, bool fill) {
  struct fs_fetcher *t = d->fetcher;
  struct fs_wanted want;
  if (fs_fetch_resolve(d, key, &want) < 0 || fs_cache_find(d->cache, key) >= 0 || fs_fetch_lookup(t, key)) return false;
  struct fs_fetch *f = fs_fetch_new(d, key, &want);
  if (!f) return false;
  f->ahead = true;
  f->fill = fill;
  t->ahead++;
  t->ahead_bytes += want.block.stored_len;
  d->count.prefetched++;
  fs_fetch_route(d, f);
  return true;
}

void fs_fetch_given(struct fs_daemon *d, uint64_t key, const void *bytes, size_t n) {
  struct fs_wanted want;
  void *buf;
  if (fs_fetch_resolve(d, key, &want) < 0 || want.block.stored_len != n) return;
  if (fs_cache_find(d->cache, key) >= 0 || fs_fetch_lookup(d->fetcher, key)) return;
  int64_t line = fs_cache_alloc(d->cache, key, (uint32_t)n, &buf);
  if (line < 0) return;
  memcpy((char *)buf + FS_CACHE_HEADROOM, bytes, n);
  d->count.fetched++;
  d->count.fetched_bytes += n;
  fs_cache_publish(d->cache, (uint32_t)line, true);
}

static void fs_fetch_free(struct fs_fetcher *t, struct fs_fetch *f) {
  struct fs_fetch **at = fs_fetch_bucket(t, f->key);
  while (*at != f) at = &(*at)->hash_next;
  *at = f->hash_next;
  if (f->source->done) f->source->done(f->d, f);
  t->live--;
  if (f->ahead) {
    t->ahead--;
    t->ahead_bytes -= f->want.block.stored_len;
  }
  fs_chain_push(&t->free_fetches, &f->chain);
}

bool fs_fetch_awaited(const struct fs_fetch *f) {
  if (f->fill) return false;
  for (struct fs_chain *l = f->waiters.next; l != &f->waiters; l = l->next) {
    if (!(FS_ITEM(l, struct fs_waiter, chain)->flags & FS_REQ_PREFETCH)) return false;
  }
  return true;
}

void fs_fetch_finish(struct fs_daemon *d, struct fs_fetch *f, fs_err err, uint32_t line) {
  bool hit = f->disk; /* the first waiter caused the fetch; for the others it is a hit */
  for (struct fs_chain *link; (link = fs_chain_pop(&f->waiters)) != NULL; hit = true) {
    fs_waiter_answer(FS_ITEM(link, struct fs_waiter, chain), err, line, hit);
  }
  fs_fetch_free(d->fetcher, f);
}

/* Takes deferred requests in their order, as many as there are free fetches. */
static void fs_fetch_deferred(struct fs_daemon *d) {
  struct fs_fetcher *t = d->fetcher;
  while (!fs_chain_empty(&t->deferred) && !fs_chain_empty(&t->free_fetches)) {
    fs_fetch_request(d, FS_ITEM(fs_chain_pop(&t->deferred), struct fs_waiter, chain));
  }
}

void fs_fetch_timers(struct fs_daemon *d) {
  if (d->now >= d->fetcher->timer) {
    d->fetcher->timer = d->now + FS_TIMER_NS;
    fs_exchange_timers(d);
  }
  fs_fetch_deferred(d);
  fs_exchange_pump(d);
}

bool fs_fetch_busy(const struct fs_daemon *d) {
  return d->fetcher->flying > 0 || d->fetcher->reading > 0;
}

uint32_t fs_fetch_flying(const struct fs_daemon *d) {
  return d->fetcher->flying;
}

/* Says how much came from each node. Escaping may triple a list: the line still fits. */
void fs_fetch_leave(struct fs_daemon *d, int status) {
  struct fs_control_line line;
  char list[FS_CONTROL_LINE / 4] = "";
  size_t n = 0;
  for (uint32_t i = 0; status == 0 && d->fetcher && i < d->net->nodes; i++) {
    const struct fs_peer *p = &d->fetcher->peer[i];
    if (p->fetched > 0)
      n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%u:%llu:%llu:%llu", n > 0 ? "," : "", i,
                            (unsigned long long)p->fetched, (unsigned long long)p->fetched_bytes,
                            (unsigned long long)(p->fetched_ns / 1000));
    if (n == 0 || (n < sizeof(list) - 80 && i + 1 < d->net->nodes)) continue;
    if (fs_say_begin(d, &line, "fetched") == 0 && fs_control_add(&line, "from", list) == 0) fs_say_line(&line);
    n = 0;
  }
}

fs_err fs_fetcher_new(struct fs_daemon *d) {
  struct fs_fetcher *t = calloc(1, sizeof(*t));
  if (!t) return -ENOMEM;
  fs_chain_init(&t->free_fetches);
  fs_chain_init(&t->deferred);
  for (uint32_t i = 0; i < FS_FETCHES; i++) {
    fs_chain_init(&t->fetch[i].waiters);
    fs_chain_push(&t->free_fetches, &t->fetch[i].chain);
  }
  d->fetcher = t;
  return fs_exchange_init(d);
}
