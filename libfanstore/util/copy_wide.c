/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memcpy for bytes that come from memory and not from a processor cache, as a dataset's bytes
 * mostly do. For such lengths libc uses `rep movsb`. On AMD Zen that takes twice as long if the
 * destination lies 1 to 31 bytes further in its page than the source in its page. malloc causes
 * this case: a large buffer there is read from the beginning of a page. No state.
 *
 * Between the bounds below, four quarters are copied at once: the processor sees four streams and
 * prefetches in four pages instead of one. The bounds are measured (docs/internals/read-path.md). A shorter
 * copy ends before this pays. A longer one, whose destination does not fit into the second-level
 * cache, is faster in sequence.
 */
#include "util/copy_wide.h"

#include "util/cpu.h"

#if FS_WIDE
#pragma GCC target("avx2")
#include <immintrin.h>

#define FS_QUARTERS_MIN 8192u
#define FS_QUARTERS_MAX (384u << 10)

static inline __m256i load(const uint8_t *p) {
  return _mm256_loadu_si256((const __m256i *)p);
}
static inline void store(uint8_t *p, __m256i v) {
  _mm256_storeu_si256((__m256i *)p, v);
}

static inline void line_pair(uint8_t *d, const uint8_t *s) {
  __m256i a = load(s), b = load(s + 32), c = load(s + 64), e = load(s + 96);
  store(d, a);
  store(d + 32, b);
  store(d + 64, c);
  store(d + 96, e);
}

/* Copies n >= 128 bytes. The last step overlaps the one before. */
static inline void in_sequence(uint8_t *d, const uint8_t *s, size_t n) {
  for (size_t i = 0; i < n - 128; i += 128) line_pair(d + i, s + i);
  line_pair(d + n - 128, s + n - 128);
}

/* Copies four streams of n bytes at a distance of `apart`. */
static inline void in_quarters(uint8_t *d, const uint8_t *s, size_t apart, size_t n) {
  for (size_t i = 0; i < n; i += 64) {
    const uint8_t *from = s + i;
    uint8_t *to = d + i;
    __m256i a0 = load(from), a1 = load(from + 32), b0 = load(from + apart), b1 = load(from + apart + 32);
    __m256i c0 = load(from + 2 * apart), c1 = load(from + 2 * apart + 32);
    __m256i e0 = load(from + 3 * apart), e1 = load(from + 3 * apart + 32);
    store(to, a0);
    store(to + 32, a1);
    store(to + apart, b0);
    store(to + apart + 32, b1);
    store(to + 2 * apart, c0);
    store(to + 2 * apart + 32, c1);
    store(to + 3 * apart, e0);
    store(to + 3 * apart + 32, e1);
  }
}

void fs_copy_wide(void *dst, const void *src, size_t n) {
  uint8_t *d = dst;
  const uint8_t *s = src;
  size_t head = -(uintptr_t)d & 63; /* stores across two lines cost more than such loads */
  __m256i a = load(s), b = load(s + 32);
  store(d, a);
  store(d + 32, b);
  d += head;
  s += head;
  n -= head;
  if (n >= FS_QUARTERS_MIN && n <= FS_QUARTERS_MAX) {
    size_t q = fs_copy_quarter(n);
    in_quarters(d, s, q, q);
    d += 4 * q;
    s += 4 * q;
    n -= 4 * q;
  }
  if (n >= 128) {
    in_sequence(d, s, n);
  } else if (n > 0) { /* the bytes before these were copied above */
    line_pair(d + n - 128, s + n - 128);
  }
}
#endif
