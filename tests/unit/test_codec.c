/* SPDX-License-Identifier: BSD-3-Clause */
/* The codecs: what is encoded is decoded again, exactly or not at all, and never beyond its buffer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/codec.h"
#include "fanstore/format.h"

/* Bytes that compress about as text does: runs of new ones, and runs that came before. */
static void fill(uint8_t *p, size_t n, unsigned seed) {
  uint32_t x = seed * 2654435761u + 1;
  for (size_t i = 0; i < n;) {
    x = x * 1664525u + 1013904223u;
    size_t run = FS_MIN((x >> 28) + 5u, n - i), back = (x >> 16) % 200 + 1;
    bool copy = i >= back && (x >> 8) % 3 != 0;
    for (size_t end = i + run; i < end; i++) p[i] = (uint8_t)(copy ? p[i - back] : x >> (i % 3 * 8));
  }
}

static void round_trip(const struct fs_codec *c, size_t n, int level) {
  size_t room = c->bound(n);
  uint8_t *plain = malloc(n), *back = malloc(n), *stored = malloc(room);
  fill(plain, n, (unsigned)n);
  fs_ssize put = c->encode(plain, n, stored, room, level);
  assert_true(put > 0 && (size_t)put < n);
  uint8_t *exact = malloc((size_t)put); /* of just this size, for the address sanitizer */
  memcpy(exact, stored, (size_t)put);
  assert_int_equal(fs_block_decode(c->id, exact, (size_t)put, back, n), 0);
  assert_memory_equal(plain, back, n);
  for (size_t part = 0; part <= n; part += part < 300 ? 1 : n / 16) {
    uint8_t *first = malloc(part ? part : 1);
    assert_int_equal(fs_block_decode_prefix(c->id, exact, (size_t)put, first, n, part), 0);
    assert_memory_equal(plain, first, part);
    free(first);
  }
  assert_int_equal(fs_block_decode_prefix(c->id, exact, (size_t)put, back, n, n + 1), -EBADMSG);
  assert_int_equal(fs_block_decode_prefix(c->id, exact, (size_t)put / 2, back, n, n - 1), -EBADMSG);
  assert_int_equal(fs_block_decode(c->id, exact, (size_t)put - 1, back, n), -EBADMSG);
  assert_int_equal(fs_block_decode(c->id, exact, (size_t)put, back, n - 1), -EBADMSG);
  assert_int_equal(c->encode(plain, n, stored, (size_t)put - 1, level), -ENOSPC);
  free(exact);
  free(stored);
  free(back);
  free(plain);
}

static void test_lz4(void **state) {
  (void)state;
  static const size_t sizes[] = {200, 4096, 65535, 65536, 65537, 262144, 1 << 20};
  const struct fs_codec *c = fs_codec_by_id(FS_CODEC_LZ4);
  assert_string_equal(c->name, "lz4");
  for (size_t i = 0; i < FS_ARRAY_LEN(sizes); i++) {
    round_trip(c, sizes[i], 0);
    round_trip(c, sizes[i], 9);
  }
  round_trip(c, 10000, 1);
  round_trip(c, 10000, 1000);
}

static void test_incompressible(void **state) {
  (void)state;
  uint8_t noise[1000], out[1100];
  uint64_t x = 88172645463325252ull;
  for (size_t i = 0; i < sizeof(noise); i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    noise[i] = (uint8_t)(x >> 32);
  }
  const struct fs_codec *c = fs_codec_by_id(FS_CODEC_LZ4);
  assert_true(c->bound(sizeof(noise)) <= sizeof(out));
  assert_int_equal(c->encode(noise, sizeof(noise), out, sizeof(out), 0), -ENOSPC);
  assert_int_equal(c->encode(noise, sizeof(noise), out, sizeof(out), 12), -ENOSPC);
  assert_int_equal(c->encode(noise, 0, out, sizeof(out), 0), -ENOSPC);
  assert_int_equal(c->encode(noise, 1, out, sizeof(out), 0), -ENOSPC);
  assert_int_equal(fs_codec_by_id(FS_CODEC_RAW)->encode(noise, 9, out, sizeof(out), 0), -ENOSPC);
}

static void test_raw_and_unknown(void **state) {
  (void)state;
  char out[8] = "-------";
  assert_int_equal(fs_block_decode(FS_CODEC_RAW, "abcd", 4, out, 4), 0);
  assert_memory_equal(out, "abcd---", 8);
  assert_int_equal(fs_block_decode(FS_CODEC_RAW, "abcd", 3, out, 4), -EBADMSG);
  assert_int_equal(fs_block_decode(FS_CODEC_LZ4, "wxyz", 4, out, 4), 0); /* equal lengths: raw */
  assert_memory_equal(out, "wxyz---", 8);
  assert_int_equal(fs_block_decode(FS_CODEC_LZ4, "wxyz", 4, out, 3), -EBADMSG);
  assert_int_equal(fs_block_decode(FS_CODEC_LZ4, "", 0, out, 3), -EBADMSG);
  assert_int_equal(fs_block_decode(77, "abcd", 4, out, 4), -EPROTONOSUPPORT);
  assert_int_equal(fs_block_decode(FS_CODEC_RAW, NULL, 0, NULL, 0), 0);
  assert_null(fs_codec_by_id(2));
  assert_null(fs_codec_by_id(UINT32_MAX));
}

/* Each byte changed: the result is refused or of the right length, and nothing is written behind it. */
static void test_damaged(void **state) {
  (void)state;
  enum { N = 3000 };
  uint8_t *plain = malloc(N), *stored = malloc(N), *back = malloc(N);
  const struct fs_codec *c = fs_codec_by_id(FS_CODEC_LZ4);
  fill(plain, N, 5);
  fs_ssize put = c->encode(plain, N, stored, N, 0);
  assert_true(put > 0);
  for (size_t at = 0; at < (size_t)put * 255; at++) {
    stored[at / 255] ^= (uint8_t)(at % 255 + 1);
    fs_err err = c->decode(stored, (size_t)put, back, N);
    assert_true(err == 0 || err == -EBADMSG);
    stored[at / 255] ^= (uint8_t)(at % 255 + 1);
  }
  free(back);
  free(stored);
  free(plain);
}

/* A match at offset 0 decodes, to what the buffer had. */
static void test_sound(void **state) {
  (void)state;
  static const uint8_t bad[18] = {0x1f, 'a', 0, 0, 0, 0xc0, 'b'};
  uint8_t out[32], plain[4000], stored[4000];
  assert_int_equal(fs_block_decode(FS_CODEC_LZ4, bad, sizeof(bad), out, sizeof(out)), 0);
  assert_false(fs_block_sound(FS_CODEC_LZ4, bad, sizeof(bad), sizeof(out)));
  assert_true(fs_block_sound(FS_CODEC_LZ4, bad, sizeof(bad), sizeof(bad))); /* raw */
  assert_true(fs_block_sound(FS_CODEC_RAW, bad, sizeof(bad), sizeof(bad)));
  for (unsigned seed = 1; seed < 200; seed++) {
    size_t n = seed * 20;
    fill(plain, n, seed);
    fs_ssize put = fs_codec_by_id(FS_CODEC_LZ4)->encode(plain, n, stored, sizeof(stored), seed % 13);
    if (put > 0) assert_true(fs_block_sound(FS_CODEC_LZ4, stored, (size_t)put, n));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lz4), cmocka_unit_test(test_sound),
                                     cmocka_unit_test(test_incompressible), cmocka_unit_test(test_raw_and_unknown),
                                     cmocka_unit_test(test_damaged)};
  return cmocka_run_group_tests_name("codec", tests, NULL, NULL);
}
