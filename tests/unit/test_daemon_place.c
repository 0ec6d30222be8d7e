/* SPDX-License-Identifier: BSD-3-Clause */
/* The placement as a node sees it, from the launcher's lines; and names of jobs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/daemon.h"

#define PARTS 12u

static struct fs_daemon *d;
static struct fs_net net;

static int setup(void **state) {
  (void)state;
  net = (struct fs_net){.rank = 2, .nodes = 8};
  d = calloc(1, sizeof(*d));
  d->net = &net;
  d->datasets = 1;
  d->data[0].partitions = PARTS;
  d->data[0].place = calloc(PARTS, sizeof(*d->data[0].place));
  d->data[0].from = calloc(PARTS, sizeof(*d->data[0].from));
  return 0;
}
static int teardown(void **state) {
  (void)state;
  free(d->data[0].place);
  free(d->data[0].from);
  free(d);
  return 0;
}

static fs_err apply(const char *line) {
  struct fs_control c;
  assert_int_equal(fs_control_parse(line, strlen(line), &c), 0);
  return fs_place_apply(d, &c);
}
static void expect(uint32_t part, bool local, uint32_t n, const uint16_t *owner) {
  const struct fs_placement *p = &d->data[0].place[part];
  assert_int_equal(p->owners, n);
  assert_int_equal((p->flags & FS_PLACE_LOCAL) != 0, local);
  for (uint32_t i = 0; i < n; i++) assert_int_equal(p->owner[i], owner[i]);
}

static void test_lists(void **state) {
  (void)state;
  assert_int_equal(apply("@fs place dataset=0 first=3 owners=5,-,0.2,1.3.4,2"), 0);
  expect(2, false, 0, NULL);
  expect(3, false, 1, (uint16_t[]){5});
  expect(4, false, 0, NULL);
  expect(5, true, 2, (uint16_t[]){2, 0});     /* itself first */
  expect(6, false, 3, (uint16_t[]){4, 1, 3}); /* turned by its rank */
  expect(7, true, 1, (uint16_t[]){2});
}

static void test_all_nodes(void **state) {
  (void)state;
  assert_int_equal(apply("@fs place dataset=0 first=0 owners=*"), 0);
  expect(0, true, 6, (uint16_t[]){2, 3, 4, 5, 6, 7});
  net.nodes = 3;
  assert_int_equal(apply("@fs place dataset=0 first=0 owners=*"), 0);
  expect(0, true, 3, (uint16_t[]){2, 0, 1});
}

static void test_more_owners_than_room(void **state) {
  (void)state;
  assert_int_equal(apply("@fs place dataset=0 first=0 owners=0.1.3.4.5.6.7.2"), 0);
  assert_int_equal(d->data[0].place[0].owners, FS_MAX_OWNERS);
  assert_int_equal(d->data[0].place[0].owner[0], 2);
  assert_true(d->data[0].place[0].flags & FS_PLACE_LOCAL);
}

static uint16_t from(uint32_t rank, const char *owners) {
  char line[128];
  net.rank = rank;
  snprintf(line, sizeof(line), "@fs place dataset=0 first=1 owners=%s", owners);
  assert_int_equal(apply(line), 0);
  return d->data[0].from[1];
}

/* Each rank gets the partition from the one above it in a binary tree, whose top is the source. */
static void test_from(void **state) {
  (void)state;
  assert_int_equal(from(2, "2.3"), FS_FROM_SHARED);
  assert_false(d->passing);
  assert_int_equal(from(3, "2.3<2"), 2);
  assert_true(d->passing);
  assert_int_equal(from(2, "2.3<2"), FS_FROM_SHARED);
  assert_int_equal(from(2, "2.3<7"), 7); /* which is no owner, and has it */
  assert_int_equal(from(3, "2.3<7"), 7);
  assert_int_equal(from(7, "2.3<7"), FS_FROM_SHARED);
  assert_int_equal(from(5, "2.3<7"), FS_FROM_SHARED);
  assert_int_equal(from(4, "1.2.3.4.5.6<3"), 1); /* 3, then 1 2, then 4 5 6 */
  assert_int_equal(from(6, "1.2.3.4.5.6<3"), 2);
  for (uint32_t nodes = 1; nodes <= 9; nodes++) {
    net.nodes = nodes;
    for (uint32_t source = 0; source < nodes; source++) {
      char text[16];
      snprintf(text, sizeof(text), "*<%u", source);
      for (uint32_t rank = 0; rank < nodes; rank++) {
        unsigned steps = 0;
        for (uint32_t at = rank; at != source; steps++) { /* all ways end at the source, soon */
          at = from(at, text);
          assert_true(at < nodes && steps < 4);
        }
      }
      assert_int_equal(from(source, text), FS_FROM_SHARED);
    }
  }
}

static void test_refused(void **state) {
  (void)state;
  static const char *const bad[] = {"@fs place",
                                    "@fs place dataset=0 first=0",
                                    "@fs place dataset=1 first=0 owners=1",
                                    "@fs place dataset=0 first=12 owners=1",
                                    "@fs place dataset=0 first=11 owners=1,1",
                                    "@fs place dataset=0 first=18446744073709551615 owners=1,1",
                                    "@fs place dataset=0 first=0 owners=8",
                                    "@fs place dataset=0 first=0 owners=-1",
                                    "@fs place dataset=0 first=0 owners=1.",
                                    "@fs place dataset=0 first=0 owners=",
                                    "@fs place dataset=0 first=0 owners=1,,2",
                                    "@fs place dataset=0 first=0 owners=1.*",
                                    "@fs place dataset=0 first=0 owners=1<8",
                                    "@fs place dataset=0 first=0 owners=1<",
                                    "@fs place dataset=0 first=0 owners=*<1<1"};
  for (size_t i = 0; i < FS_ARRAY_LEN(bad); i++) assert_int_equal(apply(bad[i]), -EINVAL);
}

static void test_lost(void **state) {
  (void)state;
  assert_int_equal(apply("@fs place dataset=0 first=0 owners=0.2.3,2"), 0);
  fs_place_lose(&d->data[0], 2, 0);
  fs_place_lose(&d->data[0], 2, 1);
  assert_int_equal(d->data[0].place[0].owners, 2);
  assert_int_equal(d->data[0].place[0].flags, 0);
  expect(1, false, 0, NULL);
}

static void test_job_names(void **state) {
  (void)state;
  char name[FS_JOB_NAME_MAX + 2];
  assert_true(fs_job_name_ok("job-h.1_X"));
  assert_false(fs_job_name_ok(""));
  assert_false(fs_job_name_ok("."));
  assert_false(fs_job_name_ok(".."));
  assert_false(fs_job_name_ok("a/b"));
  assert_false(fs_job_name_ok("a b"));
  memset(name, 'x', sizeof(name));
  name[FS_JOB_NAME_MAX] = '\0';
  assert_true(fs_job_name_ok(name));
  name[FS_JOB_NAME_MAX] = 'x';
  name[FS_JOB_NAME_MAX + 1] = '\0';
  assert_false(fs_job_name_ok(name));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {TEST(test_lists),    TEST(test_all_nodes), TEST(test_more_owners_than_room),
                                     TEST(test_refused),  TEST(test_lost),      TEST(test_from),
                                     TEST(test_job_names)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
