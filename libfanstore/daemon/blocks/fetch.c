/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The blocks that this node's clients wait for (fetch.h). Each block has one fetch, however many
 * clients wait. Owners are tried in the placement's order, and every request gets an answer. The
 * MPI thread's. Requests come from clients' memory, so every field is checked against the index
 * here.
 */
#include "daemon/blocks/fetch.h"

#include <stdlib.h>

#include "util/util.h"

#define FS_TRIED_LOCAL (1u << 31)
#define FS_TIMER_NS 5000000ull

static struct fs_fetch **fs_fetch_bucket(struct fs_fetcher *t, uint64_t key) {
  return &t->hash[fs_cache_bucket(key) & (FS_FETCH_HASH - 1)];
}

static struct fs_fetch *fs_fetch_lookup(struct fs_fetcher *t, uint64_t key) {
  struct fs_fetch *f = *fs_fetch_bucket(t, key);
  while (f && f->key != key) f = f->hash_next;
  return f;
}

static const struct fs_placement *fs_fetch_place(struct fs_daemon *d, const struct fs_fetch *f) {
  return &d->data[f->dataset].place[f->block.partition];
}

bool fs_fetch_intact(struct fs_daemon *d, const void *bytes, uint32_t len, uint64_t xxh3) {
  if (d->cfg->unverified) return true;
  if (fs_xxh3(bytes, len) == xxh3) return true;
  d->count.checksum_errors++;
  return false;
}

uint32_t fs_fetch_chances(struct fs_daemon *d, const struct fs_fetch *f) {
  if (f->file != 0) return 1;
  const struct fs_placement *p = fs_fetch_place(d, f);
  uint32_t n = 1;
  for (uint32_t i = 0; i < p->owners; i++) {
    if (!(f->tried & 1u << i) && p->owner[i] != d->net->rank && fs_peer_prompt(d, p->owner[i])) n++;
  }
  return n;
}

/* ---- this node's own partition ---- */

static void fs_fetch_local_done(struct fs_io *io) {
  struct fs_fetch *f = FS_ITEM(io, struct fs_fetch, io);
  struct fs_daemon *d = f->d;
  d->fetcher->reading--;
  if (io->err == 0 && fs_fetch_intact(d, io->buf, f->block.stored_len, f->block.xxh3)) {
    fs_cache_publish(d->cache, f->line);
    fs_fetch_finish(d, f, 0, f->line);
  } else {
    fs_cache_abort(d->cache, f->line);
    fs_fetch_route(d, f);
  }
}

/* Reads a block of a local copy that the client could not read by itself, and checks it. */
static void fs_fetch_local(struct fs_daemon *d, struct fs_fetch *f) {
  void *buf;
  struct fs_dataset *ds = &d->data[f->dataset];
  int64_t line = fs_cache_alloc(d->cache, f->key, f->block.stored_len, &buf);
  if (line < 0) {
    fs_fetch_finish(d, f, (fs_err)line, 0);
    return;
  }
  f->line = (uint32_t)line;
  f->io = (struct fs_io){.fd = ds->fd[f->block.partition],
                         .dir = ds->stage.local,
                         .part = f->block.partition,
                         .len = f->block.stored_len,
                         .off = f->block.offset,
                         .buf = (char *)buf + FS_CACHE_HEADROOM,
                         .done = fs_fetch_local_done};
  d->fetcher->reading++;
  fs_iopool_submit(&d->pool, &f->io);
}

/* ---- the life of a fetch ---- */

/* Another owner that is `good`: false if there is none. */
static bool fs_fetch_ask(struct fs_daemon *d, struct fs_fetch *f, bool (*good)(const struct fs_daemon *, uint32_t)) {
  const struct fs_placement *p = fs_fetch_place(d, f);
  for (uint32_t i = 0; i < p->owners; i++) {
    if ((f->tried & 1u << i) || p->owner[i] == d->net->rank || !good(d, p->owner[i])) continue;
    f->tried |= 1u << i;
    fs_peer_enqueue(d, p->owner[i], f);
    return true;
  }
  return false;
}

static void fs_dataset_route(struct fs_daemon *d, struct fs_fetch *f) {
  const struct fs_placement *p = fs_fetch_place(d, f);
  if (!(f->tried & FS_TRIED_LOCAL)) {
    f->tried |= FS_TRIED_LOCAL;
    if (p->flags & FS_PLACE_LOCAL) {
      fs_fetch_local(d, f);
      return;
    }
  }
  if (fs_fetch_ask(d, f, fs_peer_prompt) || (f->patient && fs_fetch_ask(d, f, fs_peer_usable))) return;
  fs_fetch_finish(d, f, -EREMOTEIO, 0);
}

static fs_err fs_dataset_resolve(const struct fs_daemon *d, uint64_t key, struct fs_block *b) {
  uint32_t dataset = FS_CACHE_KEY_DATASET(key);
  if (dataset >= d->datasets || FS_CACHE_KEY(dataset, FS_CACHE_KEY_BLOCK(key)) != key) return -EINVAL;
  const struct fs_dataset *ds = &d->data[dataset];
  fs_err err = fs_index_block_by_key(&ds->stage.index, FS_CACHE_KEY_BLOCK(key), b);
  if (err < 0) return err;
  if (b->partition >= ds->partitions || b->stored_len == 0 || b->stored_len > ds->max_stored) return -EINVAL;
  return 0;
}

const struct fs_block_source fs_dataset_blocks = {.resolve = fs_dataset_resolve, .route = fs_dataset_route};

static const struct fs_block_source *fs_fetch_source(uint64_t key) {
  return fs_block_sources[FS_KEY_OF_OUTPUT(key) ? FS_BLOCKS_OUTPUT : FS_BLOCKS_DATASET];
}

static fs_err fs_fetch_resolve(const struct fs_daemon *d, uint64_t key, struct fs_block *b) {
  return fs_fetch_source(key)->resolve(d, key, b);
}

void fs_fetch_route(struct fs_daemon *d, struct fs_fetch *f) {
  fs_fetch_source(f->key)->route(d, f);
}

static struct fs_fetch *fs_fetch_new(struct fs_daemon *d, uint64_t key, const struct fs_block *b) {
  struct fs_fetcher *t = d->fetcher;
  struct fs_chain *link = fs_chain_pop(&t->free_fetches);
  if (!link) return NULL;
  struct fs_fetch *f = FS_ITEM(link, struct fs_fetch, chain);
  t->live++;
  f->key = key;
  f->dataset = FS_CACHE_KEY_DATASET(key);
  f->block = *b;
  f->file = 0;
  f->tried = 0;
  f->ahead = f->patient = false;
  f->started = d->now;
  f->full_since = 0;
  f->d = d;
  fs_chain_init(&f->waiters);
  struct fs_fetch **bucket = fs_fetch_bucket(t, f->key);
  f->hash_next = *bucket;
  *bucket = f;
  const struct fs_block_source *source = fs_fetch_source(key);
  if (source->begin) source->begin(d, f);
  return f;
}

void fs_fetch_request(struct fs_daemon *d, struct fs_waiter *w) {
  struct fs_fetcher *t = d->fetcher;
  struct fs_block b;
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
  fs_err err = fs_fetch_resolve(d, w->key, &b);
  if (err < 0) {
    fs_waiter_answer(w, err, 0, false);
    return;
  }
  f = fs_fetch_new(d, w->key, &b);
  if (!f) {
    fs_chain_push(&t->deferred, &w->chain);
    return;
  }
  f->patient = w->flags & FS_REQ_PATIENT;
  fs_chain_push(&f->waiters, &w->chain);
  fs_fetch_route(d, f);
}

bool fs_fetch_ahead(struct fs_daemon *d, uint64_t key) {
  struct fs_fetcher *t = d->fetcher;
  struct fs_block b;
  if (fs_fetch_resolve(d, key, &b) < 0 || fs_cache_find(d->cache, key) >= 0 || fs_fetch_lookup(t, key)) return false;
  struct fs_fetch *f = fs_fetch_new(d, key, &b);
  if (!f) return false;
  f->ahead = true;
  t->ahead++;
  t->ahead_bytes += b.stored_len;
  d->count.prefetched++;
  fs_fetch_route(d, f);
  return true;
}

static void fs_fetch_free(struct fs_fetcher *t, struct fs_fetch *f) {
  struct fs_fetch **at = fs_fetch_bucket(t, f->key);
  while (*at != f) at = &(*at)->hash_next;
  *at = f->hash_next;
  const struct fs_block_source *source = fs_fetch_source(f->key);
  if (source->done) source->done(f->d, f);
  t->live--;
  if (f->ahead) {
    t->ahead--;
    t->ahead_bytes -= f->block.stored_len;
  }
  fs_chain_push(&t->free_fetches, &f->chain);
}

void fs_fetch_finish(struct fs_daemon *d, struct fs_fetch *f, fs_err err, uint32_t line) {
  bool hit = false; /* the first waiter caused the fetch; for the others it is a hit */
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
