/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The threads between the plan and the store. They claim batches of chunks in order and finish them
 * in any order; the store takes them in order. One mutex protects the cursor and the ring. The
 * ring's slots keep their memory and limit it, so a slow disk delays the readers. The next batch
 * that the store takes is always claimed already, so there is no deadlock.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pack.h"

#define AHEAD 8u /* slots, plus two for each thread: one being filled, one waiting */

struct slot {
  struct fs_batch batch;
  bool done;
};

const struct fs_pack_nodes *fs_pack_nodes;

struct fs_pipeline {
  const struct fs_plan *plan;
  pthread_mutex_t lock;
  pthread_cond_t room; /* for the threads: a batch was taken */
  pthread_cond_t done; /* for the store: the next batch is done */
  uint64_t at, offset; /* cursor: the next chunk to claim; `at` counts in plan->order */
  uint64_t claimed, taken;
  bool stop;
  unsigned nthreads;
  pthread_t *threads;
  uint64_t nslots;
  struct slot ring[];
};

/* Returns true if there is a chunk to claim. */
static bool cursor_ready(const struct fs_pipeline *p) {
  return p->at < p->plan->norder;
}

static const struct fs_item *next_item(const struct fs_pipeline *p) {
  return &p->plan->tree->items[p->plan->order[p->at]];
}

/* Returns the chunk at the cursor, and advances the cursor. */
static struct fs_chunk next_chunk(struct fs_pipeline *p) {
  const uint64_t size = next_item(p)->size, len = FS_MIN(size - p->offset, p->plan->chunk);
  struct fs_chunk c = {.item = p->plan->order[p->at], .offset = p->offset, .plain_len = len, .whole = len == size};
  p->offset += len;
  if (p->offset == size) {
    p->at++;
    p->offset = 0;
  }
  return c;
}

/* Fills a batch with a large chunk, or with as many small ones as fit. */
static void fill_batch(struct fs_pipeline *p, struct fs_batch *b) {
  uint64_t bytes = 0;
  b->n = 0;
  b->err = 0;
  b->stream = fs_item_stream(p->plan->tree, next_item(p));
  while (b->n < FS_BATCH_CHUNKS && cursor_ready(p)) {
    uint64_t len = FS_MIN(next_item(p)->size - p->offset, p->plan->chunk);
    if (b->n != 0 && bytes + len > FS_BATCH_BYTES) break;
    if (fs_item_stream(p->plan->tree, next_item(p)) != b->stream) break;
    b->chunk[b->n++] = next_chunk(p);
    bytes += len;
  }
  if (b->stream != NULL) b->turn = fs_stream_turn(b->stream);
}

/* Waits for room and claims the next batch. Returns NULL at the end or when stopped. Called with
   the lock. */
static struct slot *claim(struct fs_pipeline *p) {
  for (;;) {
    if (p->stop || !cursor_ready(p)) return NULL;
    if (p->claimed - p->taken < p->nslots) break;
    pthread_cond_wait(&p->room, &p->lock);
  }
  struct slot *s = &p->ring[p->claimed++ % p->nslots];
  s->done = false;
  fill_batch(p, &s->batch);
  return s;
}

static void encode(const struct fs_plan *plan, struct fs_batch *b, uint8_t *plain, struct fs_encoder *encoder) {
  if (plain == NULL || encoder == NULL || fs_batch_room(plan, b) < 0) {
    b->err = -ENOMEM;
    if (b->stream != NULL) fs_stream_fail(b->stream, -ENOMEM);
  } else {
    fs_encode_batch(plan, b, plain, encoder);
  }
}

static void *work(void *arg) {
  struct fs_pipeline *p = arg;
  FS_AUTO_FREE uint8_t *plain = malloc(fs_batch_plain(p->plan));
  struct fs_encoder *encoder = fs_encoder_new();
  pthread_mutex_lock(&p->lock);
  for (struct slot *s; (s = claim(p)) != NULL;) {
    pthread_mutex_unlock(&p->lock);
    encode(p->plan, &s->batch, plain, encoder);
    pthread_mutex_lock(&p->lock);
    s->done = true;
    if (s == &p->ring[p->taken % p->nslots]) pthread_cond_signal(&p->done);
  }
  pthread_cond_broadcast(&p->room);
  pthread_cond_signal(&p->done);
  pthread_mutex_unlock(&p->lock);
  fs_encoder_free(encoder);
  return NULL;
}

struct fs_pipeline *fs_pipeline_start(const struct fs_plan *plan, uint64_t at, uint64_t offset) {
  const unsigned jobs = fs_pack_nodes != NULL ? 0 : plan->opts->jobs;
  const uint64_t nslots = fs_pack_nodes != NULL ? fs_pack_nodes->window() : AHEAD + 2ull * jobs;
  struct fs_pipeline *p = calloc(1, sizeof *p + nslots * sizeof p->ring[0]);
  if (p == NULL) return NULL;
  p->plan = plan;
  p->at = at;
  p->offset = offset;
  p->nslots = nslots;
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->room, NULL);
  pthread_cond_init(&p->done, NULL);
  p->threads = calloc(jobs + 1u, sizeof *p->threads);
  while (p->threads != NULL && p->nthreads < jobs && fs_prep_thread(&p->threads[p->nthreads], work, p)) p->nthreads++;
  if (p->nthreads != 0 || (p->threads != NULL && jobs == 0)) return p;
  fs_pipeline_stop(p);
  return NULL;
}

const struct fs_item *fs_pipeline_stream_item(const struct fs_pipeline *p) {
  return cursor_ready(p) && fs_item_stream(p->plan->tree, next_item(p)) != NULL ? next_item(p) : NULL;
}

struct fs_batch *fs_pipeline_claim(struct fs_pipeline *p, uint64_t *number) {
  if (!cursor_ready(p) || p->claimed - p->taken == p->nslots) return NULL;
  *number = p->claimed;
  return &claim(p)->batch;
}

struct fs_batch *fs_pipeline_claimed(struct fs_pipeline *p, uint64_t number) {
  struct slot *s = &p->ring[number % p->nslots];
  return number >= p->taken && number < p->claimed && !s->done ? &s->batch : NULL;
}

void fs_pipeline_encoded(struct fs_pipeline *p, uint64_t number) {
  p->ring[number % p->nslots].done = true;
}

uint64_t fs_pipeline_taken(const struct fs_pipeline *p) {
  return p->taken;
}

int fs_pipeline_next(struct fs_pipeline *p, struct fs_batch **batch) {
  fs_err err = fs_pack_nodes != NULL ? fs_pack_nodes->step(p) : 0;
  if (err < 0) return err;
  uint64_t deadline = fs_now_ns() + (fs_pack_nodes != NULL ? 0 : 100000000ull);
  struct timespec until = {.tv_sec = (time_t)(deadline / 1000000000ull), .tv_nsec = (long)(deadline % 1000000000ull)};
  int found = 0, waited = 0;
  pthread_mutex_lock(&p->lock);
  for (;;) {
    struct slot *s = &p->ring[p->taken % p->nslots];
    if (p->taken == p->claimed && !cursor_ready(p)) {
      found = -ENODATA;
      break;
    }
    if (p->taken < p->claimed && s->done) {
      *batch = &s->batch;
      found = 1;
      break;
    }
    if (waited != 0) break;
    waited = pthread_cond_clockwait(&p->done, &p->lock, CLOCK_MONOTONIC, &until);
  }
  pthread_mutex_unlock(&p->lock);
  return found;
}

void fs_pipeline_done(struct fs_pipeline *p) {
  pthread_mutex_lock(&p->lock);
  p->taken++;
  pthread_cond_signal(&p->room);
  pthread_mutex_unlock(&p->lock);
}

void fs_pipeline_stop(struct fs_pipeline *p) {
  pthread_mutex_lock(&p->lock);
  p->stop = true;
  pthread_cond_broadcast(&p->room);
  pthread_mutex_unlock(&p->lock);
  for (unsigned i = 0; i < p->nthreads; i++) pthread_join(p->threads[i], NULL);
  for (uint64_t i = 0; i < p->nslots; i++) fs_batch_free(&p->ring[i].batch);
  pthread_mutex_destroy(&p->lock);
  pthread_cond_destroy(&p->room);
  pthread_cond_destroy(&p->done);
  free(p->threads);
  free(p);
}
