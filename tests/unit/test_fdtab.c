/* SPDX-License-Identifier: BSD-3-Clause */
/* Virtual descriptors: their numbers, the pool, copies, close-on-exec, fork, adoption, and threads that race. */
#include <pthread.h>
#include <sys/resource.h>

#include "tree_fixture.h"

static bool kernel_has(int fd) {
  return fcntl(fd, F_GETFD) >= 0;
}

static int lowest_free(void) {
  int fd = dup(0);
  close(fd);
  return fd;
}

static void numbers(const struct fix *f) {
  struct stat st;
  (void)f;
  open_small(0);
  int low = lowest_free();
  int a = open_small(O_RDONLY), b = open_small(O_RDONLY | O_CLOEXEC);
  CHECK(a == low && b == low + 1 && kernel_has(a) && fs_fd_slot(a) != NULL && fs_fd_slot(a) != fs_fd_slot(b));
  CHECK(fs_fd_get_cloexec(a) == 0 && fs_fd_get_cloexec(b) == FD_CLOEXEC);
  CHECK(fcntl(a, F_GETFD) == FD_CLOEXEC); /* the kernel's flag */
  char c;
  CHECK(read(a, &c, 1) < 0 && errno == EBADF); /* a call that bypasses us */
  CHECK(fstat(a, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_ino == fs_fd_slot(a)->ino);
  CHECK(fs_fd_close(a) == 0 && fs_fd_close(a) == -EBADF);
  CHECK(kernel_has(a) && fs_fd_slot(a) == &fs_slot_closed); /* idle */
  CHECK(open_small(O_RDONLY) == a);
  CHECK(fs_fd_close(a) == 0 && fs_fd_close(b) == 0);
  CHECK(open_small(O_RDONLY) == a); /* the lowest of the pool */
  CHECK(fs_fd_close(999) == FS_E_REAL && fs_fd_close(-1) == FS_E_REAL && fs_fd_close(0) == FS_E_REAL);
}
static void test_numbers(void **state) {
  fix_run(state, numbers);
}

static void pool(const struct fix *f) {
  int fd[40], kept = 0;
  (void)f;
  for (int i = 0; i < 40; i++) CHECK((fd[i] = open_small(O_RDONLY)) > 2);
  for (int i = 0; i < 40; i++) CHECK(fs_fd_close(fd[i]) == 0);
  for (int i = 0; i < 40; i++) kept += kernel_has(fd[i]);
  CHECK(kept > 0 && kept <= 16);
  CHECK(fs_fd_pool_drop() && !fs_fd_pool_drop());
  for (int i = 0; i < 40; i++) CHECK(!kernel_has(fd[i]) && fs_fd_slot(fd[i]) == NULL);
  int a = open_small(O_RDONLY);
  CHECK(fs_fd_close(a) == 0 && kernel_has(a));
  fs_fd_evict(a);
  CHECK(!kernel_has(a) && fs_fd_slot(a) == NULL);
  a = open_small(O_RDONLY);
  close(a); /* behind our back: another file takes the number */
  CHECK(dup(0) == a);
  fs_fd_forget(a);
  CHECK(fs_fd_slot(a) == NULL);
}
static void test_pool(void **state) {
  fix_run(state, pool);
}

static uint32_t slots_used(void) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < FS_SLOTS / 64; i++) n += (uint32_t)__builtin_popcountll(fs_state->used[i]);
  return n;
}

/* The number of an idle placeholder that the table knows above all that programs usually have. */
static int parked(void) {
  for (int fd = 1000; fd < (int)fs_fdtab_high; fd++)
    if (fs_fd_entry(fd) & FS_FDE_IDLE) return fd;
  return -1;
}

/* A real file takes the number of an idle placeholder, which is kept elsewhere. */
static void parks(const struct fix *f) {
  struct fs_fd_idle idle;
  struct stat before, after;
  int status, a = open_small(O_RDONLY);
  (void)f;
  CHECK(fs_sys_fstat(a, &before) == 0 && fs_fd_close(a) == 0);
  fs_fd_make_lowest(1);
  CHECK(!kernel_has(a) && parked() >= 1000 && slots_used() == 1);
  int real = dup(0), up = parked();
  CHECK(real == a && open_small(O_RDONLY) == a + 1); /* the same placeholder again */
  CHECK(fs_sys_fstat(a + 1, &after) == 0 && after.st_ino == before.st_ino && !kernel_has(up) && parked() < 0);
  CHECK(fs_fd_close(a + 1) == 0 && slots_used() == 1);
  fs_fd_make_lowest(1);
  up = parked();
  fs_fd_prepare_fork(&idle);
  pid_t pid = fork();
  if (pid == 0) {
    fs_fd_child(&idle);
    CHECK(!kernel_has(up) && parked() < 0 && open_small(O_RDONLY) == a + 1 && slots_used() == 2);
    _exit(0);
  }
  fs_fd_parent(&idle);
  CHECK(waitpid(pid, &status, 0) == pid && status == 0 && parked() == up);
  fs_fd_evict(up); /* the program wants that number */
  CHECK(!kernel_has(up) && parked() < 0);
  int many[20];
  for (int i = 0; i < 20; i++) CHECK((many[i] = open_small(O_RDONLY)) > 0);
  CHECK(many[0] == a + 1);
  for (int i = 0; i < 20; i++) CHECK(fs_fd_close(many[i]) == 0);
  fs_fd_make_lowest(8); /* more than can be parked */
  CHECK(parked() >= 1000 && fs_fd_pool_drop() && parked() < 0);
}
static void test_parks(void **state) {
  fix_run(state, parks);
}

/* While one thread forks, another puts a file of its own where a placeholder was idle. */
static void evicted(const struct fix *f) {
  struct fs_fd_idle idle;
  struct fs_fd_claim c;
  (void)f;
  int a = open_small(O_RDONLY), b = open_small(O_RDONLY);
  CHECK(fs_fd_close(a) == 0 && fs_fd_close(b) == 0);
  fs_fd_prepare_fork(&idle);
  CHECK(fs_fd_entry(a) == FS_FDE_IDLE && kernel_has(a));
  fs_fd_over_begin(a, &c);
  CHECK(fs_fd_entry(a) == 0 && dup2(0, a) == a);
  fs_fd_over_end(a, &c, true);
  fs_fd_parent(&idle);
  CHECK(open_small(O_RDONLY) == b && open_small(O_RDONLY) > b && fs_fd_slot(a) == NULL);
}
static void test_evicted(void **state) {
  fix_run(state, evicted);
}

static void copies(const struct fix *f) {
  (void)f;
  int a = open_small(O_RDONLY);
  struct fs_slot *s = fs_fd_slot(a);
  int b = fs_fd_dup(a, 50, true), c = fs_fd_dup(a, 0, false);
  CHECK(b == 50 && fs_fd_get_cloexec(b) == FD_CLOEXEC && c == a + 1 && fs_fd_get_cloexec(c) == 0);
  CHECK(fs_fd_slot(b) == s && fs_fd_slot(c) == s && s->refs == 3);
  CHECK(fs_file_lseek(s, 100, SEEK_SET) == 100 && fs_file_lseek(fs_fd_slot(b), 0, SEEK_CUR) == 100);
  CHECK(fs_fd_set_cloexec(b, false) == 0 && fs_fd_get_cloexec(b) == 0);
  int other = open_small(O_RDONLY);
  CHECK(fs_fd_dup_to(a, other, false) == other && fs_fd_slot(other) == s && s->refs == 4);
  CHECK(fs_fd_close(b) == 0 && !kernel_has(b) && fs_fd_close(c) == 0 && fs_fd_close(other) == 0 && s->refs == 1);
  CHECK(fs_fd_close(a) == 0 && kernel_has(a)); /* the last: into the pool */
  CHECK(fs_fd_dup(a, 0, false) == -EBADF && fs_fd_get_cloexec(a) == -EBADF);
}
static void test_copies(void **state) {
  fix_run(state, copies);
}

static void limit(const struct fix *f) {
  struct rlimit few = {24, 24};
  int fd, n = 0, last = -1;
  (void)f;
  fd = open_small(O_RDONLY);
  CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
  while ((fd = open_small(O_RDONLY)) >= 0) last = fd, n++;
  CHECK(fd == -EMFILE && n >= 10);
  CHECK(fs_fd_close(last) == 0 && kernel_has(last));
  CHECK(fs_fd_dup(last - 1, 0, false) >= 0); /* the idle placeholder makes room */
}
static void test_limit(void **state) {
  fix_run(state, limit);
}

static void forks(const struct fix *f) {
  struct fs_fd_idle idle;
  int status;
  (void)f;
  int a = open_small(O_RDONLY), b = open_small(O_RDONLY);
  struct fs_slot *s = fs_fd_slot(a);
  fs_fd_close(b);
  CHECK(!s->shared);
  fs_fd_prepare_fork(&idle);
  CHECK(s->shared);
  pid_t pid = fork();
  if (pid == 0) {
    fs_fd_child(&idle);
    CHECK(!kernel_has(b) && fs_fd_slot(a) == s);
    CHECK(fs_file_lseek(s, 10, SEEK_CUR) == 10);
    int c = open_small(O_RDONLY);
    CHECK(c == b && fs_fd_slot(c) != s); /* a placeholder of its own */
    CHECK(fs_fd_close(a) == 0 && !kernel_has(a) && s->kind == FS_SLOT_FILE);
    _exit(0);
  }
  fs_fd_parent(&idle);
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  CHECK(fs_file_lseek(s, 0, SEEK_CUR) == 10);
  CHECK(open_small(O_RDONLY) == b);
  CHECK(fs_fd_close(a) == 0 && !kernel_has(a)); /* children may hold it: not for the pool */
}
static void test_forks(void **state) {
  fix_run(state, forks);
}

/* What an executed program does with a descriptor that it inherited. */
static void adopt(const struct fix *f) {
  (void)f;
  int a = open_small(O_RDONLY), b = open_small(O_RDONLY | O_CLOEXEC);
  struct fs_slot *s = fs_fd_slot(a);
  fs_fd_prepare_exec();
  CHECK(fcntl(a, F_GETFD) == 0 && fcntl(b, F_GETFD) == FD_CLOEXEC && s->shared);
  CHECK(fs_fd_set_cloexec(a, true) == 0 && fcntl(a, F_GETFD) == FD_CLOEXEC);
  CHECK(fs_fd_set_cloexec(a, false) == 0);
  fs_fd_prepare_exec();
  atomic_store(&fs_fdtab[a], 0);
  CHECK(fs_fd_slot(a) == NULL);
  CHECK(fs_fd_adopt(a) == s && fs_fd_slot(a) == s && s->shared);
  CHECK(fs_fd_adopt(0) == NULL && fs_fd_adopt(-1) == NULL);
  s->mount_key++; /* of a process with another mount */
  atomic_store(&fs_fdtab[a], 0);
  CHECK(fs_fd_adopt(a) == &fs_slot_closed);
}
static void test_adopt(void **state) {
  fix_run(state, adopt);
}

#ifndef __SANITIZE_THREAD__ /* which makes a fork of it */
static void vforks(const struct fix *f) {
  int status;
  (void)f;
  int a = open_small(O_RDONLY), b = open_small(O_RDONLY);
  struct fs_slot *s = fs_fd_slot(a);
  fs_fd_share();
  fs_vfork_depth = 1;
  pid_t pid = vfork();
  if (pid == 0) {
    bool ok = fs_fd_slot(a) == s && fs_fd_dup_to(a, b, false) == b && fs_fd_slot(b) == s; /* by the inode */
    ok = ok && fs_fd_close(a) == 0 && fs_fd_slot(a) == NULL;
    _exit(ok ? 0 : 1);
  }
  fs_vfork_depth = 0;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  CHECK(fs_fd_slot(a) == s && fs_fd_slot(b) != s && fs_fd_slot(b) != NULL); /* nothing of it reached the parent */
}
#else
static void vforks(const struct fix *f) {
  (void)f;
}
#endif
static void test_vforks(void **state) {
  fix_run(state, vforks);
}

/* 0-2 are real files with the content; a program that closed them gets them back from the next open. */
static void low(const struct fix *f) {
  char buf[16];
  struct stat st;
  int a = open_small(O_RDONLY);
  fs_fd_close(open_small(O_RDONLY));
  CHECK(fs_file_lseek(fs_fd_slot(a), 7, SEEK_SET) == 7);
  CHECK(fs_file_dup_to(a, fs_fd_slot(a), 0, false) == 0);
  CHECK(fstat(0, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 3000 && fs_fd_slot(0) == NULL);
  CHECK(read(0, buf, 16) == 16 && memcmp(buf, f->plain[FIX_SMALL] + 7, 16) == 0);
  close(0);
  fs_fd_low_closed();
  CHECK(open_small(O_RDONLY) == 0);
  CHECK(read(0, buf, 16) == 16 && memcmp(buf, f->plain[FIX_SMALL], 16) == 0);
  CHECK(open_small(O_RDONLY) > 2);
}
static void test_low(void **state) {
  fix_run(state, low);
}

/* Threads open, read and close as fast as they can: nobody ever sees another's file. */
static const struct fix *shared_fix;
static void *worker(void *arg) {
  static const unsigned ids[] = {FIX_SMALL, FIX_MID, FIX_SMALL_LZ4};
  unsigned id = ids[(uintptr_t)arg % 3];
  struct fs_found found = {.mount = 0, .entry = fix_entry(id)};
  char buf[64];
  for (int i = 0; i < 3000; i++) {
    int fd = fs_file_open(FS_IN, &found, O_RDONLY);
    CHECK(fd > 2);
    uint64_t off = (uint64_t)i % 2000;
    struct fs_slot *s = fs_fd_slot(fd);
    CHECK(s != NULL && s->entry == found.entry && fs_file_lseek(s, (int64_t)off, SEEK_SET) == (int64_t)off);
    CHECK(fs_file_read(s, buf, 64) == 64 && memcmp(buf, shared_fix->plain[id] + off, 64) == 0);
    CHECK(fs_fd_close(fd) == 0);
  }
  return NULL;
}
static void threads(const struct fix *f) {
  pthread_t t[6];
  shared_fix = f;
#ifdef __SANITIZE_THREAD__ /* does not see that a table which lost the race to be the first was unmapped */
  CHECK(fs_state_attach(true) != NULL);
#endif
  for (uintptr_t i = 0; i < 6; i++) CHECK(pthread_create(&t[i], NULL, worker, (void *)i) == 0);
  for (int i = 0; i < 6; i++) pthread_join(t[i], NULL);
}
static void test_threads(void **state) {
  fix_run(state, threads);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers), cmocka_unit_test(test_pool),    cmocka_unit_test(test_parks),
      cmocka_unit_test(test_copies),  cmocka_unit_test(test_limit),   cmocka_unit_test(test_forks),
      cmocka_unit_test(test_adopt),   cmocka_unit_test(test_vforks),  cmocka_unit_test(test_low),
      cmocka_unit_test(test_threads), cmocka_unit_test(test_evicted),
  };
  unsetenv("FANSTORE_STATE");
  return cmocka_run_group_tests(tests, tree_setup, fix_teardown);
}
