/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of fanstored for its tests: speaks the protocol of ipc/layout.h itself, so that daemons are tested without
 * the library, also in ways that the library never uses. One thread.
 *
 *   ringclient SOCKET DATASET all                         every block that is not local, once
 *   ringclient SOCKET DATASET random SECONDS WINDOW [MIN MAX]  random ones (of stored lengths in a range), WINDOW at
 * once ringclient SOCKET DATASET rude SECONDS                random ones, some abandoned, doubled, junk or prefetched
 *
 *   ringclient SOCKET DATASET die TIMES                   TIMES clients killed in turn at each step of a request
 *
 * Prints one line: "blocks=N bytes=N hits=N errors=N abandoned=N rate=N mbs=N p50us=N p99us=N last=ERRNO".
 * Exit status 1 when a block's bytes were wrong.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/cache.h"
#include "index/index.h"
#include "ipc/handover.h"
#include "util/sys.h"
#include "util/util.h"

#define MAX_KEYS 2000000u
#define SAMPLES 1000000u

static struct {
  struct fs_handover h;
  const struct fs_ctl *ctl;
  struct fs_channel *ch;
  struct fs_cache_view view;
  struct fs_index ix;
  uint64_t *key;
  uint32_t keys;
  uint64_t blocks, bytes, hits, errors, abandoned;
  int last;
  uint64_t posted_at[FS_CHANNEL_SLOTS];
  uint32_t *sample, samples;
} c;

static void die(const char *what, int err) {
  fprintf(stderr, "ringclient: %s: %s\n", what, strerror(-err));
  exit(3);
}

static void *map(enum fs_handover_fd which, int prot) {
  void *p = mmap(NULL, c.h.size[which], prot, MAP_SHARED, c.h.fd[which], 0);
  if (p == MAP_FAILED) die("mmap", -errno);
  return p;
}

static void attach(const char *socket_path, const char *dataset) {
  char path[PATH_MAX], why[256];
  fs_err err = fs_handover_connect(socket_path, 5000000000ull, &c.h);
  if (err < 0) die("connect", err);
  c.ctl = map(FS_HO_CTL, PROT_READ);
  c.ch = map(FS_HO_CHANNEL, PROT_READ | PROT_WRITE);
  const void *slab = map(FS_HO_SLAB, PROT_READ);
  err = fs_cache_view_init(&c.view, slab, c.h.size[FS_HO_SLAB], map(FS_HO_HEAT, PROT_READ | PROT_WRITE),
                           c.h.size[FS_HO_HEAT]);
  if (err < 0) die("slab", err);
  if (mmap(NULL, c.h.size[FS_HO_SLAB], PROT_READ | PROT_WRITE, MAP_SHARED, c.h.fd[FS_HO_SLAB], 0) != MAP_FAILED) {
    die("the slab is writable", -EPERM);
  }
  snprintf(path, sizeof(path), "%s/index", dataset);
  err = fs_index_open(path, &c.ix, why, sizeof(why));
  if (err < 0) die(path, err);
}

/* The keys of all blocks that are not local, with stored lengths in a range. */
static void collect(uint32_t min, uint32_t max) {
  const struct fs_placement *place = (const void *)((const char *)c.ctl + c.ctl->placements);
  c.key = malloc(MAX_KEYS * sizeof(*c.key));
  c.sample = malloc(SAMPLES * sizeof(*c.sample));
  for (uint64_t e = 0; e < c.ix.nentries; e++) {
    const struct fs_entry *entry = fs_index_entry(&c.ix, e);
    uint64_t n = S_ISREG(entry->mode) ? fs_index_block_count(&c.ix, entry) : 0;
    for (uint64_t i = 0; i < n && c.keys < MAX_KEYS; i++) {
      struct fs_block b;
      if (fs_index_block(&c.ix, (uint32_t)e, i, &b) < 0) die("index", -EUCLEAN);
      if (place[c.ctl->dataset[0].placement + b.partition].flags & FS_PLACE_LOCAL) continue;
      if (b.stored_len >= min && b.stored_len <= max) c.key[c.keys++] = b.key;
    }
  }
  if (c.keys == 0) die("no such block is remote", -ENOENT);
}

static void post(uint32_t slot, uint64_t key, uint32_t flags) {
  struct fs_req *r = &c.ch->req[slot];
  uint64_t one = 1;
  atomic_fetch_or(&c.ch->claimed, 1ull << slot);
  r->key = FS_CACHE_KEY(0, key);
  r->flags = flags;
  r->err = 1;
  c.posted_at[slot] = fs_now_ns();
  atomic_store_explicit(&r->state, FS_REQ_POSTED, memory_order_release);
  atomic_fetch_or(&c.ch->posted, 1ull << slot);
  if (atomic_load(&c.ctl->asleep)) (void)fs_sys_write(c.h.fd[FS_HO_DOORBELL], &one, sizeof(one));
}

static void check_block(uint32_t slot) {
  struct fs_req *r = &c.ch->req[slot];
  struct fs_block b;
  uint32_t len;
  const void *bytes = fs_cache_pinned(&c.view, r->key, r->line, &len);
  if (fs_index_block_by_key(&c.ix, FS_CACHE_KEY_BLOCK(r->key), &b) < 0) die("key", -EINVAL);
  if (!bytes || len != b.stored_len || fs_xxh3(bytes, len) != b.xxh3) {
    fprintf(stderr, "ringclient: wrong bytes for key %llx\n", (unsigned long long)r->key);
    exit(1);
  }
  c.blocks++;
  c.bytes += len;
  c.hits += r->hit != 0;
}

static bool pending(uint32_t state) {
  return state == FS_REQ_POSTED || state == FS_REQ_ASLEEP;
}

/* Waits for a slot's answer, checks it and frees the slot. */
static void finish(uint32_t slot, uint64_t patience_ns) {
  struct fs_req *r = &c.ch->req[slot];
  uint64_t end = fs_now_ns() + patience_ns;
  uint32_t state;
  for (int spin = 0; pending(state = atomic_load_explicit(&r->state, memory_order_acquire)); spin++) {
    uint64_t now = fs_now_ns();
    if (now >= end) break;
    if (spin < 200) continue;
    if (state == FS_REQ_ASLEEP || atomic_compare_exchange_strong(&r->state, &state, FS_REQ_ASLEEP))
      fs_futex_wait(&r->state, FS_REQ_ASLEEP, end - now);
  }
  while (pending(state) && !atomic_compare_exchange_weak(&r->state, &state, FS_REQ_ABANDONED)) continue;
  if (pending(state)) {
    c.abandoned++;
    return; /* the daemon will free it */
  }
  uint64_t took = fs_now_ns() - c.posted_at[slot];
  if (c.samples < SAMPLES) c.sample[c.samples++] = (uint32_t)FS_MIN(took / 1000, 0xffffffffu);
  if (r->err == 0)
    check_block(slot);
  else
    c.errors++;
  if (r->err != 0) c.last = -r->err;
  fs_cache_unpin(&c.ch->pin[slot]);
  atomic_store_explicit(&r->state, FS_REQ_FREE, memory_order_release);
  atomic_fetch_and(&c.ch->claimed, ~(1ull << slot));
}

static bool claimed(uint32_t slot) {
  return atomic_load(&c.ch->claimed) & 1ull << slot;
}

static int by_value(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static void report(uint64_t ns) {
  double s = (double)ns / 1e9;
  qsort(c.sample, c.samples, sizeof(*c.sample), by_value);
  printf("blocks=%llu bytes=%llu hits=%llu errors=%llu abandoned=%llu rate=%.0f mbs=%.1f p50us=%u p99us=%u last=%d\n",
         (unsigned long long)c.blocks, (unsigned long long)c.bytes, (unsigned long long)c.hits,
         (unsigned long long)c.errors, (unsigned long long)c.abandoned, (double)c.blocks / s, (double)c.bytes / s / 1e6,
         c.samples ? c.sample[c.samples / 2] : 0, c.samples ? c.sample[(uint64_t)c.samples * 99 / 100] : 0, c.last);
}

static void all(uint64_t patience) {
  uint32_t window = 16;
  for (uint32_t i = 0; i < c.keys + window; i++) {
    if (i >= window) finish((i - window) % window, patience);
    if (i < c.keys) post(i % window, c.key[i], 0);
  }
}

static void random_blocks(uint64_t seconds, uint32_t window, uint64_t patience) {
  uint64_t end = fs_now_ns() + seconds * 1000000000ull, n = 0;
  while (fs_now_ns() < end) {
    uint32_t slot = (uint32_t)(n % window);
    if (n >= window && !(n > window && !claimed(slot))) finish(slot, patience);
    while (claimed(slot)) usleep(1000); /* abandoned before: the daemon frees it */
    post(slot, c.key[(uint32_t)random() % c.keys], 0);
    n++;
  }
  for (uint32_t s = 0; s < window; s++) {
    if (claimed(s)) finish(s, patience);
  }
}

/* What no decent client does: nothing of it may harm the daemon. */
static void rude(uint64_t seconds) {
  uint64_t end = fs_now_ns() + seconds * 1000000000ull;
  while (fs_now_ns() < end) {
    uint32_t slot = (uint32_t)random() % FS_CHANNEL_SLOTS;
    long what = random() % 100;
    if (what < 5) atomic_fetch_or(&c.ch->posted, (uint64_t)random() << 32 | (uint64_t)random());
    if (claimed(slot)) continue;
    uint64_t key = what < 10 ? (uint64_t)random() << 33 ^ (uint64_t)random() << 2 : c.key[(uint32_t)random() % c.keys];
    post(slot, key, what < 30 ? FS_REQ_PREFETCH : 0);
    if (what < 10) c.ch->req[slot].key = (uint64_t)random();
    if (what >= 10 && what < 12) c.ch->pin[slot] = (uint32_t)random();
    if (what < 30) continue;
    if (what < 45)
      finish(slot, 1000);
    else if (what < 90)
      finish(slot, 3000000000ull);
    else
      usleep((useconds_t)(random() % 300));
  }
}

/* A client that is killed while it has claimed, posted, asked, given up, is answered and holds the pin, has begun to
   put something into its ring, or has called about a name. */
static void die_at(unsigned step, const char *socket_path, const char *dataset) {
  attach(socket_path, dataset);
  collect(0, UINT32_MAX);
  uint64_t key = FS_CACHE_KEY(0, c.key[(uint32_t)getpid() % c.keys]);
  uint32_t posted = FS_REQ_POSTED;
  switch (step) {
  case 0:
    atomic_fetch_or(&c.ch->claimed, UINT64_MAX);
    break;
  case 1:
    atomic_store(&c.ch->req[5].state, FS_REQ_POSTED);
    atomic_fetch_or(&c.ch->posted, 1ull << 5);
    break;
  case 2:
    for (uint32_t i = 0; i < FS_CHANNEL_SLOTS; i++) post(i, c.key[(uint32_t)(getpid() + (int)i * 7) % c.keys], 0);
    break;
  case 3:
    post(0, c.key[(uint32_t)getpid() % c.keys], 0);
    (void)atomic_compare_exchange_strong(&c.ch->req[0].state, &posted, FS_REQ_ABANDONED);
    break;
  case 4:
    post(0, c.key[(uint32_t)getpid() % c.keys], 0);
    while (atomic_load(&c.ch->req[0].state) == FS_REQ_POSTED) usleep(100);
    break;
  case 5:
    for (uint32_t i = 0; i < 100; i++) {
      atomic_store(&c.ch->prefetch[i], i % 50 == 49 ? 0 : key + 1);
      atomic_fetch_add(&c.ch->prefetch_head, 1);
    }
    break;
  default:
    atomic_fetch_or(&c.ch->calls_claimed, 3u);
    c.ch->call_slot[0].length = sizeof(struct fs_names_call);
    atomic_store(&c.ch->call_slot[0].state, FS_REQ_POSTED);
    atomic_fetch_or(&c.ch->calls_posted, 1u);
  }
  raise(SIGKILL);
}

#define DIE_STEPS 7u
static int die_often(unsigned times, const char *socket_path, const char *dataset) {
  unsigned killed = 0;
  int status;
  for (unsigned i = 0; i < times; i++) {
    if (fork() == 0) die_at(i % DIE_STEPS, socket_path, dataset);
    if (i >= 3 && wait(&status) > 0) killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }
  while (wait(&status) > 0) killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  printf("killed=%u\n", killed);
  return killed == times ? 0 : 1;
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  uint64_t seconds = 0, window = 1, min = 1, max = UINT32_MAX;
  if (argc > 4) (void)fs_parse_u64(argv[4], 0, 1000000, &seconds);
  if (argc > 5) (void)fs_parse_u64(argv[5], 1, FS_CHANNEL_SLOTS, &window);
  if (argc > 7) {
    (void)fs_parse_u64(argv[6], 1, UINT32_MAX, &min);
    (void)fs_parse_u64(argv[7], 1, UINT32_MAX, &max);
  }
  srandom((unsigned)getpid());
  if (strcmp(argv[3], "die") == 0) return die_often((unsigned)seconds, argv[1], argv[2]);
  attach(argv[1], argv[2]);
  collect((uint32_t)min, (uint32_t)max);
  uint64_t start = fs_now_ns(), patience = c.ctl->deadline_ns;
  if (strcmp(argv[3], "all") == 0)
    all(patience);
  else if (strcmp(argv[3], "random") == 0)
    random_blocks(seconds, (uint32_t)window, patience);
  else if (strcmp(argv[3], "rude") == 0)
    rude(seconds);
  else
    return 2;
  report(fs_now_ns() - start);
  return 0;
}
