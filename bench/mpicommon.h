/* SPDX-License-Identifier: BSD-3-Clause */
/* What the MPI programs that stand in for mdtest and ior share: how they fail, phases between barriers, patterns of
 * bytes. */
#ifndef FS_BENCH_MPICOMMON_H
#define FS_BENCH_MPICOMMON_H

#include <errno.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common.h"

/* Ends all ranks. */
__attribute__((format(printf, 1, 2))) static inline _Noreturn void fail(const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  fputs("ERROR: ", stderr);
  vfprintf(stderr, format, ap);
  fputc('\n', stderr);
  va_end(ap);
  MPI_Abort(MPI_COMM_WORLD, 1);
  exit(1);
}

/* Seconds from the barrier before `work` until the last rank has done it, on all ranks. */
static inline double phase(void (*work)(void)) {
  MPI_Barrier(MPI_COMM_WORLD);
  uint64_t t = now();
  work();
  double took = (double)(now() - t) / 1e9, longest;
  MPI_Allreduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return longest;
}

/* The 8 bytes at an offset of what a writer wrote. */
static inline uint64_t pattern(uint64_t writer, uint64_t offset) {
  uint64_t x = (writer + 1) * 0x9e3779b97f4a7c15u ^ (offset + 1) * 0xc2b2ae3d27d4eb4fu;
  x ^= x >> 29;
  return x * 0xbf58476d1ce4e5b9u;
}

static inline void fill(char *to, size_t n, uint64_t writer, uint64_t offset) {
  for (size_t i = 0; i < n; i += 8) {
    uint64_t word = pattern(writer, offset + i);
    memcpy(to + i, &word, n - i < 8 ? n - i : 8);
  }
}

/* Where the first byte is that fill() would have set otherwise; n: nowhere. */
static inline size_t differs(const char *got, size_t n, uint64_t writer, uint64_t offset) {
  for (size_t i = 0; i < n; i += 8) {
    uint64_t word = pattern(writer, offset + i);
    if (memcmp(got + i, &word, n - i < 8 ? n - i : 8) != 0) return i;
  }
  return n;
}

/* A number with k, m or g after it. */
static inline uint64_t parse_size(const char *text) {
  char *end;
  errno = 0;
  uint64_t n = strtoull(text, &end, 10), unit = 1;
  if (*end == 'k' || *end == 'm' || *end == 'g') unit = *end == 'k' ? 1u << 10 : *end == 'm' ? 1u << 20 : 1u << 30;
  if (unit > 1) end++;
  if (errno || end == text || *end || text[0] == '-' || n > (1ull << 50) / unit) fail("no size: %s", text);
  return n * unit;
}

#endif
