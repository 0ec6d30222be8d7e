/* SPDX-License-Identifier: BSD-3-Clause */
/* One thread changes what the kernel has at a number while another closes it, puts a file there, or copies it. */
#include <pthread.h>

#include "client/fd/fdreal.h"
#include "tree_fixture.h"

#define ROUNDS (2000 / fix_slowness())

static _Atomic uint32_t g_go, g_done;
static void (*g_other)(void);

/* Calls g_other once for each round, beside what the test does. */
static void *other(void *arg) {
  for (uint32_t i = 1; i <= ROUNDS; i++) {
    while (atomic_load(&g_go) < i) sched_yield();
    g_other();
    atomic_store(&g_done, i);
  }
  return arg;
}

/* Until the other thread is about to come to fd: a little less where it was there before, else a little more. */
static void wait_for_other(int fd) {
  static uint32_t turns;
  for (volatile uint32_t n = 0; n < turns; n++) {
  }
  bool there = fs_fd_entry(fd) == 0 || (fs_fd_entry(fd) & FS_FDE_INHERIT);
  turns = there ? turns - turns / 64 : FS_MIN(turns + turns / 64 + 50, 100000);
}

/* close(2) of whatever fd is, as the wrapper has it. */
static int close_any(int fd) {
  fs_err err = fs_fd_entry(fd) & FS_FDE_VIRTUAL ? fs_fd_close(fd) : FS_E_REAL;
  return err == FS_E_REAL ? close(fd) : err;
}

static bool is_null(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode);
}

static void race(void (*what)(void), void (*round)(uint32_t i)) {
  pthread_t t;
  CHECK(fs_fd_close(open_small(O_RDONLY)) == 0 && fs_fd_pool_drop());
  g_other = what;
  CHECK(pthread_create(&t, NULL, other, NULL) == 0);
  for (uint32_t i = 1; i <= ROUNDS; i++) round(i);
  pthread_join(t, NULL);
}

static void wait_for(uint32_t i) {
  while (atomic_load(&g_done) < i) sched_yield();
}

/* An open file whose offset another process has moved, as far as this one can tell. */
static int open_moved(void) {
  int fd = open_small(O_RDONLY);
  struct fs_slot *s = fs_fd_slot(fd);
  fs_fd_share();
  close(fs_real_get(s));
  CHECK(fs_slot_is_real(s));
  return fd;
}

static void close_once(uint32_t i) {
  int fd = open_moved();
  atomic_store(&g_go, i);
  wait_for_other(fd);
  CHECK(close_any(fd) == 0);
  int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  CHECK(null >= 0);
  fs_fd_is_real(null);
  wait_for(i);
  CHECK(is_null(null) && fcntl(null, F_GETFD) == FD_CLOEXEC && fs_fd_entry(null) == 0 && close(null) == 0);
}
static void closes(const struct fix *f) {
  (void)f;
  race(fs_real_follow, close_once);
}
static void test_closes(void **state) {
  fix_run(state, closes);
}

/* The close-on-exec flag of a number that another thread's exec is about to clear. */
static void inherit_once(uint32_t i) {
  int fd = open_small(O_RDONLY);
  atomic_store(&g_go, i);
  wait_for_other(fd);
  CHECK(close_any(fd) == 0);
  int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  CHECK(null >= 0);
  fs_fd_is_real(null);
  wait_for(i);
  CHECK(fcntl(null, F_GETFD) == FD_CLOEXEC && close(null) == 0);
  fs_fd_pool_drop();
}
static void inherits(const struct fix *f) {
  (void)f;
  race(fs_fd_prepare_exec, inherit_once);
}
static void test_inherits(void **state) {
  fix_run(state, inherits);
}

/* A wish that is told while an exec carries out the one before. */
static void wish_once(uint32_t i) {
  int fd = open_small(O_RDONLY);
  atomic_store(&g_go, i);
  wait_for_other(fd);
  CHECK(fs_fd_set_cloexec(fd, true) == 0);
  wait_for(i);
  CHECK(fs_fd_get_cloexec(fd) == FD_CLOEXEC && fcntl(fd, F_GETFD) == FD_CLOEXEC && close_any(fd) == 0);
}
static void wishes(const struct fix *f) {
  (void)f;
  race(fs_fd_prepare_exec, wish_once);
}
static void test_wishes(void **state) {
  fix_run(state, wishes);
}

/* Copies go on sharing an offset, be they below the number or above it, and hold the same file. */
static bool share_offset(int a, int b) {
  return lseek(a, 77, SEEK_SET) == 77 && lseek(b, 0, SEEK_CUR) == 77;
}

static void copy_once(uint32_t i) {
  int low = dup(0), fd = open_moved();
  CHECK(low >= 0 && close(low) == 0);
  atomic_store(&g_go, i);
  wait_for_other(fd);
  int copy = fs_fd_dup(fd, i % 2 ? 0 : 100, false);
  if (copy == FS_E_REAL) copy = fcntl(fd, F_DUPFD, 3);
  CHECK(copy > 2);
  wait_for(i);
  fs_real_follow();
  CHECK(fs_fd_entry(fd) == 0 && fs_fd_entry(copy) == 0 && share_offset(fd, copy));
  CHECK(fcntl(copy, F_GETFD) == 0 && close(fd) == 0 && close(copy) == 0);
}
static void copies(const struct fix *f) {
  (void)f;
  race(fs_real_follow, copy_once);
}
static void test_copies(void **state) {
  fix_run(state, copies);
}

/* Nobody else holds it, and so nobody would see later that its offset has moved. */
static _Atomic int g_fd;
static void make_real(void) {
  struct fs_slot *s = fs_fd_slot(g_fd);
  CHECK(s != NULL && fs_fd_take_over(g_fd, s) == 0);
}
static void own_copy_once(uint32_t i) {
  int low = dup(0), fd = open_small(O_RDONLY), copy;
  CHECK(low >= 0 && close(low) == 0);
  atomic_store(&g_fd, fd);
  atomic_store(&g_go, i);
  wait_for_other(fd);
  copy = fs_fd_dup(fd, i % 2 ? 0 : 100, false);
  if (copy == FS_E_REAL) copy = fcntl(fd, F_DUPFD, 3);
  CHECK(copy > 2);
  wait_for(i);
  CHECK(fs_fd_entry(fd) == 0 && fs_fd_entry(copy) == 0 && share_offset(fd, copy));
  CHECK(close(fd) == 0 && close(copy) == 0);
}
static void own_copies(const struct fix *f) {
  (void)f;
  race(make_real, own_copy_once);
}
static void test_own_copies(void **state) {
  fix_run(state, own_copies);
}

/* Another file arrives at the number, as by dup2. */
static void over_once(uint32_t i) {
  struct fs_fd_claim c;
  int fd = open_moved();
  int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  CHECK(null >= 0);
  fs_fd_is_real(null);
  atomic_store(&g_go, i);
  wait_for_other(fd);
  fs_fd_over_begin(fd, &c);
  CHECK(dup3(null, fd, O_CLOEXEC) == fd);
  fs_fd_over_end(fd, &c, true);
  wait_for(i);
  CHECK(is_null(fd) && fs_fd_entry(fd) == 0 && close(fd) == 0 && close(null) == 0);
}
static void overs(const struct fix *f) {
  (void)f;
  race(fs_real_follow, over_once);
}
static void test_overs(void **state) {
  fix_run(state, overs);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_closes),     cmocka_unit_test(test_inherits),
                                     cmocka_unit_test(test_wishes),     cmocka_unit_test(test_copies),
                                     cmocka_unit_test(test_own_copies), cmocka_unit_test(test_overs)};
  unsetenv("FANSTORE_STATE");
  return cmocka_run_group_tests(tests, tree_setup, fix_teardown);
}
