/* SPDX-License-Identifier: BSD-3-Clause */
/* fs-launch's history of a node: lines that daemons say, lines that are wrong, and how much is kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../fs-launch/sample.h"
#include "util/util.h"

static struct fs_sample_history h;

static void line(const char *format, ...) FS_PRINTF(1, 2);
static void line(const char *format, ...) {
  char text[FS_CONTROL_LINE];
  struct fs_control c;
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof(text), format, ap);
  va_end(ap);
  if (fs_control_parse(text, strlen(text), &c) == 0) fs_sample_line_in(&h, 2, &c);
}

static int again(void **state) {
  (void)state;
  fs_sample_free(&h);
  return 0;
}

static void test_samples(void **state) {
  (void)state;
  assert_null(fs_sample_at(&h, 0));
  assert_int_equal(fs_sample_step(&h, 0, FS_SAMPLE_OPENS), 0);
  line("@fs sample rank=0 ms=1000 opens=5 bytes_remote=70 queue=3 new_key=8");
  line("@fs sample rank=0 ms=2000 opens=9 bytes_remote=100 queue=1 new_key=9");
  line("@fs stats rank=0 ms=2500 opens=10 bytes_remote=50 queue=0");
  assert_int_equal(h.samples, 3);
  assert_int_equal(fs_sample_at(&h, 0)->ms, 1000);
  assert_int_equal(fs_sample_at(&h, 2)->value[FS_SAMPLE_OPENS], 10);
  assert_null(fs_sample_at(&h, 3));
  assert_int_equal(fs_sample_step(&h, 0, FS_SAMPLE_OPENS), 5);
  assert_int_equal(fs_sample_step(&h, 1, FS_SAMPLE_OPENS), 4);
  assert_int_equal(fs_sample_step(&h, 1, FS_SAMPLE_BYTES_REMOTE), 30);
  assert_int_equal(fs_sample_step(&h, 2, FS_SAMPLE_BYTES_REMOTE), 0); /* a sum that shrinks has not grown */
  assert_int_equal(fs_sample_step(&h, 1, FS_SAMPLE_QUEUE), 1);        /* a gauge */
  assert_int_equal(fs_sample_get(&h.last, "opens"), 10);
  assert_int_equal(fs_sample_get(&h.last, "new_key"), 0);
  assert_int_equal(fs_sample_get(&h.last, "ms"), 0);
}

static void test_wrong_lines(void **state) {
  (void)state;
  static const char *const bad[] = {
      "@fs sample rank=0 opens=1",
      "@fs sample rank=0 ms=x opens=1",
      "@fs sample rank=0 ms=18446744073709551615 opens=1",
      "@fs latency rank=0 op=read place=local",
      "@fs latency rank=0 op=write place=local counts=1:1",
      "@fs latency rank=0 op=read place=moon counts=1:1",
      "@fs latency rank=0 counts=1:1",
      "@fs hello rank=0 ms=5 opens=1",
  };
  for (size_t i = 0; i < FS_ARRAY_LEN(bad); i++) line("%s", bad[i]);
  assert_int_equal(h.samples, 0);
  assert_int_equal(h.last.n, 0);
  for (unsigned k = 0; k < FS_LATENCY_KINDS; k++) assert_null(h.latency[k]);
  line("@fs sample rank=0 ms=10 opens=1");
  line("@fs sample rank=0 ms=10 opens=2");
  line("@fs sample rank=0 ms=9 opens=3");
  assert_int_equal(h.samples, 1);
  assert_int_equal(fs_sample_get(&h.last, "opens"), 1);
  line("@fs sample rank=0 ms=11 opens=-4 A=1 a%%20b=3 long_key_that_has_more_than_31_bytes_in_it=1");
  assert_int_equal(h.samples, 2);
  assert_int_equal(h.last.n, 0);
}

/* Each of the samples that are kept is a step or more after the one before, and the newest is there. */
static void test_bounded(void **state) {
  (void)state;
  for (unsigned i = 1; i <= 20000; i++) {
    line("@fs sample rank=0 ms=%llu opens=%u", 1000ull * i, i);
    assert_true(h.samples <= FS_SAMPLES_MAX);
    assert_int_equal(h.sample[h.samples - 1].value[FS_SAMPLE_OPENS], i);
  }
  assert_in_range(h.samples, FS_SAMPLES_MAX / 2, FS_SAMPLES_MAX);
  assert_int_equal(h.sample[0].ms, 1000);
  uint64_t sum = 0;
  for (unsigned i = 0; i < h.samples; i++) {
    if (i > 0 && i + 2 < h.samples) assert_true(h.sample[i].ms - h.sample[i - 1].ms >= h.step_ms / 2);
    sum += fs_sample_step(&h, i, FS_SAMPLE_OPENS);
  }
  assert_int_equal(sum, 20000);
}

static void test_latency_lines(void **state) {
  (void)state;
  line("@fs latency rank=0 op=read place=remote counts=8:1,100:2 more=1");
  line("@fs latency rank=0 op=read place=remote counts=120:4");
  line("@fs latency rank=0 op=read place=remote counts=120:6,999:1");
  const struct fs_latency *l = fs_sample_latency(&h, FS_LATENCY_READ, FS_LATENCY_REMOTE);
  assert_non_null(l);
  assert_int_equal(fs_latency_total(l), 9);
  assert_int_equal(l->count[120], 6);
  assert_null(fs_sample_latency(&h, FS_LATENCY_READ, FS_LATENCY_LOCAL));
  assert_null(fs_sample_latency(&h, FS_LATENCY_OPS, 0));
  assert_string_equal(fs_sample_key_name(FS_SAMPLE_HOST_BUSY), "host_busy");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_samples, again),
      cmocka_unit_test_teardown(test_wrong_lines, again),
      cmocka_unit_test_teardown(test_bounded, again),
      cmocka_unit_test_teardown(test_latency_lines, again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
