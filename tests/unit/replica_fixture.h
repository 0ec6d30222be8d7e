/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The second of three nodes, with a pool and a name service of its own, over a network that the test completes: it
 * keeps the replicas of node 0, and brings its own to node 2. For the tests of replicas.
 */
#ifndef FS_TEST_REPLICA_FIXTURE_H
#define FS_TEST_REPLICA_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/metadata/ns_priv.h"
#include "daemon/replicas/replicas.h"
#include "net_fixture.h"
#include "util/sys.h"
#include "util/util.h"

#define SECOND 1000000000ull
#define THEIRS FS_OUTPUT_ID_MAKE(0, 7)
#define OURS FS_OUTPUT_ID_MAKE(1, 9)

static struct fs_daemon *d;
static struct fs_daemon_config config;
static char dir[1024];
static uint64_t question;

/* An EXTEND: these bytes of a file are in that segment now. */
struct extend_call {
  struct fs_names_call c;
  struct fs_range r;
};
static inline struct extend_call extend_call(uint64_t id, uint64_t segment, uint64_t off, uint64_t len) {
  return (struct extend_call){
      {.op = FS_NAMES_EXTEND, .tail_len = sizeof(struct fs_range), .extend = {.id = id, .segment = segment}},
      {off, len}};
}

/* What the daemon last said to another about names. */
static struct {
  unsigned answers, asks;
  uint64_t answered[64]; /* which questions, in order */
  fs_err err;
  struct fs_ns_message head;
  struct fs_names_call call;
  char tail[FS_NAMES_BODY]; /* its name or ranges */
  char list[FS_NAMES_BODY]; /* behind its name */
} said;

static struct {
  uint64_t id;
  uint32_t rank;
} ping[64];
static unsigned pings;

static inline void keep_send(struct fs_ns *ns, uint32_t rank, const struct fs_ns_message *head, const void *body,
                             size_t n) {
  (void)ns;
  if (head->answer) {
    said.answered[said.answers++ % FS_ARRAY_LEN(said.answered)] = head->id;
    said.err = head->err;
    return;
  }
  const struct fs_names_call *c = body;
  assert_true(n >= sizeof(*c));
  if (c->op == FS_NAMES_PING) {
    assert_true(pings < FS_ARRAY_LEN(ping));
    ping[pings].id = head->id;
    ping[pings++].rank = rank;
  }
  if (c->op != FS_NAMES_REPLICA && c->op != FS_NAMES_DROP && c->op != FS_NAMES_EXTEND && c->op != FS_NAMES_MAPS &&
      c->op != FS_NAMES_LOCK)
    return;
  said.asks++;
  said.head = *head;
  memcpy(&said.call, body, sizeof(said.call));
  memcpy(said.tail, fs_call_tail(c), c->tail_len);
  memcpy(said.list, fs_call_tail2(c), c->tail2_len);
}
static inline void take_dropped(struct fs_ns *ns, uint64_t id, bool now) {
  (void)ns, (void)now;
  fs_backing_dropped(d, id);
}
static inline void take_home(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  (void)ns;
  fs_backing_home(d, a, c);
}
static inline void take_members(struct fs_ns *ns) {
  (void)ns;
  fs_replicas_members(d);
}
static inline void take_lists(struct fs_ns *ns) {
  (void)ns;
  fs_maps_changed(d);
}
static inline void take_tree(struct fs_ns *ns) {
  (void)ns;
}
static const struct fs_ns_hooks hooks = {.send = keep_send,
                                         .lists = take_lists,
                                         .dropped = take_dropped,
                                         .home = take_home,
                                         .members = take_members,
                                         .tree = take_tree};

static inline int setup(void **state) {
  (void)state;
  memset(&said, 0, sizeof(said));
  pings = 0;
  d = new_daemon(&config, 1, 3, dir, sizeof(dir));
  config = (struct fs_daemon_config){.deadline_ns = 4 * SECOND, .replicas = 1, .read_only = true, .job = "test"};
  d->ctl = calloc(1, sizeof(*d->ctl));
  d->now = 1000 * SECOND;
  d->backing_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_int_equal(mkdirat(d->backing_fd, FS_OUTPUT_DIR, 0700), 0);
  assert_int_equal(fs_iopool_start(&d->pool, 1, d->wake), 0);
  assert_int_equal(fs_backing_new(d), 0);
  assert_int_equal(fs_ns_new(&d->ns, 1, 3, SECOND, &hooks, d), 0);
  assert_int_equal(fs_replicas_start(d), 0);
  return 0;
}
static inline int teardown(void **state) {
  (void)state;
  keep_daemon(d);
  close(d->backing_fd);
  return fs_remove_tree(dir);
}

/* Until the pools have nothing to do. */
static inline void run(void) {
  for (unsigned tries = 0; d->replicas->pool.live + d->pool.live > 0; tries++) {
    assert_true(tries < 30000);
    if (fs_iopool_reap(&d->replicas->pool) + fs_iopool_reap(&d->pool) == 0) usleep(1000);
  }
}
static inline void wait_ns(uint64_t ns) {
  d->now += ns;
  fs_ns_timers(d->ns, d->now);
  fs_replicas_timers(d);
  while (pings > 0) { /* the others live */
    struct fs_ns_message head = {.id = ping[--pings].id, .set = 1, .answer = 1};
    fs_ns_receive(d->ns, d->now, ping[pings].rank, &head, NULL, 0);
  }
}

/* ---- what node 0 says ---- */

static inline void block_from(uint32_t rank, uint32_t generation, uint64_t offset, char fill, uint32_t n) {
  assert_true(world.recvs > 0);
  struct message m = world.recv[--world.recvs];
  struct fs_wire_replica *h = m.buf;
  memset(h + 1, fill, n);
  *h = (struct fs_wire_replica){.magic = FS_WIRE_REPLICA_MAGIC,
                                .version = FS_WIRE_VERSION,
                                .file = THEIRS,
                                .generation = generation,
                                .offset = offset,
                                .length = n,
                                .xxh3 = fs_xxh3(h + 1, n)};
  h->sum = fs_wire_sum(h, 0);
  m.op->done(m.op, rank, sizeof(*h) + n, 0);
}
static inline void block(uint32_t generation, uint64_t offset, char fill, uint32_t n) {
  block_from(0, generation, offset, fill, n);
}
/* The last word, or (flags) more of a list before it: behind its head, `n` of it. */
static inline void word_with(uint32_t generation, uint32_t blocks, uint64_t size, uint32_t upto, uint32_t flags,
                             const struct fs_replica_list *head, const struct fs_output_extent *list, uint32_t n) {
  alignas(8) char body[FS_NAMES_BODY] = {0};
  struct fs_names_call c = {.op = FS_NAMES_REPLICA,
                            .flags = flags,
                            .replica = {.id = THEIRS,
                                        .dir = FS_DATASET_DIR(0, 0),
                                        .generation = generation,
                                        .blocks = blocks,
                                        .number = 1,
                                        .size = size,
                                        .mtime = 1000,
                                        .mode = S_IFREG | 0644,
                                        .sent = upto}};
  struct fs_ns_message m = {.id = ++question, .set = 1};
  if (head) {
    c.tail2_len = (uint16_t)(sizeof(*head) + n * sizeof(*list));
    memcpy(body + sizeof(c), head, sizeof(*head));
    if (n > 0) memcpy(body + sizeof(c) + sizeof(*head), list, n * sizeof(*list));
  }
  memcpy(body, &c, sizeof(c));
  said.answers = 0;
  assert_true(fs_call_ok(body, fs_call_size(&c)));
  fs_ns_receive(d->ns, d->now, 0, &m, body, fs_call_size(&c));
}
static inline void word(uint32_t generation, uint32_t blocks, uint64_t size, uint32_t upto) {
  word_with(generation, blocks, size, upto, 0, NULL, NULL, 0);
}
static inline void word_list(uint32_t generation, uint32_t blocks, uint64_t size, uint32_t flags,
                             struct fs_replica_list head, const struct fs_output_extent *list, uint32_t n) {
  word_with(generation, blocks, size, 1000, flags, &head, list, n);
}
static inline void answered(fs_err err) {
  assert_int_equal(said.answers, 1);
  assert_int_equal(said.err, err);
  said.answers = 0;
}
static inline int64_t size_of(uint64_t id) {
  char name[FS_BACKING_NAME_SIZE];
  struct stat st;
  return fstatat(d->backing_fd, fs_backing_name(id, name), &st, 0) < 0 ? -errno : st.st_size;
}
static inline void goes(uint32_t rank) {
  struct {
    struct fs_names_call c;
    uint64_t bits;
  } m = {.c = {.op = FS_NAMES_SET, .tail_len = sizeof(m.bits), .set.number = 2}, .bits = 7 & ~(1ull << rank)};
  struct fs_ns_message head = {.id = ++question, .set = 2};
  fs_ns_receive(d->ns, d->now, rank == 0 ? 2 : 0, &head, &m, sizeof(m));
}

/* ---- what node 2 hears ---- */

static struct {
  unsigned n;
  fs_err err;
} outcome;
static inline void replicated(void *ctx, fs_err err) {
  (void)ctx;
  outcome.n++;
  outcome.err = err;
}
static inline void replicate(const char *bytes) {
  char name[FS_BACKING_NAME_SIZE];
  struct fs_names_call c = {.op = FS_NAMES_PUBLISH,
                            .publish = {.id = OURS, .dir = FS_DATASET_DIR(0, 0), .mode = S_IFREG | 0644}};
  int fd = openat(d->backing_fd, fs_backing_name(OURS, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  assert_true(fd >= 0 && write(fd, bytes, strlen(bytes)) == (ssize_t)strlen(bytes));
  close(fd);
  fs_backing_creating(d, OURS, c.publish.dir);
  outcome.n = said.asks = 0;
  fs_replicate(d, OURS, (struct fs_replica_wish){.end = UINT64_MAX}, replicated, NULL);
  run();
}
static inline void answer(fs_err err) {
  struct fs_ns_message head = {.id = said.head.id, .set = 1, .err = err, .answer = 1};
  assert_true(said.asks > 0);
  said.asks = 0;
  fs_ns_receive(d->ns, d->now, 2, &head, NULL, 0);
}

#define REPLICA_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

#endif
