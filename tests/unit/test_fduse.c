/* SPDX-License-Identifier: BSD-3-Clause */
/* Open files that calls are under way on while their numbers are replaced: none is another file's before the calls end.
 */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>

#include "tree_fixture.h"

static uint32_t index_of(const struct fs_slot *s) {
  return (uint32_t)(s - atomic_load(&fs_state)->slot);
}

/* As dup2 of a new open file of the dataset. */
static void replace(int fd) {
  int other = open_small(O_RDONLY);
  CHECK(other > 2 && fs_fd_dup_to(other, fd, false) == fd && fs_fd_close(other) == 0);
}

static bool is_used(uint32_t slot) {
  return atomic_load(&atomic_load(&fs_state)->used[slot / 64]) >> slot % 64 & 1;
}

/* ---- a thread that is in the middle of a call ---- */

static sem_t g_begun, g_go_on;
static int g_fd;
static struct fs_slot *g_slot;
static int64_t g_expected = 7; /* of the call's second half */

static void *in_call(void *arg) {
  FS_USE(u);
  g_slot = fs_fd_use(g_fd, &u);
  CHECK(g_slot != NULL && fs_file_lseek(g_slot, 0, SEEK_CUR) == 0);
  sem_post(&g_begun);
  sem_wait(&g_go_on);
  if (arg != NULL) pthread_exit(NULL); /* libc's forced unwind runs no cleanup of the library */
  CHECK(fs_file_lseek(g_slot, 7, SEEK_CUR) == g_expected);
  return NULL;
}

static pthread_t begin_call(void *how) {
  pthread_t t;
  CHECK(sem_init(&g_begun, 0, 0) == 0 && sem_init(&g_go_on, 0, 0) == 0);
  CHECK((g_fd = open_small(O_RDONLY)) > 2 && pthread_create(&t, NULL, in_call, how) == 0);
  sem_wait(&g_begun);
  return t;
}

static void end_call(pthread_t t) {
  sem_post(&g_go_on);
  CHECK(pthread_join(t, NULL) == 0);
}

static void replaced(const struct fix *f) {
  (void)f;
  pthread_t t = begin_call(NULL);
  uint32_t slot = index_of(g_slot), gen = atomic_load(&g_slot->gen);
  replace(g_fd);
  CHECK(fs_fd_slot(g_fd) != g_slot && fs_use_retired == 1 && is_used(slot) && g_slot->gen == gen);
  for (int i = 0; i < 100; i++) {
    int fd = open_small(O_RDONLY);
    CHECK(fd > 2 && fs_fd_slot(fd) != g_slot && fs_file_lseek(fs_fd_slot(fd), 0, SEEK_CUR) == 0);
  }
  end_call(t);
  fs_use_reap();
  CHECK(fs_use_retired == 0 && !is_used(slot) && g_slot->gen != gen);
}
static void test_replaced(void **state) {
  fix_run(state, replaced);
}

/* What is closed goes with its number, and not to another one. */
static void closed(const struct fix *f) {
  (void)f;
  int fds[9];
  g_expected = -EBADF; /* as if it came later */
  pthread_t t = begin_call(NULL);
  uint32_t slot = index_of(g_slot);
  CHECK(fs_fd_close(g_fd) == 0 && fs_fd_entry(g_fd) == FS_FDE_IDLE && fs_fd_pool_drop());
  CHECK(fs_use_retired == 1 && is_used(slot));
  for (unsigned i = 0; i < FS_ARRAY_LEN(fds); i++) CHECK((fds[i] = open_small(O_RDONLY)) > 2);
  for (unsigned i = 0; i < FS_ARRAY_LEN(fds); i++) CHECK(fs_fd_slot(fds[i]) != g_slot && fs_fd_close(fds[i]) == 0);
  end_call(t);
  fs_use_reap();
  CHECK(fs_use_retired == 0 && !is_used(slot));
}
static void test_closed(void **state) {
  fix_run(state, closed);
}

/* A thread that ends in the middle of a call does not hold it for ever, nor one that fork did not take along. */
static void ended(const struct fix *f) {
  int status;
  (void)f;
  end_call(begin_call(&g_fd));
  uint32_t slot = index_of(g_slot);
  replace(g_fd);
  CHECK(fs_use_retired == 0 && !is_used(slot));
  pthread_t t = begin_call(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    fs_fd_child(&(struct fs_fd_idle){.mask = {0}});
    replace(g_fd);
    _exit(fs_use_retired != 0);
  }
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  end_call(t);
}
static void test_ended(void **state) {
  fix_run(state, ended);
}

/* ---- one thread ---- */

/* Calls of handlers are above those that they interrupt; levels that were left by a jump are used again. */
static void levels(const struct fix *f) {
  (void)f;
  int fd[3];
  struct fs_slot *s[3];
  for (int i = 0; i < 3; i++) s[i] = fs_fd_slot(fd[i] = open_small(O_RDONLY));
  for (unsigned round = 0; round < 3 * FS_USE_LEVELS; round++) {
    struct fs_use left = {.user = NULL};
    CHECK(fs_fd_use(fd[0], &left) == s[0]); /* and no end */
    FS_USE(outer);
    CHECK(fs_fd_use(fd[1], &outer) == s[1]);
    {
      FS_USE(inner);
      CHECK(fs_fd_use(fd[2], &inner) == s[2] && fs_use_seen(index_of(s[1])) && fs_use_seen(index_of(s[2])));
    }
    CHECK(fs_use_seen(index_of(s[1])) && !fs_use_seen(index_of(s[2])));
    replace(fd[1]);
    CHECK(fs_use_retired == 1 && is_used(index_of(s[1])));
    fs_use_end(&outer);
    fs_use_reap();
    CHECK(fs_use_retired == 0 && (s[1] = fs_fd_slot(fd[1])) != NULL);
  }
}
static void test_levels(void **state) {
  fix_run(state, levels);
}

/* More are retired at once than there is room for: those are left to a scan of holders. */
#define HELD 80u
static void many(const struct fix *f) {
  (void)f;
  struct fs_user *busy[HELD / FS_USE_LEVELS + 1], *own = fs_user_new();
  int fd[HELD];
  CHECK(fs_fd_close(open_small(O_RDONLY)) == 0);
  atomic_store(&own->thread, (uint32_t)getppid()); /* some other one's, so far */
  for (unsigned i = 0, n = 0; i < HELD; i++) {
    CHECK((fd[i] = open_small(O_RDONLY)) > 2);
    if (i % FS_USE_LEVELS == 0) {
      fs_user = NULL;
      busy[n++] = fs_user_new();
      atomic_store(&fs_user->thread, (uint32_t)getppid());
    }
    atomic_store(&busy[i / FS_USE_LEVELS]->slot[i % FS_USE_LEVELS], index_of(fs_fd_slot(fd[i])) + 1);
  }
  for (unsigned n = 0; n < FS_ARRAY_LEN(busy); n++) atomic_store(&busy[n]->thread, (uint32_t)getpid());
  fs_user = own;
  for (unsigned i = 0; i < HELD; i++) replace(fd[i]);
  CHECK(fs_use_retired == 64 && atomic_load(&fs_state->left) == HELD - 64);
  for (unsigned n = 0; n < FS_ARRAY_LEN(busy); n++) atomic_store(&busy[n]->thread, (uint32_t)getppid());
  fs_use_reap();
  CHECK(fs_use_retired == 0);
}
static void test_many(void **state) {
  fix_run(state, many);
}

/* ---- all at once ---- */

#define RACE_MS 700
static _Atomic bool g_stop;
static _Atomic uint32_t g_reads;

static void *reader(void *arg) {
  char buf[64];
  while (!atomic_load(&g_stop)) {
    FS_USE(u);
    struct fs_slot *s = fs_fd_use(g_fd, &u);
    CHECK(s != NULL && s != &fs_slot_closed); /* the number is always open */
    fs_ssize got = fs_file_read(s, buf, sizeof(buf));
    CHECK(got >= 0);
    if (got == 0) fs_file_lseek(s, 0, SEEK_SET);
    atomic_fetch_add(&g_reads, 1);
  }
  return arg;
}

static void *copier(void *arg) {
  while (!atomic_load(&g_stop)) {
    int copy = fs_fd_dup(g_fd, 0, false);
    CHECK(copy > 2 && fs_fd_slot(copy) != &fs_slot_closed && fs_fd_close(copy) == 0);
  }
  return arg;
}

static void *replacer(void *arg) {
  while (!atomic_load(&g_stop)) replace(g_fd);
  return arg;
}

/* Files that nobody else knows: every byte of them comes once. */
static void *owner(void *arg) {
  char buf[500];
  while (!atomic_load(&g_stop)) {
    int fd = open_small(O_RDONLY);
    uint64_t all = 0;
    CHECK(fd > 2);
    for (fs_ssize got; (got = fs_file_read(fs_fd_slot(fd), buf, sizeof(buf))) > 0; all += (uint64_t)got) sched_yield();
    CHECK(all == fix_table[FIX_SMALL].size && fs_fd_close(fd) == 0);
  }
  return arg;
}

static void race(const struct fix *f) {
  (void)f;
  void *(*const of[])(void *) = {reader, reader, copier, replacer, owner};
  pthread_t t[FS_ARRAY_LEN(of)];
  CHECK((g_fd = open_small(O_RDONLY)) > 2);
  for (unsigned i = 0; i < FS_ARRAY_LEN(of); i++) CHECK(pthread_create(&t[i], NULL, of[i], NULL) == 0);
  usleep(RACE_MS * 1000);
  atomic_store(&g_stop, true);
  for (unsigned i = 0; i < FS_ARRAY_LEN(of); i++) CHECK(pthread_join(t[i], NULL) == 0);
  fs_use_reap();
  CHECK(g_reads > 0 && fs_use_retired == 0);
}
static void test_race(void **state) {
  fix_run(state, race);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_replaced), cmocka_unit_test(test_closed),
                                     cmocka_unit_test(test_ended),    cmocka_unit_test(test_levels),
                                     cmocka_unit_test(test_many),     cmocka_unit_test(test_race)};
  unsetenv("FANSTORE_STATE");
  return cmocka_run_group_tests(tests, tree_setup, fix_teardown);
}
