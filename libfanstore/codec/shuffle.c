/* SPDX-License-Identifier: BSD-3-Clause */
/* The byte shuffle, and differences. fs-prepare shuffles; readers restore, 16 elements at a time where
   the processor can. No state, any thread, signal handlers too. */
#include "codec/shuffle.h"

#include <string.h>

#include "fanstore/format.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Numbers are little-endian, as the format is. */
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are read as they lie there");

/* ---- differences ---- */

/* Takes differences `deltas` times. `before` has the last value of each time. A difference is stored as a
   number without a sign: 0, -1, 1, -2, 2 become 0, 1, 2, 3, 4. If deltas is 0, the value stays as it is. */
static uint64_t fs_delta_number(uint64_t v, uint64_t before[2], unsigned deltas, unsigned bits) {
  const uint64_t mask = UINT64_MAX >> (64 - bits);
  if (deltas == 0) return v;
  for (unsigned i = 0; i < deltas; i++) {
    uint64_t delta = v - before[i];
    before[i] = v;
    v = delta;
  }
  v &= mask;
  return ((v << 1) ^ (0 - (v >> (bits - 1)))) & mask;
}

/* ---- the shuffle ---- */

void fs_shuffle(uint8_t *dst, const uint8_t *src, size_t n, uint8_t element) {
  const unsigned deltas = FS_ELEMENT_DELTAS(element);
  const size_t bytes = FS_ELEMENT_BYTES(element), count = n / bytes, rest = n % bytes;
  uint64_t before[2] = {0};
  for (size_t i = 0; i < count; i++) {
    uint64_t v = 0;
    memcpy(&v, src + i * bytes, bytes);
    v = fs_delta_number(v, before, deltas, 8 * (unsigned)bytes);
    for (size_t k = 0; k < bytes; k++) dst[k * count + i] = (uint8_t)(v >> (8 * k));
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

/* ---- sums of 16 bytes of numbers at a time ---- */

/* Adds up 8 numbers, and the sum of all before them, which is in each lane of *last. */
static inline __m128i fs_add_up_2(__m128i v, __m128i *last) {
  v = _mm_add_epi16(v, _mm_slli_si128(v, 2));
  v = _mm_add_epi16(v, _mm_slli_si128(v, 4));
  v = _mm_add_epi16(_mm_add_epi16(v, _mm_slli_si128(v, 8)), *last);
  *last = _mm_shuffle_epi32(_mm_shufflehi_epi16(v, 0xff), 0xff);
  return v;
}

static inline __m128i fs_add_up_4(__m128i v, __m128i *last) {
  v = _mm_add_epi32(v, _mm_slli_si128(v, 4));
  v = _mm_add_epi32(_mm_add_epi32(v, _mm_slli_si128(v, 8)), *last);
  *last = _mm_shuffle_epi32(v, 0xff);
  return v;
}

static inline __m128i fs_signed_2(__m128i v) {
  __m128i odd = _mm_and_si128(v, _mm_set1_epi16(1));
  return _mm_xor_si128(_mm_srli_epi16(v, 1), _mm_sub_epi16(_mm_setzero_si128(), odd));
}

static inline __m128i fs_signed_4(__m128i v) {
  __m128i odd = _mm_and_si128(v, _mm_set1_epi32(1));
  return _mm_xor_si128(_mm_srli_epi32(v, 1), _mm_sub_epi32(_mm_setzero_si128(), odd));
}

/* Restores the numbers that come in groups of 16 bytes. Sets the sums up to there, and returns how many
   numbers those are. */
#define FS_SUMS_MOST(bytes, type)                                                                                      \
  static inline size_t fs_sum_most_##bytes(uint8_t *p, size_t count, type sum[2], const bool twice) {                  \
    const size_t most = count - count % (16 / (bytes));                                                                \
    __m128i last[2] = {_mm_setzero_si128(), _mm_setzero_si128()};                                                      \
    for (size_t at = 0; at < most * (bytes); at += 16) {                                                               \
      __m128i v = fs_add_up_##bytes(fs_signed_##bytes(fs_load16(p + at)), &last[0]);                                   \
      if (twice) v = fs_add_up_##bytes(v, &last[1]);                                                                   \
      fs_store16(p + at, v);                                                                                           \
    }                                                                                                                  \
    for (unsigned k = 0; k < 2; k++) sum[k] = (type)_mm_cvtsi128_si32(last[k]);                                        \
    return most;                                                                                                       \
  }
FS_SUMS_MOST(2, uint16_t)
FS_SUMS_MOST(4, uint32_t)
#else
static size_t fs_unshuffle_most(uint8_t *dst, const uint8_t *src, size_t count, size_t element) {
  (void)dst, (void)src, (void)count, (void)element;
  return 0;
}
#define fs_sum_most_2(p, count, sum, twice) 0
#define fs_sum_most_4(p, count, sum, twice) 0
#endif
#define fs_sum_most_8(p, count, sum, twice) 0

/* Restores numbers from their differences, in place. */
#define FS_SUMS(bytes, type)                                                                                           \
  static inline void fs_sum_##bytes(uint8_t *p, size_t count, const bool twice) {                                      \
    type v, sum[2] = {0};                                                                                              \
    for (size_t i = fs_sum_most_##bytes(p, count, sum, twice); i < count; i++) {                                       \
      memcpy(&v, p + i * (bytes), sizeof(v));                                                                          \
      sum[0] = (type)(sum[0] + (type)((v >> 1) ^ (0 - (v & 1))));                                                      \
      sum[1] = (type)(sum[1] + sum[0]);                                                                                \
      memcpy(p + i * (bytes), &sum[twice], sizeof(v));                                                                 \
    }                                                                                                                  \
  }                                                                                                                    \
  static void fs_sums_##bytes(uint8_t *p, size_t count, unsigned deltas) {                                             \
    if (deltas == 1) fs_sum_##bytes(p, count, false);                                                                  \
    if (deltas == 2) fs_sum_##bytes(p, count, true);                                                                   \
  }
FS_SUMS(2, uint16_t)
FS_SUMS(4, uint32_t)
FS_SUMS(8, uint64_t)

void fs_unshuffle(uint8_t *dst, const uint8_t *src, size_t n, uint8_t element) {
  const size_t bytes = FS_ELEMENT_BYTES(element), count = n / bytes, rest = n % bytes;
  for (size_t i = fs_unshuffle_most(dst, src, count, bytes); i < count; i++) {
    for (size_t k = 0; k < bytes; k++) dst[i * bytes + k] = src[k * count + i];
  }
  if (bytes == 2) fs_sums_2(dst, count, FS_ELEMENT_DELTAS(element));
  if (bytes == 4) fs_sums_4(dst, count, FS_ELEMENT_DELTAS(element));
  if (bytes == 8) fs_sums_8(dst, count, FS_ELEMENT_DELTAS(element));
  if (rest > 0) memcpy(dst + n - rest, src + n - rest, rest);
}
