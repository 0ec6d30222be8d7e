/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A number that threads use all the time is replaced by dup2 meanwhile, as by a rotation of logs: calls on it find an
 * open file each time, and finish on the one that they began on. A thread with files of its own loses nothing of them.
 *   fd_replaced DIR SECONDS read       files DIR/s00 to s15, of SIZE bytes, each of one letter: 'A' + its number
 *   fd_replaced DIR SECONDS filtered   the same in a process with a filter of system calls
 *   fd_replaced DIR SECONDS write      files DIR/b00 to b07 and c00 to c07, which there are
 * The first eight (b) are put at the number; the others (c) are the other thread's.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE 300000
#define WRITES 16
#define NUMBER 50

static const char *g_dir;
static bool g_write;
static atomic_bool g_stop;
static atomic_long g_calls, g_failed, g_foreign, g_replaced, g_files, g_bad;

static int open_file(char kind, int i, int flags) {
  char path[4096];
  snprintf(path, sizeof(path), "%s/%c%02d", g_dir, kind, i);
  int fd = open(path, flags);
  if (fd < 0) {
    perror(path);
    exit(3);
  }
  return fd;
}

static int open_next(int i) {
  return g_write ? open_file('b', i & 7, O_WRONLY | O_TRUNC) : open_file('s', i & 7, O_RDONLY);
}

static void *use_number(void *arg) {
  char buf[4096];
  memset(buf, 'A', sizeof(buf));
  for (unsigned i = 1; !g_stop; i++) {
    struct stat st;
    ssize_t n = g_write ? write(NUMBER, buf, 64) : read(NUMBER, buf, sizeof(buf));
    g_calls++;
    bool fine = n >= 0 && (i % (g_write ? 64 : 1) != 0 || fstat(NUMBER, &st) == 0);
    if (!fine && g_failed++ == 0) perror("a call on the number");
    if (n > 0 && (buf[0] < 'A' || buf[0] > 'H')) g_foreign++;
    if (i % 64 == 0 && lseek(NUMBER, 0, SEEK_SET) != 0) g_failed++;
    if (i % 128 == 0) {
      int copy = dup(NUMBER);
      if (copy < 0 || close(copy) != 0) g_failed++;
    }
  }
  return arg;
}

static void *replace_number(void *arg) {
  for (int i = 0; !g_stop; i++) {
    int fd = open_next(i);
    if (dup2(fd, NUMBER) != NUMBER && g_failed++ == 0) perror("dup2");
    close(fd);
    g_replaced++;
  }
  return arg;
}

/* How many bytes read gives until it says 0; -1: there was one that is not c. */
static long read_all(int fd, char c) {
  char buf[40960];
  long all = 0;
  for (ssize_t n; (n = read(fd, buf, sizeof(buf))) > 0; all += n)
    for (ssize_t k = 0; k < n; k++)
      if (buf[k] != c) return -1;
  return all;
}

static void *own_files(void *arg) {
  char buf[4096];
  memset(buf, 'c', sizeof(buf));
  for (int i = 0; !g_stop; i++, g_files++) {
    long want = g_write ? WRITES * (long)sizeof(buf) : SIZE;
    int fd = g_write ? open_file('c', i & 7, O_WRONLY | O_TRUNC) : open_file('s', 8 + (i & 7), O_RDONLY);
    for (int k = 0; g_write && k < WRITES; k++)
      if (write(fd, buf, sizeof(buf)) != (ssize_t)sizeof(buf)) perror("write");
    if (g_write) {
      close(fd);
      fd = open_file('c', i & 7, O_RDONLY);
    }
    long got = read_all(fd, (char)(g_write ? 'c' : 'A' + 8 + (i & 7)));
    if (got != want && g_bad++ < 3) fprintf(stderr, "a file of %ld bytes, open only here: %ld\n", want, got);
    close(fd);
  }
  return arg;
}

/* One that allows all. */
static void filter(void) {
  struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {.len = 1, .filter = &allow};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    puts("no filters of system calls here");
    exit(0);
  }
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  if (strcmp(argv[3], "filtered") == 0) filter();
  g_dir = argv[1];
  g_write = strcmp(argv[3], "write") == 0;
  int fd = open_next(0);
  if (dup2(fd, NUMBER) != NUMBER || close(fd) != 0) return 3;
  void *(*const of[])(void *) = {use_number, replace_number, own_files, use_number};
  pthread_t t[4];
  for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, of[i], NULL);
  sleep((unsigned)atoi(argv[2]));
  g_stop = true;
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  printf("%ld calls, %ld failed, %ld saw another file; %ld times replaced; of %ld other files %ld are wrong\n", g_calls,
         g_failed, g_foreign, g_replaced, g_files, g_bad);
  bool idle = g_calls == 0 || g_replaced < 2 || g_files == 0;
  return idle || g_failed != 0 || g_foreign != 0 || g_bad != 0;
}
