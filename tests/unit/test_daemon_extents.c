/* SPDX-License-Identifier: BSD-3-Clause */
/* Which bytes of a file are in which segment: against a plain array with a word for each byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/outputs/extents.h"

#define SIZE 600u

static uint64_t owner[SIZE];

static void check(struct fs_extents *f, unsigned round) {
  uint32_t count;
  const struct fs_output_extent *x = fs_extents_all(f, &count);
  uint64_t seen[SIZE] = {0}, end = 0;
  for (uint32_t i = 0; i < count; i++) {
    assert_true(x[i].len > 0 && x[i].off >= end && x[i].off + x[i].len <= SIZE);
    end = x[i].off + x[i].len;
    for (uint64_t at = x[i].off; at < end; at++) seen[at] = x[i].segment;
  }
  for (unsigned i = 0; i < SIZE; i++)
    if (seen[i] != owner[i]) fail_msg("round %u: byte %u is in part %llu", round, i, (unsigned long long)seen[i]);
  assert_int_equal(fs_extents_end(f), end);
  assert_int_equal(fs_extents_any(f), count > 0);
}

/* Short ones, long ones, one after the other, as writers make them; cut now and then. */
static void test_random(void **state) {
  unsigned segments = (unsigned)(uintptr_t)*state;
  for (unsigned seed = 1; seed <= 40; seed++) {
    struct fs_extents *f = NULL;
    uint64_t next = 0;
    srandom(seed);
    memset(owner, 0, sizeof(owner));
    for (unsigned round = 0; round < 500; round++) {
      bool follows = random() % 3 == 0 && next < SIZE;
      uint64_t off = follows ? next : (uint64_t)random() % SIZE;
      uint64_t len = 1 + (uint64_t)random() % (random() % 8 == 0 ? SIZE - off : FS_MIN(20u, SIZE - off));
      uint64_t segment = FS_OUTPUT_ID | (uint64_t)(random() % segments + 1);
      next = off + len;
      assert_int_equal(fs_extents_put(&f, (struct fs_output_extent){.off = off, .len = len, .segment = segment}), 0);
      for (uint64_t at = off; at < off + len; at++) owner[at] = segment;
      if (random() % 50 == 0) {
        fs_extents_truncate(f, off);
        for (uint64_t at = off; at < SIZE; at++) owner[at] = 0;
      }
      check(f, round);
    }
    free(f);
  }
}

/* Sequential writes of one segment are one extent. */
static void test_sequential(void **state) {
  struct fs_extents *f = NULL;
  uint32_t count;
  (void)state;
  for (uint64_t off = 0; off < 1000000; off += 1000)
    assert_int_equal(
        fs_extents_put(&f, (struct fs_output_extent){.off = off, .len = 1000, .segment = FS_OUTPUT_ID | 2}), 0);
  assert_int_equal(fs_extents_all(f, &count)->len, 1000000);
  assert_int_equal(count, 1);
  fs_extents_truncate(f, 0);
  assert_false(fs_extents_any(f));
  free(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_random, (void *)(uintptr_t)1),
                                     cmocka_unit_test_prestate(test_random, (void *)(uintptr_t)2),
                                     cmocka_unit_test_prestate(test_random, (void *)(uintptr_t)9),
                                     cmocka_unit_test(test_sequential)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
