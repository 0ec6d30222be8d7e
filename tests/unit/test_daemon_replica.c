/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replicas of output files, as the second of three nodes sees them: it keeps those of node 0, over a network of the
 * test's own in which blocks come late, in any order or not at all; and brings its own to node 2, which refuses, dies
 * or does not hear.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/ns_priv.h"
#include "daemon/replica.h"
#include "net_fixture.h"
#include "util/sys.h"
#include "util/util.h"

#define SECOND 1000000000ull
#define THEIRS FS_OUT_ID_MAKE(0, 7)
#define OURS FS_OUT_ID_MAKE(1, 9)

static struct fs_daemon *d;
static struct fs_daemon_config config;
static char dir[1024];
static uint64_t question;

/* What the daemon last said to another about names. */
static struct {
  unsigned answers, asks;
  fs_err err;
  struct fs_ns_message head;
  struct fs_names_call call;
} said;

static struct {
  uint64_t id;
  uint32_t rank;
} ping[64];
static unsigned pings;

static void keep_send(struct fs_ns *ns, uint32_t rank, const struct fs_ns_message *head, const void *body, size_t n) {
  (void)ns;
  if (head->answer) {
    said.answers++;
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
  if (c->op != FS_NAMES_REPLICA && c->op != FS_NAMES_DROP) return;
  said.asks++;
  said.head = *head;
  memcpy(&said.call, body, sizeof(said.call));
}
static void take_dropped(struct fs_ns *ns, uint64_t id) {
  (void)ns;
  fs_spill_dropped(d, id);
}
static void take_home(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  (void)ns;
  fs_spill_home(d, a, c);
}
static void take_members(struct fs_ns *ns) {
  (void)ns;
  fs_replicas_members(d);
}
static void take_tree(struct fs_ns *ns) {
  (void)ns;
}
static const struct fs_ns_hooks hooks = {
    .send = keep_send, .dropped = take_dropped, .home = take_home, .members = take_members, .tree = take_tree};

static int setup(void **state) {
  (void)state;
  memset(&said, 0, sizeof(said));
  pings = 0;
  d = new_daemon(&config, 1, 3, dir, sizeof(dir));
  config = (struct fs_daemon_config){.deadline_ns = 4 * SECOND, .replicas = 1, .read_only = true, .job = "test"};
  d->ctl = calloc(1, sizeof(*d->ctl));
  d->now = 1000 * SECOND;
  d->spill_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_int_equal(mkdirat(d->spill_fd, FS_OUT_DIR, 0700), 0);
  assert_int_equal(fs_iopool_start(&d->pool, 1, d->wake), 0);
  assert_int_equal(fs_spill_new(d), 0);
  assert_int_equal(fs_ns_new(&d->ns, 1, 3, SECOND, &hooks, d), 0);
  assert_int_equal(fs_replicas_start(d), 0);
  return 0;
}
static int teardown(void **state) {
  (void)state;
  keep_daemon(d);
  close(d->spill_fd);
  return fs_remove_tree(dir);
}

/* Until the pool has nothing to do, or something was said. */
static void run(void) {
  for (unsigned quiet = 0; quiet < 20; quiet++) {
    if (fs_iopool_reap(&d->replicas->pool) + fs_iopool_reap(&d->pool) > 0) quiet = 0;
    usleep(1000);
  }
}
static void wait_ns(uint64_t ns) {
  d->now += ns;
  fs_ns_timers(d->ns, d->now);
  fs_replicas_timers(d);
  while (pings > 0) { /* the others live */
    struct fs_ns_message head = {.id = ping[--pings].id, .set = 1, .answer = 1};
    fs_ns_receive(d->ns, d->now, ping[pings].rank, &head, NULL, 0);
  }
}

/* ---- what node 0 says ---- */

static void block(uint32_t generation, uint64_t offset, char fill, uint32_t n) {
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
  m.op->done(m.op, 0, sizeof(*h) + n, 0);
}
static void word(uint32_t generation, uint32_t blocks, uint64_t size, uint32_t upto) {
  struct fs_names_call c = {.op = FS_NAMES_REPLICA,
                            .id = THEIRS,
                            .dir = FS_DATASET_DIR(0, 0),
                            .to = (uint64_t)generation << 32 | blocks,
                            .seq = 1,
                            .size = size,
                            .mtime = 1000,
                            .mode = S_IFREG | 0644,
                            .blocks = upto};
  struct fs_ns_message head = {.id = ++question, .set = 1};
  said.answers = 0;
  fs_ns_receive(d->ns, d->now, 0, &head, &c, sizeof(c));
}
static void answered(fs_err err) {
  assert_int_equal(said.answers, 1);
  assert_int_equal(said.err, err);
  said.answers = 0;
}
static int64_t size_of(uint64_t id) {
  char name[FS_SPILL_NAME_SIZE];
  struct stat st;
  return fstatat(d->spill_fd, fs_spill_name(id, name), &st, 0) < 0 ? -errno : st.st_size;
}
static void goes(uint32_t rank) {
  struct {
    struct fs_names_call c;
    uint64_t bits;
  } m = {.c = {.op = FS_NAMES_SET, .seq = 2}, .bits = 7 & ~(1ull << rank)};
  struct fs_ns_message head = {.id = ++question, .set = 2};
  fs_ns_receive(d->ns, d->now, rank == 0 ? 2 : 0, &head, &m, sizeof(m));
}

static void test_whole(void **state) {
  (void)state;
  block(1, 0, 'a', FS_OUT_BLOCK);
  block(1, FS_OUT_BLOCK, 'b', 100);
  run();
  word(1, 2, FS_OUT_BLOCK + 100, 2);
  run();
  answered(0);
  word(1, 2, FS_OUT_BLOCK + 100, 2); /* said again: the answer was lost */
  answered(0);
  assert_int_equal(size_of(THEIRS), FS_OUT_BLOCK + 100);
  goes(0);
  run();
  assert_true(fs_spill_mine(d, THEIRS));
  assert_non_null(fs_spill_find(d, THEIRS));
}

/* Home dies while it brings what was appended: the last block came, one before it did not. */
static void test_no_hole(void **state) {
  (void)state;
  block(1, 0, 'a', 1000);
  word(1, 1, 1000, 1);
  run();
  answered(0);
  block(2, 3 * FS_OUT_BLOCK, 'd', 10);
  run();
  goes(0);
  run();
  assert_int_equal(size_of(THEIRS), 1000);
}

static void test_never_whole(void **state) {
  (void)state;
  block(1, 0, 'a', 1000);
  run();
  goes(0);
  run();
  assert_int_equal(size_of(THEIRS), -ENOENT);
  assert_null(fs_spill_find(d, THEIRS));
}

/* Blocks that are behind those of other files, or of a slow disk, are waited for; those that are lost are not. */
static void test_late_blocks(void **state) {
  (void)state;
  block(1, 0, 'a', 1000);
  word(1, 2, FS_OUT_BLOCK + 10, 5);
  run();
  for (unsigned i = 0; i < 3; i++) {
    wait_ns(SECOND);
    answered(-EAGAIN);
    word(1, 2, FS_OUT_BLOCK + 10, 5);
  }
  block(1, FS_OUT_BLOCK, 'b', 10);
  run();
  answered(0);
  block(2, 0, 'c', 1000);
  for (unsigned i = 0; i < 3; i++) block(1, 0, 'x', 1); /* others': as many as home had sent */
  word(2, 2, FS_OUT_BLOCK + 10, 6);
  run();
  wait_ns(SECOND);
  answered(-EILSEQ);
}

/* What home says while the word before is still being written must not be done with that one's size. */
static void test_newer_word(void **state) {
  (void)state;
  block(1, 0, 'a', 1000);
  run();
  word(1, 1, 1000, 1); /* the pool has it */
  word(2, 0, 400, 1);
  if (said.answers == 2) said.answers = 1; /* the first is no more, the second comes too early */
  answered(-EAGAIN);
  run();
  word(2, 0, 400, 1);
  run();
  answered(0);
  assert_int_equal(size_of(THEIRS), 400);
}

/* Where home has a hole, nothing is left of what was there; and what is no range of a file is not believed. */
static void hole(uint32_t generation, uint64_t offset, uint64_t n) {
  assert_true(world.recvs > 0);
  struct message m = world.recv[--world.recvs];
  struct fs_wire_replica *h = m.buf;
  *h = (struct fs_wire_replica){.magic = FS_WIRE_REPLICA_MAGIC,
                                .version = FS_WIRE_VERSION,
                                .file = THEIRS,
                                .generation = generation,
                                .offset = offset,
                                .hole = n};
  m.op->done(m.op, 0, sizeof(*h), 0);
}
static void test_holes(void **state) {
  char name[FS_SPILL_NAME_SIZE], bytes[3000];
  const uint64_t size = 100ull << 30;
  (void)state;
  block(1, 0, 'a', 3000);
  word(1, 1, 3000, 1);
  run();
  answered(0);
  hole(2, 0, UINT64_MAX);
  hole(2, UINT64_MAX, 1);
  hole(2, (uint64_t)FS_OUT_BLOCK * FS_OUT_BLOCKS, 1);
  hole(2, 1000, size - 1000);
  word(2, 1, size, 5);
  run();
  answered(0);
  assert_int_equal(size_of(THEIRS), size);
  int fd = openat(d->spill_fd, fs_spill_name(THEIRS, name), O_RDONLY | O_CLOEXEC);
  assert_int_equal(read(fd, bytes, sizeof(bytes)), sizeof(bytes));
  close(fd);
  assert_true(bytes[999] == 'a' && bytes[1000] == 0 && bytes[2999] == 0);
}

static void test_limit(void **state) {
  (void)state;
  block(1, 0, 'a', 1000);
  word(1, 1, 1000, 1);
  run();
  answered(0);
  atomic_store(&d->ctl->output_full, 1);
  block(2, 0, 'b', 1000);
  word(2, 1, 1000, 2);
  run();
  answered(0);
  block(3, 1000, 'c', 1);
  run();
  word(3, 1, 1001, 3);
  run();
  answered(-EDQUOT);
  assert_int_equal(size_of(THEIRS), 1000);
}

/* ---- what node 2 hears ---- */

static struct {
  unsigned n;
  fs_err err;
} outcome;
static void replicated(void *ctx, fs_err err) {
  (void)ctx;
  outcome.n++;
  outcome.err = err;
}
static void replicate(const char *bytes) {
  char name[FS_SPILL_NAME_SIZE];
  struct fs_names_call c = {.op = FS_NAMES_PUBLISH, .id = OURS, .dir = FS_DATASET_DIR(0, 0), .mode = S_IFREG | 0644};
  int fd = openat(d->spill_fd, fs_spill_name(OURS, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  assert_true(fd >= 0 && write(fd, bytes, strlen(bytes)) == (ssize_t)strlen(bytes));
  close(fd);
  fs_spill_creating(d, OURS, c.dir);
  outcome.n = said.asks = 0;
  fs_replicate(d, OURS, false, false, replicated, NULL);
  run();
}
static void answer(fs_err err) {
  struct fs_ns_message head = {.id = said.head.id, .set = 1, .err = err, .answer = 1};
  assert_true(said.asks > 0);
  said.asks = 0;
  fs_ns_receive(d->ns, d->now, 2, &head, NULL, 0);
}

static void test_refused(void **state) {
  const fs_err is[][2] = {{0, 0}, {-ENOSPC, -ENOSPC}, {-EDQUOT, -EDQUOT}, {-ENOENT, -EIO}};
  (void)state;
  for (unsigned i = 0; i < FS_ARRAY_LEN(is); i++) {
    replicate(i % 2 ? "one" : "another");
    assert_int_equal(said.call.op, FS_NAMES_REPLICA);
    assert_int_equal(outcome.n, 0);
    answer(is[i][0]);
    assert_int_equal(outcome.n, 1);
    assert_int_equal(outcome.err, is[i][1]);
  }
}

/* It answered, and is gone when that is read: what it has nobody will give out. */
static void test_gone(void **state) {
  (void)state;
  replicate("bytes");
  fs_members_without(&d->ns->members, 2);
  answer(0);
  assert_int_equal(outcome.n, 0);
}

/* A file that was removed goes there as well, however often that must be said. */
static void test_removal(void **state) {
  (void)state;
  replicate("bytes");
  answer(0);
  fs_spill_dropped(d, OURS);
  run();
  for (unsigned i = 0; i < 5; i++) {
    assert_int_equal(said.call.op, FS_NAMES_DROP);
    assert_true(said.asks > 0);
    said.asks = 0;
    for (unsigned k = 0; k < 14; k++) wait_ns(SECOND / 10);
  }
  assert_true(said.asks > 0);
  answer(0);
  for (unsigned k = 0; k < 30; k++) wait_ns(SECOND / 10);
  assert_int_equal(said.asks, 0);
}

#define REPLICA_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {
      REPLICA_TEST(test_whole),       REPLICA_TEST(test_no_hole),    REPLICA_TEST(test_never_whole),
      REPLICA_TEST(test_late_blocks), REPLICA_TEST(test_newer_word), REPLICA_TEST(test_limit),
      REPLICA_TEST(test_holes),       REPLICA_TEST(test_refused),    REPLICA_TEST(test_gone),
      REPLICA_TEST(test_removal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
