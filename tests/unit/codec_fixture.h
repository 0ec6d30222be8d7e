/* SPDX-License-Identifier: BSD-3-Clause */
/* A table of codecs with a row of every kind, its dictionaries, and an encoder. Shared by the tests of the codecs. */
#ifndef FS_TEST_CODEC_FIXTURE_H
#define FS_TEST_CODEC_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/codec.h"
#include "codec/encode.h"
#include "fanstore/format.h"

#define CODEC_BLOCK (1u << 20)
#define CODEC_DICT 8192u

enum {
  CODEC_ZSTD = 2,
  CODEC_LZ4_DICT,
  CODEC_ZSTD_DICT,
  CODEC_ZSTD_HALF_DICT,
  CODEC_LZ4_SHUFFLE4,
  CODEC_ZSTD_SHUFFLE2,
  CODEC_ZSTD_DELTA,
  CODEC_ZSTD_ALL,
  CODEC_ROWS
};
static const struct fs_codec_rec codec_rows[CODEC_ROWS] = {
    [FS_CODEC_RAW] = {.family = FS_FAMILY_RAW, .element = 1},
    [FS_CODEC_LZ4] = {.family = FS_FAMILY_LZ4, .element = 1},
    [CODEC_ZSTD] = {.family = FS_FAMILY_ZSTD, .element = 1},
    [CODEC_LZ4_DICT] = {.family = FS_FAMILY_LZ4, .element = 1, .dict_len = CODEC_DICT},
    [CODEC_ZSTD_DICT] = {.family = FS_FAMILY_ZSTD, .element = 1, .dict_len = CODEC_DICT},
    [CODEC_ZSTD_HALF_DICT] = {.family = FS_FAMILY_ZSTD, .element = 1, .dict_len = CODEC_DICT / 2, .dict = 16},
    [CODEC_LZ4_SHUFFLE4] = {.family = FS_FAMILY_LZ4, .element = 4},
    [CODEC_ZSTD_SHUFFLE2] = {.family = FS_FAMILY_ZSTD, .element = 2},
    [CODEC_ZSTD_DELTA] = {.family = FS_FAMILY_ZSTD, .element = 4 + FS_ELEMENT_DELTA},
    [CODEC_ZSTD_ALL] = {.family = FS_FAMILY_ZSTD, .element = 8 + 2 * FS_ELEMENT_DELTA, .dict_len = CODEC_DICT},
};
static uint8_t codec_dict[CODEC_DICT];
static struct fs_codec_set codecs;
__attribute__((used)) static struct fs_encoder *codec_encoder; /* the leak checker must find it */
__attribute__((used)) static void *codec_work;

/* Bytes that compress about as text does: runs of new ones, and runs that came before. */
static inline void codec_fill(uint8_t *p, size_t n, unsigned seed) {
  uint32_t x = seed * 2654435761u + 1;
  for (size_t i = 0; i < n;) {
    x = x * 1664525u + 1013904223u;
    size_t run = FS_MIN((x >> 28) + 5u, n - i), back = (x >> 16) % 200 + 1;
    bool copy = i >= back && (x >> 8) % 3 != 0;
    for (size_t end = i + run; i < end; i++) p[i] = (uint8_t)(copy ? p[i - back] : x >> (i % 3 * 8));
  }
}

/* Encodes as the row says. */
static inline fs_ssize codec_encode(uint32_t row, int level, const void *src, size_t n, void *dst, size_t room) {
  const struct fs_codec_rec *r = &codec_rows[row];
  struct fs_encoding e = {.family = r->family, .element = r->element, .level = level};
  if (r->dict_len > 0) e.dict = codec_dict + r->dict, e.dict_len = r->dict_len;
  if (fs_encoding_prepare(&e) < 0) abort();
  fs_ssize put = fs_encode(codec_encoder, &e, src, n, dst, room);
  fs_encoding_release(&e);
  return put;
}

static inline int codec_setup(void **state) {
  (void)state;
  if (codec_work != NULL) return 0; /* by an earlier data set */
  codec_fill(codec_dict, CODEC_DICT, 77);
  if (fs_codec_set_open(&codecs, codec_rows, CODEC_ROWS, (char *)codec_dict, CODEC_DICT) < 0) return -1;
  codec_encoder = fs_encoder_new();
  codec_work = calloc(1, fs_codec_work_size(&codecs, CODEC_BLOCK));
  return 0;
}

static inline int codec_teardown(void **state) {
  (void)state;
  fs_codec_set_close(&codecs);
  fs_encoder_free(codec_encoder);
  free(codec_work);
  codec_work = NULL;
  return 0;
}

#endif
