/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Signals, cancellation and a change of user around calls on a dataset's files: signals PLAIN MOUNT CASE [ROUNDS],
 * where both directories hold the files f0 to f9. Each byte that is read is compared.
 *   handler   a timer's handler opens, reads, maps and closes while the program is in calls on the mount, in malloc and
 *             in stdio
 *   fork      a handler reads in the middle of fork
 *   lost      a handler jumps out of fork
 *   forks     a handler forks in the middle of open, pread and close, and both go on
 *   jump      the handler jumps out of whatever call it interrupted
 *   cancel    threads are cancelled while they open, read and close
 *   async     the same with asynchronous cancellation, while they read
 *   user      the effective user changes
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FILES 10
#define LARGEST 200000

static const char *mount;
static char path[FILES][PATH_MAX];
static unsigned char *data[FILES];
static size_t size[FILES];
static volatile long rounds = 20000, handled;

#define MUST(x)                                                                                                        \
  do {                                                                                                                 \
    if (!(x)) {                                                                                                        \
      dprintf(2, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #x, strerror(errno));                                         \
      _exit(1);                                                                                                        \
    }                                                                                                                  \
  } while (0)

static void load(const char *plain) {
  char name[PATH_MAX];
  for (int i = 0; i < FILES; i++) {
    snprintf(name, sizeof(name), "%s/f%d", plain, i);
    snprintf(path[i], sizeof(path[i]), "%s/f%d", mount, i);
    FILE *f = fopen(name, "r");
    MUST(f != NULL);
    data[i] = malloc(LARGEST);
    size[i] = fread(data[i], 1, LARGEST, f);
    fclose(f);
  }
}

/* Opens, reads by read and pread, and closes; nothing that a handler may not call. */
static void read_file(int i, unsigned char *buf) {
  size_t at = 0;
  ssize_t n;
  struct stat st;
  int fd = open(path[i], O_RDONLY | O_CLOEXEC);
  MUST(fd > 2);
  MUST(fstat(fd, &st) == 0 && (size_t)st.st_size == size[i]);
  while ((n = read(fd, buf, 7000)) > 0) {
    MUST(at + (size_t)n <= size[i] && memcmp(buf, data[i] + at, (size_t)n) == 0);
    at += (size_t)n;
  }
  MUST(n == 0 && at == size[i]);
  n = pread(fd, buf, 5000, (off_t)size[i] / 2);
  MUST(n >= 0 && memcmp(buf, data[i] + size[i] / 2, (size_t)n) == 0);
  MUST(close(fd) == 0);
}

static void map_file(int i) {
  int fd = open(path[i], O_RDONLY | O_CLOEXEC);
  MUST(fd > 2);
  if (size[i] > 0) {
    void *p = mmap(NULL, size[i], PROT_READ, MAP_PRIVATE, fd, 0);
    MUST(p != MAP_FAILED && memcmp(p, data[i], size[i]) == 0 && munmap(p, size[i]) == 0);
  }
  MUST(close(fd) == 0);
}

static void stdio_file(int i) {
  unsigned char *buf = malloc(LARGEST);
  char text[100];
  FILE *f = fopen(path[i], "r");
  MUST(f != NULL && fread(buf, 1, LARGEST, f) == size[i] && memcmp(buf, data[i], size[i]) == 0);
  MUST(fclose(f) == 0);
  snprintf(text, sizeof(text), "%d %s", i, path[i]);
  free(realloc(buf, 1));
}

static int open_descriptors(void) {
  int n = 0;
  for (int fd = 0; fd < 1000; fd++) n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

static void start_timers(void (*handler)(int), bool profile) {
  const struct itimerval often = {{0, 700}, {0, 700}}, also = {{0, 1100}, {0, 1100}};
  struct sigaction sa = {.sa_handler = handler, .sa_flags = SA_RESTART};
  MUST(sigaction(SIGALRM, &sa, NULL) == 0 && sigaction(SIGPROF, &sa, NULL) == 0);
  MUST(setitimer(ITIMER_REAL, &often, NULL) == 0);
  if (profile) MUST(setitimer(ITIMER_PROF, &also, NULL) == 0);
}

static void stop_timers(void) {
  const struct itimerval never = {{0, 0}, {0, 0}};
  MUST(setitimer(ITIMER_REAL, &never, NULL) == 0 && setitimer(ITIMER_PROF, &never, NULL) == 0);
}

/* ---- handler ---- */

static void on_timer(int signal) {
  unsigned char buf[7000];
  int saved = errno;
  long n = handled++;
  read_file((int)(n % FILES), buf);
  if (signal == SIGPROF) map_file((int)(n % FILES));
  errno = saved;
}

static void case_handler(void) {
  unsigned char buf[7000];
  start_timers(on_timer, true);
  for (long n = 0; n < rounds || handled < rounds / 10; n++) {
    int i = (int)(n * 7 % FILES);
    read_file(i, buf);
    stdio_file(i);
    if (n % 4 == 0) map_file(i);
    if (n % 500 == 0) {
      int status = -1;
      pid_t pid = fork();
      if (pid == 0) {
        read_file(i, buf);
        _exit(0);
      }
      MUST(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    }
  }
  stop_timers();
  printf("%ld signals handled\n", handled);
}

/* ---- fork ---- */

static double took[FILES];

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void in_fork(int signal) {
  unsigned char buf[7000];
  (void)signal;
  for (int i = 0; i < FILES; i++) {
    double begin = now_ms();
    read_file(i, buf);
    took[i] = now_ms() - begin;
  }
}

static void interrupt_fork(void) {
  raise(SIGUSR1);
}

/* A handler in the middle of fork reads what was not read before. For another thread's fork the library waits 50 ms. */
static void case_fork(void) {
  int status = -1;
  MUST(signal(SIGUSR1, in_fork) != SIG_ERR && pthread_atfork(interrupt_fork, NULL, NULL) == 0);
  pid_t pid = fork();
  if (pid == 0) _exit(0);
  MUST(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
  qsort(took, FILES, sizeof(took[0]), by_value);
  printf("%.1f ms for a file\n", took[FILES / 2]);
  MUST(took[FILES / 2] < 25);
}

/* ---- forks ---- */

static volatile pid_t twin;
static volatile sig_atomic_t twins, is_twin;

static void on_fork(int signal) {
  (void)signal;
  if (twin != 0 || is_twin) return;
  pid_t pid = fork();
  MUST(pid >= 0);
  if (pid == 0) is_twin = 1;
  twin = pid;
}

/* By pread: an offset is shared with the other one. Opened twice, as what one of the two gave back is used again. */
static void read_twice(int i, unsigned char *buf) {
  int fd = open(path[i], O_RDONLY | O_CLOEXEC), other = open(path[9 - i], O_RDONLY | O_CLOEXEC);
  MUST(fd > 2 && other > 2);
  MUST(pread(fd, buf, LARGEST, 0) == (ssize_t)size[i] && memcmp(buf, data[i], size[i]) == 0);
  size_t n = size[9] / 2;
  MUST(pread(other, buf, n, 100) == (ssize_t)(size[9 - i] < 100 ? 0 : size[9 - i] - 100 < n ? size[9 - i] - 100 : n));
  MUST(size[9 - i] < 100 || memcmp(buf, data[9 - i] + 100, size[9 - i] - 100 < n ? size[9 - i] - 100 : n) == 0);
  MUST(close(other) == 0 && close(fd) == 0);
}

static void case_forks(void) {
  static unsigned char buf[LARGEST];
  int status, left = 30;
  start_timers(on_fork, false);
  for (long n = 0; twins < rounds / 10; n++) {
    read_twice((int)(n % FILES), buf);
    if (is_twin && --left == 0) _exit(0);
    if (is_twin || twin == 0 || waitpid(twin, &status, WNOHANG) == 0) continue;
    MUST(status == 0);
    twins++;
    twin = 0;
  }
  stop_timers();
  printf("%d forks\n", (int)twins);
}

/* ---- jump ---- */

static sigjmp_buf back;
static volatile sig_atomic_t may_jump;

static void on_jump(int signal) {
  (void)signal;
  handled++;
  if (may_jump) siglongjmp(back, 1);
}

/* What open had got when it was left is lost, as it is natively, where most of the time is spent in there. */
static void case_jump(void) {
  unsigned char buf[7000];
  volatile long jumps = 0;
  int before = open_descriptors();
  start_timers(on_jump, false);
  for (volatile long n = 0; jumps < rounds / 20; n++) {
    volatile int fd = -1;
    if (sigsetjmp(back, 1) != 0) {
      jumps++;
      if (fd >= 0) close(fd);
      continue;
    }
    may_jump = 1;
    fd = open(path[n % FILES], O_RDONLY);
    ssize_t got = read(fd, buf, sizeof(buf));
    may_jump = 0;
    MUST(got >= 0 && memcmp(buf, data[n % FILES], (size_t)got) == 0);
    close(fd);
    fd = -1;
  }
  stop_timers();
  int lost = open_descriptors() - before;
  printf("%ld jumps, %d descriptors lost\n", jumps, lost);
  MUST(lost <= jumps / 10);
  for (int i = 0; i < FILES; i++) read_file(i, buf), map_file(i);
}

static void on_lost(int signal) {
  (void)signal;
  siglongjmp(back, 1);
}

static void *read_all(void *arg) {
  unsigned char buf[7000];
  for (int i = 0; i < FILES; i++) read_file(i, buf);
  return arg;
}

/* Nobody waits for that fork more than once. */
static void case_lost(void) {
  pthread_t t;
  MUST(signal(SIGUSR1, on_lost) != SIG_ERR && pthread_atfork(interrupt_fork, NULL, NULL) == 0);
  if (sigsetjmp(back, 1) == 0) {
    fork();
    MUST(!"it comes back");
  }
  double begin = now_ms();
  MUST(pthread_create(&t, NULL, read_all, NULL) == 0 && pthread_join(t, NULL) == 0);
  printf("%.1f ms for %d files\n", now_ms() - begin, FILES);
  MUST(now_ms() - begin < 500);
}

/* ---- cancel ---- */

static atomic_int started;

/* Not to be cancelled in its turn: close is a cancellation point, and would leave the descriptor open. */
static void close_it(void *fd) {
  int state;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
  close(*(int *)fd);
  pthread_setcancelstate(state, NULL);
}

static void *work_cancelled(void *arg) {
  unsigned char buf[7000];
  int i = (int)(long)arg % FILES;
  for (;;) {
    int fd = open(path[i], O_RDONLY);
    pthread_cleanup_push(close_it, &fd);
    ssize_t n = read(fd, buf, sizeof(buf));
    MUST(n >= 0 && memcmp(buf, data[i], (size_t)n) == 0);
    started = 1;
    pthread_cleanup_pop(1);
  }
  return NULL;
}

static int shared_fd;
static void *work_async(void *arg) {
  unsigned char buf[7000];
  (void)arg;
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  for (;;) {
    ssize_t n = pread(shared_fd, buf, sizeof(buf), 100);
    MUST(n > 0 && memcmp(buf, data[9] + 100, (size_t)n) == 0);
    started = 1;
  }
  return NULL;
}

static void cancel_many(void *(*work)(void *), long times) {
  for (long n = 0; n < times; n++) {
    pthread_t t;
    void *result;
    started = 0;
    MUST(pthread_create(&t, NULL, work, (void *)n) == 0);
    while (!started) sched_yield();
    if (n % 3 == 0) usleep((useconds_t)(n % 50));
    MUST(pthread_cancel(t) == 0 && pthread_join(t, &result) == 0 && result == PTHREAD_CANCELED);
  }
}

static void case_cancel(bool async) {
  unsigned char buf[7000];
  shared_fd = open(path[9], O_RDONLY);
  MUST(shared_fd > 2);
  for (int i = 0; i < FILES; i++) read_file(i, buf);
  int before = open_descriptors();
  cancel_many(async ? work_async : work_cancelled, rounds / 20);
  int after = open_descriptors();
  printf("%ld threads cancelled, %d descriptors lost\n", rounds / 20, after - before);
  MUST(after == before);
  for (int i = 0; i < FILES; i++) read_file(i, buf), map_file(i);
  MUST(close(shared_fd) == 0);
}

/* ---- user ---- */

static void case_user(void) {
  struct stat st;
  MUST(stat(path[1], &st) == 0 && st.st_uid == geteuid() && st.st_gid == getegid());
  if (geteuid() != 0) return;
  MUST(setegid(65533) == 0 && seteuid(65534) == 0);
  MUST(stat(path[1], &st) == 0 && st.st_uid == 65534 && st.st_gid == 65533);
  char secret[PATH_MAX];
  snprintf(secret, sizeof(secret), "%s/secret", mount);
  MUST(open(secret, O_RDONLY) < 0 && errno == EACCES);
  MUST(eaccess(secret, R_OK) != 0 && errno == EACCES);
  MUST(seteuid(0) == 0 && setegid(0) == 0);
  MUST(stat(path[1], &st) == 0 && st.st_uid == 0 && st.st_gid == 0);
  int fd = open(secret, O_RDONLY);
  MUST(fd > 2 && close(fd) == 0);
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  mount = argv[2];
  if (argc > 4) rounds = atol(argv[4]);
  load(argv[1]);
  if (strcmp(argv[3], "handler") == 0) case_handler();
  if (strcmp(argv[3], "fork") == 0) case_fork();
  if (strcmp(argv[3], "forks") == 0) case_forks();
  if (strcmp(argv[3], "jump") == 0) case_jump();
  if (strcmp(argv[3], "lost") == 0) case_lost();
  if (strcmp(argv[3], "cancel") == 0) case_cancel(false);
  if (strcmp(argv[3], "async") == 0) case_cancel(true);
  if (strcmp(argv[3], "user") == 0) case_user();
  return 0;
}
