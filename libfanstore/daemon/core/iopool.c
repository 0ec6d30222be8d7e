/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pools of threads that do work on which the MPI thread would block, mostly disk reads. Work goes
 * in and results come out through one mutex, and an eventfd wakes the MPI thread. The owners of the
 * work (serve.c, fetch.c) bound its amount.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "util/sys.h"
#include "util/util.h"

/* Reads a span into memory. */
static fs_err fs_io_populate(struct fs_span s) {
  return madvise((void *)s.at, s.len, MADV_POPULATE_READ) < 0 ? -errno : 0;
}

static fs_err fs_io_read(struct fs_io *io) {
  if (io->work) return io->work(io);
  if (io->span.len > 0) return fs_io_populate(io->span);
  if (io->fd >= 0) return fs_pread_full(io->fd, io->buf, io->len, io->off);
  char path[PATH_MAX], name[FS_PART_NAME_SIZE];
  int n = snprintf(path, sizeof(path), "%s/%s", io->dir, fs_part_name(io->part, name));
  if (n >= (int)sizeof(path)) return -ENAMETOOLONG;
  FS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return -errno;
  return fs_pread_full(fd, io->buf, io->len, io->off);
}

static void *fs_iopool_main(void *arg) {
  struct fs_iopool *p = arg;
  pthread_mutex_lock(&p->lock);
  for (;;) {
    while (!p->head) pthread_cond_wait(&p->work, &p->lock);
    struct fs_io *io = p->head;
    p->head = io->next;
    pthread_mutex_unlock(&p->lock);
    io->err = fs_io_read(io);
    pthread_mutex_lock(&p->lock);
    io->next = p->finished;
    p->finished = io;
    uint64_t one = 1;
    /* If there were others, the MPI thread has been woken and has not taken them yet. */
    if (atomic_fetch_add(&p->nfinished, 1) == 0) (void)fs_sys_write(p->wake, &one, sizeof(one));
  }
  return NULL;
}

fs_err fs_iopool_start(struct fs_iopool *p, uint32_t threads, int wake) {
  p->wake = wake;
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->work, NULL);
  fs_err err = 0;
  for (uint32_t i = 0; err == 0 && i < threads; i++) err = fs_thread_start(fs_iopool_main, p);
  return err;
}

void fs_iopool_submit(struct fs_iopool *p, struct fs_io *io) {
  io->next = NULL;
  pthread_mutex_lock(&p->lock);
  if (p->head)
    p->tail->next = io;
  else
    p->head = io;
  p->tail = io;
  p->live++;
  pthread_cond_signal(&p->work);
  pthread_mutex_unlock(&p->lock);
}

int fs_iopool_reap(struct fs_iopool *p) {
  int n = 0;
  if (atomic_load_explicit(&p->nfinished, memory_order_acquire) == 0) return 0;
  pthread_mutex_lock(&p->lock);
  struct fs_io *io = p->finished;
  p->finished = NULL;
  p->live -= atomic_exchange(&p->nfinished, 0);
  pthread_mutex_unlock(&p->lock);
  while (io) {
    struct fs_io *next = io->next;
    io->done(io);
    io = next;
    n++;
  }
  return n;
}
