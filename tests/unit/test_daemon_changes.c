/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which calls about a file wait for a change that is at work, and in which order they are made then
 * (daemon/outputs/backing_change.c; replica_fixture.h). The I/O pool's results are only seen in run(), so until then a
 * change is at work.
 */
#include <fcntl.h>

#include "replica_fixture.h"

#define OTHERS FS_OUTPUT_ID_MAKE(1, 10)
#define SEGMENT FS_OUTPUT_ID_MAKE(2, 5)

static int backing(uint64_t id) {
  char name[FS_BACKING_NAME_SIZE];
  return openat(d->backing_fd, fs_backing_name(id, name), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}
static struct stat backing_stat(uint64_t id) {
  struct stat st;
  FS_AUTO_CLOSE int fd = backing(id);
  assert_int_equal(fstat(fd, &st), 0);
  return st;
}
/* A file of 1000 bytes, which has no name yet, with 100 bytes at 2000 in a segment. */
static void make(uint64_t id) {
  static const char bytes[1000];
  FS_AUTO_CLOSE int fd = backing(id);
  assert_int_equal(fs_sys_write(fd, bytes, sizeof(bytes)), sizeof(bytes));
  fs_backing_creating(d, id, FS_DATASET_DIR(0, 0));
  struct fs_output_extent e = {.off = 2000, .len = 100, .segment = SEGMENT};
  assert_int_equal(fs_backing_put(d, fs_backing_find(d, id), e), 0);
}
static uint64_t ask(const struct fs_names_call *c) {
  fs_backing_home(d, (struct fs_asked){.from = 2, .id = ++question}, c);
  return question;
}
static uint64_t cut(uint64_t id, uint64_t call, uint64_t size) {
  return ask(&(struct fs_names_call){
      .op = FS_NAMES_SETATTR,
      .flags = FS_SET_SIZE,
      .setattr = {.dir = FS_DATASET_DIR(0, 0), .id = id, .call = call, .size = size, .mode = S_IFREG}});
}
static uint64_t open_it(uint64_t id) {
  return ask(&(struct fs_names_call){.op = FS_NAMES_OPEN, .open.id = id});
}
/* The answer comes after the publication, which nobody here confirms. */
static void extend(uint64_t id, uint64_t off, uint64_t len) {
  struct extend_call c = extend_call(id, SEGMENT, off, len);
  ask(&c.c);
}
static uint64_t append(uint64_t id, uint64_t call) {
  return ask(&(struct fs_names_call){.op = FS_NAMES_APPEND, .append = {.id = id, .call = call, .bytes = 10}});
}
static void answered_in_order(unsigned n, const uint64_t *questions) {
  assert_int_equal(said.answers, n);
  for (unsigned i = 0; i < n; i++) assert_int_equal(said.answered[i], questions[i]);
}

/* What comes while a file is cut sees the cut file; what comes for another does not wait. */
static void test_cut(void **state) {
  (void)state;
  make(OURS);
  make(OTHERS);
  uint64_t asked[3] = {cut(OURS, 1, 500)};
  asked[1] = open_it(OURS);
  extend(OURS, 700, 50);
  asked[2] = ask(&(struct fs_names_call){.op = FS_NAMES_EXTENTS, .extents.id = OURS});
  assert_int_equal(said.answers, 0);
  uint64_t first = open_it(OTHERS);
  answered_in_order(1, &first);
  assert_false(fs_backing_same_map(d, OURS, fs_backing_map(d, fs_backing_find(d, OURS)), 0, 10));
  assert_int_equal(fs_extents_end(fs_backing_find(d, OURS)->extents), 2100);
  said.answers = 0;
  run();
  answered_in_order(3, asked);
  assert_int_equal(said.err, 0);
  assert_int_equal(fs_extents_end(fs_backing_find(d, OURS)->extents), 750); /* the end at 2100 is cut off */
  assert_int_equal(backing_stat(OURS).st_size, 750);
  assert_true(fs_backing_same_map(d, OURS, fs_backing_map(d, fs_backing_find(d, OURS)), 0, 10));
}

/* A second cut waits behind those that came before it: neither cuts nor other calls wait for ever. */
static void test_cuts_in_turn(void **state) {
  (void)state;
  make(OURS);
  uint64_t asked[3] = {cut(OURS, 1, 500)};
  extend(OURS, 3000, 50);
  asked[1] = cut(OURS, 2, 100);
  extend(OURS, 400, 50);
  asked[2] = open_it(OURS);
  assert_int_equal(said.answers, 0);
  run();
  answered_in_order(3, asked);
  assert_int_equal(fs_extents_end(fs_backing_find(d, OURS)->extents), 450);
  assert_int_equal(backing_stat(OURS).st_size, 450);
}

/* If a call comes again while it is at work or waits, only the newest request is answered, and it is done once. */
static void test_again(void **state) {
  (void)state;
  make(OURS);
  append(OURS, 7);
  uint64_t asked[2] = {append(OURS, 7)};
  assert_int_equal(said.answers, 0);
  run();
  answered_in_order(1, asked);
  assert_int_equal(backing_stat(OURS).st_size, 1010);
  said.answers = 0;
  cut(OURS, 9, 100);
  append(OURS, 10);
  asked[1] = append(OURS, 10);
  asked[0] = cut(OURS, 9, 100);
  run();
  answered_in_order(2, asked);
  assert_int_equal(backing_stat(OURS).st_size, 110);
  said.answers = 0;
  asked[0] = cut(OURS, 9, 100);
  run();
  answered_in_order(1, asked);
  assert_int_equal(backing_stat(OURS).st_size, 110);
}

/* A truncation that comes again while it is being published keeps no other call waiting. */
static void test_publication(void **state) {
  (void)state;
  make(OURS);
  fs_backing_find(d, OURS)->mode = S_IFREG | 0600; /* it was published before */
  fs_backing_find(d, OURS)->creating = false;
  cut(OURS, 1, 500);
  run();
  assert_int_equal(said.answers, 0);
  cut(OURS, 1, 500);
  uint64_t asked[3] = {open_it(OURS), ask(&(struct fs_names_call){.op = FS_NAMES_EXTENTS, .extents.id = OURS})};
  asked[2] = append(OURS, 2);
  run();
  answered_in_order(3, asked);
  assert_int_equal(backing_stat(OURS).st_size, 510);
}

/* A CLOSE does not overtake its OPEN: else the file would stay open for ever. */
static void test_close(void **state) {
  (void)state;
  make(OURS);
  cut(OURS, 1, 500);
  open_it(OURS);
  ask(&(struct fs_names_call){.op = FS_NAMES_CLOSE, .close.id = OURS});
  assert_int_equal(said.answers, 0);
  run();
  assert_int_equal(said.answers, 3);
  assert_int_equal(fs_backing_find(d, OURS)->reported->holding, 0);
}

/* A file that only its home writes is read while it is cut, but gets no segment. */
static void test_whole(void **state) {
  (void)state;
  make(OTHERS);
  fs_extents_truncate(fs_backing_find(d, OTHERS)->extents, 0);
  cut(OTHERS, 1, 500);
  uint64_t asked = open_it(OTHERS);
  answered_in_order(1, &asked);
  extend(OTHERS, 700, 50);
  assert_int_equal(fs_extents_end(fs_backing_find(d, OTHERS)->extents), 0);
  run();
  assert_int_equal(fs_extents_end(fs_backing_find(d, OTHERS)->extents), 750);
}

/* Calls that wait for a cut that fails, or for a file that is removed meanwhile, have their answers. */
static void test_failures(void **state) {
  (void)state;
  make(OURS);
  uint64_t asked[2] = {cut(OURS, 1, UINT64_MAX / 2)};
  asked[1] = open_it(OURS);
  run();
  answered_in_order(2, asked);
  assert_int_equal(said.err, 0);
  said.answers = 0;
  make(OTHERS); /* nobody has it open */
  asked[0] = cut(OTHERS, 2, 10);
  asked[1] = open_it(OTHERS);
  fs_backing_dropped(d, OTHERS);
  run();
  assert_int_equal(said.answers, 2);
  assert_int_equal(said.answered[1], asked[1]);
  assert_int_equal(said.err, -ENOENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_cut, setup, teardown),
      cmocka_unit_test_setup_teardown(test_cuts_in_turn, setup, teardown),
      cmocka_unit_test_setup_teardown(test_again, setup, teardown),
      cmocka_unit_test_setup_teardown(test_publication, setup, teardown),
      cmocka_unit_test_setup_teardown(test_close, setup, teardown),
      cmocka_unit_test_setup_teardown(test_whole, setup, teardown),
      cmocka_unit_test_setup_teardown(test_failures, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
