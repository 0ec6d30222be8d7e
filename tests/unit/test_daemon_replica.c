/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replicas of output files, as the second of three nodes sees them: it keeps those of node 0, over a network of the
 * test's own in which blocks come late, in any order or not at all; and brings its own to node 2, which refuses, dies
 * or does not hear.
 */
#include "replica_fixture.h"

static void test_whole(void **state) {
  (void)state;
  block(1, 0, 'a', FS_OUTPUT_BLOCK);
  block(1, FS_OUTPUT_BLOCK, 'b', 100);
  run();
  word(1, 2, FS_OUTPUT_BLOCK + 100, 2);
  run();
  answered(0);
  word(1, 2, FS_OUTPUT_BLOCK + 100, 2); /* said again: the answer was lost */
  answered(0);
  assert_int_equal(size_of(THEIRS), FS_OUTPUT_BLOCK + 100);
  goes(0);
  run();
  assert_true(fs_backing_mine(d, THEIRS));
  assert_non_null(fs_backing_find(d, THEIRS));
}

/* Home dies while it brings what was appended: the last block came, one before it did not. */
static void test_no_hole(void **state) {
  (void)state;
  block(1, 0, 'a', 1000);
  word(1, 1, 1000, 1);
  run();
  answered(0);
  block(2, 3 * FS_OUTPUT_BLOCK, 'd', 10);
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
  assert_null(fs_backing_find(d, THEIRS));
}

/* Blocks that are behind those of other files, or of a slow disk, are waited for; those that are lost are not. */
static void test_late_blocks(void **state) {
  (void)state;
  block(1, 0, 'a', 1000);
  word(1, 2, FS_OUTPUT_BLOCK + 10, 5);
  run();
  for (unsigned i = 0; i < 3; i++) {
    wait_ns(SECOND);
    answered(-EAGAIN);
    word(1, 2, FS_OUTPUT_BLOCK + 10, 5);
  }
  block(1, FS_OUTPUT_BLOCK, 'b', 10);
  run();
  answered(0);
  block(2, 0, 'c', 1000);
  for (unsigned i = 0; i < 3; i++) block(1, 0, 'x', 1); /* others': as many as home had sent */
  word(2, 2, FS_OUTPUT_BLOCK + 10, 6);
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

/* A block of another file, another place or another generation than home meant is none. */
static void test_flipped(void **state) {
  (void)state;
  uint64_t before = d->count.dropped;
  struct fs_wire_replica good = {.magic = FS_WIRE_REPLICA_MAGIC,
                                 .version = FS_WIRE_VERSION,
                                 .file = THEIRS,
                                 .generation = 1,
                                 .offset = 0,
                                 .hole = 1000};
  good.sum = fs_wire_sum(&good, 0);
  for (size_t bit = 0; bit < sizeof(good) * 8; bit++) {
    assert_true(world.recvs > 0);
    struct message m = world.recv[--world.recvs];
    memcpy(m.buf, &good, sizeof(good));
    ((unsigned char *)m.buf)[bit / 8] ^= (unsigned char)(1u << bit % 8);
    m.op->done(m.op, 0, sizeof(good), 0);
  }
  assert_int_equal(d->count.dropped - before, sizeof(good) * 8);
}

/* The head is right, but its bytes are not those that home sent: it is told, and sends them again. */
static void test_flipped_bytes(void **state) {
  (void)state;
  assert_true(world.recvs > 0);
  unsigned char *bytes = (unsigned char *)world.recv[world.recvs - 1].buf + sizeof(struct fs_wire_replica);
  struct message m = world.recv[--world.recvs];
  struct fs_wire_replica head = {
      .magic = FS_WIRE_REPLICA_MAGIC, .version = FS_WIRE_VERSION, .file = THEIRS, .generation = 1, .length = 1000};
  memset(bytes, 'a', 1000);
  head.xxh3 = fs_xxh3(bytes, 1000);
  head.sum = fs_wire_sum(&head, 0);
  memcpy(m.buf, &head, sizeof(head));
  bytes[999] ^= 4;
  m.op->done(m.op, 0, sizeof(head) + 1000, 0);
  word(1, 1, 1000, 1);
  run();
  answered(-EILSEQ);
  block(2, 0, 'a', 1000);
  word(2, 1, 1000, 2);
  run();
  answered(0);
}

/* Blocks come from the file's home alone. */
static void test_other_sender(void **state) {
  (void)state;
  uint64_t before = d->count.dropped;
  static const uint32_t senders[] = {2, 1, 3, UINT32_MAX};
  for (unsigned i = 0; i < FS_ARRAY_LEN(senders); i++) block_from(senders[i], 1, 0, 'a', 1000);
  assert_int_equal(d->count.dropped - before, FS_ARRAY_LEN(senders));
  run();
  assert_int_equal(size_of(THEIRS), -ENOENT);
}

/* A block is as long as it says: what was in its buffer before is none of it. */
static void test_shorter_block(void **state) {
  (void)state;
  uint64_t before = d->count.dropped;
  assert_true(world.recvs > 0);
  struct message m = world.recv[--world.recvs];
  struct fs_wire_replica *h = m.buf;
  memset(h + 1, 'a', 1000);
  *h = (struct fs_wire_replica){
      .magic = FS_WIRE_REPLICA_MAGIC, .version = FS_WIRE_VERSION, .file = THEIRS, .generation = 1, .length = 1000};
  h->xxh3 = fs_xxh3(h + 1, 1000);
  h->sum = fs_wire_sum(h, 0);
  m.op->done(m.op, 0, sizeof(*h) + 999, 0);
  assert_int_equal(d->count.dropped, before + 1);
  run();
  assert_int_equal(size_of(THEIRS), -ENOENT);
}

/* The block that comes with the last word is as long as it says, and where a file can have it. */
static void test_block_in_word(void **state) {
  alignas(8) char body[FS_NAMES_BODY] = {0};
  static const uint32_t lengths[] = {9, 11, 0, UINT32_MAX, 10, 10};
  static const uint64_t offsets[FS_ARRAY_LEN(lengths)] = {[4] = (uint64_t)FS_OUTPUT_BLOCK * FS_OUTPUT_BLOCKS - 9};
  static const uint64_t holes[FS_ARRAY_LEN(lengths)] = {[5] = 10};
  (void)state;
  for (unsigned i = 0; i < FS_ARRAY_LEN(lengths); i++) {
    struct fs_names_call *c = (void *)body;
    struct fs_wire_replica head = {.file = THEIRS, .length = lengths[i], .offset = offsets[i], .hole = holes[i]};
    *c = (struct fs_names_call){.op = FS_NAMES_REPLICA,
                                .tail_len = sizeof(head) + 10,
                                .replica = {.id = THEIRS,
                                            .dir = FS_DATASET_DIR(0, 0),
                                            .generation = 1,
                                            .number = 1,
                                            .size = 10,
                                            .mtime = 1000,
                                            .mode = S_IFREG | 0644,
                                            .sent = 1}};
    memcpy(body + sizeof(*c), &head, sizeof(head));
    said.answers = 0;
    fs_ns_receive(d->ns, d->now, 0, &(struct fs_ns_message){.id = ++question, .set = 1}, body, fs_call_size(c));
    answered(-ENOMEM);
    c->tail_len = sizeof(head) - 1;
    assert_false(fs_call_ok(body, fs_call_size(c)));
  }
  run();
  assert_int_equal(size_of(THEIRS), -ENOENT);
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
  h->sum = fs_wire_sum(h, 0);
  m.op->done(m.op, 0, sizeof(*h), 0);
}
static void test_holes(void **state) {
  char name[FS_BACKING_NAME_SIZE], bytes[3000];
  const uint64_t size = 100ull << 30;
  (void)state;
  block(1, 0, 'a', 3000);
  word(1, 1, 3000, 1);
  run();
  answered(0);
  hole(2, 0, UINT64_MAX);
  hole(2, UINT64_MAX, 1);
  hole(2, (uint64_t)FS_OUTPUT_BLOCK * FS_OUTPUT_BLOCKS, 1);
  hole(2, 1000, size - 1000);
  word(2, 1, size, 5);
  run();
  answered(0);
  assert_int_equal(size_of(THEIRS), size);
  int fd = openat(d->backing_fd, fs_backing_name(THEIRS, name), O_RDONLY | O_CLOEXEC);
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
  fs_backing_dropped(d, OURS);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      REPLICA_TEST(test_whole),         REPLICA_TEST(test_no_hole),       REPLICA_TEST(test_never_whole),
      REPLICA_TEST(test_late_blocks),   REPLICA_TEST(test_newer_word),    REPLICA_TEST(test_limit),
      REPLICA_TEST(test_flipped),       REPLICA_TEST(test_flipped_bytes), REPLICA_TEST(test_other_sender),
      REPLICA_TEST(test_block_in_word), REPLICA_TEST(test_shorter_block), REPLICA_TEST(test_holes),
      REPLICA_TEST(test_refused),       REPLICA_TEST(test_gone),          REPLICA_TEST(test_removal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
