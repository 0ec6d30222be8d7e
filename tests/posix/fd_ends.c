/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ends of what a process writes of another node's file, in places where they are not expected:
 *
 *   fd_ends CASE DIRECTORY SECONDS
 *
 *   signals   a timer's handler opens, writes and closes the file that the program does so with
 *   gone      threads open and write a file f1 that another program removes and makes again
 *   emfile    opens that find no descriptor, of files g0 ... g9
 *   handler   a thread that writes is interrupted for long, another one publishes what it writes
 *
 * gone takes SECONDS, signals twice as long, handler three times. Each ends with 1 and a line when a call fails that
 * must not, or when a descriptor is left.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define GONE_LEFT 12 /* the library keeps a few */

static char path[4096];
static double seconds, until;
static volatile unsigned bad;
static volatile int last;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void failed(void) {
  bad++;
  last = errno;
}

static int descriptors(void) {
  int n = 0;
  DIR *d = opendir("/proc/self/fd");
  while (readdir(d)) n++;
  closedir(d);
  return n;
}

static int write_once(off_t off) {
  static const char record[64] = "record";
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  int good = pwrite(fd, record, sizeof(record), off) == (ssize_t)sizeof(record);
  return close(fd) == 0 && good ? 0 : -1;
}

/* ---- signals ---- */

static volatile unsigned handled;

static void write_in_handler(int sig) {
  int err = errno;
  (void)sig;
  if (write_once(4096 + handled++ % 1000 * 64) != 0) failed();
  errno = err;
}

/* One signal after another: a handler may wait for milliseconds. */
static void arm(unsigned *seed) {
  struct itimerval it = {{0, 0}, {0, 100 + rand_r(seed) % 1500}};
  setitimer(ITIMER_REAL, &it, NULL);
}

static int signals(void) {
  struct sigaction sa = {.sa_handler = write_in_handler, .sa_flags = SA_RESTART};
  unsigned n = 0, armed = 0, seed = 1;
  until += seconds;
  sigaction(SIGALRM, &sa, NULL);
  for (; now() < until; n++) {
    if (armed == handled) {
      armed++;
      arm(&seed);
    }
    if (write_once(n % 10 * 64) != 0) failed();
  }
  signal(SIGALRM, SIG_IGN);
  printf("signals: %u writes, %u in handlers, %u failed (%s)\n", n, handled, bad, strerror(last));
  return bad > 3 + handled / 400; /* one in the middle of the same file's publication may be refused */
}

/* ---- gone ---- */

static void *write_often(void *arg) {
  while (now() < until) (void)write_once(0);
  return arg;
}

static void *open_often(void *arg) {
  while (now() < until) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) close(fd);
  }
  return arg;
}

static int gone(void) {
  pthread_t t[4];
  int before = descriptors();
  for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, i < 2 ? write_often : open_often, NULL);
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  int after = descriptors();
  printf("gone: %d descriptors, then %d\n", before, after);
  return after > before + GONE_LEFT;
}

/* ---- emfile ---- */

static int emfile(const char *dir) {
  static int full[512];
  struct rlimit limit = {256, 256};
  int before = 0, n;
  setrlimit(RLIMIT_NOFILE, &limit);
  for (int i = 0; i < 10; i++) {
    snprintf(path, sizeof(path), "%s/g%d", dir, i);
    for (n = 0; i > 0 && n < 512 && (full[n] = dup(2)) >= 0; n++) continue;
    if (i > 0 && (open(path, O_RDONLY | O_CLOEXEC) >= 0 || errno != EMFILE)) failed();
    while (n > 0) close(full[--n]);
    if (write_once(0) != 0) failed();
    if (i == 0) before = descriptors();
  }
  printf("emfile: %d descriptors, then %d; %u failed (%s)\n", before, descriptors(), bad, strerror(last));
  return bad != 0 || descriptors() > before + 2;
}

/* ---- handler ---- */

static void sleep_in_handler(int sig) {
  (void)sig;
  nanosleep(&(struct timespec){.tv_nsec = 120000000}, NULL);
}

static void *write_scattered(void *arg) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  for (long i = 0; now() < until; i++)
    if (pwrite(fd, "written", 8, i * 7919 % 100000 * 16) != 8) failed();
  if (close(fd) != 0) failed();
  return arg;
}

static void *sync_often(void *arg) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  while (now() < until) (void)fdatasync(fd); /* may be refused while the other one is interrupted */
  (void)close(fd);
  return arg;
}

static int handler(void) {
  pthread_t writer, syncer;
  until = now() + 3 * seconds;
  signal(SIGUSR1, sleep_in_handler);
  pthread_create(&writer, NULL, write_scattered, NULL);
  pthread_create(&syncer, NULL, sync_often, NULL);
  for (unsigned seed = 1; now() < until - 0.5;) {
    usleep(121000 + (unsigned)rand_r(&seed) % 4000);
    pthread_kill(writer, SIGUSR1);
  }
  pthread_join(writer, NULL);
  pthread_join(syncer, NULL);
  printf("handler: %u failed (%s)\n", bad, strerror(last));
  return bad != 0;
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  seconds = atof(argv[3]);
  until = now() + seconds;
  snprintf(path, sizeof(path), "%s/f%d", argv[2], strcmp(argv[1], "gone") == 0);
  return strcmp(argv[1], "signals") == 0  ? signals()
         : strcmp(argv[1], "gone") == 0   ? gone()
         : strcmp(argv[1], "emfile") == 0 ? emfile(argv[2])
                                          : handler();
}
