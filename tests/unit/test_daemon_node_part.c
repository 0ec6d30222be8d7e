/* SPDX-License-Identifier: BSD-3-Clause */
/* The one part of a file that a node has: what is offered, known and dropped, against a plain array; and what is no
 * part. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/outputs/node_part.h"
#include "daemon/outputs/relay.h"
#include "replica_fixture.h"

#define FILES 700u
#define FILE_OF(i) FS_OUT_ID_MAKE(2, (i) + 1)
#define PART_OF(i) FS_OUT_ID_MAKE(1, 1ull << 47 | (i))

static void spill(uint64_t id) {
  char name[FS_SPILL_NAME_SIZE];
  int fd = openat(d->spill_fd, fs_spill_name(id, name), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  close(fd);
}
static bool there(uint64_t id) {
  char name[FS_SPILL_NAME_SIZE];
  return faccessat(d->spill_fd, fs_spill_name(id, name), F_OK, 0) == 0;
}
static void unlink_spill(uint64_t id) {
  char name[FS_SPILL_NAME_SIZE];
  assert_int_equal(unlinkat(d->spill_fd, fs_spill_name(id, name), 0), 0);
}
static uint64_t offer(uint64_t file, uint64_t part) {
  uint64_t answer = UINT64_MAX;
  assert_int_equal(fs_node_part_offered(d, file, part, &answer), 0);
  return answer;
}
static void refused(uint64_t file, uint64_t part) {
  uint64_t answer;
  assert_int_equal(fs_node_part_offered(d, file, part, &answer), -EINVAL);
  assert_int_equal(offer(file, 0), 0);
}

static int setup_parts(void **state) {
  if (setup(state) != 0) return -1;
  assert_int_equal(fs_relays_new(d), 0);
  return fs_node_parts_new(d);
}

static void test_first(void **state) {
  (void)state;
  assert_int_equal(offer(FILE_OF(1), 0), 0);
  spill(PART_OF(1));
  spill(PART_OF(2));
  assert_int_equal(offer(FILE_OF(1), PART_OF(1)), PART_OF(1));
  assert_int_equal(offer(FILE_OF(1), PART_OF(2)), PART_OF(1)); /* the first one is it */
  assert_int_equal(offer(FILE_OF(1), 0), PART_OF(1));
  assert_int_equal(offer(FILE_OF(1), PART_OF(1)), PART_OF(1));
  assert_int_equal(offer(FILE_OF(2), 0), 0);
  assert_int_equal(offer(FILE_OF(2), PART_OF(2)), PART_OF(2)); /* nobody's until now */
}

static void test_refused(void **state) {
  (void)state;
  struct fs_names_call relay = {.op = FS_NAMES_RELAY, .relay = {.id = PART_OF(3), .file = FILE_OF(9)}};
  char name[FS_SPILL_NAME_SIZE];
  refused(FILE_OF(1), PART_OF(1)); /* is not there */
  spill(PART_OF(1));
  refused(PART_OF(1), PART_OF(1)); /* itself */
  fs_spill_creating(d, PART_OF(1), FS_DATASET_DIR(0, 0));
  refused(FILE_OF(1), PART_OF(1)); /* has a name */
  assert_int_equal(mkdirat(d->spill_fd, fs_spill_name(PART_OF(2), name), 0700), 0);
  refused(FILE_OF(1), PART_OF(2));
  spill(PART_OF(3));
  assert_int_equal(fs_relay_begin(d, &relay), 0);
  refused(FILE_OF(1), PART_OF(3));
  spill(PART_OF(4));
  assert_int_equal(offer(FILE_OF(4), PART_OF(4)), PART_OF(4));
  refused(FILE_OF(1), PART_OF(4)); /* another file's */
  assert_int_equal(offer(FILE_OF(4), 0), PART_OF(4));
}

static void test_gone(void **state) {
  (void)state;
  for (unsigned i = 1; i <= 4; i++) {
    spill(PART_OF(i));
    assert_int_equal(offer(FILE_OF(i), PART_OF(i)), PART_OF(i));
  }
  unlink_spill(PART_OF(1));
  assert_int_equal(offer(FILE_OF(1), 0), 0);
  fs_spill_dropped(d, PART_OF(2)); /* by home, which knows of it */
  assert_int_equal(offer(FILE_OF(2), 0), 0);
  fs_node_part_useless(d, FILE_OF(3)); /* which does not */
  fs_node_part_useless(d, FILE_OF(7));
  assert_int_equal(offer(FILE_OF(3), 0), 0);
  run();
  assert_false(there(PART_OF(2)));
  assert_false(there(PART_OF(3)));
  assert_int_equal(offer(FILE_OF(4), 0), PART_OF(4));
  spill(PART_OF(5));
  assert_int_equal(offer(FILE_OF(1), PART_OF(5)), PART_OF(5));
}

/* Home tells all that have written a file of its end, also those of which its list names nothing any more. */
static void test_written(void **state) {
  struct {
    struct fs_names_call c;
    struct fs_range r;
  } m = {{.op = FS_NAMES_EXTEND, .tail_len = sizeof(m.r), .extend = {.id = OURS, .part = FS_OUT_ID_MAKE(2, 5)}},
         {0, 100}};
  (void)state;
  spill(OURS);
  fs_spill_creating(d, OURS, FS_DATASET_DIR(0, 0));
  struct fs_spill_file *f = fs_spill_find(d, OURS);
  fs_spill_home(d, (struct fs_asked){.from = 2, .id = 5}, &m.c);
  run();
  assert_true(fs_spill_writes(d, f, 2) && !fs_spill_writes(d, f, 0) && !fs_spill_writes(d, f, 1));
  fs_spill_cut(d, f, 0);
  spill(PART_OF(1));
  assert_int_equal(offer(OURS, PART_OF(1)), PART_OF(1));
  assert_int_equal(fs_spill_writer(d, f, 1), 0);
  said.asks = 0;
  fs_spill_dropped(d, OURS);
  run();
  assert_int_equal(said.asks, 1);
  assert_true(said.call.op == FS_NAMES_DROP && said.call.drop.id == OURS);
  assert_false(there(OURS) || there(PART_OF(1)));
  spill(PART_OF(2));
  assert_int_equal(offer(FILE_OF(2), PART_OF(2)), PART_OF(2));
  fs_spill_dropped(d, FILE_OF(2)); /* another node's */
  run();
  assert_false(there(PART_OF(2)));
}

/* A removed file's bytes are left to the program that has removed it for 20 ms, unless another node waits for their
 * end. */
static void test_left(void **state) {
  (void)state;
  for (unsigned i = 1; i <= 2; i++) {
    spill(PART_OF(i));
    fs_spill_dropped_soon(d, PART_OF(i));
  }
  spill(PART_OF(3));
  d->now += SECOND / 100;
  assert_true(fs_spill_leaving(d, PART_OF(1)));
  assert_true(fs_spill_leaving(d, PART_OF(3))); /* nobody has told of it so far */
  assert_false(fs_spill_leaving(d, FILE_OF(1)));
  d->now += SECOND / 80;
  fs_spill_drop_timers(d);
  run();
  assert_true(there(PART_OF(1)) && !there(PART_OF(2)) && there(PART_OF(3)));
  assert_true(fs_spill_dropping(d, (struct fs_asked){.from = 2, .id = 5}, PART_OF(1)));
  run();
  assert_true(!there(PART_OF(1)) && there(PART_OF(3)));
  d->now += SECOND / 80;
  fs_spill_drop_timers(d);
  run();
  assert_false(there(PART_OF(3)));
  assert_null(fs_spill_find(d, PART_OF(3)));
  assert_false(fs_spill_dropping(d, (struct fs_asked){.from = 2, .id = 6}, PART_OF(3)));
}

/* Held by another node, its bytes stay; but no new writer gets it. */
static void test_held(void **state) {
  (void)state;
  spill(PART_OF(1));
  assert_int_equal(offer(FILE_OF(1), PART_OF(1)), PART_OF(1));
  struct fs_asked a = {.from = 2, .id = 5};
  struct fs_names_call hold = {.op = FS_NAMES_HOLD, .hold.id = PART_OF(1)};
  fs_spill_home(d, a, &hold);
  fs_spill_dropped(d, PART_OF(1));
  run();
  assert_true(there(PART_OF(1)));
  assert_int_equal(offer(FILE_OF(1), 0), 0);
  refused(FILE_OF(1), PART_OF(1));
  hold.op = FS_NAMES_RELEASE;
  fs_spill_home(d, a, &hold);
  run();
  assert_false(there(PART_OF(1)));
}

static void test_many(void **state) {
  static uint64_t model[FILES];
  uint64_t part = 1000;
  (void)state;
  srandom(7);
  for (unsigned i = 0; i < 12 * FILES; i++) {
    unsigned file = (unsigned)random() % FILES, what = (unsigned)random() % 5;
    if (what < 2) {
      spill(PART_OF(part));
      uint64_t got = offer(FILE_OF(file), PART_OF(part));
      assert_int_equal(got, model[file] != 0 ? model[file] : PART_OF(part));
      if (got != PART_OF(part)) unlink_spill(PART_OF(part));
      model[file] = got;
      part++;
    } else if (what == 2 && model[file] != 0) {
      fs_node_part_dropped(d, model[file]);
      unlink_spill(model[file]);
      model[file] = 0;
    } else if (what == 3 && model[file] != 0 && i % 4 == 0) {
      unlink_spill(model[file]);
      model[file] = 0;
    }
    assert_int_equal(offer(FILE_OF(file), 0), model[file]);
  }
  for (unsigned i = 0; i < FILES; i++) assert_int_equal(offer(FILE_OF(i), 0), model[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_first, setup_parts, teardown),
      cmocka_unit_test_setup_teardown(test_refused, setup_parts, teardown),
      cmocka_unit_test_setup_teardown(test_gone, setup_parts, teardown),
      cmocka_unit_test_setup_teardown(test_written, setup_parts, teardown),
      cmocka_unit_test_setup_teardown(test_left, setup_parts, teardown),
      cmocka_unit_test_setup_teardown(test_held, setup_parts, teardown),
      cmocka_unit_test_setup_teardown(test_many, setup_parts, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
