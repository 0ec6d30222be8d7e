/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes files that are the same in every run: makefiles [-r RATIO] [-d PER_DIRECTORY] [-s SEED] DIRECTORY COUNT SIZE.
 * DIRECTORY is made; the files are DIRECTORY/dirNNNN/fileNNNNNNN, with -d 0 DIRECTORY/fileNNNNNNN. Their bytes are
 * random; with -r 2 or more, literals and matches are mixed so that lz4 makes them about so many times smaller.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"

#define CHUNK (1u << 20)
#define WINDOW 32768u

static uint64_t state;

static uint64_t next(void) { /* splitmix64 */
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static void fill_random(uint8_t *to, size_t n) {
  for (size_t i = 0; i < n; i += 8) {
    uint64_t x = next();
    memcpy(to + i, &x, n - i < 8 ? n - i : 8);
  }
}

/* Runs of 8 to 23 literals, each followed by a copy of earlier bytes. A run costs lz4 its literals and about 10 bytes.
 */
static void fill(uint8_t *to, size_t n, unsigned ratio) {
  if (ratio < 2) {
    fill_random(to, n);
    return;
  }
  size_t at = 0;
  while (at < n) {
    uint64_t x = next();
    size_t literals = 8 + x % 16, match = (ratio - 1) * literals + ratio * (7 + ratio);
    if (literals > n - at) literals = n - at;
    fill_random(to + at, literals);
    at += literals;
    size_t back = 1 + (x >> 32) % WINDOW;
    if (back > at) back = at;
    if (match > n - at) match = n - at;
    for (size_t i = 0; i < match; i++, at++) to[at] = to[at - back];
  }
}

static void make_file(const char *path, uint64_t size, unsigned ratio, uint8_t *chunk) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) die(path);
  while (size > 0) {
    size_t n = size < CHUNK ? (size_t)size : CHUNK;
    fill(chunk, n, ratio);
    if (write(fd, chunk, n) != (ssize_t)n) die(path);
    size -= n;
  }
  close(fd);
}

int main(int argc, char **argv) {
  unsigned ratio = 1;
  unsigned long per_directory = 500;
  for (int c; (c = getopt(argc, argv, "r:d:s:")) != -1;) {
    if (c == 'r')
      ratio = (unsigned)strtoul(optarg, NULL, 10);
    else if (c == 'd')
      per_directory = strtoul(optarg, NULL, 10);
    else if (c == 's')
      state = strtoull(optarg, NULL, 10);
    else
      return 2;
  }
  if (optind + 3 != argc) {
    fprintf(stderr, "usage: makefiles [-r RATIO] [-d PER_DIRECTORY] [-s SEED] DIRECTORY COUNT SIZE\n");
    return 2;
  }
  static uint8_t chunk[CHUNK];
  static char path[4096];
  const char *top = argv[optind];
  unsigned long count = strtoul(argv[optind + 1], NULL, 10);
  uint64_t size = strtoull(argv[optind + 2], NULL, 10);
  if (mkdir(top, 0755) != 0) die(top);
  for (unsigned long i = 0; i < count; i++) {
    if (per_directory && i % per_directory == 0) {
      snprintf(path, sizeof(path), "%s/dir%04lu", top, i / per_directory);
      if (mkdir(path, 0755) != 0) die(path);
    }
    if (per_directory)
      snprintf(path, sizeof(path), "%s/dir%04lu/file%07lu", top, i / per_directory, i);
    else
      snprintf(path, sizeof(path), "%s/file%07lu", top, i);
    make_file(path, size, ratio, chunk);
  }
  return 0;
}
