/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes files that are the same in every run: makefiles [-r RATIO] [-d PER_DIRECTORY] [-s SEED] [-i]
 * DIRECTORY COUNT SIZE. DIRECTORY is made; the files are DIRECTORY/dirNNNN/fileNNNNNNN, with -d 0
 * DIRECTORY/fileNNNNNNN. With -i they have names like ImageNet's: DIRECTORY/nNNNNNNNN/nNNNNNNNN_N.JPEG. Their bytes are
 * random; with -r 2 or more, literals and matches are mixed so that lz4 makes them about so many times smaller.
 */
#include <fcntl.h>
#include <stdbool.h>
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

struct names {
  const char *top;
  unsigned long per_directory;
  bool imagenet;
};

/* The path of the i-th file. If it is the first one of a directory, makes the directory. */
static void path_of(char *path, size_t size, const struct names *names, unsigned long i) {
  if (!names->per_directory) {
    snprintf(path, size, "%s/file%07lu", names->top, i);
    return;
  }
  unsigned long dir = i / names->per_directory;
  unsigned long synset = 1440764 + dir * 13331; /* as far apart as ImageNet's thousand */
  if (i % names->per_directory == 0) {
    if (names->imagenet)
      snprintf(path, size, "%s/n%08lu", names->top, synset);
    else
      snprintf(path, size, "%s/dir%04lu", names->top, dir);
    if (mkdir(path, 0755) != 0) die(path);
  }
  if (names->imagenet)
    snprintf(path, size, "%s/n%08lu/n%08lu_%lu.JPEG", names->top, synset, synset, i % names->per_directory * 7 + 3);
  else
    snprintf(path, size, "%s/dir%04lu/file%07lu", names->top, dir, i);
}

int main(int argc, char **argv) {
  unsigned ratio = 1;
  struct names names = {.per_directory = 500};
  for (int c; (c = getopt(argc, argv, "r:d:s:i")) != -1;) {
    if (c == 'r')
      ratio = (unsigned)strtoul(optarg, NULL, 10);
    else if (c == 'd')
      names.per_directory = strtoul(optarg, NULL, 10);
    else if (c == 's')
      state = strtoull(optarg, NULL, 10);
    else if (c == 'i')
      names.imagenet = true;
    else
      return 2;
  }
  if (optind + 3 != argc) {
    fprintf(stderr, "usage: makefiles [-r RATIO] [-d PER_DIRECTORY] [-s SEED] [-i] DIRECTORY COUNT SIZE\n");
    return 2;
  }
  static uint8_t chunk[CHUNK];
  static char path[4096];
  unsigned long count = strtoul(argv[optind + 1], NULL, 10);
  uint64_t size = strtoull(argv[optind + 2], NULL, 10);
  names.top = argv[optind];
  if (mkdir(names.top, 0755) != 0) die(names.top);
  for (unsigned long i = 0; i < count; i++) {
    path_of(path, sizeof(path), &names, i);
    make_file(path, size, ratio, chunk);
  }
  return 0;
}
