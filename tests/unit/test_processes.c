/* SPDX-License-Identifier: BSD-3-Clause */
/* The processes of a job, in a /proc of the test's own: of which some cannot be read, and one hangs who reads it. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ipc/processes.h"
#include "util/sys.h"
#include "util/util.h"

#define CHILDREN 5

static char work[] = "/tmp/fst-processes.XXXXXX";
static pid_t child[CHILDREN];

static void put(pid_t pid, const char *name, const char *text, size_t n) {
  char path[128];
  snprintf(path, sizeof(path), "%s/%d", work, (int)pid);
  (void)mkdir(path, 0700);
  snprintf(path, sizeof(path), "%s/%d/%s", work, (int)pid, name);
  (void)unlink(path);
  if (!text) { /* who opens it waits for a writer */
    assert_int_equal(mkfifo(path, 0600), 0);
    return;
  }
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, n), n);
  close(fd);
}

/* All run, and have the job's run directory in their environment. */
static int begin(void **state) {
  static const char env[] = "A=b\0FANSTORE_RUN=/run/job-1\0C=d";
  char stat[128];
  (void)state;
  if (mkdir(work, 0700) < 0) return 1;
  for (int i = 0; i < CHILDREN; i++) {
    child[i] = fork();
    if (child[i] == 0)
      for (;;) pause();
    put(child[i], "cmdline", "sleep\0001", 8);
    put(child[i], "environ", env, sizeof(env));
    snprintf(stat, sizeof(stat), "%d (a) b) S 1 1 1 0 -1 4194304 0", (int)child[i]);
    put(child[i], "stat", stat, strlen(stat));
  }
  return 0;
}

static int end(void **state) {
  (void)state;
  for (int i = 0; i < CHILDREN; i++) {
    kill(child[i], SIGKILL);
    waitpid(child[i], NULL, 0);
  }
  return fs_remove_tree(work);
}

static void test_found(void **state) {
  (void)state;
  assert_int_equal(fs_job_signal("job-1", "/run/job-1", false, 0), CHILDREN);
  assert_int_equal(fs_job_signal("job-2", "/run/job-2", true, 0), 0);
  put(child[0], "cmdline", "fanstored\0--job\0job-1", 22);
  assert_int_equal(fs_job_signal("job-1", "/run/job-1", false, 0), CHILDREN - 1);
  assert_int_equal(fs_job_signal("job-1", "/run/job-1", true, 0), CHILDREN);
  assert_true(fs_process_alive(child[0]));
  put(child[0], "stat", "1 (a) Z 1 1 1 0 -1 4194304 0", 28);
  assert_false(fs_process_alive(child[0]));
  assert_false(fs_process_alive(1 << 30));
}

/* The others are found and ended, those that hang are told, and found when they can be read again. */
static void test_hanging(void **state) {
  pid_t pid[CHILDREN];
  char path[128];
  (void)state;
  put(child[1], "environ", NULL, 0);
  put(child[3], "cmdline", NULL, 0);
  uint64_t start = fs_now_ns();
  assert_int_equal(fs_job_signal("job-1", "/run/job-1", true, 0), CHILDREN - 2);
  uint64_t first = fs_now_ns() - start;
  assert_true(first >= FS_NS_PER_S); /* each was waited for */
  assert_int_equal(fs_processes_hang(pid, CHILDREN), 2);
  assert_int_equal(pid[0] + pid[1], child[1] + child[3]);
  assert_int_equal(fs_processes_hang(pid, 1), 1);
  start = fs_now_ns();
  for (int i = 0; i < 20; i++) assert_int_equal(fs_job_signal("job-1", "/run/job-1", true, 0), CHILDREN - 2);
  assert_true(fs_now_ns() - start < 20 * first / 2); /* once only */
  assert_true(fs_process_alive(child[1]));
  for (int i = 0; i < CHILDREN; i += 2) put(child[i], "cmdline", "", 0), put(child[i], "stat", "", 0);

  snprintf(path, sizeof(path), "%s/%d/environ", work, (int)child[1]);
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  assert_true(fd >= 0);
  put(child[1], "environ", "FANSTORE_RUN=/run/job-1", 24);
  close(fd);
  unsigned n = 0;
  for (int i = 0; i < 1000 && n == 0; i++, usleep(10000)) n = fs_job_signal("job-1", "/run/job-1", true, SIGKILL);
  assert_int_equal(n, 1);
  assert_int_equal(waitpid(child[1], NULL, 0), child[1]);
}

/* Of what it cannot look at nobody says that it is not there. */
static void test_no_descriptors(void **state) {
  struct rlimit old, few;
  (void)state;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
  for (rlim_t i = 0; i < 2; i++) {
    int free_fd = dup(0);
    close(free_fd);
    few = (struct rlimit){.rlim_cur = (rlim_t)free_fd + i, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    unsigned n = fs_job_signal("job-2", "/run/job-2", true, 0);
    bool alive = i == 1 || fs_process_alive(child[0]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(n, i == 0 ? 1 : 0); /* one descriptor is enough */
    assert_true(alive);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_found, begin, end),
      cmocka_unit_test_setup_teardown(test_hanging, begin, end),
      cmocka_unit_test_setup_teardown(test_no_descriptors, begin, end),
  };
  if (!mkdtemp(work) || rmdir(work) < 0) return 1;
  fs_proc_dir = work;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
