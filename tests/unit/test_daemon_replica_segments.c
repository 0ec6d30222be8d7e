/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replicas of files of several writers (replica_fixture.h): the list of a file's segments at the partner, whole,
 * changed, in pieces that come twice or not at all; segments, which are brought there before their file's home hears of
 * them; and what is passed over of a file of which only some bytes can be others.
 */
#include "replica_fixture.h"

#define SEGMENT(rank) FS_OUTPUT_ID_MAKE(rank, 1ull << 47 | 5)

static const struct fs_output_extent first[] = {{0, 100, SEGMENT(2)}, {200, 50, SEGMENT(1)}, {1000, 24, SEGMENT(2)}};
#define FIRST FS_ARRAY_LEN(first)

static void has(const struct fs_output_extent *want, uint32_t n) {
  const struct fs_backing_file *f = fs_backing_find(d, THEIRS);
  uint32_t count;
  assert_non_null(f);
  const struct fs_output_extent *e = fs_extents_all(f->extents, &count);
  assert_int_equal(count, n);
  if (n > 0) assert_memory_equal(e, want, n * sizeof(*e));
}
static void begins(void) {
  block(1, 0, 'a', 2000);
  word_list(1, 1, 2000, 0, (struct fs_replica_list){.total = FIRST, .all = 1}, first, FIRST);
  run();
  answered(0);
}

/* All of the list; changes of it; then home dies. */
static void test_list(void **state) {
  const struct fs_output_extent change[] = {{50, 100, SEGMENT(1)}, {1010, 0, 0}};
  const struct fs_output_extent want[] = {
      {0, 50, SEGMENT(2)}, {50, 100, SEGMENT(1)}, {200, 50, SEGMENT(1)}, {1000, 10, SEGMENT(2)}};
  (void)state;
  begins();
  word_list(2, 0, 1010, 0, (struct fs_replica_list){.total = 2}, change, 2);
  run();
  answered(0);
  word_list(2, 0, 1010, 0, (struct fs_replica_list){.total = 2}, change, 2); /* the answer was lost */
  answered(0);
  block(3, 0, 'b', 1010);
  word(3, 1, 1010, 1000);
  run();
  answered(0);
  goes(0);
  run();
  has(want, FS_ARRAY_LEN(want));
  assert_int_equal(size_of(THEIRS), 1010);
}

/* What home did not finish does not hold: neither more nor less than before. */
static void test_unfinished(void **state) {
  const struct fs_output_extent other = {0, 5000, SEGMENT(1)};
  (void)state;
  begins();
  word_list(2, 0, 2000, FS_REPLICA_MORE, (struct fs_replica_list){.total = 2, .all = 1}, &other, 1);
  run();
  answered(0);
  goes(0);
  run();
  has(first, FIRST);
}

static void test_pieces(void **state) {
  static struct fs_output_extent all[1500];
  (void)state;
  for (uint32_t i = 0; i < FS_ARRAY_LEN(all); i++) all[i] = (struct fs_output_extent){i * 10, 5, SEGMENT(2)};
  begins();
  for (uint32_t at = 0; at < 1200; at += 600) {
    for (unsigned again = 0; again < 2; again++) {
      word_list(2, 1, 20000, FS_REPLICA_MORE, (struct fs_replica_list){.at = at, .total = 1500, .all = 1}, all + at,
                600);
      answered(0);
    }
  }
  word_list(2, 1, 20000, 0, (struct fs_replica_list){.at = 1201, .total = 1500, .all = 1}, all + 1201, 299);
  answered(-EILSEQ); /* one is missing, */
  word_list(2, 1, 20000, 0, (struct fs_replica_list){.at = 1200, .total = 1501, .all = 1}, all + 1200, 300);
  answered(-EILSEQ); /* and here the last */
  block(3, 0, 'c', 10);
  for (uint32_t at = 0; at < 1200; at += 600) {
    word_list(3, 1, 20000, FS_REPLICA_MORE, (struct fs_replica_list){.at = at, .total = 1500, .all = 1}, all + at, 600);
    answered(0);
  }
  word_list(3, 1, 20000, 0, (struct fs_replica_list){.at = 1200, .total = 1500, .all = 1}, all + 1200, 300);
  run();
  answered(0);
  goes(0);
  run();
  has(all, FS_ARRAY_LEN(all));
}

/* A new list in the place of the old one, with nothing in it. */
static void test_none_left(void **state) {
  (void)state;
  begins();
  word_list(2, 0, 2000, 0, (struct fs_replica_list){.all = 1}, first, 0);
  run();
  answered(0);
  goes(0);
  run();
  has(NULL, 0);
}

/* A part of a node that dies is this node's, and nobody's output; the next partner gets it. */
static void test_successor(void **state) {
  struct fs_names_call hold = {.op = FS_NAMES_OPEN, .open.id = THEIRS};
  struct fs_ns_message head = {.id = 77, .set = 2};
  (void)state;
  block(1, 0, 'p', 300);
  word_list(1, 1, 300, FS_REPLICA_SEGMENT, (struct fs_replica_list){.all = 1}, first, 0);
  run();
  answered(0);
  goes(0);
  run();
  const struct fs_backing_file *f = fs_backing_find(d, THEIRS);
  assert_true(f && f->segment && f->dir == 0 && f->mode == 0 && fs_backing_mine(d, THEIRS));
  assert_int_equal(said.call.op, FS_NAMES_REPLICA);
  assert_int_equal(said.call.replica.id, THEIRS);
  assert_true(said.call.flags & FS_REPLICA_SEGMENT);
  said.answers = 0;
  fs_ns_receive(d->ns, d->now, 2, &head, &hold, sizeof(hold));
  answered(0);
}

/* Who has heard of home's death sooner than this node asks again until that is known here, too. */
static void test_heard_later(void **state) {
  struct fs_names_call hold = {.op = FS_NAMES_OPEN, .open.id = THEIRS};
  struct fs_ns_message head = {.id = 78, .set = 2};
  (void)state;
  begins();
  fs_ns_receive(d->ns, d->now, 2, &head, &hold, sizeof(hold));
  answered(-EAGAIN);
  goes(0);
  run();
  said.answers = 0;
  fs_ns_receive(d->ns, d->now, 2, &head, &hold, sizeof(hold));
  answered(0);
}

/* Of a file that home had not told its partner of nobody hears that all is well, or that it was removed. */
static void test_untold(void **state) {
  struct fs_names_call extend = {.op = FS_NAMES_EXTEND, .extend = {.id = THEIRS, .segment = SEGMENT(2)}};
  struct fs_ns_message head = {.id = 79, .set = 2};
  (void)state;
  goes(0);
  run();
  said.answers = 0;
  fs_ns_receive(d->ns, d->now, 2, &head, &extend, sizeof(extend));
  answered(-EIO);
}

/* ---- home and writer ---- */

static void told(uint32_t all, const struct fs_output_extent *want, uint32_t n) {
  struct fs_replica_list head;
  assert_int_equal(said.call.op, FS_NAMES_REPLICA);
  assert_int_equal(said.call.tail2_len, sizeof(head) + n * sizeof(*want));
  memcpy(&head, said.list, sizeof(head));
  assert_true(head.at == 0 && head.total == n && (head.all != 0) == (all != 0));
  if (n > 0) assert_memory_equal(said.list + sizeof(head), want, n * sizeof(*want));
}
static void again(void) {
  outcome.n = said.asks = 0;
  fs_replicate(d, OURS, (struct fs_replica_wish){.begin = UINT64_MAX, .end = UINT64_MAX}, replicated, NULL);
  run();
}

/* The whole list first, then what has changed; all again to who did not take it. */
static void test_told(void **state) {
  const struct fs_output_extent one = {10, 20, SEGMENT(2)}, two = {100, 5, SEGMENT(1)}, cut = {.off = 15},
                                both[] = {one, two};
  const struct fs_output_extent left = {10, 5, SEGMENT(2)};
  (void)state;
  replicate("bytes");
  answer(0);
  struct fs_backing_file *f = fs_backing_find(d, OURS);
  assert_int_equal(fs_backing_put(d, f, one) + fs_backing_put(d, f, two), 0);
  again();
  told(0, both, 2);
  answer(-ENOSPC);
  assert_int_equal(outcome.err, -ENOSPC);
  again();
  told(1, both, 2);
  answer(0);
  fs_backing_cut(d, f, 15);
  again();
  told(0, &cut, 1);
  answer(0);
  again();
  if (said.asks > 0) { /* it is too young to be known as the same */
    assert_int_equal(said.call.tail2_len, 0);
    answer(0);
  }
  fs_backing_put(d, f, two);
  again();
  told(0, &two, 1);
  answer(-EILSEQ); /* it has lost something, */
  for (unsigned i = 0; i < 5; i++) wait_ns(SECOND / 50), run();
  const struct fs_output_extent all[] = {left, two};
  told(1, all, 2); /* and is told everything anew */
  answer(0);
  assert_int_equal(outcome.n, 1);
  assert_int_equal(outcome.err, 0);
}

/* More changes than one message has room for. */
static void test_told_in_pieces(void **state) {
  uint32_t heard = 0;
  (void)state;
  replicate("bytes");
  answer(0);
  struct fs_backing_file *f = fs_backing_find(d, OURS);
  for (uint64_t i = 0; i < 2000; i++) fs_backing_put(d, f, (struct fs_output_extent){i * 10, 5, SEGMENT(2)});
  again();
  for (unsigned i = 0; outcome.n == 0 && i < 20; i++) {
    struct fs_replica_list head;
    memcpy(&head, said.list, sizeof(head));
    assert_true(said.call.tail2_len > 0 && head.total == 2000 && head.at == heard);
    heard += (uint32_t)((said.call.tail2_len - sizeof(head)) / sizeof(struct fs_output_extent));
    assert_int_equal((said.call.flags & FS_REPLICA_MORE) != 0, heard < 2000);
    answer(0);
  }
  assert_true(outcome.n == 1 && outcome.err == 0 && heard == 2000);
}

static struct {
  unsigned n;
  fs_err err;
} extended;
static void extend_done(void *ctx, fs_err err, const void *body, size_t n) {
  (void)ctx, (void)body, (void)n;
  extended.n++;
  extended.err = err;
}
static void put_segment(char fill, uint64_t off, size_t n) {
  static char buf[3 * FS_OUTPUT_BLOCK];
  char name[FS_BACKING_NAME_SIZE];
  memset(buf, fill, n);
  int fd = openat(d->backing_fd, fs_backing_name(SEGMENT(1), name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  assert_true(fd >= 0 && pwrite(fd, buf, n, (off_t)off) == (ssize_t)n);
  close(fd);
}
/* Of a file of node 2's. */
static void extend(uint64_t off, uint64_t len) {
  const struct extend_call m = extend_call(FS_OUTPUT_ID_MAKE(2, 3), SEGMENT(1), off, len);
  extended.n = said.asks = 0;
  fs_segment_extend(d, &m.c, extend_done, NULL);
  run();
}
static void sent(uint32_t blocks) {
  assert_int_equal(world.sends, blocks);
  for (uint32_t i = 0; i < blocks; i++) world.sent[i].op->done(world.sent[i].op, 2, world.sent[i].bytes, 0);
  world.sends = 0;
  run();
}

/* Home hears of bytes when the partner has them; of others, before and behind, nothing goes. */
static void test_segment_first(void **state) {
  (void)state;
  put_segment('a', 0, 3 * FS_OUTPUT_BLOCK);
  extend(0, 3 * FS_OUTPUT_BLOCK);
  assert_int_equal(said.call.op, FS_NAMES_REPLICA);
  assert_true(said.call.flags & FS_REPLICA_SEGMENT);
  assert_int_equal(said.call.replica.id, SEGMENT(1));
  sent(3);
  assert_int_equal(said.call.op, FS_NAMES_REPLICA);
  answer(0);
  assert_int_equal(said.call.op, FS_NAMES_EXTEND);
  assert_int_equal(extended.n, 0);
  answer(0);
  assert_true(extended.n == 1 && extended.err == 0);
  put_segment('b', 0, 3 * FS_OUTPUT_BLOCK);
  extend(FS_OUTPUT_BLOCK + 5, 10);
  sent(2); /* its block, and the last one, which may have become longer */
  answer(0);
  answer(0);
  assert_true(extended.n == 1 && extended.err == 0);
  extend(0, 1);
  sent(1);
  answer(-ENOSPC); /* home is told all the same */
  assert_int_equal(said.call.op, FS_NAMES_EXTEND);
  answer(0);
  assert_true(extended.n == 1 && extended.err == -ENOSPC);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      REPLICA_TEST(test_list),           REPLICA_TEST(test_unfinished),    REPLICA_TEST(test_pieces),
      REPLICA_TEST(test_none_left),      REPLICA_TEST(test_successor),     REPLICA_TEST(test_told),
      REPLICA_TEST(test_told_in_pieces), REPLICA_TEST(test_segment_first), REPLICA_TEST(test_heard_later),
      REPLICA_TEST(test_untold),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
