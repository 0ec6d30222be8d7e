/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads files as data loaders do, and tells how long each pass took: reader [options] DIRECTORY LIST. An ordinary
 * program; bench/suites runs it on plain directories and on mounts. LIST has names relative to DIRECTORY, one a line.
 *
 *   -j N      N readers, which share the list (threads; with -P processes)
 *   -p N      passes (default 1)
 *   -s SEED   order; 0: as listed
 *   -r        another order in each pass (not with -A)
 *   -n MAX    at most so many files
 *   -u N      of each hundred files N are read beforehand, untimed, and then no more
 *   -x PLACE  only files whose attribute user.fanstore.place is PLACE (where there is no such attribute: all)
 *   -w US     each reader computes for so long after each file
 *   -a N      hints: N files ahead of the one that is read, by posix_fadvise, or with -A by fanstore_prefetch
 *   -d LIST   before the first look at DIRECTORY: drops the files named in LIST from the page cache, and counts by
 *             mincore what is left of them there
 *   -v DIR    at the end, untimed: compares each file with that of the same name below DIR
 *   -c        one reader only: pinned to the last CPU
 *
 * Prints one JSON object: files, bytes; first, again: nanoseconds a file of the first pass and of the fastest of the
 * others; median: of one file in the first pass; pages, resident, dropped by -d.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common.h"

struct list {
  char **path;
  size_t n, room;
};

/* What the readers share, be they threads or processes. */
struct shared {
  pthread_barrier_t gate; /* all readers and the one who takes the time */
  atomic_size_t next, hinted;
};

static struct list files, early; /* early: -u */
static struct shared *shared;
static uint64_t *took;  /* of each file, in the first pass */
static uint32_t *order; /* of files, in this pass: seen by all readers */
static size_t largest, total;
static unsigned readers = 1, passes = 1, work_us, ahead, untimed;
static bool processes, by_api, pinned, reordered;
static const char *top, *place, *compare_with;
static size_t pages, resident;
static int dropped = -1;

static void *need(void *p) {
  if (!p) die("memory");
  return p;
}

static void push(struct list *l, char *path) {
  if (l->n == l->room) {
    l->room = l->room ? 2 * l->room : 1024;
    l->path = need(realloc(l->path, l->room * sizeof(*l->path)));
  }
  l->path[l->n++] = path;
}

static struct list lines_of(const char *path) {
  struct list l = {0};
  FILE *f = fopen(path, "re");
  if (!f) die(path);
  char *line = NULL;
  size_t room = 0;
  for (ssize_t n; (n = getline(&line, &room, f)) > 0;) {
    if (line[n - 1] == '\n') line[n - 1] = 0;
    push(&l, need(strdup(line)));
  }
  free(line);
  fclose(f);
  return l;
}

/* --- a cold start --- */

static void count_resident(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat st;
  if (fd < 0 || fstat(fd, &st) != 0) die(path);
  size_t n = ((size_t)st.st_size + 4095) / 4096;
  void *map = n ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0) : NULL;
  unsigned char *in = need(malloc(n + 1));
  if (map == MAP_FAILED || (n && mincore(map, (size_t)st.st_size, in) != 0)) die(path);
  for (size_t i = 0; i < n; i++) resident += in[i] & 1;
  pages += n;
  if (n) munmap(map, (size_t)st.st_size);
  free(in);
  close(fd);
}

static void drop_one(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fdatasync(fd) != 0) die(path);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
}

static bool drop_all(void) {
  sync();
  int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
  bool done = fd >= 0 && write(fd, "3", 1) == 1;
  if (fd >= 0) close(fd);
  return done;
}

/* Counting opens the files, which takes their inodes into memory: they are dropped once more. */
static void make_cold(const char *list) {
  struct list l = lines_of(list);
  for (size_t i = 0; i < l.n; i++) drop_one(l.path[i]);
  drop_all();
  for (size_t i = 0; i < l.n; i++) count_resident(l.path[i]);
  dropped = drop_all();
}

/* --- which files, in which order --- */

static bool wanted(const char *path) {
  if (!place) return true;
  char value[64] = {0};
  if (getxattr(path, "user.fanstore.place", value, sizeof(value) - 1) < 0) {
    if (errno != EOPNOTSUPP && errno != ENODATA) die(path);
    return true;
  }
  return strcmp(value, place) == 0;
}

static void choose(const char *list, size_t max) {
  struct list l = lines_of(list);
  for (size_t i = 0; i < l.n && files.n < max; i++) {
    char *path;
    if (asprintf(&path, "%s/%s", top, l.path[i]) < 0) die("memory");
    if (wanted(path))
      push(&files, path);
    else
      free(path);
  }
  if (!files.n) die("no such files");
}

static void shuffle(uint64_t x) {
  for (size_t i = files.n; i > 1; i--) {
    size_t j = next_random(&x) % i;
    char *t = files.path[i - 1];
    files.path[i - 1] = files.path[j];
    files.path[j] = t;
  }
}

static void take_early(void) {
  early = (struct list){.path = files.path, .n = files.n * untimed / 100};
  files.path += early.n;
  files.n -= early.n;
}

/* --- reading --- */

static size_t read_whole(const char *path, char **buffer, size_t *room) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat st;
  if (fd < 0 || fstat(fd, &st) != 0) die(path);
  size_t size = (size_t)st.st_size, got = 0;
  if (size > *room) {
    *buffer = need(realloc(*buffer, size));
    memset(*buffer, 1, size);
    *room = size;
  }
  while (got < size) {
    ssize_t n = read(fd, *buffer + got, size - got);
    if (n <= 0) die(path);
    got += (size_t)n;
  }
  close(fd);
  return size;
}

static void hint_api(size_t from, size_t to) {
  static int64_t (*prefetch)(const char *const *, size_t, size_t *);
  if (!prefetch) *(void **)&prefetch = dlsym(RTLD_DEFAULT, "fanstore_prefetch");
  if (prefetch && !reordered) prefetch((const char *const *)files.path + from, to - from, NULL);
}

static void hint_file(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) die(path);
  posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
  close(fd);
}

/* The files up to `ahead` after the i-th, of which each is hinted once; those already begun are not worth it. */
static void hint(size_t i) {
  size_t to = i + 1 + ahead < files.n ? i + 1 + ahead : files.n;
  size_t from = atomic_load(&shared->hinted);
  do
    if (from >= to) return;
  while (!atomic_compare_exchange_weak(&shared->hinted, &from, to));
  if (by_api)
    hint_api(from, to);
  else
    for (size_t k = from; k < to; k++) hint_file(files.path[order[k]]);
}

static void compute(void) {
  static volatile uint64_t sink;
  for (uint64_t end = now() + work_us * 1000ull; now() < end;)
    for (unsigned i = 0; i < 100; i++) sink = sink * 6364136223846793005u + i;
}

static void *reader(void *arg) {
  (void)arg;
  size_t room = 8 << 20;
  char *buffer = need(malloc(room));
  memset(buffer, 1, room);
  for (size_t i; (i = atomic_fetch_add(&shared->next, 1)) < early.n;) read_whole(early.path[i], &buffer, &room);
  pthread_barrier_wait(&shared->gate);
  for (unsigned pass = 0; pass < passes; pass++) {
    pthread_barrier_wait(&shared->gate);
    for (size_t i; (i = atomic_fetch_add(&shared->next, 1)) < files.n;) {
      if (ahead) hint(i);
      uint64_t t = pass ? 0 : now();
      read_whole(files.path[order[i]], &buffer, &room);
      if (!pass) took[i] = now() - t;
      if (work_us) compute();
    }
    pthread_barrier_wait(&shared->gate);
  }
  free(buffer);
  return NULL;
}

static void *map_shared(size_t size) {
  void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) die("mmap");
  memset(p, 0, size);
  return p;
}

static void make_gate(void) {
  pthread_barrierattr_t attr;
  pthread_barrierattr_init(&attr);
  pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
  if (pthread_barrier_init(&shared->gate, &attr, readers + 1) != 0) die("barrier");
}

static void start_readers(void) {
  pthread_t thread;
  for (unsigned i = 0; i < readers; i++) {
    if (!processes) {
      if (pthread_create(&thread, NULL, reader, NULL) != 0) die("thread");
      pthread_detach(thread);
      continue;
    }
    pid_t pid = fork();
    if (pid < 0) die("fork");
    if (!pid) {
      reader(NULL);
      _exit(0);
    }
  }
}

static void time_passes(double *first, double *again, uint64_t x) {
  pthread_barrier_wait(&shared->gate); /* the early files are read */
  for (unsigned pass = 0; pass < passes; pass++) {
    atomic_store(&shared->next, 0);
    for (size_t i = files.n; reordered && pass > 0 && i > 1; i--) {
      size_t j = next_random(&x) % i;
      uint32_t o = order[i - 1];
      order[i - 1] = order[j];
      order[j] = o;
    }
    uint64_t t = now();
    pthread_barrier_wait(&shared->gate);
    pthread_barrier_wait(&shared->gate);
    double each = (double)(now() - t) / (double)files.n;
    if (!pass)
      *first = each;
    else if (pass == 1 || each < *again)
      *again = each;
  }
}

static void compare_all(void) {
  size_t rooms[2] = {0}, n;
  char *buffers[2] = {0};
  for (size_t i = 0; i < files.n; i++) {
    char *other;
    if (asprintf(&other, "%s%s", compare_with, files.path[i] + strlen(top)) < 0) die("memory");
    n = read_whole(files.path[i], &buffers[0], &rooms[0]);
    if (read_whole(other, &buffers[1], &rooms[1]) != n || (n && memcmp(buffers[0], buffers[1], n) != 0)) {
      errno = EILSEQ;
      die(files.path[i]);
    }
    free(other);
  }
}

static void sizes(void) {
  for (size_t i = 0; i < files.n; i++) {
    struct stat st;
    if (stat(files.path[i], &st) != 0) die(files.path[i]);
    total += (size_t)st.st_size;
    if ((size_t)st.st_size > largest) largest = (size_t)st.st_size;
  }
}

static int by_time(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static const char *options(int argc, char **argv, uint64_t *seed, size_t *max) {
  const char *cold = NULL;
  for (int c; (c = getopt(argc, argv, "j:Pp:s:rn:u:x:w:a:Ad:v:c")) != -1;) {
    unsigned number = optarg ? (unsigned)strtoul(optarg, NULL, 10) : 0;
    if (c == 'j') readers = number;
    if (c == 'P') processes = true;
    if (c == 'p') passes = number;
    if (c == 's') *seed = number;
    if (c == 'r') reordered = true;
    if (c == 'n') *max = number;
    if (c == 'u') untimed = number;
    if (c == 'x') place = optarg;
    if (c == 'w') work_us = number;
    if (c == 'a') ahead = number;
    if (c == 'A') by_api = true;
    if (c == 'd') cold = optarg;
    if (c == 'v') compare_with = optarg;
    if (c == 'c') pinned = true;
    if (c == '?') exit(2);
  }
  if (optind + 2 != argc || !readers || !passes || untimed > 99) {
    fprintf(stderr, "usage: reader [options] DIRECTORY LIST (the options are in reader.c)\n");
    exit(2);
  }
  top = argv[optind];
  return cold;
}

int main(int argc, char **argv) {
  uint64_t seed = 1;
  size_t max = SIZE_MAX;
  const char *cold = options(argc, argv, &seed, &max);
  if (cold) make_cold(cold);
  if (pinned && readers == 1) pin_to_last_cpu();
  choose(argv[optind + 1], max);
  if (seed) shuffle(88172645463325252u ^ seed << 1);
  take_early();
  shared = map_shared(sizeof(*shared));
  took = map_shared(files.n * sizeof(*took));
  order = map_shared(files.n * sizeof(*order));
  for (uint32_t i = 0; i < files.n; i++) order[i] = i;
  make_gate();
  start_readers();
  double first = 0, again = 0;
  time_passes(&first, &again, 88172645463325252u ^ seed << 9);
  if (compare_with) compare_all();
  sizes();
  qsort(took, files.n, sizeof(*took), by_time);
  printf("{\"files\": %zu, \"bytes\": %zu, \"largest\": %zu, \"first\": %.1f, \"again\": %.1f, \"median\": %" PRIu64
         ", \"pages\": %zu, \"resident\": %zu, \"dropped\": %d}\n",
         files.n, total, largest, first, again, took[files.n / 2], pages, resident, dropped);
  while (processes && wait(NULL) > 0) continue;
  return 0;
}
