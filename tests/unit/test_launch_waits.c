/* SPDX-License-Identifier: BSD-3-Clause */
/* What daemons say of single processes and files: how nodes' lists are merged, and lines that are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../fs-launch/launch.h"

static struct fs_launch l;
static struct fs_launch_node node[3];

static void line(uint32_t rank, const char *text) {
  struct fs_control c;
  if (fs_control_parse(text, strlen(text), &c) == 0) fs_waits_line_in(&node[rank].waits, rank, &c);
}

static int start(void **state) {
  (void)state;
  for (unsigned i = 0; i < 3; i++) free(node[i].waits.processes);
  memset(node, 0, sizeof(node));
  l = (struct fs_launch){.node = node, .nodes = 3, .opt = {.datasets = 1}};
  return 0;
}

static void test_files(void **state) {
  struct fs_waited_file f[FS_WAITS_SHOWN];
  (void)state;
  assert_int_equal(fs_waits_slow(&l, f), 0);
  line(0, "@fs files rank=0 kind=slow list=0:5:2:1:10:900:900,0:6:3:2:10:300:200");
  line(2, "@fs files rank=2 kind=slow list=0:5:2:1:10:950:950");
  assert_int_equal(fs_waits_slow(&l, f), 3);
  assert_int_equal(f[0].node, 2);
  assert_int_equal(f[0].longest_us, 950);
  assert_int_equal(f[2].entry, 6);
  assert_int_equal(f[2].us, 300);
  line(0, "@fs files rank=0 kind=busy list=0:5:2:7:10:70:30,0:6:2:9:10:70:30");
  line(1, "@fs files rank=1 kind=busy list=0:5:2:8:10:80:40");
  line(2, "@fs files rank=2 kind=busy list=0:5:3:1:10:80:40");
  assert_int_equal(fs_waits_busy(&l, f), 3);
  assert_int_equal(f[0].entry, 5); /* one place of two nodes */
  assert_int_equal(f[0].reads, 15);
  assert_int_equal(f[0].bytes, 20);
  assert_int_equal(f[0].longest_us, 40);
  assert_int_equal(f[1].reads, 9);
  node[0].dead = true; /* what it said is not of the last seconds */
  line(1, "@fs files rank=1 kind=busy list=");
  assert_int_equal(fs_waits_busy(&l, f), 1);
  assert_int_equal(fs_waits_slow(&l, f), 3);
}

static void test_wrong_lines(void **state) {
  struct fs_waited_file f[FS_WAITS_SHOWN];
  struct fs_waits_spread s;
  char path[64];
  (void)state;
  line(0, "@fs files rank=0 kind=slow list=0:5:9:1:10:900:900,0:5:2:1:10:900");
  line(0, "@fs files rank=0 kind=quick list=0:5:2:1:10:900:900");
  line(0, "@fs files rank=0 list=0:5:2:1:10:900:900");
  line(0, "@fs files rank=0 kind=busy list=,,-1:x");
  line(0, "@fs waits rank=0 worst_pid=1");
  assert_int_equal(fs_waits_slow(&l, f), 0);
  assert_int_equal(fs_waits_busy(&l, f), 0);
  assert_false(fs_waits_spread(&l, 3, &s));
  assert_int_equal(fs_waits_path(&l, &(struct fs_waited_file){.dataset = 1}, path, sizeof(path)), -EINVAL);
  char many[4000] = "@fs files rank=0 kind=slow list=0:1:1:1:1:1:1";
  for (unsigned i = 0; i < 100; i++) strcat(many, ",0:1:1:1:1:1:1");
  line(0, many);
  assert_int_equal(fs_waits_slow(&l, f), FS_WAITS_SLOW);
}

static void test_spread(void **state) {
  struct fs_waits_spread s;
  char text[128];
  (void)state;
  assert_false(fs_waits_spread(&l, 3, &s));
  snprintf(text, sizeof(text), "@fs waits rank=0 worst_pid=11 worst_us=90000 counts=%u:2", fs_latency_bucket(90000));
  line(0, text);
  line(0, text); /* the whole again, not more of it */
  snprintf(text, sizeof(text), "@fs waits rank=2 worst_pid=12 worst_us=8000000 counts=%u:1",
           fs_latency_bucket(8000000));
  line(2, text);
  assert_true(fs_waits_spread(&l, 3, &s));
  assert_int_equal(s.processes, 3);
  assert_int_equal(s.worst_pid, 12);
  assert_int_equal(s.worst_node, 2);
  assert_in_range(s.median_us, 90000, 101250);
  assert_true(fs_waits_spread(&l, 0, &s));
  assert_int_equal(s.processes, 2);
  assert_int_equal(s.median_us, 90000); /* no more than the worst */
  assert_false(fs_waits_spread(&l, 1, &s));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_files, start),
      cmocka_unit_test_setup(test_wrong_lines, start),
      cmocka_unit_test_setup(test_spread, start),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
