/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The channel from both sides at once: a thread that is the daemon, over a network that answers late, wrong or not,
 * threads that are clients, and processes that are clients and are killed at any moment. The threads of both sides use
 * the same mappings, so that the thread sanitizer sees both. Every byte that is read is compared; and when all is over
 * the daemon has nothing left of anybody: no request, pin, wish, fetch or line.
 *
 * FS_STRESS_ROUNDS: of each thread. FS_STRESS_SEED: as it was printed.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "channel_client.h"
#include "fetch_fixture.h"
#include "tools_fixture.h"

#define CACHE (160u << 10) /* of which the blocks are three times as much */
#define CHANNELS 2u        /* of threads: those of the first are patient */
#define THREADS 2u         /* on each */
#define VICTIMS 3u         /* at once, of two processes each */
#define LATE 32u
#define DRAIN_ROUNDS 1000000u

static_assert(BLOCKS == STRESS_BLOCKS && BLOCK == STRESS_BLOCK, "one dataset");

static struct client_world shared;
static _Atomic bool stop;
static _Atomic uint32_t running;
static uint64_t seed, rounds, kills;

/* ---- the daemon ---- */

static struct late {
  uint32_t peer;
  struct fs_wire_req req;
} late[LATE];
static uint32_t lates;

static void answer(uint64_t *random, uint32_t peer, const struct fs_wire_req *req, bool well) {
  enum damage damage = well || stress_random(random) % 16 ? GOOD : FLIPPED + stress_random(random) % FAILED;
  if (damage == BAD_LENGTH && req->length == 0) damage = GOOD;
  reply(peer, req, damage);
}

/* Requests go out in any order; some replies come when nobody waits for them any more. */
static int network(uint64_t *random, bool ends) {
  int n = 0;
  for (uint64_t most = ends ? MESSAGES : stress_random(random) % 24; most > 0 && world.sends > 0; most--, n++) {
    uint32_t i = (uint32_t)(stress_random(random) % world.sends);
    struct message m = world.sent[i];
    struct fs_wire_req req;
    world.sent[i] = world.sent[--world.sends];
    memcpy(&req, m.buf, sizeof(req));
    m.op->done(m.op, m.peer, m.bytes, 0);
    if (!ends && lates < LATE && stress_random(random) % 2000 == 0)
      late[lates++] = (struct late){m.peer, req};
    else
      answer(random, m.peer, &req, ends);
  }
  while (lates > 0 && (ends || stress_random(random) % 200 == 0)) {
    struct late l = late[--lates];
    answer(random, l.peer, &l.req, ends);
  }
  return n;
}

static bool posted(void) {
  for (uint32_t i = 0; i < atomic_load(&d->clients.high); i++) {
    const struct fs_client *c = atomic_load(&d->clients.slot[i]);
    if (c && (atomic_load(&c->channel->posted) || fs_prefetch_posted(c) || fs_client_calls_posted(c))) return true;
  }
  return atomic_load(&d->clients.gone) > 0;
}

static bool busy(void) {
  const struct fs_fetcher *t = d->fetcher;
  return posted() || t->live > 0 || t->flying > 0 || t->spare < FS_EXCHANGES || t->prefetch.count > 0 ||
         world.sends > 0 || lates > 0;
}

/* As loop.c sleeps. */
static void nap(void) {
  struct pollfd p = {.fd = d->doorbell, .events = POLLIN};
  atomic_store(&shared.ctl->asleep, 1);
  if (!posted() && poll(&p, 1, 1) > 0) fs_eventfd_take(d->doorbell);
  atomic_store(&shared.ctl->asleep, 0);
}

static void *daemon_main(void *arg) {
  uint64_t random = seed, left = DRAIN_ROUNDS;
  bool ends = false;
  (void)arg;
  while (!ends || busy()) {
    STRESS(!ends || left-- > 0);
    ends = atomic_load(&stop);
    d->now += stress_random(&random) % 20000000; /* faster than the clock, by which clients give up */
    int n = network(&random, ends);
    n += fs_clients_scan(d);
    n += fs_prefetch_run(d);
    fs_fetch_timers(d);
    fs_clients_bury(d);
    if (n == 0 && world.sends == 0 && !ends) nap();
    if (n == 0 && ends) d->now += SECOND / 100;
  }
  return NULL;
}

/* ---- clients ---- */

static struct fs_client *new_client(void) {
  fs_err err;
  int fd = -1;
  struct fs_client *c = fs_clients_add(d, (uint32_t)getpid(), &fd, &err);
  STRESS(c != NULL);
  close(fd);
  return c;
}

static struct worker {
  pthread_t thread;
  uint32_t number;
  struct fs_channel *channel;
  struct client_counts counts;
} worker[CHANNELS * THREADS];

static void *client_main(void *arg) {
  struct worker *w = arg;
  client_run(&shared, w->channel, seed + 1 + w->number, w->number < THREADS, rounds, &w->counts);
  atomic_fetch_sub(&running, 1);
  return NULL;
}

static struct victim {
  struct fs_client *client;
  pid_t pid[2];
} victim[VICTIMS];

static void be_born(struct victim *v, uint64_t *random) {
  static struct client_counts counts;
  v->client = new_client();
  for (unsigned i = 0; i < 2; i++) {
    uint64_t own = stress_random(random);
    v->pid[i] = fork();
    STRESS(v->pid[i] >= 0);
    if (v->pid[i] > 0) continue;
    signal(SIGSEGV, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    client_run(&shared, v->client->channel, own, own % 2, UINT64_MAX, &counts);
    _exit(2);
  }
}

/* As the guard does when the connection has ended. */
static void die(struct victim *v) {
  int status;
  for (unsigned i = 0; i < 2; i++) STRESS(kill(v->pid[i], SIGKILL) == 0);
  for (unsigned i = 0; i < 2; i++) {
    STRESS(waitpid(v->pid[i], &status, 0) == v->pid[i]);
    STRESS(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL); /* its own checks held */
  }
  fs_clients_forget(d, v->client);
  v->client = NULL;
}

/* ---- the test ---- */

static char *slab_of(struct fs_cache *c, uint64_t *size) {
  void *buf;
  int64_t line = fs_cache_alloc(c, 12345, 1, &buf);
  STRESS(line >= 0);
  fs_cache_abort(c, (uint32_t)line);
  char *base = (char *)((uintptr_t)buf / 4096 * 4096);
  while (*(uint64_t *)(void *)base != FS_CACHE_MAGIC) base -= 4096;
  (void)fs_cache_slab_fd(c, size);
  return base;
}

static void start(void) {
  uint64_t size, heat_size;
  int heat, pair[2];
  memset((void *)&world, 0, sizeof(world));
  world.net = (struct fs_net){.ops = &fake_ops, .rank = 0, .nodes = NODES, .tag_max = 32767};
  d = calloc(1, sizeof(*d));
  config = (struct fs_daemon_config){.deadline_ns = 3 * SECOND, .cache_bytes = CACHE};
  d->cfg = &config;
  d->net = &world.net;
  d->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  d->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  d->now = 1000 * SECOND;
  make_dataset();
  STRESS(fs_cache_new(&d->cache, CACHE, 4096, fs_clients_pins, d) == 0 && fs_fetcher_new(d) == 0);
  const char *slab = slab_of(d->cache, &size);
  heat = fs_cache_heat_fd(d->cache, &heat_size);
  void *map = mmap(NULL, heat_size, PROT_READ | PROT_WRITE, MAP_SHARED, heat, 0);
  STRESS(map != MAP_FAILED && fs_cache_view_init(&shared.view, slab, size, map, heat_size) == 0);
  shared.ctl = mmap(NULL, sizeof(struct fs_ctl), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  STRESS(shared.ctl != MAP_FAILED && socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
  shared.ctl->heartbeat_ns = UINT64_MAX; /* never old */
  shared.stored = stored[0];
  shared.doorbell = d->doorbell;
  shared.socket = pair[0];
}

static bool any_key(void *ctx, uint64_t key) {
  (void)ctx, (void)key;
  return true;
}
static void still_pinned(void *ctx, uint64_t key) {
  (void)key;
  ++*(unsigned *)ctx;
}

/* What every client that lives and died had is given back. */
static void nothing_left(void) {
  struct fs_cache_stats stats;
  unsigned pinned = 0, clients = 0;
  for (uint32_t i = 0; i < FS_MAX_CLIENTS; i++) {
    struct fs_client *c = atomic_load(&d->clients.slot[i]);
    if (!c) continue;
    struct fs_channel *ch = c->channel;
    clients++;
    assert_int_equal(atomic_load(&ch->claimed), 0);
    assert_int_equal(atomic_load(&ch->calls_claimed), 0);
    assert_int_equal(atomic_load(&ch->prefetch_head), atomic_load(&ch->prefetch_tail));
    for (uint32_t k = 0; k < FS_PREFETCH_RING; k++) assert_int_equal(atomic_load(&ch->prefetch[k]), 0);
    for (uint32_t k = 0; k < FS_CHANNEL_CALLS; k++) {
      assert_int_equal(atomic_load(&ch->call_slot[k].state), FS_REQ_FREE);
      assert_null(c->call_slot[k]);
    }
    for (uint32_t k = 0; k < FS_CHANNEL_SLOTS; k++) {
      assert_int_equal(atomic_load(&ch->req[k].state), FS_REQ_FREE);
      assert_int_equal(atomic_load(&ch->pin[k]), 0);
      assert_false(c->waiter[k].busy);
    }
  }
  assert_int_equal(clients, CHANNELS);
  assert_int_equal(world.recvs, 0);
  assert_true(fs_chain_empty(&d->fetcher->deferred));
  for (uint32_t i = 0; i < FS_FETCH_HASH; i++) assert_null(d->fetcher->hash[i]);
  fs_cache_purge(d->cache, any_key, still_pinned, &pinned);
  fs_cache_stats(d->cache, &stats);
  assert_int_equal(pinned, 0);
  assert_int_equal(stats.lines_used, 0);
  assert_int_equal(stats.bytes_used, 0);
  assert_true(stats.evictions > 0);
}

static void told(void) {
  for (uint32_t i = 0; i < CHANNELS * THREADS; i++) {
    const struct client_counts *c = &worker[i].counts;
    printf("# thread %u: %lu blocks, %lu of them cached; %lu given up, %lu elsewhere, %lu cancelled; %lu wanted, "
           "%lu times ahead, %lu pins, %lu calls\n",
           i, c->reads, c->hits, c->given_up, c->elsewhere, c->cancelled, c->wanted, c->ahead, c->pinned, c->calls);
    assert_true(i >= THREADS || (c->reads > 0 && c->cancelled > 0 && c->wanted > 0 && c->calls > 0));
  }
  printf("# %lu clients killed; %lu blocks fetched, %lu ahead; %lu replies late, %lu dropped, %lu damaged\n", kills,
         d->count.fetched, d->count.prefetched, d->count.timeouts, d->count.dropped, d->count.checksum_errors);
}

static void test_stress(void **state) {
  pthread_t daemon_thread;
  uint64_t random = seed + 1000, least = rounds / 60 + 3;
  (void)state;
  start();
  printf("# FS_STRESS_SEED=%lu FS_STRESS_ROUNDS=%lu\n", seed, rounds);
  fflush(stdout);
  STRESS(pthread_create(&daemon_thread, NULL, daemon_main, NULL) == 0);
  running = CHANNELS * THREADS;
  for (uint32_t i = 0; i < CHANNELS * THREADS; i++) {
    worker[i].number = i;
    worker[i].channel = i % THREADS == 0 ? new_client()->channel : worker[i - 1].channel;
    STRESS(pthread_create(&worker[i].thread, NULL, client_main, &worker[i]) == 0);
  }
  for (; atomic_load(&running) > 0 || kills < least; kills++) {
    struct victim *v = &victim[stress_random(&random) % VICTIMS];
    if (!v->client) be_born(v, &random);
    usleep((useconds_t)(stress_random(&random) % (4000 * fix_slowness())));
    v = &victim[stress_random(&random) % VICTIMS];
    if (!v->client) be_born(v, &random);
    die(v);
  }
  for (uint32_t i = 0; i < VICTIMS; i++)
    if (victim[i].client) die(&victim[i]);
  for (uint32_t i = 0; i < CHANNELS * THREADS; i++) pthread_join(worker[i].thread, NULL);
  atomic_store(&stop, true);
  pthread_join(daemon_thread, NULL);
  told();
  nothing_left();
}

static uint64_t number(const char *name, uint64_t otherwise) {
  const char *text = getenv(name);
  return text ? strtoull(text, NULL, 10) : otherwise;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_stress)};
  seed = number("FS_STRESS_SEED", fs_now_ns() ^ (uint64_t)getpid() << 40);
  rounds = number("FS_STRESS_ROUNDS", 6000 / fix_slowness());
  return cmocka_run_group_tests(tests, NULL, NULL);
}
