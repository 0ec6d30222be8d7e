/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that open, copy, read, map and close a dataset's files while others fork, vfork, spawn and open real files;
 * each byte is compared, and each call must succeed. Usage: PLAIN MOUNT SECONDS [THREADS], directories with the files
 * f0 to f9; or "sum FD": prints a checksum of what FD reads, as the children do.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FILES 10
#define LARGEST 200000

extern char **environ;
static const char *mount;
static char *data[FILES], self[PATH_MAX];
static size_t size[FILES];
static time_t end;
static atomic_int failures;
static atomic_long rounds;

#define MUST(x)                                                                                                        \
  do {                                                                                                                 \
    errno = 0;                                                                                                         \
    if (!(x) && failures++ < 10) fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #x, strerror(errno));         \
  } while (0)

static int open_file(int i, int flags) {
  char path[PATH_MAX];
  snprintf(path, sizeof(path), "%s/f%d", mount, i);
  return open(path, O_RDONLY | flags);
}

static int same_bytes(int fd, int i, unsigned *seed) {
  char *buf = malloc(LARGEST);
  size_t at = 0;
  ssize_t n = 0;
  while ((n = read(fd, buf, 1 + (size_t)rand_r(seed) % 60000)) > 0) {
    if (at + (size_t)n > size[i] || memcmp(buf, data[i] + at, (size_t)n) != 0) break;
    at += (size_t)n;
  }
  free(buf);
  return n == 0 && at == size[i];
}

static void read_one(unsigned *seed) {
  int i = rand_r(seed) % FILES, fd = open_file(i, rand_r(seed) % 2 ? O_CLOEXEC : 0), copy = -1;
  MUST(fd > 2);
  if (rand_r(seed) % 2) {
    MUST((copy = rand_r(seed) % 2 ? dup(fd) : fcntl(fd, F_DUPFD_CLOEXEC, 10)) > 2);
    MUST(close(fd) == 0);
    fd = copy;
  }
  MUST(same_bytes(fd, i, seed));
  MUST(close(fd) == 0);
}

static void map_one(unsigned *seed) {
  int i = rand_r(seed) % FILES, fd = open_file(i, O_CLOEXEC);
  MUST(fd > 2);
  if (size[i] > 0) {
    char *p = mmap(NULL, size[i], PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    MUST(p != MAP_FAILED && close(fd) == 0);
    MUST(memcmp(p, data[i], size[i]) == 0 && memset(p, 0, size[i]) == p && munmap(p, size[i]) == 0);
  } else {
    MUST(close(fd) == 0);
  }
}

static void stdio_one(unsigned *seed) {
  int i = rand_r(seed) % FILES;
  char path[PATH_MAX], *buf = malloc(LARGEST);
  snprintf(path, sizeof(path), "%s/f%d", mount, i);
  FILE *f = fopen(path, "re");
  MUST(f != NULL && fread(buf, 1, LARGEST, f) == size[i] && memcmp(buf, data[i], size[i]) == 0 && fclose(f) == 0);
  free(buf);
}

static void real_files(unsigned *seed) {
  int p[2];
  char a = (char)rand_r(seed), b = 0;
  MUST(pipe2(p, O_CLOEXEC) == 0 && write(p[1], &a, 1) == 1 && read(p[0], &b, 1) == 1 && a == b);
  MUST(close(p[0]) == 0 && close(p[1]) == 0);
}

static void fork_one(unsigned *seed) {
  int i = rand_r(seed) % FILES, fd = open_file(i, 0), status = -1;
  pid_t pid = fork();
  if (pid == 0) {
    int other = open_file((i + 1) % FILES, 0);
    _exit(same_bytes(fd, i, seed) && same_bytes(other, (i + 1) % FILES, seed) ? 0 : 1);
  }
  MUST(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
  MUST(lseek(fd, 0, SEEK_CUR) == (off_t)size[i] && close(fd) == 0);
}

static unsigned long checksum(const char *p, size_t n, unsigned long h) {
  for (size_t i = 0; i < n; i++) h = h * 33 + (unsigned char)p[i];
  return h;
}

static pid_t start(int how, int fd, int out) {
  char number[16];
  char *argv[] = {self, "sum", number, NULL};
  posix_spawn_file_actions_t fa;
  pid_t pid = -1;
  snprintf(number, sizeof(number), "%d", how == 0 ? 0 : fd);
  if (how == 2) {
    pid = vfork();
    if (pid != 0) return pid;
    dup2(out, 1);
    execv(self, argv);
    _exit(9);
  }
  posix_spawn_file_actions_init(&fa);
  if (how == 0) posix_spawn_file_actions_adddup2(&fa, fd, 0);
  posix_spawn_file_actions_adddup2(&fa, out, 1);
  MUST(posix_spawn(&pid, self, &fa, NULL, argv, environ) == 0);
  posix_spawn_file_actions_destroy(&fa);
  return pid;
}

/* The child reads the descriptor that it inherits. */
static void spawn_one(unsigned *seed) {
  char got[64] = "", want[64];
  int i = rand_r(seed) % FILES, fd = open_file(i, 0), p[2], status = -1;
  size_t n = 0;
  ssize_t r;
  MUST(pipe2(p, O_CLOEXEC) == 0);
  pid_t pid = start(rand_r(seed) % 3, fd, p[1]);
  close(p[1]);
  while ((r = read(p[0], got + n, sizeof(got) - 1 - n)) > 0) n += (size_t)r;
  snprintf(want, sizeof(want), "%lx %zu", checksum(data[i], size[i], 5381), size[i]);
  MUST(waitpid(pid, &status, 0) == pid && status == 0 && strcmp(got, want) == 0);
  MUST(close(p[0]) == 0 && close(fd) == 0);
}

static void *repeat(void *work) {
  unsigned seed = (unsigned)(uintptr_t)&seed;
  for (; time(NULL) < end; rounds++) ((void (*)(unsigned *))work)(&seed);
  return NULL;
}

static int sum(int fd) {
  static char buf[LARGEST];
  unsigned long h = 5381;
  size_t total = 0;
  ssize_t n;
  for (; (n = read(fd, buf, sizeof(buf))) > 0; total += (size_t)n) h = checksum(buf, (size_t)n, h);
  printf("%lx %zu", h, total);
  return n < 0;
}

static void load(const char *plain) {
  char path[PATH_MAX];
  for (int i = 0; i < FILES; i++) {
    snprintf(path, sizeof(path), "%s/f%d", plain, i);
    FILE *f = fopen(path, "r");
    data[i] = malloc(LARGEST);
    size[i] = fread(data[i], 1, LARGEST, f);
    fclose(f);
  }
}

int main(int argc, char **argv) {
  void (*const work[])(unsigned *) = {read_one,  read_one,  real_files, fork_one,
                                      spawn_one, spawn_one, map_one,    stdio_one};
  pthread_t thread[64];
  if (argc == 3) return sum(atoi(argv[2]));
  if (argc < 4 || readlink("/proc/self/exe", self, sizeof(self) - 1) < 0) return 2;
  int threads = argc > 4 ? atoi(argv[4]) : 6;
  load(argv[1]);
  mount = argv[2];
  end = time(NULL) + atoi(argv[3]);
  for (int i = 0; i < threads; i++) MUST(pthread_create(&thread[i], NULL, repeat, (void *)work[i % 8]) == 0);
  for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
  printf("%ld rounds, %d failures\n", (long)rounds, failures);
  return failures != 0;
}
