/* SPDX-License-Identifier: BSD-3-Clause */
/* The limits of control groups, of both versions, from a tree of files like the kernel's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/daemon.h"
#include "util/util.h"

static char top[256];

static int setup(void **state) {
  const char *tmp = getenv("TMPDIR");
  (void)state;
  snprintf(top, sizeof(top), "%.200s/groups-XXXXXX", tmp ? tmp : "/tmp");
  return mkdtemp(top) ? 0 : -1;
}
static int teardown(void **state) {
  (void)state;
  return fs_remove_tree(top);
}

static void put(const char *group, const char *file, const char *text) {
  char path[600];
  snprintf(path, sizeof(path), "%s%s", top, group);
  mkdir(path, 0700);
  snprintf(path, sizeof(path), "%s%s/%s", top, group, file);
  FILE *f = fopen(path, "we");
  assert_non_null(f);
  fputs(text, f);
  assert_int_equal(fclose(f), 0);
}

static void test_unified(void **state) {
  (void)state;
  put("/job", "memory.max", "8000000\n");
  put("/job/step", "memory.max", "max\n");
  put("/job/step/task", "memory.max", "9000000\n");
  assert_int_equal(fs_memory_limit_of(top, "0::/job/step/task\n"), 8000000);
  assert_int_equal(fs_memory_limit_of(top, "0::/job/step\n"), 8000000);
  put("/job", "memory.max", "max\n");
  assert_int_equal(fs_memory_limit_of(top, "0::/job/step/task\n"), 9000000);
  assert_int_equal(fs_memory_limit_of(top, "0::/job/step\n"), 0);
  assert_int_equal(fs_memory_limit_of(top, "0::/\n"), 0);
}

static void test_first_version(void **state) {
  (void)state;
  put("/memory", "memory.limit_in_bytes", "9223372036854771712\n");
  put("/memory/a", "memory.limit_in_bytes", "7000000\n");
  put("/memory/a/b", "memory.limit_in_bytes", "9223372036854771712\n");
  assert_int_equal(fs_memory_limit_of(top, "12:cpu,cpuacct:/x\n4:memory:/a/b\n0::/\n"), 7000000);
  assert_int_equal(fs_memory_limit_of(top, "4:memory:/\n"), 0);
  /* A container's own view has not the host's directories: what is above is what there is. */
  put("/memory", "memory.limit_in_bytes", "6000000\n");
  assert_int_equal(fs_memory_limit_of(top, "4:memory:/docker/0123\n"), 6000000);
}

static void test_nonsense(void **state) {
  (void)state;
  put("/odd", "memory.max", "");
  static const char *const texts[] = {"",          "\n",           ":", "0::", "0::/odd", "0::/odd\n\n", "memory",
                                      "0:memory:", "::::\n:::/odd"};
  for (size_t i = 0; i < FS_ARRAY_LEN(texts); i++) assert_int_equal(fs_memory_limit_of(top, texts[i]), 0);
  put("/odd", "memory.max", "12 apples\n");
  assert_int_equal(fs_memory_limit_of(top, "0::/odd\n"), 0);
}

static void test_cache(void **state) {
  const uint64_t gib = 1ull << 30;
  char why[256] = "";
  (void)state;
  assert_int_equal(fs_memory_cache_default(16 * gib, 0), gib);
  assert_int_equal(fs_memory_cache_default(16 * gib, 8), gib);
  assert_int_equal(fs_memory_cache_default(4 * gib, 8), gib / 4);
  assert_int_equal(fs_memory_cache_default(gib, 1), gib / 2);
  assert_int_equal(fs_memory_cache_check(4 * gib, 4 * gib, 0, why, sizeof(why)), 0);
  assert_int_equal(fs_memory_cache_check(2 * gib, 4 * gib, 2, why, sizeof(why)), 0);
  assert_string_equal(why, "");
  assert_int_equal(fs_memory_cache_check(2 * gib + 1, 4 * gib, 2, why, sizeof(why)), -ENOMEM);
  assert_string_equal(why,
                      "--cache 2.0 GiB on each of 2 nodes: this host (or its control group) has 4.0 GiB of memory: "
                      "give at most 2048M each");
  assert_int_equal(fs_memory_cache_check(INT64_MAX, 4 * gib, 1, why, sizeof(why)), -ENOMEM);
  assert_string_equal(why,
                      "--cache 8.0 EiB: this host (or its control group) has 4.0 GiB of memory: give at most 4096M");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_unified, setup, teardown),
      cmocka_unit_test_setup_teardown(test_first_version, setup, teardown),
      cmocka_unit_test_setup_teardown(test_nonsense, setup, teardown),
      cmocka_unit_test(test_cache),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
