/* SPDX-License-Identifier: BSD-3-Clause */
/* Open files that become real: the store, who moves the offset, who follows, and what a killed process leaves. */
#include "client/fd/fdreal.h"

#include <sys/wait.h>

#include "tree_fixture.h"

static int64_t at(int fd) {
  return lseek(fd, 0, SEEK_CUR);
}

static bool same_file(int a, int b) {
  off_t before = at(a);
  lseek(a, 77, SEEK_SET);
  bool same = at(b) == 77;
  lseek(a, before, SEEK_SET);
  return same;
}

static int stored(const struct fs_state *st, uint32_t slot, uint32_t token) {
  uint32_t from = 0;
  int fd = fs_store_get(st, slot, token, &from);
  return fd < 0 || from == (uint32_t)gettid() ? fd : -1;
}

static void store(const struct fix *f) {
  (void)f;
  int fd = open_small(O_RDONLY);
  struct fs_state *st = fs_state_attach(true);
  uint32_t slot = (uint32_t)(fs_fd_slot(fd) - st->slot);
  int file = open("/proc/self/exe", O_RDONLY);
  CHECK(fs_state_store() >= 0 && stored(st, slot, 7) == -ENOENT);
  fs_store_put(st, slot, 7, file);
  int a = stored(st, slot, 7), b = stored(st, slot, 7);
  CHECK(a >= 0 && b >= 0 && a != b && same_file(a, file) && same_file(b, file) && fcntl(a, F_GETFD) == FD_CLOEXEC);
  CHECK(stored(st, slot, 8) == -ENOENT && stored(st, slot + 1, 7) == -ENOENT);
  /* What the offset did not move to goes, this one stays. */
  st->slot[slot].offset = FS_OFFSET_REAL | 7ull << FS_OFFSET_BITS;
  for (uint32_t i = 0; i < 100; i++) fs_store_put(st, slot, 8 + i, file);
  int c = stored(st, slot, 7);
  CHECK(c >= 0 && same_file(c, file));
  uint32_t left = 0;
  for (uint32_t i = 0; i < 100; i++) {
    int old = stored(st, slot, 8 + i);
    left += old >= 0;
    if (old >= 0) close(old);
  }
  CHECK(left <= 16);
  st->slot[slot].gen++;
  CHECK(stored(st, slot, 7) == -ENOENT);
}
static void test_store(void **state) {
  fix_run(state, store);
}

/* More than it holds: the oldest go. */
static void full(const struct fix *f) {
  struct fs_slot *s[40];
  (void)f;
  int file = open("/proc/self/exe", O_RDONLY);
  struct fs_state *st = NULL;
  for (uint32_t i = 0; i < 40; i++) {
    s[i] = fs_fd_slot(open_small(O_RDONLY));
    st = fs_state_attach(false);
    fs_store_put(st, (uint32_t)(s[i] - st->slot), i, file);
  }
  uint32_t first = (uint32_t)(s[0] - st->slot), last = (uint32_t)(s[39] - st->slot);
  CHECK(stored(st, first, 0) == -ENOENT && stored(st, last, 39) >= 0);
}
static void test_full(void **state) {
  fix_run(state, full);
}

static void moves(const struct fix *f) {
  char buf[16];
  (void)f;
  int fd = open_small(O_RDONLY);
  struct fs_slot *s = fs_fd_slot(fd);
  CHECK(fs_file_lseek(s, 5, SEEK_SET) == 5);
  int own = fs_real_get(s); /* nobody else holds it: the slot stays as it was */
  CHECK(own >= 0 && at(own) == 5 && !fs_slot_is_real(s));
  fs_fd_share();
  CHECK(fs_file_lseek(s, 2, SEEK_CUR) == 7);
  int a = fs_real_get(s), b = fs_real_get(s);
  CHECK(a >= 0 && b >= 0 && fs_slot_is_real(s) && at(a) == 7 && same_file(a, b) && !same_file(a, own));
  CHECK(fs_file_read(s, buf, 1) == FS_E_REAL && fs_file_lseek(s, 0, SEEK_CUR) == FS_E_REAL);
  CHECK(fs_file_send(s, a, NULL, 1) == FS_E_REAL && fs_file_pread(s, buf, 16, 0) == 16);
  lseek(b, 9, SEEK_SET);
  CHECK(fs_fd_take_over(fd, s) == 0 && fs_fd_slot(fd) == NULL && at(fd) == 9 && same_file(fd, a));
}
static void test_moves(void **state) {
  fix_run(state, moves);
}

/* A child moves the offset; its parent follows by the store. */
static void processes(const struct fix *f) {
  struct fs_fd_idle idle;
  int status;
  (void)f;
  int fd = open_small(O_RDONLY), copy = fs_fd_dup(fd, 0, true);
  struct fs_slot *s = fs_fd_slot(fd);
  fs_fd_prepare_fork(&idle);
  pid_t pid = fork();
  if (pid == 0) {
    fs_fd_child(&idle);
    int real = fs_real_get(s);
    _exit(real >= 0 && lseek(real, 11, SEEK_SET) == 11 ? 0 : 1);
  }
  fs_fd_parent(&idle);
  CHECK(waitpid(pid, &status, 0) == pid && status == 0 && fs_slot_is_real(s));
  fs_real_follow();
  CHECK(fs_fd_slot(fd) == NULL && fs_fd_slot(copy) == NULL && at(fd) == 11 && same_file(fd, copy));
  CHECK(fcntl(copy, F_GETFD) == FD_CLOEXEC && fcntl(fd, F_GETFD) == 0);
}
static void test_processes(void **state) {
  fix_run(state, processes);
}

/* Killed before what the offset moved to was at its place: who follows puts it there. */
static void late(const struct fix *f) {
  (void)f;
  int fd = open_small(O_RDONLY);
  struct fs_slot *s = fs_fd_slot(fd);
  struct fs_state *st = fs_state_attach(false);
  uint32_t slot = (uint32_t)(s - st->slot);
  int status, file = open("/proc/self/exe", O_RDONLY);
  fs_fd_share();
  pid_t pid = fork();
  if (pid == 0) {
    fs_store_put(st, slot, 5, file);
    atomic_store(&s->offset, FS_OFFSET_REAL | 5ull << FS_OFFSET_BITS | 21);
    _exit(0);
  }
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  int a = fs_real_get(s), b = fs_real_get(s);
  CHECK(a >= 0 && b >= 0 && at(a) == 21 && same_file(a, file) && same_file(b, file));
}
static void test_late(void **state) {
  fix_run(state, late);
}

/* What the offset moved to is lost, and somebody was killed with the hint. */
static void killed(const struct fix *f) {
  (void)f;
  int fd = open_small(O_RDONLY);
  struct fs_slot *s = fs_fd_slot(fd);
  struct fs_state *st = fs_state_attach(false);
  fs_fd_share();
  fs_file_lseek(s, 13, SEEK_SET);
  atomic_fetch_or(&s->offset, FS_OFFSET_REAL | 12345ull << FS_OFFSET_BITS);
  atomic_store(&st->store_owner, 999999999);
  int a = fs_real_get(s), b = fs_real_get(s);
  CHECK(a >= 0 && b >= 0 && at(a) == 13 && same_file(a, b) && atomic_load(&st->store_owner) == 0);
}
static void test_killed(void **state) {
  fix_run(state, killed);
}

/* The kernel's numbers for one that the program wants are moved away, and go on working. */
static void own_numbers(const struct fix *f) {
  (void)f;
  open_small(O_RDONLY);
  int state = fs_state_fd(), where = fs_state_store();
  CHECK(fs_own_move(state) && fs_own_move(where) && !fs_own_move(5));
  CHECK(fs_state_fd() != state && fs_state_store() != where && fs_data_owns_fd(fs_state_fd()));
  CHECK(!fs_data_owns_fd(state) && fcntl(fs_state_fd(), F_GETFD) == 0 && dup2(1, where) == where);
  struct fs_slot *s = fs_fd_slot(open_small(O_RDONLY));
  fs_fd_share();
  int a = fs_real_get(s), b = fs_real_get(s);
  CHECK(a >= 0 && b >= 0 && same_file(a, b));
}
static void test_own_numbers(void **state) {
  fix_run(state, own_numbers);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_store),      cmocka_unit_test(test_full),
                                     cmocka_unit_test(test_moves),      cmocka_unit_test(test_processes),
                                     cmocka_unit_test(test_killed),     cmocka_unit_test(test_late),
                                     cmocka_unit_test(test_own_numbers)};
  unsetenv("FANSTORE_STATE");
  return cmocka_run_group_tests(tests, tree_setup, fix_teardown);
}
