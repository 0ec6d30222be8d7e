/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs share: the clock, medians, random orders, and how they end when something fails. */
#ifndef FS_BENCH_COMMON_H
#define FS_BENCH_COMMON_H

#include <err.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline _Noreturn void die(const char *what) {
  warn("%s", what);
  exit(1);
}

/* Nanoseconds. */
static inline uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline int by_number(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static inline double median(double *v, unsigned n) {
  qsort(v, n, sizeof(*v), by_number);
  return v[n / 2];
}

/* The next of a row of random numbers, the same for the same first x, which must not be 0. */
static inline uint64_t next_random(uint64_t *x) {
  *x ^= *x << 13;
  *x ^= *x >> 7;
  *x ^= *x << 17;
  return *x;
}

#endif
