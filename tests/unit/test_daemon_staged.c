/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies in the directory of --stage-out are known again, and nobody else's is taken for one that has its inode. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/stageout/inplace.h"
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

static void take_away(const struct fs_staged *s) {
  fs_staged_remove(dir, s);
  fs_staged_prune(dir, s->path);
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
  take_away(&s);
  holds(name, "replaced");
  s.ino++;
  s.born = (struct timespec){0};
  take_away(&s);
  holds(name, "replaced");
}

static void test_own_goes(void **state) {
  char name[] = "deep/er/file";
  struct stat st;
  (void)state;
  assert_int_equal(mkdirat(dir, "deep", 0700), 0);
  assert_int_equal(mkdirat(dir, "deep/er", 0700), 0);
  struct fs_staged s = copy(name, "original");
  take_away(&s);
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

/* What was moved must be the copy. */
static void test_moved(void **state) {
  char name[] = "moved";
  (void)state;
  struct fs_staged s = copy(name, "original");
  put("moved", "another!");
  assert_int_equal(renameat(dir, "moved", dir, "moved-to"), 0);
  assert_int_equal(fs_staged_moved(dir, &s, "moved-to"), -EAGAIN);
  holds("moved", "another!");
  s = copy(name, "original");
  assert_int_equal(renameat(dir, "moved", dir, "moved-to"), 0);
  assert_int_equal(fs_staged_moved(dir, &s, "moved-to"), 0);
  holds("moved-to", "original");
}

/* ---- in place ---- */

/* The user's files come to "ck" before some of the calls that give names. */
static unsigned calls;
static const char *comes[8];
static bool no_flags; /* as on NFS */
static void next_call(void) {
  const char *bytes = calls < FS_ARRAY_LEN(comes) ? comes[calls] : NULL;
  calls++;
  struct timespec times[2] = {{.tv_sec = 2000}, {.tv_sec = 2000}};
  if (!bytes) return;
  put("ck", bytes);
  assert_int_equal(utimensat(dir, "ck", times, 0), 0);
}
int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
  next_call();
  if (!no_flags) return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
  errno = EINVAL;
  return -1;
}
int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) {
  next_call();
  return (int)syscall(SYS_linkat, from_dir, from, to_dir, to, flags);
}

static const struct fs_daemon_config config = {.job = "job-test"};
static struct fs_net net = {.nodes = 1};
static struct fs_daemon test_daemon = {.cfg = &config, .net = &net};
static struct fs_stageout out = {.d = &test_daemon, .in_place = true};

static int lowest_free(void) {
  int fd = dup(dir);
  close(fd);
  return fd;
}

/* A log that cannot be made leaves nothing: neither here, where each batch tries again, nor there. */
static void test_in_place_no_log(void **state) {
  char name[NAME_MAX + 2];
  struct stat st;
  (void)state;
  out.fd = dir;
  assert_int_equal(mkdirat(dir, ".fanstore-staged", 0700), 0);
  assert_int_equal(symlinkat("x", dir, ".fanstore-staged/in-place-job-test-0"), 0);
  int free_fd = lowest_free();
  for (int i = 0; i < 3; i++) {
    assert_int_equal(fs_inplace_begin(&out), -ELOOP);
    assert_null(out.log);
    assert_int_equal(lowest_free(), free_fd);
  }
  assert_int_equal(unlinkat(dir, ".fanstore-staged/in-place-job-test-0", 0), 0);
  assert_int_equal(unlinkat(dir, ".fanstore-staged", AT_REMOVEDIR), 0);
  memset(name, 'x', sizeof(name) - 1);
  name[sizeof(name) - 1] = '\0';
  assert_int_equal(fs_stageout_log_open(&out.log, dir, name), -ENAMETOOLONG);
  assert_int_equal(lowest_free(), free_fd);
  assert_int_equal(fstatat(dir, ".fanstore-staged", &st, 0), -1);
}

/* The job's copy is replaced by a newer one, while this comes there. */
static fs_err replace(const char *a, const char *b, const char *c, const char *d) {
  const struct fs_staged s = {.size = 8, .mtime = {.tv_sec = 1000}};
  calls = UINT32_MAX / 2;
  out.fd = dir;
  assert_int_equal(fs_inplace_begin(&out), 0);
  put("ck", "job's one");
  fs_stageout_log_add(out.log, "ck", &s);
  put("temp", "job's two");
  memcpy(comes, (const char *[]){NULL, a, b, c, d, NULL, NULL, NULL}, sizeof(comes));
  calls = 0;
  fs_err err = fs_inplace_rename(&out, "temp", "ck");
  (void)unlinkat(dir, "temp", 0);
  return err;
}

static void test_in_place(void **state) {
  (void)state;
  assert_int_equal(replace(NULL, NULL, NULL, NULL), 0);
  holds("ck", "job's tw");
  assert_int_equal(replace("users 1.", NULL, NULL, NULL), -EEXIST);
  holds("ck", "users 1.");
  assert_int_equal(replace("users 1.", "users 2.", NULL, NULL), -EEXIST);
  holds("ck", "users 2.");
  assert_int_equal(replace("users 1.", "users 2.", "users 3.", NULL), -EEXIST);
  holds("ck", "users 3.");
  assert_int_equal(replace("users 1.", "users 2.", "users 3.", "users 4."), -EEXIST);
  holds("ck", "users 4.");
}

static void test_in_place_no_flags(void **state) {
  struct stat st;
  (void)state;
  no_flags = true;
  assert_int_equal(replace(NULL, NULL, NULL, NULL), 0);
  holds("ck", "job's tw");
  assert_int_equal(replace("users 1.", NULL, NULL, NULL), -EEXIST);
  holds("ck", "users 1.");
  assert_int_equal(replace(NULL, "users 2.", NULL, NULL), -EEXIST);
  holds("ck", "users 2.");
  assert_int_equal(replace(NULL, NULL, "users 3.", NULL), -EEXIST);
  holds("ck", "users 3.");
  assert_int_equal(replace(NULL, "users 2.", "users 3.", NULL), -EEXIST);
  holds("ck", "users 3.");
  assert_int_equal(fstatat(dir, "temp-old", &st, 0), -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_inode_again), cmocka_unit_test(test_another_stays),
      cmocka_unit_test(test_own_goes),    cmocka_unit_test(test_found),
      cmocka_unit_test(test_moved),       cmocka_unit_test(test_in_place_no_log),
      cmocka_unit_test(test_in_place),    cmocka_unit_test(test_in_place_no_flags),
  };
  return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
