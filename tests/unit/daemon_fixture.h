/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stand-in for fanstored: a process that hands over real segments and answers requests from the fixture's dataset,
 * well or badly as the test says. Partition 0 is local to its node 0, partition 1 is node 1's. Shared by the tests of
 * the client's remote path.
 */
#ifndef FS_TEST_DAEMON_FIXTURE_H
#define FS_TEST_DAEMON_FIXTURE_H

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "cache/cache.h"
#include "data_fixture.h"
#include "ipc/handover.h"

enum fake_mode {
  FAKE_SERVE,
  FAKE_SILENT,
  FAKE_FAIL,
  FAKE_OWING, /* EREMOTEIO, but for who has nothing else */
  FAKE_STALE,
  FAKE_STOPPING,
  FAKE_BAD_LINE,
  FAKE_REFUSE,
  FAKE_BAD_CTL
};

struct fake_word { /* shared with the test */
  _Atomic uint32_t mode, ready;
  _Atomic uint32_t connections, open_now, requests, prefetches, hits, abandoned, rung;
};

static uint32_t fake_flags; /* FS_CTL_*, of those that are started */
static bool fake_leaves;    /* they leave their ctl in the run directory, as daemons do */
static int fake_marks;      /* the bytes of `outputs` there */
static void (*fake_spoil)(struct fs_handover *h, struct fs_channel *c); /* what is handed over, unless NULL */

#define FAKE_CLIENTS 32
struct fake {
  struct fake_word *word;
  const struct fix *f;
  struct fs_cache *cache;
  struct fs_ctl *ctl;
  struct fs_index ix;
  int ctl_fd, listener;
  struct fake_client {
    int socket, doorbell;
    struct fs_channel *channel;
    uint64_t silent; /* requests taken but not answered */
    uint32_t wanted; /* taken of the queue of blocks that are wanted ahead */
  } client[FAKE_CLIENTS];
};

static inline void fake_pins(void *ctx, void (*visit)(void *, uint32_t), void *arg) {
  struct fake *d = ctx;
  for (unsigned k = 0; k < FAKE_CLIENTS; k++) {
    for (unsigned i = 0; d->client[k].channel && i < FS_CHANNEL_SLOTS; i++) {
      uint32_t pin = atomic_load(&d->client[k].channel->pin[i]);
      if (pin) visit(arg, pin - 1);
    }
  }
}

static inline void *fake_memfd(size_t n, int *fd) {
  *fd = memfd_create("test", MFD_CLOEXEC);
  CHECK(*fd >= 0 && ftruncate(*fd, (off_t)n) == 0);
  void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
  CHECK(p != MAP_FAILED);
  return p;
}

static inline void fake_ctl(struct fake *d) {
  uint64_t at = fs_round_up(sizeof(struct fs_ctl), 64), size = at + FIX_PARTS * sizeof(struct fs_placement);
  struct fs_ctl *c = fake_memfd(size, &d->ctl_fd);
  struct fs_placement *p = (void *)((char *)c + at);
  *c = (struct fs_ctl){.magic = FS_CTL_MAGIC,
                       .version = FS_IPC_VERSION,
                       .nodes = 2,
                       .datasets = 1,
                       .size = size,
                       .deadline_ns = atomic_load(&d->word->mode) == FAKE_SILENT ? 300000000 : 20000000000,
                       .placements = at,
                       .flags = fake_flags,
                       .nplacements = FIX_PARTS};
  p[0] = (struct fs_placement){.owner = {0}, .owners = 1, .flags = FS_PLACE_LOCAL};
  p[1] = (struct fs_placement){.owner = {1}, .owners = 1};
  struct fs_ctl_dataset *s = &c->dataset[0];
  snprintf(s->mount, PATH_MAX, FIX_MOUNT);
  snprintf(s->source, PATH_MAX, "%s", d->f->dataset);
  snprintf(s->local, PATH_MAX, "%s/local", d->f->dir);
  snprintf(c->backing, PATH_MAX, "%s/backing", d->f->dir);
  memcpy(s->id, d->ix.hdr->dataset_id, 16);
  s->partitions = FIX_PARTS;
  if (atomic_load(&d->word->mode) == FAKE_BAD_CTL) s->placement = 1;
  d->ctl = c;
}

static inline void fake_hang_up(struct fake *d, struct fake_client *c) {
  close(c->socket);
  close(c->doorbell);
  munmap(c->channel, sizeof(*c->channel));
  c->channel = NULL;
  atomic_fetch_sub(&d->word->open_now, 1);
}

static inline void fake_accept(struct fake *d) {
  struct fs_handover h = {0};
  unsigned k = 0;
  int s = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC);
  if (s < 0) return;
  struct pollfd p = {s, POLLIN, 0};
  poll(&p, 1, 1000);
  if (fs_handover_hello(s) <= 0) {
    close(s);
    return;
  }
  atomic_fetch_add(&d->word->connections, 1);
  if (atomic_load(&d->word->mode) == FAKE_REFUSE) {
    fs_handover_welcome(s, -EBUSY, NULL);
    close(s);
    return;
  }
  while (d->client[k].channel) CHECK(++k < FAKE_CLIENTS);
  struct fake_client *c = &d->client[k];
  c->socket = s;
  c->channel = fake_memfd(sizeof(*c->channel), &h.fd[FS_HO_CHANNEL]);
  c->channel->magic = FS_CHANNEL_MAGIC;
  c->channel->version = FS_IPC_VERSION;
  c->doorbell = h.fd[FS_HO_DOORBELL] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  c->silent = c->wanted = 0;
  h.size[FS_HO_CHANNEL] = sizeof(*c->channel);
  h.fd[FS_HO_CTL] = d->ctl_fd;
  h.size[FS_HO_CTL] = d->ctl->size;
  h.fd[FS_HO_SLAB] = fs_cache_slab_fd(d->cache, &h.size[FS_HO_SLAB]);
  h.fd[FS_HO_HEAT] = fs_cache_heat_fd(d->cache, &h.size[FS_HO_HEAT]);
  h.fd[FS_HO_RECORDS] = d->ctl_fd;
  if (fake_spoil) fake_spoil(&h, c->channel);
  bool gone = fs_handover_welcome(s, 0, &h) < 0; /* it has waited for long enough */
  close(h.fd[FS_HO_CHANNEL]);
  atomic_fetch_add(&d->word->open_now, 1);
  if (gone) fake_hang_up(d, c);
}

static inline int64_t fake_fetch(struct fake *d, uint64_t key, bool *hit) {
  struct fs_block b;
  void *to;
  int64_t line = fs_cache_find(d->cache, key);
  *hit = line >= 0;
  if (line >= 0) return line;
  CHECK(FS_CACHE_KEY_DATASET(key) == 0);
  if (fs_index_block_by_key(&d->ix, FS_CACHE_KEY_BLOCK(key), &b) < 0) return -EINVAL;
  CHECK(b.partition == 1);
  line = fs_cache_alloc(d->cache, key, b.stored_len, &to);
  if (line < 0) return line;
  memcpy((char *)to + FS_CACHE_HEADROOM, d->f->part[1] + b.offset, b.stored_len);
  fs_cache_publish(d->cache, (uint32_t)line, false);
  return line;
}

static inline void fake_free(struct fs_channel *c, unsigned i) {
  atomic_store(&c->pin[i], 0);
  atomic_store(&c->req[i].state, FS_REQ_FREE);
  atomic_fetch_and(&c->claimed, ~(1ull << i));
}

static inline void fake_answer(struct fake *d, struct fs_channel *c, unsigned i) {
  struct fs_req *r = &c->req[i];
  uint32_t mode = atomic_load(&d->word->mode);
  bool hit = false;
  CHECK(atomic_load(&c->claimed) >> i & 1);
  int64_t line = mode == FAKE_FAIL                                    ? -EHOSTUNREACH
                 : mode == FAKE_OWING && !(r->flags & FS_REQ_PATIENT) ? -EREMOTEIO
                                                                      : fake_fetch(d, r->key, &hit);
  bool prefetch = r->flags & FS_REQ_PREFETCH;
  atomic_fetch_add(prefetch ? &d->word->prefetches : &d->word->requests, 1);
  atomic_fetch_add(&d->word->hits, hit);
  if (prefetch) {
    fake_free(c, i);
    return;
  }
  r->err = line < 0 ? (int32_t)line : 0;
  r->line = line < 0 ? 0 : mode == FAKE_BAD_LINE ? 0x7fffffff : (uint32_t)line;
  r->hit = hit;
  if (line >= 0) atomic_store(&c->pin[i], (uint32_t)line + 1);
  uint32_t before = atomic_exchange(&r->state, FS_REQ_DONE);
  if (before == FS_REQ_ASLEEP) {
    fs_futex_wake(&r->state, INT_MAX);
  } else if (before != FS_REQ_POSTED) {
    CHECK(before == FS_REQ_ABANDONED);
    atomic_fetch_add(&d->word->abandoned, 1);
    fake_free(c, i);
  }
}

/* Blocks that are wanted ahead. */
static inline void fake_want(struct fake *d, struct fake_client *c) {
  struct fs_channel *ch = c->channel;
  uint64_t word;
  bool hit;
  while ((word = atomic_load(&ch->prefetch[c->wanted % FS_PREFETCH_RING])) != 0) {
    atomic_store(&ch->prefetch[c->wanted % FS_PREFETCH_RING], 0);
    atomic_store(&ch->prefetch_tail, ++c->wanted);
    CHECK(fake_fetch(d, word - 1, &hit) >= 0);
    atomic_fetch_add(&d->word->prefetches, 1);
  }
}

static inline void fake_serve(struct fake *d, struct fake_client *c) {
  uint64_t bell, taken = atomic_exchange(&c->channel->posted, 0) | c->silent;
  c->silent = 0;
  if (read(c->doorbell, &bell, sizeof(bell)) == sizeof(bell)) atomic_fetch_add(&d->word->rung, 1);
  if (atomic_load(&d->word->mode) != FAKE_SILENT) fake_want(d, c);
  for (unsigned i = 0; i < FS_CHANNEL_SLOTS; i++) {
    if (!(taken >> i & 1)) continue;
    if (atomic_load(&d->word->mode) == FAKE_SILENT)
      c->silent |= 1ull << i;
    else
      fake_answer(d, c->channel, i);
  }
}

static inline void fake_loop(struct fake *d) {
  for (;;) {
    struct pollfd p[1 + 2 * FAKE_CLIENTS];
    struct fake_client *of[1 + 2 * FAKE_CLIENTS];
    nfds_t n = 1;
    uint32_t mode = atomic_load(&d->word->mode);
    atomic_store(&d->ctl->heartbeat_ns, fs_now_ns() - (mode == FAKE_STALE ? 2 * FS_HEARTBEAT_STALE_NS : 0));
    atomic_store(&d->ctl->stopping, mode == FAKE_STOPPING);
    p[0] = (struct pollfd){d->listener, POLLIN, 0};
    for (unsigned k = 0; k < FAKE_CLIENTS; k++) {
      if (!d->client[k].channel) continue;
      of[n] = &d->client[k];
      p[n++] = (struct pollfd){d->client[k].socket, POLLIN, 0};
      of[n] = &d->client[k];
      p[n++] = (struct pollfd){d->client[k].doorbell, POLLIN, 0};
    }
    atomic_store(&d->ctl->asleep, 1);
    atomic_store(&d->word->ready, 1);
    for (nfds_t i = 1; i < n; i += 2) fake_serve(d, of[i]);
    poll(p, n, 20);
    for (nfds_t i = 1; i < n; i += 2) {
      fake_serve(d, of[i]);
      if (p[i].revents) fake_hang_up(d, of[i]);
    }
    if (p[0].revents) fake_accept(d);
  }
}

struct fake_handle {
  pid_t pid;
  struct fake_word *word;
};

/* Starts it in DIR/run, with the local copy of partition 0 in DIR/local. */
static inline struct fake_handle fake_start(struct fix *f, const char *socket_name, uint32_t mode,
                                            uint64_t cache_bytes) {
  struct fake_handle h;
  char path[512];
  h.word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  atomic_store(&h.word->mode, mode);
  fflush(NULL);
  h.pid = fork();
  if (h.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when a test fails */
    struct fake *d = calloc(1, sizeof(*d));
    d->word = h.word;
    d->f = f;
    snprintf(path, sizeof(path), "%s/local/index", f->dir);
    CHECK(fs_index_open(path, &d->ix, NULL, 0) == 0);
    CHECK(fs_cache_new(&d->cache, cache_bytes, FIX_BS, fake_pins, d) == 0);
    fake_ctl(d);
    snprintf(path, sizeof(path), "%s/run", f->dir);
    if (fake_leaves) {
      memset((void *)d->ctl->outputs, fake_marks, sizeof(d->ctl->outputs));
      fix_write(path, "node-0.ctl", d->ctl, d->ctl->size);
      memset((void *)d->ctl->outputs, 0, sizeof(d->ctl->outputs));
    }
    snprintf(path, sizeof(path), "%s/run/%s", f->dir, socket_name);
    d->listener = fs_handover_listen(path);
    CHECK(d->listener >= 0);
    fake_loop(d);
  }
  for (int i = 0; i < 5000 && !atomic_load(&h.word->ready); i++) usleep(1000);
  assert_true(atomic_load(&h.word->ready));
  return h;
}

static inline void fake_stop(struct fake_handle *h, struct fix *f) {
  char path[512];
  kill(h->pid, SIGKILL);
  waitpid(h->pid, NULL, 0);
  munmap(h->word, 4096);
  snprintf(path, sizeof(path), "%s/run", f->dir);
  fs_remove_tree(path);
  mkdir(path, 0700);
}

/* A scenario with a daemon that serves. */
static inline void fake_run(void **state, fix_fn *fn) {
  struct fake_handle h = fake_start(*state, "node-0.sock", FAKE_SERVE, 1 << 20);
  fix_run(state, fn);
  fake_stop(&h, *state);
}

/* In the scenario. */
static inline struct fs_dataset *fake_dataset(void) {
  fs_err err;
  struct fs_dataset *ds = fs_dataset(0, &err);
  CHECK(ds != NULL);
  return ds;
}

static inline int fake_setup(void **state) {
  char path[512], from[512], *name[] = {"run", "local", "backing"};
  if (fix_setup(state) != 0) return -1;
  struct fix *f = *state;
  for (unsigned i = 0; i < 3; i++) {
    snprintf(path, sizeof(path), "%s/%s", f->dir, name[i]);
    assert_int_equal(mkdir(path, 0700), 0);
  }
  snprintf(path, sizeof(path), "%s/run", f->dir);
  setenv("FANSTORE_RUN", path, 1);
  setenv("FANSTORE_NODE", "0", 1);
  setenv("FANSTORE_MOUNT", FIX_MOUNT, 1);
  snprintf(path, sizeof(path), "%s/local", f->dir);
  fix_write(path, "part-00000", f->part[0], f->part_size[0]);
  snprintf(from, sizeof(from), "%s/index", f->dataset);
  snprintf(path, sizeof(path), "%s/local/index", f->dir);
  return link(from, path);
}

#endif
