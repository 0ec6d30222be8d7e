/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who is told that an extent map has changed (daemon/outputs/extent_maps.c; replica_fixture.h): those that asked
 * since they were told last, and those that have not said yet that they know; and that the caller waits for them.
 */
#include "replica_fixture.h"

static unsigned told;
static void is_told(void *ctx, fs_err err, const void *body, size_t n) {
  (void)ctx, (void)body, (void)n;
  assert_int_equal(err, 0);
  told++;
}
/* A list has changed: how many are asked to forget theirs. */
static unsigned tell(void) {
  said.asks = told = 0;
  fs_maps_report(d, is_told, NULL);
  return said.asks;
}
static void knows(uint32_t rank, uint64_t id) {
  struct fs_ns_message head = {.id = id, .set = 1, .answer = 1};
  fs_ns_receive(d->ns, d->now, rank, &head, NULL, 0);
}

static void test_nobody(void **state) {
  (void)state;
  assert_int_equal(tell(), 0);
  assert_int_equal(told, 1);
  fs_maps_asked(d, d->net->rank);
  fs_maps_asked(d, d->net->nodes);
  assert_int_equal(tell(), 0);
  assert_int_equal(told, 1);
}

static void test_one(void **state) {
  (void)state;
  fs_maps_asked(d, 2);
  assert_int_equal(tell(), 1);
  assert_int_equal(said.call.op, FS_NAMES_MAPS);
  assert_int_equal(told, 0);
  knows(2, said.head.id);
  assert_int_equal(told, 1);
  assert_int_equal(tell(), 0); /* it has none any more */
  assert_int_equal(told, 1);
}

/* A second change while it is told of the first: it may have asked before it heard. */
static void test_two(void **state) {
  (void)state;
  fs_maps_asked(d, 2);
  assert_int_equal(tell(), 1);
  uint64_t first = said.head.id;
  assert_int_equal(tell(), 1);
  uint64_t second = said.head.id;
  fs_maps_asked(d, 2);
  knows(2, second);
  assert_int_equal(told, 1);
  knows(2, first);
  assert_int_equal(told, 2);
  assert_int_equal(tell(), 1); /* what it asked meanwhile */
  knows(2, said.head.id);
  assert_int_equal(told, 1);
}

static void test_gone(void **state) {
  (void)state;
  fs_maps_asked(d, 0);
  fs_maps_asked(d, 2);
  assert_int_equal(tell(), 2);
  knows(2, said.head.id);
  assert_int_equal(told, 0);
  goes(0);
  wait_ns(SECOND / 50);
  assert_int_equal(told, 1);
}

/* The lists of whoever went are another's, who does not know who asked. */
static void test_members(void **state) {
  (void)state;
  uint64_t word = atomic_load(&d->ctl->lists);
  fs_maps_members(d);
  assert_true(atomic_load(&d->ctl->lists) != word);
  assert_int_equal(tell(), 2);
}

/* Also of a change that went wrong after it was in the list: home's backing file cannot be made longer, say. */
static void test_failed(void **state) {
  const struct extend_call m = extend_call(OURS, FS_OUTPUT_ID_MAKE(2, 5), 0, 100);
  (void)state;
  fs_backing_creating(d, OURS, FS_DATASET_DIR(0, 0));
  fs_maps_asked(d, 0);
  said.asks = said.answers = 0;
  fs_backing_home(d, (struct fs_asked){.from = 2, .id = ++question}, &m.c);
  assert_int_equal(said.answers, 0);
  assert_true(said.asks == 1 && said.call.op == FS_NAMES_MAPS);
  knows(0, said.head.id);
  answered(-ENOENT);
}

/* Who stood still may have been left out: nothing is kept before another has answered; nor ever, if so. */
static void test_stood(void **state) {
  (void)state;
  uint64_t was = atomic_load(&d->ctl->lists);
  wait_ns(SECOND / 50);
  fs_maps_timers(d);
  assert_int_equal(atomic_load(&d->ctl->lists), was);
  d->now += 3 * SECOND;
  fs_ns_timers(d->ns, d->now);
  fs_maps_timers(d);
  assert_true(atomic_load(&d->ctl->lists) & FS_LISTS_UNKNOWN);
  fs_maps_changed(d);
  assert_true(atomic_load(&d->ctl->lists) & FS_LISTS_UNKNOWN);
  wait_ns(SECOND / 50); /* answered */
  fs_maps_timers(d);
  uint64_t now = atomic_load(&d->ctl->lists);
  assert_true(!(now & FS_LISTS_UNKNOWN) && now != was);
  goes(1);
  fs_maps_members(d);
  assert_true(atomic_load(&d->ctl->lists) & FS_LISTS_UNKNOWN);
  wait_ns(SECOND / 50);
  fs_maps_timers(d);
  assert_true(atomic_load(&d->ctl->lists) & FS_LISTS_UNKNOWN);
}

/* Its files may have another home by then, too. */
static void test_stood_home(void **state) {
  const struct fs_names_call hold = {.op = FS_NAMES_OPEN, .open.id = OURS},
                             list = {.op = FS_NAMES_EXTENTS, .extents.id = OURS};
  const struct fs_asked a = {.from = 2, .id = 5};
  (void)state;
  replicate("bytes");
  answer(0);
  run();
  wait_ns(SECOND / 50);
  for (unsigned stood = 0; stood < 3; stood++) {
    if (stood == 1) d->now += 3 * SECOND, fs_ns_timers(d->ns, d->now);
    if (stood == 2) wait_ns(SECOND / 50);
    said.answers = 0;
    fs_backing_home(d, a, &hold);
    answered(stood == 1 ? -EAGAIN : 0);
    fs_backing_home(d, a, &list);
    answered(stood == 1 ? -EAGAIN : 0);
  }
}

static void test_heard(void **state) {
  struct fs_names_call c = {.op = FS_NAMES_MAPS};
  struct fs_ns_message head = {.id = ++question, .set = 1};
  (void)state;
  uint64_t word = atomic_load(&d->ctl->lists);
  said.answers = 0;
  fs_ns_receive(d->ns, d->now, 0, &head, &c, sizeof(c));
  assert_true(atomic_load(&d->ctl->lists) != word);
  answered(0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      REPLICA_TEST(test_nobody), REPLICA_TEST(test_one),        REPLICA_TEST(test_two),
      REPLICA_TEST(test_gone),   REPLICA_TEST(test_members),    REPLICA_TEST(test_failed),
      REPLICA_TEST(test_stood),  REPLICA_TEST(test_stood_home), REPLICA_TEST(test_heard),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
