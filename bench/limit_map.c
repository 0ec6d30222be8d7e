/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a mapping gives: limit_map [-c] SIZE COUNT SEED FILE copies COUNT times SIZE bytes by memcpy from random
 * multiples of SIZE out of a populated mapping of FILE, as staged partitions are read. Prints a JSON object,
 * nanoseconds a copy, the fastest of five passes each: "copies", of which the processor may begin one before the last
 * has ended, and "calls", where it may not, as between calls of a library or of the kernel. -c pins it to the last CPU.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"

#define PASSES 5
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

static const char *map;
static char *buffer;
static size_t size, pieces;
static unsigned count;
static uint64_t seed;

static const char *map_whole(const char *path, size_t *length) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &st) != 0) die(path);
  void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) die("mmap");
  (void)madvise(at, (size_t)st.st_size, MADV_HUGEPAGE);
  if (madvise(at, (size_t)st.st_size, MADV_POPULATE_READ) != 0) die("MADV_POPULATE_READ");
  close(fd);
  *length = (size_t)st.st_size;
  return at;
}

/* With `calls` the next place depends on the byte that the last copy has brought last. */
static double pass(bool calls) {
  uint64_t x = seed, none = 0, start = now();
  for (unsigned i = 0; i < count; i++) {
    memcpy(buffer, map + next_random(&x) % pieces * size, size);
    __asm__ volatile("" : "+r"(none) : "r"(buffer) : "memory"); /* 0, but the compiler does not know */
    if (calls) x ^= (unsigned char)buffer[size - 1] & none;
  }
  return (double)(now() - start) / count;
}

static double fastest(bool calls) {
  double took[PASSES];
  for (unsigned i = 0; i < PASSES; i++) took[i] = pass(calls);
  return least(took, PASSES);
}

int main(int argc, char **argv) {
  bool pin = argc > 1 && !strcmp(argv[1], "-c");
  char **a = argv + pin;
  size_t length = 0;
  if (argc - pin == 5) {
    size = strtoul(a[1], NULL, 10);
    count = (unsigned)strtoul(a[2], NULL, 10);
    seed = 88172645463325252u ^ strtoull(a[3], NULL, 10) << 1;
    map = map_whole(a[4], &length);
  }
  if (size == 0 || length < size || count == 0) {
    fprintf(stderr, "usage: limit_map [-c] SIZE COUNT SEED FILE\n");
    return 2;
  }
  pieces = length / size;
  buffer = malloc(size + (1u << 20)); /* large: where malloc puts large ones in their page */
  if (!buffer) die("malloc");
  memset(buffer, 1, size);
  if (pin) pin_to_last_cpu();
  double copies = fastest(false), calls = fastest(true);
  printf("{\"copies\": %.1f, \"calls\": %.1f}\n", copies, calls);
  return 0;
}
