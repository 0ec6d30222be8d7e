/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reader of the fault tests (tests/fault/table): what a training job does, with every byte checked. A file's
 * contents follow from its name and the offset, so nothing is compared with anything that a fault could have changed
 * too.
 *
 *   faultreader make DIRECTORY SMALL LARGE            SMALL files of 4 KiB and LARGE files of 2 MiB
 *   faultreader read DIRECTORY small|large|both [OPTION VALUE]...
 *       --nodes N     one process for each of N emulated nodes (FANSTORE_NODE); 0, the default: this one alone
 *       --skip K      but not for this one
 *       --workers W   readers forked by each (2)
 *       --seconds S   how long (5)
 *       --begun FILE  FILE.PID is made when every reader has read 20 files
 *       --until FILE  goes on until this file exists as well
 *       --patience S  but no longer than this (300)
 *       --pause MS    each sleeps so long after each file (0)
 *
 * Files are opened, read whole (one large one in eight is mapped) and closed in random order. Prints one line:
 *   reader: reads=N bytes=N errors=N wrong=N died=N errno=N stall_ms=N last_ms=N
 * `bytes` were right; `errors` are calls that failed, `errno` of the last one; `wrong` are files with a wrong byte;
 * `died` readers that crashed; `stall_ms` is the longest single call, `last_ms` the longest of the last second. Exit
 * status 0 also with errors.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/sys.h"
#include "util/util.h"

#define SMALL_BYTES 4096u
#define LARGE_BYTES (2u << 20)
#define BEGUN 20u
#define MAX_READERS 256u
#define SECOND_NS 1000000000ull

struct reader {
  _Atomic uint64_t reads, bytes, errors, wrong, stall_ns, last_ns, last_end;
  _Atomic int err;
};
static struct shared { /* a file that all processes map */
  _Atomic uint32_t readers;
  _Atomic uint32_t died;
  _Atomic bool stop;
  struct reader reader[MAX_READERS];
} * shared;

static struct options {
  const char *dir, *sizes, *begun, *until, *stats;
  uint64_t nodes, skip, workers, seconds, patience, pause;
} opt = {.skip = UINT64_MAX, .workers = 2, .seconds = 5, .patience = 300};

static uint64_t mix(uint64_t x) { /* splitmix64 */
  return fs_mix64(x + 0x9e3779b97f4a7c15ull);
}

/* What file number i has: every other one can be compressed. */
static void contents(char kind, uint32_t i, uint64_t *to, uint32_t bytes) {
  uint64_t seed = mix((uint64_t)kind << 32 | i), repeat = i % 2 == 0 ? 1 : 8;
  for (uint64_t k = 0; k < bytes / sizeof(*to); k++) to[k] = mix(seed + k / repeat);
}

static void name_of(char *path, size_t size, char kind, uint32_t i) {
  snprintf(path, size, "%s/%c%02u/%c%06u", opt.dir, kind, i % 10, kind, i);
}

static void die(const char *what) {
  fprintf(stderr, "faultreader: %s: %s\n", what, strerror(errno));
  exit(2);
}

/* ---- making them ---- */

static void make_files(char kind, uint32_t count, uint32_t bytes) {
  static uint64_t buf[LARGE_BYTES / sizeof(uint64_t)];
  char path[4096];
  for (uint32_t i = 0; i < 10; i++) {
    snprintf(path, sizeof(path), "%s/%c%02u", opt.dir, kind, i);
    if (mkdir(path, 0755) < 0 && errno != EEXIST) die(path);
  }
  for (uint32_t i = 0; i < count; i++) {
    name_of(path, sizeof(path), kind, i);
    contents(kind, i, buf, bytes);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || fs_write_full(fd, buf, bytes) < 0) die(path);
    close(fd);
  }
}

/* ---- reading ---- */

static void took(struct reader *r, uint64_t begin) {
  uint64_t end = fs_now_ns(), ns = end - begin;
  if (ns > r->stall_ns) r->stall_ns = ns;
  if (end - r->last_end > SECOND_NS) {
    r->last_end = end;
    r->last_ns = 0;
  }
  if (ns > r->last_ns) r->last_ns = ns;
}

static bool failed(struct reader *r) {
  r->err = errno;
  r->errors++;
  return false;
}

/* All of one file, in calls of `step` bytes. */
static bool read_file(struct reader *r, const char *path, char *buf, uint32_t bytes, uint32_t step) {
  uint64_t begin = fs_now_ns();
  FS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
  took(r, begin);
  if (fd < 0) return failed(r);
  for (uint32_t at = 0; at < bytes;) {
    begin = fs_now_ns();
    ssize_t n = read(fd, buf + at, FS_MIN(step, bytes - at));
    took(r, begin);
    if (n < 0) return failed(r);
    if (n == 0) {
      errno = ENODATA;
      return failed(r);
    }
    at += (uint32_t)n;
  }
  return true;
}

/* The same by a mapping. The copy is no call, and is not timed. */
static bool map_file(struct reader *r, const char *path, char *buf, uint32_t bytes) {
  uint64_t begin = fs_now_ns();
  FS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
  void *map = fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
  took(r, begin);
  if (map == MAP_FAILED) return failed(r);
  memcpy(buf, map, bytes);
  munmap(map, bytes);
  return true;
}

static void read_random(struct reader *r, char kind, uint32_t count, uint64_t random) {
  static uint64_t got[LARGE_BYTES / sizeof(uint64_t)], want[LARGE_BYTES / sizeof(uint64_t)];
  char path[4096];
  uint32_t i = (uint32_t)(random % count), bytes = kind == 's' ? SMALL_BYTES : LARGE_BYTES;
  name_of(path, sizeof(path), kind, i);
  memset(got, 0xa5, bytes);
  bool whole = random >> 40 & 1, mapped = kind == 'l' && (random >> 41 & 7) == 0;
  if (mapped ? map_file(r, path, (char *)got, bytes)
             : read_file(r, path, (char *)got, bytes, whole ? bytes : FS_MIN(bytes, 96u << 10))) {
    contents(kind, i, want, bytes);
    if (memcmp(got, want, bytes) == 0)
      r->bytes += bytes;
    else
      r->wrong++;
  }
  r->reads++;
}

/* How many files of this kind the mount shows: only their names are known to be dense. */
static uint32_t count_files(char kind) {
  char path[4096];
  struct stat st;
  uint32_t n = 0, step = 1u << 20;
  for (; step > 0; step /= 2) {
    name_of(path, sizeof(path), kind, n + step - 1);
    if (stat(path, &st) == 0) n += step;
  }
  return n;
}

static void work(uint64_t seed) {
  uint32_t place = shared->readers++, small = count_files('s'), large = count_files('l');
  if (place >= MAX_READERS || small == 0 || large == 0) die("no files");
  struct reader *r = &shared->reader[place];
  const struct timespec pause = {.tv_sec = (time_t)(opt.pause / 1000), .tv_nsec = (long)(opt.pause % 1000) * 1000000};
  for (uint64_t i = 0; !shared->stop; i++) {
    uint64_t random = mix(seed + i);
    bool is_small = opt.sizes[0] == 's' || (opt.sizes[0] == 'b' && random >> 32 & 1);
    read_random(r, is_small ? 's' : 'l', is_small ? small : large, random);
    if (opt.pause > 0) nanosleep(&pause, NULL);
  }
}

/* ---- processes ---- */

static void map_shared(void) {
  int fd = open(opt.stats, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(*shared)) < 0) die(opt.stats);
  shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (shared == MAP_FAILED) die("mmap");
  close(fd);
}

/* The readers of one node: children of a process that has used the mount. */
static void fork_workers(void) {
  uint64_t seed = fs_now_ns() ^ (uint64_t)getpid() << 32;
  if (count_files('s') == 0) die(opt.dir);
  for (uint64_t w = 0; w < opt.workers; w++) {
    pid_t pid = fork();
    if (pid < 0) die("fork");
    if (pid > 0) continue;
    work(mix(seed + w));
    _exit(0);
  }
}

static void start_nodes(char **argv) {
  char number[16];
  for (uint64_t k = 0; k < opt.nodes; k++) {
    if (k == opt.skip) continue;
    snprintf(number, sizeof(number), "%u", (unsigned)k);
    pid_t pid = fork();
    if (pid < 0) die("fork");
    if (pid > 0) continue;
    setenv("FANSTORE_NODE", number, 1);
    setenv("FAULTREADER_STATS", opt.stats, 1);
    execv("/proc/self/exe", argv);
    die("exec");
  }
}

static void wait_all(void) {
  int status;
  while (wait(&status) >= 0 || errno == EINTR) {
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) shared->died++;
  }
}

static bool begun(uint64_t readers) {
  for (uint64_t i = 0; i < readers; i++) {
    if (shared->reader[i].reads < BEGUN) return false;
  }
  return true;
}

static void make_begun(void) {
  char path[4096];
  if (!opt.begun) return;
  snprintf(path, sizeof(path), "%s.%d", opt.begun, (int)getpid());
  close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
}

static void watch(uint64_t readers) {
  const struct timespec tick = {.tv_nsec = 10000000};
  uint64_t end = fs_now_ns() + opt.seconds * SECOND_NS;
  bool told = false;
  uint64_t latest = fs_now_ns() + opt.patience * SECOND_NS;
  while (fs_now_ns() < latest && (fs_now_ns() < end || (opt.until && access(opt.until, F_OK) < 0))) {
    if (!told && begun(readers)) {
      told = true;
      make_begun();
      end = fs_now_ns() + opt.seconds * SECOND_NS;
    }
    nanosleep(&tick, NULL);
  }
  shared->stop = true;
}

static void report(uint64_t readers) {
  struct reader t = {0};
  uint64_t now = fs_now_ns();
  for (uint64_t i = 0; i < readers; i++) {
    const struct reader *r = &shared->reader[i];
    t.reads += r->reads;
    t.bytes += r->bytes;
    t.errors += r->errors;
    t.wrong += r->wrong;
    if (r->err) t.err = r->err;
    t.stall_ns = FS_MAX(t.stall_ns, r->stall_ns);
    if (now - r->last_end < 3 * SECOND_NS) t.last_ns = FS_MAX(t.last_ns, r->last_ns);
  }
  printf("reader: reads=%llu bytes=%llu errors=%llu wrong=%llu died=%u errno=%d stall_ms=%llu last_ms=%llu\n",
         (unsigned long long)t.reads, (unsigned long long)t.bytes, (unsigned long long)t.errors,
         (unsigned long long)t.wrong, shared->died, t.err, (unsigned long long)(t.stall_ns / 1000000),
         (unsigned long long)(t.last_ns / 1000000));
}

static void parse(int argc, char **argv) {
  for (int i = 4; i + 1 < argc; i += 2) {
    uint64_t *number = strcmp(argv[i], "--nodes") == 0      ? &opt.nodes
                       : strcmp(argv[i], "--skip") == 0     ? &opt.skip
                       : strcmp(argv[i], "--workers") == 0  ? &opt.workers
                       : strcmp(argv[i], "--seconds") == 0  ? &opt.seconds
                       : strcmp(argv[i], "--patience") == 0 ? &opt.patience
                       : strcmp(argv[i], "--pause") == 0    ? &opt.pause
                                                            : NULL;
    const char **text = strcmp(argv[i], "--begun") == 0   ? &opt.begun
                        : strcmp(argv[i], "--until") == 0 ? &opt.until
                                                          : NULL;
    if (number)
      *number = strtoull(argv[i + 1], NULL, 10);
    else if (text)
      *text = argv[i + 1];
    else
      die(argv[i]);
  }
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  opt.dir = argv[2];
  if (strcmp(argv[1], "make") == 0) {
    make_files('s', (uint32_t)strtoul(argv[3], NULL, 10), SMALL_BYTES);
    make_files('l', argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0, LARGE_BYTES);
    return 0;
  }
  opt.sizes = argv[3];
  parse(argc, argv);
  bool child = (opt.stats = getenv("FAULTREADER_STATS")) != NULL;
  char stats[4096];
  if (!child) {
    const char *tmp = getenv("TMPDIR");
    snprintf(stats, sizeof(stats), "%s/faultreader.%d", tmp ? tmp : "/tmp", (int)getpid());
    opt.stats = stats;
  }
  map_shared();
  if (!child && opt.nodes > 0)
    start_nodes(argv);
  else
    fork_workers();
  uint64_t nodes = FS_MAX(opt.nodes, 1ull) - (opt.skip < opt.nodes), readers = opt.workers * nodes;
  if (!child && readers <= MAX_READERS) watch(readers);
  wait_all();
  if (child) return 0;
  report(readers);
  unlink(stats);
  return 0;
}
