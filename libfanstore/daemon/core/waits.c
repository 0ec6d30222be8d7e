/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long each client process waits in reads, and for which files: what the sampler says of it
 * (daemon/sample). The MPI thread's. Nothing read from a channel is trusted.
 */
#include <unistd.h>

#include "daemon/daemon.h"
#include "ipc/channel.h"

static uint64_t counter(const struct fs_client *c, unsigned i) {
  return atomic_load_explicit(&c->channel->counter[i], memory_order_relaxed);
}

/* A process counts if it used a dataset. A shell that only ran other programs does not. */
static bool used(const struct fs_client *c) {
  return c->pid != (uint32_t)getpid() && (counter(c, FS_C_OPENS) > 0 || counter(c, FS_C_WAIT_NS) > 0);
}

static void add(struct fs_process_waits *w, const struct fs_client *c) {
  if (!used(c)) return;
  uint64_t us = counter(c, FS_C_WAIT_NS) / 1000;
  w->us.count[fs_latency_bucket(us)]++;
  if (us < w->worst_us || (us == w->worst_us && w->worst_pid != 0)) return;
  w->worst_us = us;
  w->worst_pid = c->pid;
}

void fs_clients_waits_dead(struct fs_daemon *d, const struct fs_client *c) {
  add(&d->clients.dead_waits, c);
}

void fs_clients_waits(const struct fs_daemon *d, struct fs_process_waits *w) {
  uint32_t high = atomic_load(&d->clients.high);
  *w = d->clients.dead_waits;
  for (uint32_t i = 0; i < high; i++) {
    const struct fs_client *c = atomic_load(&d->clients.slot[i]);
    if (c) add(w, c);
  }
}

uint64_t fs_clients_worst(struct fs_daemon *d, uint64_t ns) {
  uint32_t high = atomic_load(&d->clients.high);
  uint64_t most = 0;
  for (uint32_t i = 0; i < high; i++) {
    struct fs_client *c = atomic_load(&d->clients.slot[i]);
    uint64_t now = c ? counter(c, FS_C_WAIT_NS) : 0;
    if (!c) continue;
    if (now > c->waited_ns) most = FS_MAX(most, now - c->waited_ns);
    c->waited_ns = now;
  }
  return ns == 0 ? 0 : most >= ns ? 100 : most * 100 / ns;
}

bool fs_clients_waited(struct fs_client *c, uint64_t *file, uint64_t *us, uint64_t *bytes) {
  struct fs_wait_rec *rec = &c->channel->wait[c->waits_tail % FS_WAIT_RING];
  *file = atomic_load_explicit(&rec->file, memory_order_acquire);
  if (*file == 0) return false;
  uint64_t read = atomic_load_explicit(&rec->read, memory_order_relaxed);
  *us = read >> 32;
  *bytes = read & UINT32_MAX;
  atomic_store_explicit(&rec->file, 0, memory_order_relaxed);
  atomic_store_explicit(&c->channel->waits_tail, ++c->waits_tail, memory_order_release);
  return true;
}
