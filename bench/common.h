/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs share: the clock, medians, random orders, and how they end when something fails. */
#ifndef FS_BENCH_COMMON_H
#define FS_BENCH_COMMON_H

#include <err.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline _Noreturn void die(const char *what) {
  warn("%s", what);
  exit(1);
}

static inline void pin_to_last_cpu(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return;
  int last = CPU_SETSIZE - 1;
  while (last > 0 && !CPU_ISSET(last, &set)) last--;
  CPU_ZERO(&set);
  CPU_SET(last, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) warn("not pinned");
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

static inline double least(const double *v, unsigned n) {
  double best = v[0];
  for (unsigned i = 1; i < n; i++) best = v[i] < best ? v[i] : best;
  return best;
}

/* The next of a row of random numbers, the same for the same first x, which must not be 0. */
static inline uint64_t next_random(uint64_t *x) {
  *x ^= *x << 13;
  *x ^= *x >> 7;
  *x ^= *x << 17;
  return *x;
}

#endif
