/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For mapped_alone_faults.sh: programs that map files with the library alone. CASE FILE [ARGUMENT]. Each file has its
 * own offset in each word of eight bytes. Ends with 0 if all is right, 1 if a byte is wrong, 2 if a call fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096ul
#define LARGE (4ul << 20)

static int fd;
static uint64_t size;

static void check(int good, const char *what) {
  if (good) return;
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  _exit(2);
}

static void same(const char *p, uint64_t off, uint64_t n) {
  for (uint64_t i = 0, word; i < n; i += 8) {
    memcpy(&word, p + i, 8);
    if (word == off + i) continue;
    fprintf(stderr, "offset %#lx has %#lx\n", (unsigned long)(off + i), (unsigned long)word);
    _exit(1);
  }
}

static char *map(uint64_t off, uint64_t n) {
  char *p = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, (off_t)off);
  check(p != MAP_FAILED, "mmap");
  same(p, off, n);
  return p;
}

static char *more(char *p, uint64_t n) {
  p = mremap(p, PAGE, n, MREMAP_MAYMOVE);
  check(p != MAP_FAILED, "mremap");
  return p;
}

static void all(void) {
  map(0, size);
}

static void *maps(void *seed) {
  for (unsigned s = (unsigned)(uintptr_t)seed;;) munmap(map((uint64_t)rand_r(&s) % (size / PAGE) * PAGE, PAGE), PAGE);
  return NULL;
}

/* Threads map while main returns. */
static void threads(void) {
  pthread_t t;
  all();
  for (uintptr_t i = 1; i <= 4; i++) pthread_create(&t, NULL, maps, (void *)(i + (uintptr_t)getpid()));
  usleep(5000);
}

/* The parent ends at once; its child has more of its mapping shown. */
static void daemonized(void) {
  char *p = map(0, PAGE);
  if (fork() != 0) _exit(0);
  usleep(50000);
  same(more(p, LARGE), 0, LARGE);
  puts("good");
}

/* A mapping of one page is made longer, but not beyond the file. */
static void remapped(void) {
  same(more(map(0, PAGE), size), 0, size);
}

/* Ends without a chance to clean up. */
static void dies(void) {
  all();
  raise(SIGKILL);
}

/* In another root, where TMPDIR is the name of another directory. */
static void rooted(const char *root) {
  char *p = map(0, PAGE);
  check(chroot(root) == 0 && chdir("/") == 0, "chroot");
  map(LARGE, PAGE);
  p = mremap(p, PAGE, LARGE, MREMAP_MAYMOVE);
  if (p != MAP_FAILED) same(p, 0, LARGE);
}

static long raw(long n, long a, long b, long c) {
  long r;
  __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return r;
}

/* All descriptors are closed behind libc's back, and their numbers are the program's. */
static void closed(const char *path) {
  struct stat null, st;
  map(0, PAGE);
  raw(SYS_close_range, 3, ~0u, 0);
  int low = open("/dev/null", O_RDONLY);
  for (int i = 0; i < 16; i++) raw(SYS_fcntl, low, F_DUPFD, 1000);
  check(stat("/dev/null", &null) == 0, "stat");
  fd = open(path, O_RDONLY);
  map(LARGE, PAGE);
  for (int i = 1000; i < 1016; i++) {
    if (raw(SYS_fstat, i, (long)&st, 0) == 0 && st.st_rdev == null.st_rdev) continue;
    fprintf(stderr, "number %d is not the program's any more\n", i);
    _exit(1);
  }
}

/* Two mappings while another process has stopped in the middle of removing. */
static void waits(void) {
  time_t begin = time(NULL);
  map(0, PAGE);
  map(LARGE, PAGE);
  if (time(NULL) - begin < 6) return;
  fprintf(stderr, "two mappings took %ld seconds\n", (long)(time(NULL) - begin));
  _exit(1);
}

static void masked(void) {
  umask(0777);
  map(0, PAGE);
}

static void last(void) {
  map(LARGE, PAGE);
}

static void quick(void) {
  map(0, PAGE);
  at_quick_exit(last);
  quick_exit(0);
}

int main(int argc, char **argv) {
  struct stat st;
  const char *name = argc > 2 ? argv[1] : "";
  fd = argc > 2 ? open(argv[2], O_RDONLY) : -1;
  check(fd >= 0 && fstat(fd, &st) == 0, "open");
  size = (uint64_t)st.st_size;
  if (strcmp(name, "all") == 0) all();
  if (strcmp(name, "threads") == 0) threads();
  if (strcmp(name, "daemonized") == 0) daemonized();
  if (strcmp(name, "remapped") == 0) remapped();
  if (strcmp(name, "dies") == 0) dies();
  if (strcmp(name, "rooted") == 0) rooted(argv[3]);
  if (strcmp(name, "closed") == 0) closed(argv[2]);
  if (strcmp(name, "waits") == 0) waits();
  if (strcmp(name, "masked") == 0) masked();
  if (strcmp(name, "quick") == 0) quick();
  return 0;
}
