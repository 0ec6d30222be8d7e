/* SPDX-License-Identifier: BSD-3-Clause */
/* The lines between fs-launch and the daemons: round trips, escapes, refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ipc/control.h"

static fs_err parse(const char *line, struct fs_control *c) {
  return fs_control_parse(line, strlen(line), c);
}

static void test_parse(void **state) {
  (void)state;
  struct fs_control c;
  uint64_t n;
  assert_int_equal(parse("@fs place dataset=1 first=20  owners=0.2,1.3,-,*\n", &c), 0);
  assert_string_equal(c.verb, "place");
  assert_int_equal(c.pairs, 3);
  assert_string_equal(fs_control_get(&c, "owners"), "0.2,1.3,-,*");
  assert_int_equal(fs_control_get_u64(&c, "first", &n), 0);
  assert_int_equal(n, 20);
  assert_null(fs_control_get(&c, "nothing"));
  assert_int_equal(fs_control_get_u64(&c, "nothing", &n), -ENOENT);
  assert_int_equal(fs_control_get_u64(&c, "owners", &n), -EINVAL);
  assert_int_equal(parse("@fs go\r\n", &c), 0);
  assert_string_equal(c.verb, "go");
  assert_int_equal(c.pairs, 0);
}

static void test_refuse(void **state) {
  (void)state;
  static const char *const bad[] = {"",
                                    "\n",
                                    "@fs ",
                                    "@fs  ",
                                    "@fsgo",
                                    "hello",
                                    "@fs 7",
                                    "@fs go on",
                                    "@fs go =1",
                                    "@fs GO",
                                    "@fs go a=%",
                                    "@fs go a=%4",
                                    "@fs go a=%zz",
                                    "@fs go a=%00",
                                    "@fs go a=\t",
                                    "@fs go a=1\nb=2"};
  struct fs_control c;
  for (size_t i = 0; i < FS_ARRAY_LEN(bad); i++) assert_int_equal(parse(bad[i], &c), -EINVAL);
  assert_int_equal(fs_control_parse("@fs go a=\0b", 11, &c), -EINVAL);
}

static void test_bounds(void **state) {
  (void)state;
  struct fs_control c;
  char line[FS_CONTROL_LINE + 8] = "@fs go a=";
  memset(line + 9, 'x', sizeof(line) - 9);
  assert_int_equal(fs_control_parse(line, FS_CONTROL_LINE - 1, &c), 0);
  assert_int_equal(fs_control_parse(line, FS_CONTROL_LINE, &c), -EINVAL);
  size_t n = (size_t)sprintf(line, "@fs go");
  for (unsigned i = 0; i < 64; i++) n += (size_t)sprintf(line + n, " k%u=%u", i, i);
  assert_int_equal(fs_control_parse(line, n, &c), 0);
  assert_int_equal(c.pairs, 64);
  n += (size_t)sprintf(line + n, " more=1");
  assert_int_equal(fs_control_parse(line, n, &c), -EINVAL);
}

static void test_round_trip(void **state) {
  (void)state;
  static const char text[] = "a b%c\n\t=\x7f \xc3\xa9 ,.";
  struct fs_control_line l;
  struct fs_control c;
  uint64_t n;
  assert_int_equal(fs_control_begin(&l, "warn"), 0);
  assert_int_equal(fs_control_add_u64(&l, "rank", UINT64_MAX), 0);
  assert_int_equal(fs_control_add(&l, "text", text), 0);
  assert_int_equal(fs_control_add(&l, "empty", ""), 0);
  assert_int_equal(fs_control_end(&l), 0);
  assert_int_equal(l.len, strlen(l.text));
  assert_ptr_equal(strchr(l.text, '\n'), l.text + l.len - 1);
  assert_int_equal(fs_control_parse(l.text, l.len, &c), 0);
  assert_string_equal(c.verb, "warn");
  assert_string_equal(fs_control_get(&c, "text"), text);
  assert_string_equal(fs_control_get(&c, "empty"), "");
  assert_int_equal(fs_control_get_u64(&c, "rank", &n), 0);
  assert_true(n == UINT64_MAX);
}

static void test_build_full(void **state) {
  (void)state;
  static char big[FS_CONTROL_LINE];
  struct fs_control_line l;
  struct fs_control c;
  memset(big, 'y', sizeof(big) - 1);
  assert_int_equal(fs_control_begin(&l, "warn"), 0);
  assert_int_equal(fs_control_add(&l, "text", big), -ENOSPC);
  assert_int_equal(fs_control_add(&l, "text", "fits"), 0); /* nothing of the first try is left */
  assert_int_equal(fs_control_end(&l), 0);
  assert_int_equal(fs_control_parse(l.text, l.len, &c), 0);
  assert_int_equal(c.pairs, 1);
  big[FS_CONTROL_LINE - 20] = '\0';
  assert_int_equal(fs_control_begin(&l, "warn"), 0);
  assert_int_equal(fs_control_add(&l, "t", big), 0);
  assert_int_equal(fs_control_end(&l), 0);
  assert_int_equal(fs_control_parse(l.text, l.len, &c), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_parse), cmocka_unit_test(test_refuse),
                                     cmocka_unit_test(test_bounds), cmocka_unit_test(test_round_trip),
                                     cmocka_unit_test(test_build_full)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
