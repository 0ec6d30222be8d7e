/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times what a training job does to its files: fsbench [-o OPERATION,...] [-j PROCESSES] [-p PASSES] [-s SEED] [-c]
 * [-b BLOCK] [-z LEVEL] DIRECTORY. An ordinary program with no knowledge of FanStore; bench/run.py runs the same
 * binary on a plain directory and, preloaded, on a mount.
 *
 * Walks DIRECTORY, goes through everything once untimed and sums it up, then times whole passes of each operation (the
 * table `operations`, below) in random order (the same for the same seed). Prints one JSON object: for each operation
 * the ns per file of the fastest pass, and the sum of what the untimed pass saw, by which the caller sees that all
 * sides read the same. With -j so many processes work at once, each warmed up on its own; a pass is then from the first
 * start to the last end, over the files of all. -c pins the process to the last CPU (not with -j; nor is child for
 * several).
 *
 * Files are read into a buffer as malloc gives it, by aligned and memcpy_aligned into one that begins at a page. memcpy
 * and unlz4 are limits: they only copy, or decode, the same files in the same order into the same buffer, out of memory
 * that was filled before; -b and -z are for unlz4.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lz4.h>
#include <lz4hc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#define BUFFER_MAX (16u << 20) /* larger files are read in pieces of so much */
#define PIECE 4096u
#define PREADS 100000u
#define WORKERS_MAX 64

struct file {
  char *path;
  const char *held; /* memcpy and unlz4: the bytes to take it from */
  size_t size;
};
struct list {
  struct file *file;
  size_t n, room;
};
struct span {
  uint64_t start, end;
};
struct board { /* in memory that all workers share */
  pthread_barrier_t barrier;
  struct span span[WORKERS_MAX], child;
  uint64_t sum, bytes, names;
  bool failed;
};
enum { NEEDS_READ = 1, NEEDS_HELD = 2, NEEDS_LZ4 = 4, AT_PAGE = 8 };
struct operation {
  const char *name;
  void (*one)(const struct file *file); /* for each file, or else: */
  void (*op)(struct span *took);
  int needs;
};

static struct list files, dirs;
static char *buffer, *at_page; /* as malloc gives it, and page-aligned */
static size_t buffer_size, held, names, top_length, block = 256u << 10;
static uint64_t sum, bytes, seed = 88172645463325252u;
static int level;
static unsigned workers = 1, passes = 3;
static struct board *board;

static void push(struct list *l, const char *dir, const char *name) {
  if (l->n == l->room) {
    l->room = l->room ? 2 * l->room : 1024;
    l->file = realloc(l->file, l->room * sizeof(*l->file));
    if (!l->file) die("realloc");
  }
  struct file *f = &l->file[l->n++];
  f->held = NULL, f->size = 0;
  if (asprintf(&f->path, name ? "%s/%s" : "%s", dir, name) < 0) die("asprintf");
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct file *)a)->path, ((const struct file *)b)->path);
}

/* All regular files below the first directory; symlinks are left alone. */
static void walk(const char *top) {
  top_length = strlen(top);
  push(&dirs, top, NULL);
  for (size_t i = 0; i < dirs.n; i++) {
    DIR *d = opendir(dirs.file[i].path);
    if (!d) die(dirs.file[i].path);
    for (const struct dirent *e; (e = readdir(d));) {
      if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
      if (e->d_type == DT_DIR) push(&dirs, dirs.file[i].path, e->d_name);
      if (e->d_type == DT_REG) push(&files, dirs.file[i].path, e->d_name);
    }
    closedir(d);
  }
  qsort(files.file, files.n, sizeof(*files.file), by_name);
  if (files.n == 0) die("no files");
}

static void shuffle(struct list *l, uint64_t x) {
  for (size_t i = l->n; i > 1; i--) {
    size_t j = next_random(&x) % i;
    struct file t = l->file[i - 1];
    l->file[i - 1] = l->file[j];
    l->file[j] = t;
  }
}

static void have_buffer(size_t size) {
  if (size <= buffer_size) return;
  buffer = malloc(size); /* the smaller ones of before are not worth a free */
  if (!buffer || posix_memalign((void **)&at_page, 4096, size) != 0) die("malloc");
  memset(buffer, 1, size);
  memset(at_page, 1, size);
  buffer_size = size;
}

static void add_up(uint64_t *h, const char *p, size_t n) {
  uint64_t word;
  for (; n >= sizeof(word); p += sizeof(word), n -= sizeof(word)) {
    memcpy(&word, p, sizeof(word));
    *h = (*h ^ word) * 0x9e3779b97f4a7c15u;
    *h ^= *h >> 29;
  }
  for (; n > 0; p++, n--) *h = (*h ^ (uint8_t)*p) * 0x100000001b3u;
}

/* Reads a file in steps of at most so much into the same buffer; adds it up unless h is NULL. */
static size_t read_in_steps(const char *path, size_t step, uint64_t *h) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) die(path);
  struct stat st;
  if (fstat(fd, &st) != 0) die(path);
  size_t size = (size_t)st.st_size, got = 0;
  if (step > size) step = size;
  have_buffer(step);
  while (got < size) {
    ssize_t n = read(fd, buffer, step);
    if (n <= 0) die(path);
    if (h) add_up(h, buffer, (size_t)n);
    got += (size_t)n;
  }
  close(fd);
  return size;
}

static void one_stat(const struct file *f) {
  struct stat st;
  if (stat(f->path, &st) != 0) die(f->path);
}

static void one_read(const struct file *f) {
  read_in_steps(f->path, BUFFER_MAX, NULL);
}

static void one_in_pieces(const struct file *f) {
  read_in_steps(f->path, PIECE, NULL);
}

static void one_dropped(const struct file *f) {
  int fd = open(f->path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) die(f->path);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
}

static void one_memcpy(const struct file *f) {
  memcpy(buffer, f->held, f->size);
  __asm__ volatile("" : : "r"(buffer) : "memory");
}

/* Stored blocks lie one after the other: the stored length, then the bytes. */
static void one_unlz4(const struct file *f) {
  const char *from = f->held;
  for (size_t at = 0; at < f->size; at += block) {
    size_t want = f->size - at < block ? f->size - at : block;
    int stored;
    memcpy(&stored, from, sizeof(stored));
    from += sizeof(stored);
    if ((size_t)stored == want)
      memcpy(buffer + at, from, want);
    else if (LZ4_decompress_safe(from, buffer + at, stored, (int)want) != (int)want)
      die("LZ4_decompress_safe");
    from += stored;
  }
}

static void each(struct span *took, void (*one)(const struct file *)) {
  took->start = now();
  for (size_t i = 0; i < files.n; i++) one(&files.file[i]);
  took->end = now();
}

/* The kernel has dropped what it kept of the files: what is stored is decoded again. */
static void op_anew(struct span *took) {
  each(took, one_dropped);
  each(took, one_read);
}

static void op_readdir(struct span *took) {
  size_t seen = 0;
  took->start = now();
  for (size_t i = 0; i < dirs.n; i++) {
    DIR *d = opendir(dirs.file[i].path);
    if (!d) die(dirs.file[i].path);
    while (readdir(d)) seen++;
    closedir(d);
  }
  took->end = now();
  names = seen;
}

/* One pass in a new child of a parent that has read everything: what a worker that was just forked pays. */
static void op_child(struct span *took) {
  pid_t pid = fork();
  if (pid < 0) die("fork");
  if (pid == 0) {
    memset(buffer, 2, buffer_size); /* its own copy of the buffer */
    each(&board->child, one_read);
    _exit(0);
  }
  int status;
  if (waitpid(pid, &status, 0) != pid || status != 0) die("child");
  *took = board->child;
}

/* Random pages of the first file. */
static void op_pread(struct span *took) {
  int fd = open(files.file[0].path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) die(files.file[0].path);
  uint64_t x = seed;
  took->start = now();
  for (unsigned i = 0; i < PREADS; i++)
    if (pread(fd, buffer, PIECE, (off_t)(next_random(&x) % (files.file[0].size / PIECE) * PIECE)) != PIECE)
      die("pread");
  took->end = now();
  close(fd);
}

static const struct operation operations[] = {
    {"stat", one_stat, NULL, 0},
    {"readdir", NULL, op_readdir, 0},     /* per name */
    {"read", one_read, NULL, NEEDS_READ}, /* open, fstat, one read, close */
    {"aligned", one_read, NULL, NEEDS_READ | AT_PAGE},
    {"pieces", one_in_pieces, NULL, NEEDS_READ}, /* with reads of 4 KiB */
    {"anew", NULL, op_anew, NEEDS_READ},
    {"child", NULL, op_child, NEEDS_READ}, /* read, in a child that was just forked: each pass in a new one */
    {"pread", NULL, op_pread, NEEDS_READ}, /* 4 KiB at random places of one file, per call */
    {"memcpy", one_memcpy, NULL, NEEDS_READ | NEEDS_HELD},
    {"memcpy_aligned", one_memcpy, NULL, NEEDS_READ | NEEDS_HELD | AT_PAGE},
    {"unlz4", one_unlz4, NULL, NEEDS_READ | NEEDS_HELD | NEEDS_LZ4},
};
enum { N_OPERATIONS = sizeof(operations) / sizeof(*operations) };

static size_t compress(char *to, const char *from, size_t size) {
  size_t put = 0;
  for (size_t at = 0; at < size; at += block) {
    int n = (int)(size - at < block ? size - at : block), room = n - 1;
    char *out = to + put + sizeof(int);
    int stored =
        level > 0 ? LZ4_compress_HC(from + at, out, n, room, level) : LZ4_compress_default(from + at, out, n, room);
    if (stored <= 0) {
      memcpy(out, from + at, (size_t)n);
      stored = n;
    }
    memcpy(to + put, &stored, sizeof(stored));
    put += sizeof(stored) + (size_t)stored;
  }
  return put;
}

/* All files in one piece of populated memory, for the limits. */
static void hold(int needs) {
  size_t room = 0, put = 0;
  struct stat st;
  for (size_t i = 0; i < files.n; i++) {
    if (stat(files.file[i].path, &st) != 0) die(files.file[i].path);
    if (st.st_size > BUFFER_MAX) die("too large a file");
    room += (size_t)st.st_size + ((size_t)st.st_size / block + 1) * sizeof(int) + 8192;
  }
  char *all = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (all == MAP_FAILED) die("mmap");
  for (size_t i = 0; i < files.n; i++) {
    struct file *f = &files.file[i];
    f->size = read_in_steps(f->path, BUFFER_MAX, NULL);
    if (!(needs & NEEDS_LZ4) && f->size >= 4096) put = (put + 4095) & ~(size_t)4095; /* as the page cache holds it */
    f->held = all + put;
    if (needs & NEEDS_LZ4)
      put += compress(all + put, buffer, f->size);
    else
      put += (memcpy(all + put, buffer, f->size), f->size);
  }
  held = put;
}

/* The untimed pass: everything is in memory after it, wherever it is kept. */
static void warm_up(int needs) {
  for (size_t i = 0; i < files.n; i++) {
    struct stat st;
    if (stat(files.file[i].path, &st) != 0) die(files.file[i].path);
    files.file[i].size = (size_t)st.st_size;
    uint64_t h = (uint64_t)st.st_size * 31 + st.st_mode;
    add_up(&h, files.file[i].path + top_length, strlen(files.file[i].path + top_length));
    if (needs & NEEDS_READ) read_in_steps(files.file[i].path, BUFFER_MAX, &h);
    sum += h; /* the order does not matter */
    bytes += (uint64_t)st.st_size;
  }
  op_readdir(&board->child);
}

static void swap_buffers(void) {
  char *other = at_page;
  at_page = buffer;
  buffer = other;
}

/* The fastest of the passes, from the first start to the last end, for each of `per` things of each worker. */
static double fastest(const struct operation *o, unsigned me) {
  uint64_t best = UINT64_MAX;
  if (o->needs & AT_PAGE) swap_buffers();
  for (unsigned pass = 0; pass < passes; pass++) {
    pthread_barrier_wait(&board->barrier);
    if (o->one)
      each(&board->span[me], o->one);
    else
      o->op(&board->span[me]);
    pthread_barrier_wait(&board->barrier);
    struct span all = board->span[0];
    for (unsigned w = 1; w < workers; w++) {
      if (board->span[w].start < all.start) all.start = board->span[w].start;
      if (board->span[w].end > all.end) all.end = board->span[w].end;
    }
    if (all.end - all.start < best) best = all.end - all.start;
  }
  if (o->needs & AT_PAGE) swap_buffers();
  size_t per = o->op == op_readdir ? names : o->op == op_pread ? PREADS : files.n;
  return (double)best / (double)(per * workers);
}

/* The sum of the lines of a file of /proc that begin so, in KiB. */
static long kib_of(const char *path, const char *what) {
  long all = 0;
  char line[256];
  FILE *f = fopen(path, "r");
  if (!f) die(path);
  while (fgets(line, sizeof(line), f))
    if (!strncmp(line, what, strlen(what))) all += strtol(line + strlen(what), NULL, 10);
  fclose(f);
  return all;
}

static void agree(unsigned me) {
  if (me == 0) board->sum = sum, board->bytes = bytes, board->names = names;
  pthread_barrier_wait(&board->barrier);
  if (board->sum != sum || board->bytes != bytes || board->names != names) board->failed = true;
  pthread_barrier_wait(&board->barrier);
  if (board->failed) {
    fprintf(stderr, "fsbench: the workers did not see the same\n");
    exit(1);
  }
}

static void work(unsigned me, unsigned chosen, int needs) {
  warm_up(needs); /* by name: for SquashFS, the first look-ups in random order take minutes */
  shuffle(&files, seed + me * 0x9e3779b97f4a7c15u);
  agree(me);
  double took[N_OPERATIONS];
  for (unsigned i = 0; i < N_OPERATIONS; i++)
    if (chosen & 1u << i) took[i] = fastest(&operations[i], me);
  if (me != 0) return;
  printf("{\"sum\": \"%zu files, %" PRIu64 " bytes, %016" PRIx64 "\", \"buffer\": %zu, \"held\": %zu", files.n, bytes,
         sum, (size_t)((uintptr_t)buffer % 4096), held);
  printf(", \"private_dirty\": %ld, \"private_clean\": %ld, \"page_tables\": %ld",
         kib_of("/proc/self/smaps_rollup", "Private_Dirty:"), kib_of("/proc/self/smaps_rollup", "Private_Clean:"),
         kib_of("/proc/self/status", "VmPTE:"));
  for (unsigned i = 0; i < N_OPERATIONS; i++)
    if (chosen & 1u << i) printf(", \"%s\": %.2f", operations[i].name, took[i]);
  printf("}\n");
  fflush(stdout);
}

static void make_board(void) {
  board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (board == MAP_FAILED) die("mmap");
  pthread_barrierattr_t shared;
  pthread_barrierattr_init(&shared);
  pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  if (pthread_barrier_init(&board->barrier, &shared, workers) != 0) die("pthread_barrier_init");
}

static void start_workers(unsigned chosen, int needs) {
  for (unsigned i = 0; i < workers; i++) {
    pid_t pid = fork();
    if (pid < 0) die("fork");
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      work(i, chosen, needs);
      _exit(0);
    }
  }
  for (unsigned left = workers; left > 0; left--) {
    int status;
    if (wait(&status) < 0 || status != 0) exit(1); /* the others end with this process */
  }
}

static unsigned choose(char *text, int *needs) {
  unsigned chosen = 0;
  for (char *one = strtok(text, ","); one; one = strtok(NULL, ",")) {
    unsigned i = 0;
    while (i < N_OPERATIONS && strcmp(operations[i].name, one) != 0) i++;
    if (i == N_OPERATIONS) {
      fprintf(stderr, "fsbench: no operation %s\n", one);
      exit(2);
    }
    chosen |= 1u << i;
    *needs |= operations[i].needs;
  }
  return chosen;
}

int main(int argc, char **argv) {
  static char usual[] = "stat,read,readdir";
  char *which = usual;
  bool pin = false, usage = false;
  for (int c; (c = getopt(argc, argv, "o:j:p:s:b:z:c")) != -1;) {
    if (c == 'o')
      which = optarg;
    else if (c == 'j')
      workers = (unsigned)strtoul(optarg, NULL, 10);
    else if (c == 'p')
      passes = (unsigned)strtoul(optarg, NULL, 10);
    else if (c == 's')
      seed ^= strtoull(optarg, NULL, 10) << 1;
    else if (c == 'b')
      block = strtoul(optarg, NULL, 10);
    else if (c == 'z')
      level = atoi(optarg);
    else if (c == 'c')
      pin = true;
    else
      usage = true;
  }
  usage |= workers > 1 && strstr(which, "child");
  if (usage || optind + 1 != argc || workers < 1 || workers > WORKERS_MAX || passes < 1 || block < 1) {
    fprintf(stderr, "usage: fsbench [-o OPERATION,...] [-j PROCESSES] [-p PASSES] [-s SEED] [-c] [-b BLOCK] [-z LEVEL] "
                    "DIRECTORY\n");
    return 2;
  }
  int needs = 0;
  unsigned chosen = choose(which, &needs);
  make_board();
  if (pin && workers == 1) pin_to_last_cpu();
  walk(argv[optind]);
  if (needs & NEEDS_HELD) hold(needs);
  if (workers == 1)
    work(0, chosen, needs);
  else
    start_workers(chosen, needs);
  return 0;
}
