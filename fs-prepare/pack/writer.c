/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the partitions' buffers, by a few threads that mostly wait for the disk. If the file
 * system can, they write past the page cache. Copying into the cache and writing it back takes as
 * much processor time as fast compression, pushes the source out of memory, and leaves the disk
 * idle until the end. Called by parts.c. One mutex protects everything.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pack.h"

#define MEMORY (32u << 20)
#define LARGEST (2u << 20)
#define THREADS 4u
#define SPARE (2 * THREADS) /* buffers that are written or wait for it */

struct fs_writer {
  pthread_mutex_t lock;
  pthread_cond_t work; /* for the threads */
  pthread_cond_t done; /* for the thread that waits */
  struct fs_write *free, *first, **last;
  uint32_t pending; /* of all files */
  fs_err err;       /* the first error; nothing is written after it */
  bool stop;
  size_t size, slab_size;
  uint8_t *slab;
  unsigned nthreads;
  pthread_t threads[THREADS];
  struct fs_write buf[];
};

void fs_write_direct(int fd) {
  int64_t flags = fs_sys_fcntl(fd, F_GETFL, 0);
  if (flags >= 0) fs_sys_fcntl(fd, F_SETFL, (long)flags | O_DIRECT);
}

/* Some file systems accept the flag and refuse the write; so does one on which a limit leaves half
   a page. If two threads are refused, only one finds the flag still set. */
fs_err fs_write_pages(int fd, const void *data, size_t n, uint64_t at) {
  fs_err err = fs_pwrite_full(fd, data, n, at);
  if (err != -EINVAL && err != -EOPNOTSUPP) return err;
  int64_t flags = fs_sys_fcntl(fd, F_GETFL, 0);
  if (flags < 0 || ((flags & O_DIRECT) && fs_sys_fcntl(fd, F_SETFL, (long)flags & ~O_DIRECT) < 0)) return err;
  return fs_pwrite_full(fd, data, n, at);
}

static void *work(void *arg) {
  struct fs_writer *w = arg;
  pthread_mutex_lock(&w->lock);
  for (;;) {
    while (w->first == NULL && !w->stop) pthread_cond_wait(&w->work, &w->lock);
    if (w->stop) break;
    struct fs_write *b = w->first;
    fs_err err = w->err;
    w->first = b->next;
    if (w->first == NULL) w->last = &w->first;
    pthread_mutex_unlock(&w->lock);
    if (err == 0) err = fs_write_pages(b->fd, b->data, b->used, b->at);
    pthread_mutex_lock(&w->lock);
    if (w->err == 0) w->err = err;
    --*b->pending;
    w->pending--;
    b->next = w->free;
    w->free = b;
    pthread_cond_signal(&w->done);
  }
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

struct fs_writer *fs_writer_start(uint32_t files) {
  const uint32_t n = files + SPARE;
  struct fs_writer *w = calloc(1, sizeof *w + n * sizeof w->buf[0]);
  if (w == NULL) return NULL;
  for (w->size = LARGEST; w->size > FS_ALIGN && w->size * n > MEMORY;) w->size /= 2;
  w->slab_size = w->size * n;
  w->slab = fs_sys_mmap(NULL, w->slab_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->work, NULL);
  pthread_cond_init(&w->done, NULL);
  w->last = &w->first;
  if (fs_sys_mmap_failed(w->slab)) w->slab = NULL;
  while (w->slab != NULL && w->nthreads < THREADS && fs_prep_thread(&w->threads[w->nthreads], work, w)) w->nthreads++;
  if (w->nthreads == 0) {
    fs_writer_stop(w);
    return NULL;
  }
  madvise(w->slab, w->slab_size, MADV_HUGEPAGE); /* fewer pages to make and to pin */
  for (uint32_t i = n; i-- > 0;) {
    w->buf[i] = (struct fs_write){.data = w->slab + i * w->size, .next = w->free};
    w->free = &w->buf[i];
  }
  return w;
}

size_t fs_writer_size(const struct fs_writer *w) {
  return w->size;
}

/* Waits for a write to end, for a limited time. Called with the lock. */
static fs_err wait_a_while(struct fs_writer *w) {
  uint64_t deadline = fs_now_ns() + 100000000ull;
  struct timespec until = {.tv_sec = (time_t)(deadline / 1000000000ull), .tv_nsec = (long)(deadline % 1000000000ull)};
  pthread_cond_clockwait(&w->done, &w->lock, CLOCK_MONOTONIC, &until);
  return fs_prep_signal != 0 ? -EINTR : 0;
}

fs_err fs_writer_get(struct fs_writer *w, struct fs_write **buf) {
  pthread_mutex_lock(&w->lock);
  fs_err err = w->err;
  while (err == 0 && w->free == NULL) {
    err = wait_a_while(w);
    if (err == 0) err = w->err;
  }
  if (err == 0) {
    *buf = w->free;
    w->free = w->free->next;
    (*buf)->used = 0;
  }
  pthread_mutex_unlock(&w->lock);
  return err;
}

void fs_writer_put(struct fs_writer *w, struct fs_write *buf) {
  pthread_mutex_lock(&w->lock);
  ++*buf->pending;
  w->pending++;
  buf->next = NULL;
  *w->last = buf;
  w->last = &buf->next;
  pthread_cond_signal(&w->work);
  pthread_mutex_unlock(&w->lock);
}

fs_err fs_writer_wait(struct fs_writer *w, const uint32_t *pending) {
  fs_err err = 0;
  pthread_mutex_lock(&w->lock);
  if (pending == NULL) pending = &w->pending;
  while (err == 0 && *pending != 0) err = wait_a_while(w);
  if (w->err < 0) err = w->err;
  pthread_mutex_unlock(&w->lock);
  return err;
}

void fs_writer_stop(struct fs_writer *w) {
  if (w == NULL) return;
  pthread_mutex_lock(&w->lock);
  w->stop = true;
  pthread_cond_broadcast(&w->work);
  pthread_mutex_unlock(&w->lock);
  for (unsigned i = 0; i < w->nthreads; i++) pthread_join(w->threads[i], NULL);
  pthread_mutex_destroy(&w->lock);
  pthread_cond_destroy(&w->work);
  pthread_cond_destroy(&w->done);
  if (w->slab != NULL) fs_sys_munmap(w->slab, w->slab_size);
  free(w);
}
