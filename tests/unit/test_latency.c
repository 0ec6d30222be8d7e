/* SPDX-License-Identifier: BSD-3-Clause */
/* Histograms of waits: bounds of buckets, percentiles, the text form both ways, refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ipc/latency.h"
#include "ipc/layout.h"

static void test_buckets(void **state) {
  (void)state;
  assert_int_equal(FS_LATENCY_BUCKETS, 240);
  assert_int_equal(fs_latency_bucket(0), 0);
  assert_int_equal(fs_latency_bucket(71), 0);
  assert_int_equal(fs_latency_bucket(72), 1);
  assert_int_equal(fs_latency_bucket(UINT64_MAX), 239);
  assert_int_equal(fs_latency_low(0), 0);
  assert_int_equal(fs_latency_high(239), 1ull << 36);
  for (unsigned b = 0; b < FS_LATENCY_BUCKETS; b++) {
    uint64_t low = fs_latency_low(b), high = fs_latency_high(b);
    assert_int_equal(fs_latency_bucket(low), b);
    assert_int_equal(fs_latency_bucket(high - 1), b);
    if (b + 1 < FS_LATENCY_BUCKETS) assert_int_equal(fs_latency_bucket(high), b + 1);
    if (b > 0) assert_true((high - low) * 8 <= low);
  }
}

static void test_percentiles(void **state) {
  (void)state;
  struct fs_latency h = {0};
  assert_int_equal(fs_latency_percentile(&h, 500), 0);
  assert_int_equal(fs_latency_total(&h), 0);
  h.count[fs_latency_bucket(1000)] = 90;
  h.count[fs_latency_bucket(1000000)] = 9;
  h.count[fs_latency_bucket(1000000000)] = 1;
  assert_int_equal(fs_latency_total(&h), 100);
  static const struct {
    unsigned per_mille;
    uint64_t ns;
  } rows[] = {{0, 1000}, {500, 1000}, {900, 1000}, {901, 1000000}, {990, 1000000}, {1000, 1000000000}};
  for (size_t i = 0; i < FS_ARRAY_LEN(rows); i++) {
    uint64_t p = fs_latency_percentile(&h, rows[i].per_mille);
    assert_true(p > rows[i].ns && p <= rows[i].ns + rows[i].ns / 8);
  }
}

static void test_text(void **state) {
  (void)state;
  struct fs_latency h = {0}, back = {0};
  char text[64];
  unsigned from = 0;
  assert_int_equal(fs_latency_text(&h, &from, text, sizeof(text)), 0);
  assert_string_equal(text, "");
  assert_int_equal(from, FS_LATENCY_BUCKETS);
  h.count[0] = 7;
  h.count[100] = 128;
  h.count[239] = UINT64_MAX;
  from = 0;
  fs_latency_text(&h, &from, text, sizeof(text));
  assert_string_equal(text, "0:7,100:128,239:18446744073709551615");
  assert_int_equal(fs_latency_parse(text, &back), 0);
  assert_memory_equal(&h, &back, sizeof(h));
}

static void test_text_in_parts(void **state) {
  (void)state;
  struct fs_latency h, back = {0};
  char text[100];
  unsigned parts = 0;
  for (unsigned b = 0; b < FS_LATENCY_BUCKETS; b++) h.count[b] = (uint64_t)b * b * b + 1;
  for (unsigned from = 0; from < FS_LATENCY_BUCKETS; parts++) {
    unsigned before = from;
    size_t n = fs_latency_text(&h, &from, text, sizeof(text));
    assert_int_equal(n, strlen(text));
    assert_true(n < sizeof(text) && from > before);
    assert_int_equal(fs_latency_parse(text, &back), 0);
  }
  assert_true(parts > 10);
  assert_memory_equal(&h, &back, sizeof(h));
}

static void test_refuse(void **state) {
  (void)state;
  static const char *const bad[] = {"240:1",
                                    "-1:2",
                                    "1",
                                    "1:",
                                    ":1",
                                    "1:2,",
                                    ",1:2",
                                    "1:2 ",
                                    "1:x",
                                    "1:2,,3:4",
                                    "1:18446744073709551616",
                                    "99999999999999999999:1",
                                    "1:-2",
                                    " 1:2"};
  struct fs_latency h = {0};
  for (size_t i = 0; i < FS_ARRAY_LEN(bad); i++) assert_int_equal(fs_latency_parse(bad[i], &h), -EINVAL);
  assert_int_equal(fs_latency_parse("", &h), 0);
}

static void test_names(void **state) {
  (void)state;
  for (unsigned i = 0; i < FS_LATENCY_OPS; i++) assert_int_equal(fs_latency_op(fs_latency_op_name(i)), i);
  for (unsigned i = 0; i < FS_LATENCY_PLACES; i++) assert_int_equal(fs_latency_place(fs_latency_place_name(i)), i);
  assert_int_equal(fs_latency_op("write"), -1);
  assert_int_equal(fs_latency_place(""), -1);
  assert_int_equal(FS_LATENCY_SHARED, FS_PLACE_IS_SHARED);
  assert_int_equal(FS_LATENCY_OUTPUT, FS_PLACE_COUNT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_buckets),       cmocka_unit_test(test_percentiles), cmocka_unit_test(test_text),
      cmocka_unit_test(test_text_in_parts), cmocka_unit_test(test_refuse),      cmocka_unit_test(test_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
