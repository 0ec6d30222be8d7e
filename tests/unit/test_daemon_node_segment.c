/* SPDX-License-Identifier: BSD-3-Clause */
/* The one segment of a file that a node has: what is offered, known and dropped, against a plain array; and what is no
 * segment. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/outputs/forwarder.h"
#include "daemon/outputs/node_segment.h"
#include "replica_fixture.h"

#define FILES 700u
#define FILE_OF(i) FS_OUTPUT_ID_MAKE(2, (i) + 1)
#define SEGMENT_OF(i) FS_OUTPUT_ID_MAKE(1, 1ull << 47 | (i))

static void backing(uint64_t id) {
  char name[FS_BACKING_NAME_SIZE];
  int fd = openat(d->backing_fd, fs_backing_name(id, name), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  close(fd);
}
static bool there(uint64_t id) {
  char name[FS_BACKING_NAME_SIZE];
  return faccessat(d->backing_fd, fs_backing_name(id, name), F_OK, 0) == 0;
}
static void unlink_backing(uint64_t id) {
  char name[FS_BACKING_NAME_SIZE];
  assert_int_equal(unlinkat(d->backing_fd, fs_backing_name(id, name), 0), 0);
}
static uint64_t offer(uint64_t file, uint64_t segment) {
  uint64_t answer = UINT64_MAX;
  assert_int_equal(fs_node_segment_offered(d, file, segment, &answer), 0);
  return answer;
}
static void refused(uint64_t file, uint64_t segment) {
  uint64_t answer;
  assert_int_equal(fs_node_segment_offered(d, file, segment, &answer), -EINVAL);
  assert_int_equal(offer(file, 0), 0);
}

static int setup_segments(void **state) {
  if (setup(state) != 0) return -1;
  assert_int_equal(fs_forwarders_new(d), 0);
  return fs_node_segments_new(d);
}

static void test_first(void **state) {
  (void)state;
  assert_int_equal(offer(FILE_OF(1), 0), 0);
  backing(SEGMENT_OF(1));
  backing(SEGMENT_OF(2));
  assert_int_equal(offer(FILE_OF(1), SEGMENT_OF(1)), SEGMENT_OF(1));
  assert_int_equal(offer(FILE_OF(1), SEGMENT_OF(2)), SEGMENT_OF(1)); /* the first one is it */
  assert_int_equal(offer(FILE_OF(1), 0), SEGMENT_OF(1));
  assert_int_equal(offer(FILE_OF(1), SEGMENT_OF(1)), SEGMENT_OF(1));
  assert_int_equal(offer(FILE_OF(2), 0), 0);
  assert_int_equal(offer(FILE_OF(2), SEGMENT_OF(2)), SEGMENT_OF(2)); /* nobody's until now */
}

static void test_refused(void **state) {
  (void)state;
  struct fs_names_call forwarder = {.op = FS_NAMES_FORWARD, .forwarder = {.id = SEGMENT_OF(3), .file = FILE_OF(9)}};
  char name[FS_BACKING_NAME_SIZE];
  refused(FILE_OF(1), SEGMENT_OF(1)); /* is not there */
  backing(SEGMENT_OF(1));
  refused(SEGMENT_OF(1), SEGMENT_OF(1)); /* itself */
  fs_backing_creating(d, SEGMENT_OF(1), FS_DATASET_DIR(0, 0));
  refused(FILE_OF(1), SEGMENT_OF(1)); /* has a name */
  assert_int_equal(mkdirat(d->backing_fd, fs_backing_name(SEGMENT_OF(2), name), 0700), 0);
  refused(FILE_OF(1), SEGMENT_OF(2));
  backing(SEGMENT_OF(3));
  assert_int_equal(fs_forwarder_begin(d, &forwarder), 0);
  refused(FILE_OF(1), SEGMENT_OF(3));
  backing(SEGMENT_OF(4));
  assert_int_equal(offer(FILE_OF(4), SEGMENT_OF(4)), SEGMENT_OF(4));
  refused(FILE_OF(1), SEGMENT_OF(4)); /* another file's */
  assert_int_equal(offer(FILE_OF(4), 0), SEGMENT_OF(4));
}

static void test_gone(void **state) {
  (void)state;
  for (unsigned i = 1; i <= 4; i++) {
    backing(SEGMENT_OF(i));
    assert_int_equal(offer(FILE_OF(i), SEGMENT_OF(i)), SEGMENT_OF(i));
  }
  unlink_backing(SEGMENT_OF(1));
  assert_int_equal(offer(FILE_OF(1), 0), 0);
  fs_backing_dropped(d, SEGMENT_OF(2)); /* by home, which knows of it */
  assert_int_equal(offer(FILE_OF(2), 0), 0);
  fs_node_segment_useless(d, FILE_OF(3)); /* which does not */
  fs_node_segment_useless(d, FILE_OF(7));
  assert_int_equal(offer(FILE_OF(3), 0), 0);
  run();
  assert_false(there(SEGMENT_OF(2)));
  assert_false(there(SEGMENT_OF(3)));
  assert_int_equal(offer(FILE_OF(4), 0), SEGMENT_OF(4));
  backing(SEGMENT_OF(5));
  assert_int_equal(offer(FILE_OF(1), SEGMENT_OF(5)), SEGMENT_OF(5));
}

/* Home tells all that have written a file of its end, also those of which its list names nothing any more. */
static void test_written(void **state) {
  const struct extend_call m = extend_call(OURS, FS_OUTPUT_ID_MAKE(2, 5), 0, 100);
  (void)state;
  backing(OURS);
  fs_backing_creating(d, OURS, FS_DATASET_DIR(0, 0));
  struct fs_backing_file *f = fs_backing_find(d, OURS);
  fs_backing_home(d, (struct fs_asked){.from = 2, .id = 5}, &m.c);
  run();
  assert_true(fs_backing_writes(d, f, 2) && !fs_backing_writes(d, f, 0) && !fs_backing_writes(d, f, 1));
  fs_backing_cut(d, f, 0);
  backing(SEGMENT_OF(1));
  assert_int_equal(offer(OURS, SEGMENT_OF(1)), SEGMENT_OF(1));
  assert_int_equal(fs_backing_writer(d, f, 1), 0);
  said.asks = 0;
  fs_backing_dropped(d, OURS);
  run();
  assert_int_equal(said.asks, 1);
  assert_true(said.call.op == FS_NAMES_DROP && said.call.drop.id == OURS);
  assert_false(there(OURS) || there(SEGMENT_OF(1)));
  backing(SEGMENT_OF(2));
  assert_int_equal(offer(FILE_OF(2), SEGMENT_OF(2)), SEGMENT_OF(2));
  fs_backing_dropped(d, FILE_OF(2)); /* another node's */
  run();
  assert_false(there(SEGMENT_OF(2)));
}

/* A removed file's bytes are left to the program that has removed it for 20 ms, or 10 ms beside others that are due,
 * unless another node waits for their end. */
static void test_left(void **state) {
  (void)state;
  for (unsigned i = 1; i <= 2; i++) {
    backing(SEGMENT_OF(i));
    fs_backing_dropped_soon(d, SEGMENT_OF(i));
  }
  backing(SEGMENT_OF(3));
  d->now += SECOND / 1000 * 15;
  assert_true(fs_backing_leaving(d, SEGMENT_OF(1)));
  assert_true(fs_backing_leaving(d, SEGMENT_OF(3))); /* nobody has told of it so far */
  assert_false(fs_backing_leaving(d, FILE_OF(1)));
  d->now += SECOND / 1000 * 8;
  fs_backing_drop_timers(d);
  run();
  assert_true(there(SEGMENT_OF(1)) && !there(SEGMENT_OF(2)) && there(SEGMENT_OF(3)));
  assert_true(fs_backing_dropping(d, (struct fs_asked){.from = 2, .id = 5}, SEGMENT_OF(1)));
  run();
  assert_true(!there(SEGMENT_OF(1)) && there(SEGMENT_OF(3)));
  d->now += SECOND / 80;
  fs_backing_drop_timers(d);
  run();
  assert_false(there(SEGMENT_OF(3)));
  assert_null(fs_backing_find(d, SEGMENT_OF(3)));
  assert_false(fs_backing_dropping(d, (struct fs_asked){.from = 2, .id = 6}, SEGMENT_OF(3)));
}

/* Held by another node, its bytes stay; but no new writer gets it. */
static void test_held(void **state) {
  (void)state;
  backing(SEGMENT_OF(1));
  assert_int_equal(offer(FILE_OF(1), SEGMENT_OF(1)), SEGMENT_OF(1));
  struct fs_asked a = {.from = 2, .id = 5};
  struct fs_names_call hold = {.op = FS_NAMES_OPEN, .open.id = SEGMENT_OF(1)};
  fs_backing_home(d, a, &hold);
  fs_backing_dropped(d, SEGMENT_OF(1));
  run();
  assert_true(there(SEGMENT_OF(1)));
  assert_int_equal(offer(FILE_OF(1), 0), 0);
  refused(FILE_OF(1), SEGMENT_OF(1));
  hold.op = FS_NAMES_CLOSE;
  fs_backing_home(d, a, &hold);
  run();
  assert_false(there(SEGMENT_OF(1)));
}

static void test_many(void **state) {
  static uint64_t model[FILES];
  uint64_t segment = 1000;
  (void)state;
  srandom(7);
  for (unsigned i = 0; i < 12 * FILES; i++) {
    unsigned file = (unsigned)random() % FILES, what = (unsigned)random() % 5;
    if (what < 2) {
      backing(SEGMENT_OF(segment));
      uint64_t got = offer(FILE_OF(file), SEGMENT_OF(segment));
      assert_int_equal(got, model[file] != 0 ? model[file] : SEGMENT_OF(segment));
      if (got != SEGMENT_OF(segment)) unlink_backing(SEGMENT_OF(segment));
      model[file] = got;
      segment++;
    } else if (what == 2 && model[file] != 0) {
      fs_node_segment_dropped(d, model[file]);
      unlink_backing(model[file]);
      model[file] = 0;
    } else if (what == 3 && model[file] != 0 && i % 4 == 0) {
      unlink_backing(model[file]);
      model[file] = 0;
    }
    assert_int_equal(offer(FILE_OF(file), 0), model[file]);
  }
  for (unsigned i = 0; i < FILES; i++) assert_int_equal(offer(FILE_OF(i), 0), model[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_first, setup_segments, teardown),
      cmocka_unit_test_setup_teardown(test_refused, setup_segments, teardown),
      cmocka_unit_test_setup_teardown(test_gone, setup_segments, teardown),
      cmocka_unit_test_setup_teardown(test_written, setup_segments, teardown),
      cmocka_unit_test_setup_teardown(test_left, setup_segments, teardown),
      cmocka_unit_test_setup_teardown(test_held, setup_segments, teardown),
      cmocka_unit_test_setup_teardown(test_many, setup_segments, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
