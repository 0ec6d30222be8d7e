/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many processes with many threads that keep many files open and read pieces of them, every byte checked: a file's
 * contents follow from its number and the offset.
 *
 *   loadreader make DIRECTORY FILES BYTES             FILES files of BYTES each, 1,000 a directory
 *   loadreader run DIRECTORY FILES BYTES [OPTION VALUE]...
 *       --processes P (4), --threads T (2), --open N (100)    files that each process keeps open
 *       --seconds S (10)
 *       --nodes N    process i is of node i % N (FANSTORE_NODE); 0, the default: all of this one
 *       --log FILE   a line each second: reads, bytes, the longest call that ended in it, in ms, and kB of memory that
 * is no file's, of these processes and of the daemons with
 *       --daemons TEXT   as one of their arguments
 *   loadreader open DIRECTORY FILES BYTES COUNT [hold]        COUNT opens, a read and closes; hold: all open at once
 *
 * Prints one line. `wrong` are pieces with a wrong byte or of a wrong length, `stall_ms` is the longest single call,
 * `over` the calls of more than a second. Exit status 1 with an error or a wrong byte.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/sys.h"
#include "util/util.h"

#define PIECE (128u << 10)
#define SECOND_NS 1000000000ull

struct counts {
  _Atomic uint64_t opens, reads, bytes, errors, wrong, over, stall_ns, recent_ns, open_ns;
  _Atomic int err;
  _Atomic uint32_t begun; /* threads that have all their files open */
  _Atomic bool stop;
};
static struct counts *counts;
#define MOST_PROCESSES 1024u
static pid_t children[MOST_PROCESSES];
static struct options {
  const char *dir, *log, *daemons;
  uint64_t files, bytes, processes, threads, open, seconds, nodes;
} opt = {.processes = 4, .threads = 2, .open = 100, .seconds = 10};

static uint64_t mix(uint64_t x) { /* splitmix64 */
  return fs_mix64(x + 0x9e3779b97f4a7c15ull);
}
static uint64_t word(uint64_t file, uint64_t k) {
  return mix(file << 32 ^ k);
}

static void name_of(char *path, size_t size, uint64_t file) {
  snprintf(path, size, "%s/d%04u/f%07u", opt.dir, (unsigned)(file / 1000), (unsigned)file);
}

static void die(const char *what) {
  fprintf(stderr, "loadreader: %s: %s\n", what, strerror(errno));
  exit(2);
}

static void make_files(void) {
  uint64_t words = (opt.bytes + 7) / 8, *buf = malloc(words * 8 + 8);
  char path[4096];
  if (!buf) die("memory");
  for (uint64_t i = 0; i < opt.files; i++) {
    snprintf(path, sizeof(path), "%s/d%04u", opt.dir, (unsigned)(i / 1000));
    if (i % 1000 == 0 && mkdir(path, 0755) < 0 && errno != EEXIST) die(path);
    for (uint64_t k = 0; k < words; k++) buf[k] = word(i, k);
    name_of(path, sizeof(path), i);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || fs_write_full(fd, buf, opt.bytes) < 0) die(path);
    close(fd);
  }
  free(buf);
}

static void at_least(_Atomic uint64_t *to, uint64_t value) {
  uint64_t was = *to;
  while (was < value && !atomic_compare_exchange_weak(to, &was, value)) {
  }
}

static void took(uint64_t begin) {
  uint64_t ns = fs_now_ns() - begin;
  at_least(&counts->stall_ns, ns);
  at_least(&counts->recent_ns, ns);
  if (ns > SECOND_NS) counts->over++;
}

static void failed(const char *what, uint64_t file) {
  counts->err = errno;
  if (counts->errors++ == 0)
    fprintf(stderr, "loadreader: %s file %llu: %s\n", what, (unsigned long long)file, strerror(errno));
}

static int open_file(uint64_t file) {
  char path[4096];
  struct stat st;
  name_of(path, sizeof(path), file);
  uint64_t begin = fs_now_ns();
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  uint64_t ns = fs_now_ns() - begin;
  took(begin);
  counts->open_ns += ns;
  if (fd < 0) {
    failed("open", file);
  } else {
    counts->opens++;
    if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != opt.bytes) counts->wrong++;
  }
  return fd;
}

/* Whole words of [off, off + n); the rest at both ends is looked at by its own bytes. */
static bool right(const unsigned char *buf, uint64_t file, uint64_t off, uint64_t n) {
  for (uint64_t at = 0; at < n;) {
    uint64_t in = (off + at) % 8, len = FS_MIN(8 - in, n - at), want = word(file, (off + at) / 8);
    bool same = len == 8 ? memcmp(buf + at, &want, 8) == 0 : memcmp(buf + at, (const char *)&want + in, len) == 0;
    if (!same) return false;
    at += len;
  }
  return true;
}

static void read_piece(int fd, uint64_t file, unsigned char *buf, uint64_t random) {
  uint64_t off = random % opt.bytes, want = FS_MIN(1 + (random >> 32) % PIECE, opt.bytes - off);
  if (random >> 60 == 0) {
    off = 0;
    want = FS_MIN(opt.bytes, (uint64_t)PIECE);
  }
  uint64_t begin = fs_now_ns();
  ssize_t n = pread(fd, buf, want, (off_t)off);
  took(begin);
  if (n < 0) {
    failed("read", file);
    return;
  }
  if ((uint64_t)n != want || !right(buf, file, off, want))
    counts->wrong++;
  else
    counts->bytes += want;
  counts->reads++;
}

static void *thread_main(void *arg) {
  uint64_t own = opt.open / opt.threads, seed = (uintptr_t)arg;
  struct held {
    uint64_t file;
    int fd;
  } *held = malloc(own * sizeof(*held));
  unsigned char *buf = malloc(PIECE);
  if (!held || !buf || own == 0) die("memory");
  for (uint64_t i = 0; i < own; i++) {
    held[i].file = mix(seed ^ mix(i)) % opt.files;
    held[i].fd = open_file(held[i].file);
  }
  counts->begun++;
  for (uint64_t i = 0; !counts->stop; i++) {
    uint64_t random = mix(seed + i * 2), other = mix(seed + i * 2 + 1);
    struct held *h = &held[other % own];
    if (other >> 62 == 0) {
      if (h->fd >= 0) close(h->fd);
      h->file = (other >> 16) % opt.files;
      h->fd = open_file(h->file);
    }
    if (h->fd >= 0) read_piece(h->fd, h->file, buf, random);
  }
  for (uint64_t i = 0; i < own; i++)
    if (held[i].fd >= 0) close(held[i].fd);
  free(held);
  free(buf);
  return NULL;
}

static void process_main(uint64_t number) {
  pthread_t threads[256];
  for (uint64_t t = 0; t < opt.threads; t++) {
    uintptr_t seed = (uintptr_t)mix(number << 16 | t);
    if (pthread_create(&threads[t], NULL, thread_main, (void *)seed) != 0)
      die("thread"); // NOLINT(performance-no-int-to-ptr)
  }
  for (uint64_t t = 0; t < opt.threads; t++) pthread_join(threads[t], NULL);
}

/* ---- one process that opens a lot ---- */

static void open_many(uint64_t count, bool hold) {
  unsigned char *buf = malloc(PIECE);
  int *fds = hold ? malloc(count * sizeof(*fds)) : NULL;
  if (!buf || (hold && !fds)) die("memory");
  for (uint64_t i = 0; i < count; i++) {
    uint64_t file = mix(i) % opt.files;
    int fd = open_file(file);
    if (fd < 0) break;
    read_piece(fd, file, buf, mix(i + count));
    if (hold)
      fds[i] = fd;
    else
      close(fd);
  }
  for (uint64_t i = 0; hold && i < counts->opens; i++) {
    read_piece(fds[i], mix(i) % opt.files, buf, mix(i));
    close(fds[i]);
  }
  free(fds);
  free(buf);
}

/* ---- many processes ---- */

/* kB of anonymous, and perhaps of shared memory, from /proc/PID/status. */
static uint64_t memory_of(const char *pid, bool shared) {
  char path[300], text[4096];
  uint64_t sum = 0;
  snprintf(path, sizeof(path), "/proc/%s/status", pid);
  FS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
  if (n <= 0) return 0;
  text[n] = '\0';
  static const char *const keys[] = {"RssAnon:", "RssShmem:"};
  for (uint32_t i = 0; i < 1u + shared; i++) {
    const char *at = strstr(text, keys[i]);
    if (at) sum += strtoull(at + strlen(keys[i]), NULL, 10);
  }
  return sum;
}

static bool is_daemon(const char *pid) {
  char path[300], text[65536];
  snprintf(path, sizeof(path), "/proc/%s/cmdline", pid);
  FS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
  if (n <= 0) return false;
  text[n] = '\0';
  size_t len = strlen(text);
  bool named = len >= 9 && strcmp(text + len - 9, "fanstored") == 0, found = false;
  for (const char *p = text; p < text + n; p += strlen(p) + 1) found = found || strcmp(p, opt.daemons) == 0;
  return named && found;
}

static uint64_t memory_of_daemons(void) {
  uint64_t sum = 0;
  DIR *proc = opt.daemons ? opendir("/proc") : NULL;
  for (const struct dirent *d; proc && (d = readdir(proc)) != NULL;) {
    if (d->d_name[0] > '0' && d->d_name[0] <= '9' && is_daemon(d->d_name)) sum += memory_of(d->d_name, true);
  }
  if (proc) closedir(proc);
  return sum;
}

static uint64_t memory_of_readers(void) {
  char pid[24];
  uint64_t sum = 0;
  for (uint64_t p = 0; p < opt.processes; p++) {
    snprintf(pid, sizeof(pid), "%d", (int)children[p]);
    sum += memory_of(pid, false); /* shared memory is the daemon's */
  }
  return sum;
}

static void start_processes(char **argv) {
  char number[24], text[24];
  for (uint64_t p = 0; p < opt.processes; p++) {
    pid_t pid = fork();
    if (pid < 0) die("fork");
    children[p] = pid;
    if (pid > 0) continue;
    if (opt.nodes > 0) {
      snprintf(number, sizeof(number), "%llu", (unsigned long long)(p % opt.nodes));
      setenv("FANSTORE_NODE", number, 1);
    }
    snprintf(text, sizeof(text), "%llu", (unsigned long long)p);
    setenv("LOADREADER_PROCESS", text, 1);
    execv("/proc/self/exe", argv);
    die("exec");
  }
}

/* Until all threads have their files open. How many processes have ended before that. */
static uint32_t wait_begun(void) {
  const struct timespec tick = {.tv_nsec = 10000000};
  uint64_t begin = fs_now_ns(), all = opt.processes * opt.threads;
  while (counts->begun < all && fs_now_ns() - begin < 300 * SECOND_NS) {
    if (waitpid(-1, NULL, WNOHANG) > 0) return 1;
    nanosleep(&tick, NULL);
  }
  return counts->begun < all;
}

static void watch(void) {
  FILE *log = opt.log ? fopen(opt.log, "we") : NULL;
  const struct timespec second = {.tv_sec = 1};
  uint64_t reads = 0;
  for (uint64_t s = 0; s < opt.seconds; s++) {
    nanosleep(&second, NULL);
    uint64_t now = counts->reads;
    uint64_t recent = atomic_exchange(&counts->recent_ns, 0);
    if (log) {
      fprintf(log, "%llu %llu %llu %llu %llu\n", (unsigned long long)(now - reads), (unsigned long long)counts->bytes,
              (unsigned long long)(recent / 1000000), (unsigned long long)memory_of_readers(),
              (unsigned long long)memory_of_daemons());
      fflush(log);
    }
    reads = now;
  }
  counts->stop = true;
  if (log) fclose(log);
}

static void map_counts(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(*counts)) < 0) die(path);
  counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (counts == MAP_FAILED) die("mmap");
  close(fd);
}

static uint32_t wait_all(void) {
  uint32_t died = 0;
  int status;
  while (wait(&status) >= 0 || errno == EINTR) died += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  return died;
}

static int report(uint32_t died) {
  printf("load: opens=%llu reads=%llu bytes=%llu errors=%llu wrong=%llu died=%u errno=%d stall_ms=%llu over=%llu "
         "open_us=%.2f\n",
         (unsigned long long)counts->opens, (unsigned long long)counts->reads, (unsigned long long)counts->bytes,
         (unsigned long long)counts->errors, (unsigned long long)counts->wrong, died, counts->err,
         (unsigned long long)(counts->stall_ns / 1000000), (unsigned long long)counts->over,
         (double)counts->open_ns / 1e3 / (double)FS_MAX(counts->opens, 1ull));
  return counts->errors + counts->wrong + died > 0;
}

static void parse(int argc, char **argv) {
  for (int i = 5; i + 1 < argc; i += 2) {
    static const char *const names[] = {"--processes", "--threads", "--open", "--seconds", "--nodes"};
    uint64_t *const values[] = {&opt.processes, &opt.threads, &opt.open, &opt.seconds, &opt.nodes};
    bool known = strcmp(argv[i], "--log") == 0;
    if (known) opt.log = argv[i + 1];
    if (strcmp(argv[i], "--daemons") == 0) {
      opt.daemons = argv[i + 1];
      known = true;
    }
    for (uint32_t k = 0; k < sizeof(names) / sizeof(*names); k++) {
      if (strcmp(argv[i], names[k]) != 0) continue;
      *values[k] = strtoull(argv[i + 1], NULL, 10);
      known = true;
    }
    if (!known) die(argv[i]);
  }
  if (opt.threads < 1 || opt.threads > 256 || opt.processes > MOST_PROCESSES) die("--threads, --processes");
}

int main(int argc, char **argv) {
  const char *process = getenv("LOADREADER_PROCESS"), *tmp = getenv("TMPDIR");
  char path[4096];
  if (argc < 5) return 2;
  opt.dir = argv[2];
  opt.files = strtoull(argv[3], NULL, 10);
  opt.bytes = strtoull(argv[4], NULL, 10);
  if (opt.files == 0 || opt.bytes == 0) return 2;
  if (strcmp(argv[1], "make") == 0) {
    make_files();
    return 0;
  }
  snprintf(path, sizeof(path), "%s/loadreader.%d", tmp ? tmp : "/tmp", (int)(process ? getppid() : getpid()));
  map_counts(path);
  uint32_t died = 0;
  if (strcmp(argv[1], "open") == 0 && argc > 5) {
    open_many(strtoull(argv[5], NULL, 10), argc > 6);
  } else {
    parse(argc, argv);
    if (process) {
      process_main(strtoull(process, NULL, 10));
      return 0;
    }
    start_processes(argv);
    died = wait_begun();
    watch();
    died += wait_all();
  }
  unlink(path);
  return report(died);
}
