/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs share that print medians. */
#ifndef FS_BENCH_MEDIAN_H
#define FS_BENCH_MEDIAN_H

#include <stdlib.h>

static inline int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static inline double median(double *v, unsigned n) {
  qsort(v, n, sizeof(*v), by_value);
  return v[n / 2];
}

#endif
