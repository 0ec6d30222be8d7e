/* SPDX-License-Identifier: BSD-3-Clause */
/* Directories of one's own at names that others can take: which are, in which order, and when one is made. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "ipc/rundir.h"
#include "util/own.h"
#include "util/util.h"

#define CHECK(x) assert_true(x)

static char top[200], name[256], got[PATH_MAX];

static char *at(const char *suffix) {
  static char path[4][300];
  static unsigned i;
  snprintf(path[++i % 4], sizeof(path[0]), "%s%s", name, suffix);
  return path[i % 4];
}

static void setup(void) {
  const char *tmp = getenv("TMPDIR");
  snprintf(top, sizeof(top), "%s/own.XXXXXX", tmp ? tmp : "/tmp");
  CHECK(mkdtemp(top) != NULL);
  snprintf(name, sizeof(name), "%s/a/b/name", top);
}

static int count(void *ctx, const char *dir) {
  char *text = ctx;
  strcat(strcat(text, dir + strlen(name)), " ");
  return 0;
}

static void expect_all(const char *want, bool links) {
  char text[256] = "";
  assert_int_equal(fs_own_each(name, links, count, text), 0);
  assert_string_equal(text, want);
}

static void expect_get(const char *want, bool links) {
  assert_int_equal(fs_own_get(name, links, got, sizeof(got)), 0);
  assert_string_equal(got, want);
}

static void test_own(void **state) {
  (void)state;
  setup();
  expect_all("", false);
  expect_get(name, false); /* its parents, too */
  expect_get(name, false);
  expect_all(" ", true);
  CHECK(rmdir(name) == 0 && symlink("..", name) == 0);
  expect_all("", false);
  expect_get(name, true); /* one's own symlink */
  assert_int_equal(fs_own_get(name, false, got, sizeof(got)), 0);
  CHECK(strlen(got) == strlen(name) + 7 && strncmp(got, at("."), strlen(name) + 1) == 0);
  struct stat st;
  CHECK(lstat(got, &st) == 0 && (st.st_mode & 07777) == 0700 && rmdir(got) == 0);
  CHECK(unlink(name) == 0 && symlink("nowhere", name) == 0);
  CHECK(!fs_own_is(name, true));
  /* Of what has such a name, directories of mode 0700, by name. */
  CHECK(mkdir(at(".bbbbbb"), 0700) == 0 && mkdir(at(".Zbbbbb"), 0700) == 0 && mkdir(at(".bbbbb"), 0700) == 0);
  CHECK(mkdir(at(".aaaaaa"), 0755) == 0 && mkdir(at(".bbbbb-"), 0700) == 0 &&
        symlink("name.bbbbbb", at(".cccccc")) == 0);
  expect_all(".Zbbbbb .bbbbbb ", true);
  expect_get(at(".Zbbbbb"), true);
  CHECK(chmod(at(".Zbbbbb"), 02700) == 0); /* made in a directory with that bit */
  expect_get(at(".Zbbbbb"), true);
  assert_int_equal(fs_own_get(name, true, got, strlen(name) + 7), -ENAMETOOLONG);
  if (geteuid() == 0) {
    CHECK(chown(at(".Zbbbbb"), 65534, 65534) == 0);
    expect_get(at(".bbbbbb"), true);
    CHECK(unlink(name) == 0 && mkdir(name, 0700) == 0 && chown(name, 65534, 65534) == 0);
    expect_get(at(".bbbbbb"), true);
    CHECK(!fs_own_is(name, false) && !fs_own_is(name, true));
    CHECK(symlink("name", at("-link")) == 0 && !fs_own_is(at("-link"), true));
  }
  CHECK(fs_remove_tree(top) == 0);
}

static void test_run(void **state) {
  char path[400], base[300], out[PATH_MAX];
  (void)state;
  setup();
  setenv("FANSTORE_RUN_BASE", top, 1);
  fs_run_prefer("/dev/shm"); /* of no use where a base was chosen */
  snprintf(base, sizeof(base), "%s/fanstore-%u", top, geteuid());
  snprintf(path, sizeof(path), "%.300s/job-1", base);
  CHECK(fs_run_find("job-1", out, sizeof(out)) == (fs_ssize)strlen(path));
  assert_string_equal(out, path); /* where it would be */
  snprintf(path, sizeof(path), "%s.abcdef", base);
  CHECK(mkdir(base, 0700) == 0 && mkdir(path, 0700) == 0);
  CHECK(fs_run_is_job(base, "x") && !fs_run_is_job(base, ".x") && !fs_run_is_job(path, "x") &&
        fs_run_is_job(path, "job-1"));
  CHECK(!fs_run_is_job(base, "fanstore")); /* other jobs' copies in memory, if the base is in /dev/shm */
  strcat(path, "/job-1");
  CHECK(mkdir(path, 0700) == 0 && fs_run_find("job-1", out, sizeof(out)) == (fs_ssize)strlen(path));
  assert_string_equal(out, path);
  assert_int_equal(fs_run_find("job-1", out, strlen(path)), -ENAMETOOLONG);
  CHECK(fs_run_base("job-1", out, sizeof(out)) == 0 && strcmp(out, path) != 0 && strncmp(out, path, strlen(out)) == 0);
  CHECK(fs_run_base("job-2", out, sizeof(out)) == 0);
  assert_string_equal(out, base);
  CHECK(fs_remove_tree(top) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_own), cmocka_unit_test(test_run)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
