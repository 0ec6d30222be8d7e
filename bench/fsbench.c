/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times what a training job does to its files: fsbench [-p PASSES] [-s SEED] [-c] DIRECTORY. An ordinary program with
 * no knowledge of FanStore; bench/run.py runs the same binary on a plain directory and, preloaded, on a mount.
 *
 * Walks DIRECTORY, puts the files in random order (the same for the same seed), reads everything once untimed and
 * sums it up, then times whole passes of each operation. Prints one JSON object: for each operation the nanoseconds
 * per file (per name for readdir) of the fastest pass, and the sum of the bytes, by which the caller sees that both
 * sides read the same. -c pins the process to the last CPU that it may use.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct list {
  char **path;
  size_t n, room;
};

static struct list files, dirs;
static char *buffer;
static size_t buffer_size;
static uint64_t sum, bytes;
static size_t names;

static void die(const char *what) {
  fprintf(stderr, "fsbench: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void push(struct list *l, const char *dir, const char *name) {
  if (l->n == l->room) {
    l->room = l->room ? 2 * l->room : 1024;
    l->path = realloc(l->path, l->room * sizeof(*l->path));
    if (!l->path) die("realloc");
  }
  if (asprintf(&l->path[l->n++], name ? "%s/%s" : "%s", dir, name) < 0) die("asprintf");
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All regular files below the first directory; symlinks are left alone. */
static void walk(const char *top) {
  push(&dirs, top, NULL);
  for (size_t i = 0; i < dirs.n; i++) {
    DIR *d = opendir(dirs.path[i]);
    if (!d) die(dirs.path[i]);
    for (const struct dirent *e; (e = readdir(d));) {
      if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
      if (e->d_type == DT_DIR) push(&dirs, dirs.path[i], e->d_name);
      if (e->d_type == DT_REG) push(&files, dirs.path[i], e->d_name);
    }
    closedir(d);
  }
  qsort(files.path, files.n, sizeof(*files.path), by_name);
}

static void shuffle(struct list *l, uint64_t x) {
  for (size_t i = l->n; i > 1; i--) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    size_t j = x % i;
    char *t = l->path[i - 1];
    l->path[i - 1] = l->path[j];
    l->path[j] = t;
  }
}

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static size_t read_whole(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) die(path);
  struct stat st;
  if (fstat(fd, &st) != 0) die(path);
  size_t size = (size_t)st.st_size, got = 0;
  if (size > buffer_size) {
    buffer = realloc(buffer, size);
    if (!buffer) die("realloc");
    buffer_size = size;
  }
  while (got < size) {
    ssize_t n = read(fd, buffer + got, size - got);
    if (n <= 0) die(path);
    got += (size_t)n;
  }
  close(fd);
  return size;
}

static void op_stat(void) {
  struct stat st;
  for (size_t i = 0; i < files.n; i++)
    if (stat(files.path[i], &st) != 0) die(files.path[i]);
}

static void op_read(void) {
  for (size_t i = 0; i < files.n; i++) read_whole(files.path[i]);
}

static void op_readdir(void) {
  names = 0;
  for (size_t i = 0; i < dirs.n; i++) {
    DIR *d = opendir(dirs.path[i]);
    if (!d) die(dirs.path[i]);
    while (readdir(d)) names++;
    closedir(d);
  }
}

/* The untimed pass: everything is in memory after it, wherever it is kept. */
static void warm_up(void) {
  for (size_t i = 0; i < files.n; i++) {
    size_t n = read_whole(files.path[i]);
    uint64_t h = n;
    for (size_t k = 0; k < n; k++) h = (h ^ (uint8_t)buffer[k]) * 0x100000001b3u;
    sum += h; /* the order does not matter */
    bytes += n;
  }
  op_stat();
  op_readdir();
}

static double fastest(void (*op)(void), unsigned passes, size_t per) {
  uint64_t best = UINT64_MAX;
  for (unsigned i = 0; i < passes; i++) {
    uint64_t t = now();
    op();
    t = now() - t;
    if (t < best) best = t;
  }
  return (double)best / (double)(per ? per : 1);
}

static void pin_to_last_cpu(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return;
  int last = -1;
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &set)) last = i;
  if (last < 0) return;
  CPU_ZERO(&set);
  CPU_SET(last, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) perror("fsbench: not pinned");
}

int main(int argc, char **argv) {
  unsigned passes = 3;
  uint64_t seed = 88172645463325252u;
  bool pin = false;
  for (int c; (c = getopt(argc, argv, "p:s:c")) != -1;) {
    if (c == 'p')
      passes = (unsigned)strtoul(optarg, NULL, 10);
    else if (c == 's')
      seed ^= strtoull(optarg, NULL, 10) << 1;
    else if (c == 'c')
      pin = true;
    else
      return 2;
  }
  if (optind + 1 != argc) {
    fprintf(stderr, "usage: fsbench [-p PASSES] [-s SEED] [-c] DIRECTORY\n");
    return 2;
  }
  if (pin) pin_to_last_cpu();
  walk(argv[optind]);
  shuffle(&files, seed);
  warm_up();
  double stat_ns = fastest(op_stat, passes, files.n);
  double read_ns = fastest(op_read, passes, files.n);
  double readdir_ns = fastest(op_readdir, passes, names);
  printf("{\"files\": %zu, \"bytes\": %" PRIu64 ", \"sum\": \"%016" PRIx64 "\", \"stat\": %.1f, \"read\": %.1f, "
         "\"readdir\": %.1f}\n",
         files.n, bytes, sum, stat_ns, read_ns, readdir_ns);
  return 0;
}
