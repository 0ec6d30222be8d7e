/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The threads between the walk and the store. They claim chunks in order and finish them in any; the store takes them
 * in order again. One mutex guards the cursor and the ring. The bytes claimed and not yet taken are bounded, so that a
 * slow disk holds the readers back; the next chunk to be taken is always claimed already, so this cannot lock up.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pack.h"

#define RING 4096u
#define IN_FLIGHT (64ull << 20) /* and a chunk for each thread */

struct slot {
  struct fs_chunk chunk;
  bool done;
};

struct fs_pipeline {
  const struct fs_plan *plan;
  pthread_mutex_t lock;
  pthread_cond_t room;   /* for the threads: a chunk was taken */
  pthread_cond_t done;   /* for the store: the next chunk is done */
  uint64_t item, offset; /* cursor: the next chunk to be claimed */
  uint64_t claimed, taken;
  uint64_t in_flight, cap;
  bool stop;
  unsigned nthreads;
  pthread_t *threads;
  struct slot ring[RING];
};

/* Moves the cursor to where content is. False at the end. */
static bool cursor_ready(struct fs_pipeline *p) {
  const struct fs_tree *tree = p->plan->tree;
  for (; p->item < tree->n; p->item++, p->offset = 0) {
    const struct fs_item *item = &tree->items[p->item];
    if (S_ISREG(item->mode) && !item->alias && p->offset < item->size) return true;
  }
  return false;
}

static uint64_t cursor_len(const struct fs_pipeline *p) {
  return FS_MIN(p->plan->tree->items[p->item].size - p->offset, p->plan->chunk);
}

/* Waits for room and claims the next chunk; NULL at the end or when stopped. Under the lock. */
static struct slot *claim(struct fs_pipeline *p) {
  for (;;) {
    if (p->stop || !cursor_ready(p)) return NULL;
    bool room = p->in_flight == 0 || p->in_flight + cursor_len(p) <= p->cap;
    if (room && p->claimed - p->taken < RING) break;
    pthread_cond_wait(&p->room, &p->lock);
  }
  uint64_t size = p->plan->tree->items[p->item].size, len = cursor_len(p);
  struct slot *s = &p->ring[p->claimed++ % RING];
  s->done = false;
  s->chunk = (struct fs_chunk){.item = p->item, .offset = p->offset, .plain_len = len, .whole = len == size};
  p->offset += len;
  p->in_flight += len;
  return s;
}

static void *work(void *arg) {
  struct fs_pipeline *p = arg;
  pthread_mutex_lock(&p->lock);
  for (struct slot *s; (s = claim(p)) != NULL;) {
    pthread_mutex_unlock(&p->lock);
    fs_encode_chunk(p->plan, &s->chunk);
    pthread_mutex_lock(&p->lock);
    s->done = true;
    if (s == &p->ring[p->taken % RING]) pthread_cond_signal(&p->done);
  }
  pthread_cond_broadcast(&p->room);
  pthread_cond_signal(&p->done);
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

static unsigned start_threads(struct fs_pipeline *p, unsigned jobs) {
  unsigned n = 0;
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the main thread's */
  while (n < jobs && pthread_create(&p->threads[n], NULL, work, p) == 0) n++;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return n;
}

struct fs_pipeline *fs_pipeline_start(const struct fs_plan *plan) {
  unsigned jobs = plan->opts->jobs;
  struct fs_pipeline *p = calloc(1, sizeof *p);
  if (p == NULL) return NULL;
  p->plan = plan;
  p->cap = IN_FLIGHT + jobs * plan->chunk;
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->room, NULL);
  pthread_cond_init(&p->done, NULL);
  p->threads = calloc(jobs, sizeof *p->threads);
  if (p->threads != NULL) p->nthreads = start_threads(p, jobs);
  if (p->nthreads != 0) return p;
  fs_pipeline_stop(p);
  return NULL;
}

int fs_pipeline_next(struct fs_pipeline *p, struct fs_chunk *chunk) {
  uint64_t deadline = fs_now_ns() + 100000000ull;
  struct timespec until = {.tv_sec = (time_t)(deadline / 1000000000ull), .tv_nsec = (long)(deadline % 1000000000ull)};
  int found = 0, waited = 0;
  pthread_mutex_lock(&p->lock);
  for (;;) {
    struct slot *s = &p->ring[p->taken % RING];
    if (p->taken == p->claimed && !cursor_ready(p)) {
      found = -ENODATA;
      break;
    }
    if (p->taken < p->claimed && s->done) {
      *chunk = s->chunk;
      p->taken++;
      p->in_flight -= chunk->plain_len;
      pthread_cond_signal(&p->room);
      found = 1;
      break;
    }
    if (waited != 0) break;
    waited = pthread_cond_clockwait(&p->done, &p->lock, CLOCK_MONOTONIC, &until);
  }
  pthread_mutex_unlock(&p->lock);
  return found;
}

void fs_pipeline_stop(struct fs_pipeline *p) {
  pthread_mutex_lock(&p->lock);
  p->stop = true;
  pthread_cond_broadcast(&p->room);
  pthread_mutex_unlock(&p->lock);
  for (unsigned i = 0; i < p->nthreads; i++) pthread_join(p->threads[i], NULL);
  for (uint64_t i = p->taken; i < p->claimed; i++) fs_chunk_free(&p->ring[i % RING].chunk);
  pthread_mutex_destroy(&p->lock);
  pthread_cond_destroy(&p->room);
  pthread_cond_destroy(&p->done);
  free(p->threads);
  free(p);
}
