/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs_copy_wide by AVX-512, for Intel processors from Ice Lake on (util/cpu.c). A cache line takes
 * half as many instructions, so twice as many lines are fetched from memory at once. Four streams
 * pay from two pages on, without an upper bound (measurements: docs/internals/read-path.md). No state.
 */
#include "util/copy_wide.h"

#include "util/cpu.h"

#if FS_WIDE
#pragma GCC target("avx512f")
#include <immintrin.h>

#define FS_QUARTERS_MIN 8192u

static inline __m512i load(const uint8_t *p) {
  return _mm512_loadu_si512(p);
}
static inline void store(uint8_t *p, __m512i v) {
  _mm512_storeu_si512(p, v);
}

static inline void four_lines(uint8_t *d, const uint8_t *s, size_t apart) {
  __m512i a = load(s), b = load(s + apart), c = load(s + 2 * apart), e = load(s + 3 * apart);
  store(d, a);
  store(d + apart, b);
  store(d + 2 * apart, c);
  store(d + 3 * apart, e);
}

void fs_copy_512(void *dst, const void *src, size_t n) {
  uint8_t *d = dst;
  const uint8_t *s = src;
  size_t head = -(uintptr_t)d & 63;
  store(d, load(s));
  d += head;
  s += head;
  n -= head;
  if (n >= FS_QUARTERS_MIN) {
    size_t q = fs_copy_quarter(n);
    for (size_t i = 0; i < q; i += 64) four_lines(d + i, s + i, q);
    d += 4 * q;
    s += 4 * q;
    n -= 4 * q;
  }
  if (n >= 256) {
    for (size_t i = 0; i < n - 256; i += 256) four_lines(d + i, s + i, 64);
  }
  if (n > 0) four_lines(d + n - 256, s + n - 256, 64); /* the overlap was copied above */
}
#endif
