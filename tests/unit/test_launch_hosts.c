/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of hosts: what users give, and the first of Slurm's. */
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "../../fs-launch/hosts.c" /* for what reads the lists */

static void test_slurm(void **state) {
  (void)state;
  static const char *const lists[][2] = {{"a", "a"},
                                         {"a,b", "a"},
                                         {"f[3-5,9],g7", "f3"},
                                         {"f[003-005]", "f003"},
                                         {"f[7]", "f7"},
                                         {"r[3-5,9]n[1-2]x,g", "r3n1x"},
                                         {"f[3", "f3"},
                                         {"", ""}};
  char name[8];
  for (size_t i = 0; i < FS_ARRAY_LEN(lists); i++) {
    slurm_first(lists[i][0], name, sizeof(name));
    assert_string_equal(name, lists[i][1]);
  }
  slurm_first("a-long-name[100-200]", name, sizeof(name));
  assert_string_equal(name, "a-long-");
}

static void test_slurm_second(void **state) {
  (void)state;
  static const char *const lists[][2] = {{"a,b", "b"},         {"f[3-5,9],g7", "f4"},          {"f[009-012]", "f010"},
                                         {"f[3,9],g7", "f9"},  {"r[3-5,9]n[1-2]x,g", "r4n1x"}, {"g7,f[3-5]", "f3"},
                                         {"f[7],h[1-2]", "h1"}};
  char name[16];
  for (size_t i = 0; i < FS_ARRAY_LEN(lists); i++) {
    assert_true(slurm_second(lists[i][0], name, sizeof(name)));
    assert_string_equal(name, lists[i][1]);
  }
  assert_false(slurm_second("a", name, sizeof(name)));
  assert_false(slurm_second("f[7]", name, sizeof(name)));
  assert_false(slurm_second("f[3", name, sizeof(name)));
  assert_false(slurm_second("", name, sizeof(name)));
}

static void test_option(void **state) {
  (void)state;
  struct host_list list = {0};
  assert_int_equal(hosts_from_option("a:4,b,a:2", &list), 0);
  assert_int_equal(list.n, 2);
  assert_string_equal(list.name[0], "a");
  assert_string_equal(list.name[1], "b");
  assert_int_equal(hosts_from_option("c,,d", &list), -EINVAL);
  assert_int_equal(hosts_from_option("", &list), -EINVAL);
  list_free(&list);
}

static void test_file(void **state) {
  (void)state;
  static const char text[] = "# hosts\n\nme@one.example:4 slots=2\n  two # remark\nodd@user@three\n";
  char path[64];
  struct host_list list = {0};
  int fd = memfd_create("hosts", MFD_CLOEXEC);
  assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  assert_int_equal(hosts_from_file(path, &list), 0);
  assert_int_equal(list.n, 3);
  assert_string_equal(list.name[0], "one.example");
  assert_string_equal(list.name[1], "two");
  assert_string_equal(list.name[2], "three");
  list_free(&list);
  list = (struct host_list){0};
  assert_int_equal(hosts_from_file("/dev/null", &list), -ENODATA);
  close(fd);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_slurm), cmocka_unit_test(test_slurm_second),
                                     cmocka_unit_test(test_option), cmocka_unit_test(test_file)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
