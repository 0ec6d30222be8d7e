/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of this node's clients and their channels. The guard adds a client before it is
 * welcomed, so no pin can exist in a channel that an eviction does not scan. The MPI thread removes
 * it. Nothing read from a channel is trusted: a request's fields are copied once and checked by
 * fetch.c.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/module.h"
#include "ipc/channel.h"
#include "util/sys.h"

static fs_fd fs_channel_make(uint32_t pid, struct fs_channel **out) {
  FS_AUTO_CLOSE int fd = memfd_create("fanstore-channel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -errno;
  if (ftruncate(fd, sizeof(struct fs_channel)) < 0) return -errno;
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) return -errno;
  struct fs_channel *ch = mmap(NULL, sizeof(*ch), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (ch == MAP_FAILED) return -errno;
  ch->version = FS_IPC_VERSION;
  ch->pid = pid;
  ch->magic = FS_CHANNEL_MAGIC;
  *out = ch;
  return FS_MOVE_FD(fd);
}

/* Returns the first free place of the table. Only the guard takes places. */
static uint32_t fs_clients_place(struct fs_daemon *d) {
  uint32_t i = 0;
  while (i < FS_MAX_CLIENTS && atomic_load(&d->clients.slot[i]) != NULL) i++;
  return i;
}

struct fs_client *fs_clients_add(struct fs_daemon *d, uint32_t pid, int *channel_fd, fs_err *err) {
  uint32_t at = fs_clients_place(d);
  *err = -EUSERS;
  if (at == FS_MAX_CLIENTS) return NULL;
  *err = -ENOMEM;
  struct fs_client *c = calloc(1, sizeof(*c));
  if (!c) return NULL;
  c->number = at;
  c->pid = pid;
  *channel_fd = fs_channel_make(pid, &c->channel);
  if (*channel_fd < 0 || !c->channel) {
    if (*channel_fd < 0) *err = *channel_fd;
    free(c);
    return NULL;
  }
  if (d->clients.serial < FS_OUTPUT_ID_CLIENTS)
    c->channel->first_id = c->first_id = FS_OUTPUT_ID_FIRST(d->net->rank, d->clients.serial++);
  for (uint32_t i = 0; i < FS_CHANNEL_SLOTS; i++) {
    fs_chain_init(&c->waiter[i].chain);
    c->waiter[i].client = c;
  }
  atomic_store(&d->clients.slot[at], c);
  if (at >= atomic_load(&d->clients.high)) atomic_store(&d->clients.high, at + 1);
  atomic_fetch_add(&d->clients.attached, 1);
  *err = 0;
  return c;
}

void fs_clients_forget(struct fs_daemon *d, struct fs_client *c) {
  atomic_store(&c->gone, true);
  atomic_fetch_add(&d->clients.gone, 1);
  fs_daemon_wake(d);
}

void fs_waiter_answer(struct fs_waiter *w, fs_err err, uint32_t line, bool hit) {
  struct fs_channel *ch = w->client->channel;
  uint32_t slot = (uint32_t)(w - w->client->waiter);
  struct fs_req *r = &ch->req[slot];
  fs_chain_drop(&w->chain);
  w->busy = false;
  if (w->flags & FS_REQ_PREFETCH) {
    fs_chan_free(fs_chan_req(ch, slot));
    return;
  }
  if (err == 0) atomic_store_explicit(&ch->pin[slot], line + 1, memory_order_seq_cst);
  r->err = err;
  r->line = line;
  r->hit = hit;
  fs_chan_answer(fs_chan_req(ch, slot));
}

static void fs_clients_take(struct fs_daemon *d, struct fs_client *c, uint32_t slot) {
  struct fs_waiter *w = &c->waiter[slot];
  struct fs_req *r = &c->channel->req[slot];
  if (w->busy) return; /* posted twice: the first still counts */
  if (!fs_chan_taken(fs_chan_req(c->channel, slot))) return;
  w->key = *(volatile uint64_t *)&r->key;
  w->flags = *(volatile uint32_t *)&r->flags;
  w->busy = true;
  fs_fetch_request(d, w);
}

int fs_clients_scan(struct fs_daemon *d) {
  uint32_t high = atomic_load_explicit(&d->clients.high, memory_order_acquire);
  int n = 0;
  for (uint32_t i = 0; i < high; i++) {
    struct fs_client *c = atomic_load_explicit(&d->clients.slot[i], memory_order_acquire);
    if (c && FS_UNLIKELY(fs_client_calls_posted(c))) n += fs_client_calls_take(d, c);
    if (!c || atomic_load_explicit(&c->channel->posted, memory_order_relaxed) == 0) continue;
    uint64_t posted = fs_chan_take(&c->channel->posted);
    for (; posted != 0; posted &= posted - 1, n++) fs_clients_take(d, c, (uint32_t)__builtin_ctzll(posted));
  }
  return n;
}

/* Adds a histogram of a channel, which is not touched if it is empty: its pages would cost memory. */
static bool fs_channel_latency(const struct fs_channel *ch, unsigned kind, uint64_t count[FS_LATENCY_BUCKETS]) {
  if (!(atomic_load_explicit(&ch->latency_kinds, memory_order_relaxed) >> kind & 1)) return false;
  for (unsigned b = 0; b < FS_LATENCY_BUCKETS; b++)
    count[b] += atomic_load_explicit(&ch->latency[kind][b], memory_order_relaxed);
  return true;
}

static void fs_clients_latency_dead(struct fs_daemon *d, const struct fs_channel *ch) {
  for (unsigned kind = 0; kind < FS_LATENCY_KINDS; kind++)
    if (fs_channel_latency(ch, kind, d->clients.dead_latency[kind])) d->clients.dead_kinds |= 1u << kind;
}

bool fs_clients_latency(const struct fs_daemon *d, unsigned kind, struct fs_latency *h) {
  uint32_t high = atomic_load(&d->clients.high);
  bool any = d->clients.dead_kinds >> kind & 1;
  memcpy(h->count, d->clients.dead_latency[kind], sizeof(h->count));
  for (uint32_t i = 0; i < high; i++) {
    const struct fs_client *c = atomic_load(&d->clients.slot[i]);
    if (c && fs_channel_latency(c->channel, kind, h->count)) any = true;
  }
  return any;
}

uint32_t fs_clients_now(const struct fs_daemon *d) {
  uint32_t high = atomic_load(&d->clients.high), n = 0;
  for (uint32_t i = 0; i < high; i++) {
    const struct fs_client *c = atomic_load(&d->clients.slot[i]);
    n += c && c->pid != (uint32_t)getpid(); /* inside.c's are no programs */
  }
  return n;
}

static void fs_clients_remove(struct fs_daemon *d, struct fs_client *c) {
  for (uint32_t i = 0; i < FS_CHANNEL_SLOTS; i++) fs_chain_drop(&c->waiter[i].chain);
  fs_modules_client_gone(d, c);
  for (uint32_t i = 0; i < FS_C_COUNT; i++) d->clients.dead[i] += atomic_load(&c->channel->counter[i]);
  fs_clients_latency_dead(d, c->channel);
  fs_clients_waits_dead(d, c);
  munmap(c->channel, sizeof(*c->channel));
  atomic_store(&d->clients.slot[c->number], NULL);
  free(c);
}

void fs_clients_bury(struct fs_daemon *d) {
  if (atomic_load_explicit(&d->clients.gone, memory_order_acquire) == 0) return;
  uint32_t high = atomic_load(&d->clients.high);
  for (uint32_t i = 0; i < high; i++) {
    struct fs_client *c = atomic_load(&d->clients.slot[i]);
    if (!c || !atomic_load(&c->gone)) continue;
    fs_clients_remove(d, c);
    atomic_fetch_sub(&d->clients.gone, 1);
  }
}

void fs_clients_pins(void *ctx, void (*visit)(void *arg, uint32_t line), void *arg) {
  struct fs_daemon *d = ctx;
  uint32_t high = atomic_load(&d->clients.high);
  for (uint32_t i = 0; i < high; i++) {
    struct fs_client *c = atomic_load(&d->clients.slot[i]);
    if (!c) continue;
    for (uint32_t s = 0; s < FS_CHANNEL_SLOTS; s++) {
      uint32_t pin = atomic_load_explicit(&c->channel->pin[s], memory_order_seq_cst);
      if (pin != 0) visit(arg, pin - 1);
    }
  }
}

void fs_clients_sum(struct fs_daemon *d, uint64_t counter[FS_C_COUNT]) {
  uint32_t high = atomic_load(&d->clients.high);
  for (uint32_t k = 0; k < FS_C_COUNT; k++) counter[k] = d->clients.dead[k];
  for (uint32_t i = 0; i < high; i++) {
    struct fs_client *c = atomic_load(&d->clients.slot[i]);
    for (uint32_t k = 0; c && k < FS_C_COUNT; k++) counter[k] += atomic_load(&c->channel->counter[k]);
  }
}

void fs_clients_release_all(struct fs_daemon *d) {
  uint32_t high = atomic_load(&d->clients.high);
  for (uint32_t i = 0; i < high; i++) {
    struct fs_client *c = atomic_load(&d->clients.slot[i]);
    if (c) fs_client_calls_release(c);
    for (uint32_t s = 0; c && s < FS_CHANNEL_SLOTS; s++) {
      if (c->waiter[s].busy) fs_waiter_answer(&c->waiter[s], -ESHUTDOWN, 0, false);
    }
  }
}
