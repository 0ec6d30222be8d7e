/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the device gives: limit_direct [-b] [-c] [-H] [-z SAMPLE] [-j N] SIZE COUNT SEED FILE... reads COUNT blocks of
 * SIZE bytes with O_DIRECT, each once, in random order out of all FILEs, N at a time (threads, default 1). With -H into
 * huge pages, where the kernel gives them: a block is one run of memory then, and not one for each 4 KiB. With -b
 * through the page cache, out of which the files are dropped before. With -c each block is copied once after it was
 * read, as whoever gives it to a program and keeps it has to. With -z the blocks are as large as lz4 makes the first
 * SIZE bytes of SAMPLE, and after each of them those bytes are decoded once, out of memory. Prints a JSON object:
 * nanoseconds a block, and how many of how many pages were resident after that.
 */
#include <fcntl.h>
#include <lz4.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"

struct block {
  int fd;
  off_t offset;
};

static struct block *blocks;
static size_t n, size, count, pages, resident;
static bool buffered, copied, huge;
static struct packed {
  char *data;
  int stored, plain;
} * packed;
static size_t npacked;

#define PLAIN (256u << 10) /* fs-prepare's blocks */
#define HUGE (2u << 20)
static atomic_size_t next;

static void drop(int fd, size_t len) {
  size_t all = (len + 4095) / 4096;
  unsigned char *in = malloc(all + 1);
  if (!in || fdatasync(fd) != 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0) die("drop");
  void *map = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED || mincore(map, len, in) != 0) die("mincore");
  for (size_t i = 0; i < all; i++) resident += in[i] & 1;
  pages += all;
  munmap(map, len);
  free(in);
}

static void add(const char *path) {
  int fd = open(path, O_RDONLY | (buffered ? 0 : O_DIRECT) | O_CLOEXEC);
  struct stat st;
  if (fd < 0 || fstat(fd, &st) != 0) die(path);
  if (buffered && st.st_size > 0) drop(fd, (size_t)st.st_size);
  size_t more = (size_t)st.st_size / size;
  blocks = realloc(blocks, (n + more + 1) * sizeof(*blocks));
  if (!blocks) die("memory");
  for (size_t i = 0; i < more; i++) blocks[n++] = (struct block){fd, (off_t)(i * size)};
}

static void shuffle(uint64_t x) {
  for (size_t i = n; i > 1; i--) {
    struct block *a = &blocks[i - 1], *b = &blocks[next_random(&x) % i], t = *a;
    *a = *b;
    *b = t;
  }
}

/* Compresses the sample's first bytes; from now on blocks of the stored size are read. */
static void sample(const char *path) {
  FILE *f = fopen(path, "re");
  char *plain = malloc(size);
  size_t stored = 0;
  packed = calloc(size / PLAIN + 1, sizeof(*packed));
  if (!f || !plain || !packed || fread(plain, 1, size, f) != size) die(path);
  for (size_t at = 0; at < size; at += PLAIN, npacked++) {
    struct packed *p = &packed[npacked];
    p->plain = (int)(size - at < PLAIN ? size - at : PLAIN);
    int room = LZ4_compressBound(p->plain);
    p->data = malloc((size_t)room);
    p->stored = p->data ? LZ4_compress_default(plain + at, p->data, p->plain, room) : 0;
    if (p->stored <= 0) die("LZ4");
    stored += (size_t)p->stored;
  }
  fclose(f);
  free(plain);
  size = (stored + 4095) / 4096 * 4096;
}

static void decode(char *to) {
  for (size_t i = 0; i < npacked; i++, to += PLAIN)
    if (LZ4_decompress_safe(packed[i].data, to, packed[i].stored, packed[i].plain) != packed[i].plain) die("LZ4");
}

static void *reader(void *arg) {
  void *buffer, *copy;
  size_t most = npacked > 0 ? npacked * PLAIN : size;
  (void)arg;
  size_t page = huge ? HUGE : 4096, room = (size + page - 1) / page * page;
  if (posix_memalign(&buffer, page, room) != 0 || posix_memalign(&copy, 4096, most) != 0) die("memory");
  if (huge) madvise(buffer, room, MADV_HUGEPAGE);
  memset(buffer, 1, size);
  memset(copy, 1, most);
  for (size_t i; (i = atomic_fetch_add(&next, 1)) < count;) {
    if (pread(blocks[i].fd, buffer, size, blocks[i].offset) != (ssize_t)size) die("read");
    if (npacked > 0) decode(copy);
    if (!copied) continue;
    memcpy(copy, buffer, size);
    __asm__ volatile("" : : "r"(copy) : "memory"); /* it is done, though nobody looks */
  }
  free(buffer);
  free(copy);
  return NULL;
}

int main(int argc, char **argv) {
  unsigned threads = 1;
  const char *from = NULL;
  for (int c; (c = getopt(argc, argv, "+bcHj:z:")) != -1;) {
    if (c == 'b')
      buffered = true;
    else if (c == 'c')
      copied = true;
    else if (c == 'H')
      huge = true;
    else if (c == 'z')
      from = optarg;
    else
      threads = c == 'j' ? (unsigned)strtoul(optarg, NULL, 10) : 0;
  }
  argv += optind - 1;
  argc -= optind - 1;
  size = argc < 5 ? 0 : strtoul(argv[1], NULL, 10);
  if (size < 4096 || size % 4096 || !threads || threads > 64) {
    fprintf(stderr, "usage: limit_direct [-b] [-c] [-H] [-z SAMPLE] [-j N] SIZE COUNT SEED FILE...\n");
    return 2;
  }
  if (from) sample(from);
  for (int i = 4; i < argc; i++) add(argv[i]);
  shuffle(88172645463325252u ^ strtoull(argv[3], NULL, 10) << 1);
  count = strtoul(argv[2], NULL, 10);
  if (count > n) count = n;
  if (!count) die("no blocks");
  pthread_t thread[64];
  uint64_t t = now();
  for (unsigned i = 0; i < threads; i++)
    if (pthread_create(&thread[i], NULL, reader, NULL) != 0) die("thread");
  for (unsigned i = 0; i < threads; i++) pthread_join(thread[i], NULL);
  t = now() - t;
  printf("{\"blocks\": %zu, \"first\": %.1f, \"pages\": %zu, \"resident\": %zu}\n", count, (double)t / (double)count,
         pages, resident);
  return 0;
}
