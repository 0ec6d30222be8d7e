/* SPDX-License-Identifier: BSD-3-Clause */
/* The byte shuffle. fs-prepare shuffles; readers restore, 16 elements at a time where the processor
   can. No state, any thread, signal handlers too. */
#include "codec/shuffle.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

void fs_shuffle(uint8_t *dst, const uint8_t *src, size_t n, size_t element) {
  const size_t count = n / element, rest = n % element;
  for (size_t k = 0; k < element; k++) {
    for (size_t i = 0; i < count; i++) dst[k * count + i] = src[i * element + k];
  }
  if (rest > 0) memcpy(dst + n - rest, src + n - rest, rest);
}

#ifdef __SSE2__
static inline __m128i fs_load16(const uint8_t *p) {
  return _mm_loadu_si128((const __m128i *)(const void *)p);
}

static inline void fs_store16(uint8_t *p, __m128i v) {
  _mm_storeu_si128((__m128i *)(void *)p, v);
}

static inline void fs_unshuffle16_2(uint8_t *dst, const uint8_t *src, size_t count) {
  __m128i a = fs_load16(src), b = fs_load16(src + count);
  fs_store16(dst, _mm_unpacklo_epi8(a, b));
  fs_store16(dst + 16, _mm_unpackhi_epi8(a, b));
}

static inline void fs_unshuffle16_4(uint8_t *dst, const uint8_t *src, size_t count) {
  __m128i a = fs_load16(src), b = fs_load16(src + count);
  __m128i c = fs_load16(src + 2 * count), d = fs_load16(src + 3 * count);
  __m128i ab[2] = {_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)};
  __m128i cd[2] = {_mm_unpacklo_epi8(c, d), _mm_unpackhi_epi8(c, d)};
  for (int h = 0; h < 2; h++) {
    fs_store16(dst + 32 * h, _mm_unpacklo_epi16(ab[h], cd[h]));
    fs_store16(dst + 32 * h + 16, _mm_unpackhi_epi16(ab[h], cd[h]));
  }
}

static inline void fs_unshuffle16_8(uint8_t *dst, const uint8_t *src, size_t count) {
  __m128i two[4][2], four[2][4];
  for (int k = 0; k < 4; k++) {
    __m128i a = fs_load16(src + (size_t)(2 * k) * count), b = fs_load16(src + (size_t)(2 * k + 1) * count);
    two[k][0] = _mm_unpacklo_epi8(a, b);
    two[k][1] = _mm_unpackhi_epi8(a, b);
  }
  for (int k = 0; k < 2; k++) {
    for (int h = 0; h < 2; h++) {
      four[k][2 * h] = _mm_unpacklo_epi16(two[2 * k][h], two[2 * k + 1][h]);
      four[k][2 * h + 1] = _mm_unpackhi_epi16(two[2 * k][h], two[2 * k + 1][h]);
    }
  }
  for (int h = 0; h < 4; h++) {
    fs_store16(dst + 32 * h, _mm_unpacklo_epi32(four[0][h], four[1][h]));
    fs_store16(dst + 32 * h + 16, _mm_unpackhi_epi32(four[0][h], four[1][h]));
  }
}

/* Restores as many elements as come in groups of 16. Returns their number. */
static size_t fs_unshuffle_most(uint8_t *dst, const uint8_t *src, size_t count, size_t element) {
  const size_t most = count & ~(size_t)15;
  if (element == 2) {
    for (size_t i = 0; i < most; i += 16) fs_unshuffle16_2(dst + 2 * i, src + i, count);
  } else if (element == 4) {
    for (size_t i = 0; i < most; i += 16) fs_unshuffle16_4(dst + 4 * i, src + i, count);
  } else {
    for (size_t i = 0; i < most; i += 16) fs_unshuffle16_8(dst + 8 * i, src + i, count);
  }
  return most;
}
#else
static size_t fs_unshuffle_most(uint8_t *dst, const uint8_t *src, size_t count, size_t element) {
  (void)dst, (void)src, (void)count, (void)element;
  return 0;
}
#endif

void fs_unshuffle(uint8_t *dst, const uint8_t *src, size_t n, size_t element) {
  const size_t count = n / element, rest = n % element;
  for (size_t i = fs_unshuffle_most(dst, src, count, element); i < count; i++) {
    for (size_t k = 0; k < element; k++) dst[i * element + k] = src[k * count + i];
  }
  if (rest > 0) memcpy(dst + n - rest, src + n - rest, rest);
}
