/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies in the directory of --stage-out are known again, and nobody else's is taken for one that has its inode. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/stageout.h"
#include "util/util.h"

static char work[] = "/tmp/fst-staged.XXXXXX";
static int dir;

static int make_dir(void **state) {
  (void)state;
  dir = mkdtemp(work) ? open(work, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  return dir < 0;
}

static int remove_dir(void **state) {
  (void)state;
  close(dir);
  return fs_remove_tree(work);
}

/* Eight bytes, with a time of long ago: times that a program sets are no mark of a file. */
static void put(const char *name, const char *bytes) {
  struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
  int fd = openat(dir, "new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, bytes, 8), 8);
  assert_int_equal(futimens(fd, times), 0);
  close(fd);
  usleep(20000); /* the kernel's clock of files goes in steps of up to 10 ms */
  assert_int_equal(renameat(dir, "new", dir, name), 0);
}

static void holds(const char *name, const char *bytes) {
  char buf[9] = "";
  int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
  assert_true(fd >= 0);
  assert_int_equal(read(fd, buf, 9), 8);
  assert_string_equal(buf, bytes);
  close(fd);
}

static struct fs_staged copy(char *path, const char *bytes) {
  struct fs_staged s = {.path = path, .size = 8, .mtime = {.tv_sec = 1000}};
  struct stat st;
  put(path, bytes);
  assert_int_equal(fstatat(dir, path, &st, 0), 0);
  s.ino = st.st_ino;
  fs_staged_named(dir, &s);
  assert_true(fs_staged_there(dir, &s));
  return s;
}

/* As where a file system gives out an inode again. */
static void inherit(struct fs_staged *s) {
  struct stat st;
  put(s->path, "replaced");
  assert_int_equal(fstatat(dir, s->path, &st, 0), 0);
  s->ino = st.st_ino;
}

static void test_inode_again(void **state) {
  char name[] = "file";
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct fs_staged s = copy(name, "original");
    if (i == 1) s.born = (struct timespec){0}; /* as where nobody knows when files were made */
    inherit(&s);
    assert_false(fs_staged_there(dir, &s));
    holds(name, "replaced");
  }
}

/* It came there after the look, before it was to be removed. */
static void test_another_stays(void **state) {
  char name[] = "sub/file";
  (void)state;
  assert_int_equal(mkdirat(dir, "sub", 0700), 0);
  struct fs_staged s = copy(name, "original");
  inherit(&s);
  if (s.born.tv_sec == 0) skip();
  fs_staged_take_away(dir, &s);
  holds(name, "replaced");
  s.ino++;
  s.born = (struct timespec){0};
  fs_staged_take_away(dir, &s);
  holds(name, "replaced");
}

static void test_own_goes(void **state) {
  char name[] = "deep/er/file";
  struct stat st;
  (void)state;
  assert_int_equal(mkdirat(dir, "deep", 0700), 0);
  assert_int_equal(mkdirat(dir, "deep/er", 0700), 0);
  struct fs_staged s = copy(name, "original");
  fs_staged_take_away(dir, &s);
  assert_int_equal(fstatat(dir, "deep", &st, 0), -1);
  assert_false(fs_staged_there(dir, &s));
}

/* What --stage-in found there is known by the time of its bytes until it is given another name. */
static void test_found(void **state) {
  char name[] = "found";
  (void)state;
  struct fs_staged s = copy(name, "original");
  s.born = s.moved = (struct timespec){0};
  assert_true(fs_staged_there(dir, &s));
  s.mtime.tv_nsec++;
  assert_false(fs_staged_there(dir, &s));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_inode_again),
      cmocka_unit_test(test_another_stays),
      cmocka_unit_test(test_own_goes),
      cmocka_unit_test(test_found),
  };
  return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
