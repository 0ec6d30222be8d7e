/* SPDX-License-Identifier: BSD-3-Clause */
/* The codecs: what is encoded is decoded again, exactly or not at all, and never beyond its buffer. */
#include "codec_fixture.h"

#include "codec/shuffle.h"

static void check_prefixes(uint32_t row, const uint8_t *exact, size_t put, const uint8_t *plain, size_t n) {
  for (size_t part = 0; part <= n; part += part < 300 ? 1 : n / 16) {
    uint8_t *first = malloc(part ? part : 1);
    fs_err err = fs_block_decode_prefix(&codecs, row, exact, put, first, n, part, codec_work);
    assert_int_equal(err, part == n || fs_codec_partial(&codecs, row) ? 0 : -EBADMSG);
    if (err == 0) assert_memory_equal(plain, first, part);
    free(first);
  }
  assert_int_equal(fs_block_decode_prefix(&codecs, row, exact, put, NULL, n, n + 1, codec_work), -EBADMSG);
}

/* Bytes that compress when they are shuffled as the row says. `back` has room for n bytes. */
static void fill_for(uint32_t row, uint8_t *plain, uint8_t *back, size_t n, unsigned seed) {
  codec_fill(plain, n, seed);
  if (codec_rows[row].element == 1) return;
  memcpy(back, plain, n);
  fs_unshuffle(plain, back, n, codec_rows[row].element);
}

static void round_trip(uint32_t row, size_t n, int level) {
  uint8_t *plain = malloc(n), *back = malloc(n), *stored = malloc(n);
  fill_for(row, plain, back, n, (unsigned)n);
  fs_ssize put = codec_encode(row, level, plain, n, stored, n);
  assert_true(put > 0 && (size_t)put < n);
  uint8_t *exact = malloc((size_t)put); /* of just this size, for the address sanitizer */
  memcpy(exact, stored, (size_t)put);
  assert_int_equal(fs_block_decode(&codecs, row, exact, (size_t)put, back, n, codec_work), 0);
  assert_memory_equal(plain, back, n);
  assert_true(fs_block_sound(&codecs, row, exact, (size_t)put, n));
  check_prefixes(row, exact, (size_t)put, plain, n);
  assert_int_equal(fs_block_decode_prefix(&codecs, row, exact, (size_t)put / 2, back, n, n - 1, codec_work), -EBADMSG);
  assert_int_equal(fs_block_decode(&codecs, row, exact, (size_t)put - 1, back, n, codec_work), -EBADMSG);
  assert_int_equal(fs_block_decode(&codecs, row, exact, (size_t)put, back, n - 1, codec_work), -EBADMSG);
  assert_int_equal(codec_encode(row, level, plain, n, stored, (size_t)put - 1), -ENOSPC);
  assert_int_equal(codec_encode(row, level, plain, n, stored, n), put); /* the same bytes again */
  assert_memory_equal(stored, exact, put);
  free(exact);
  free(stored);
  free(back);
  free(plain);
}

static void test_rows(void **state) {
  (void)state;
  static const size_t sizes[] = {200, 1003, 4096, 65535, 65536, 65537, 262144, CODEC_BLOCK};
  for (uint32_t row = FS_CODEC_LZ4; row < CODEC_ROWS; row++) {
    bool zstd = codec_rows[row].family == FS_FAMILY_ZSTD;
    for (size_t i = 0; i < FS_ARRAY_LEN(sizes); i++) {
      round_trip(row, sizes[i], zstd ? 3 : 0);
      round_trip(row, sizes[i], 9);
    }
    round_trip(row, 10000, 1);
    round_trip(row, 10000, zstd ? 22 : 12);
  }
}

static void test_names(void **state) {
  (void)state;
  static const char *const names[CODEC_ROWS] = {"raw",
                                                "lz4",
                                                "zstd",
                                                "lz4+dict",
                                                "zstd+dict",
                                                "zstd+dict",
                                                "lz4+shuffle4",
                                                "zstd+shuffle2",
                                                "zstd+delta+shuffle4",
                                                "zstd+dict+delta2+shuffle8"};
  for (uint32_t row = 0; row < CODEC_ROWS; row++) assert_string_equal(fs_codec_name(&codecs, row), names[row]);
  assert_string_equal(fs_codec_name(&codecs, CODEC_ROWS), "?");
  assert_false(fs_codec_known(&codecs, UINT32_MAX));
  assert_false(fs_codec_partial(&codecs, UINT32_MAX));
}

/* A dictionary makes a small block smaller, and without it nothing is decoded. */
static void test_dictionary(void **state) {
  (void)state;
  uint8_t plain[600], with[600], without[600], back[600];
  memcpy(plain, codec_dict + 3000, sizeof(plain)); /* which the dictionary has */
  for (uint32_t row = CODEC_LZ4_DICT; row <= CODEC_ZSTD_DICT; row++) {
    const uint32_t bare = row == CODEC_LZ4_DICT ? (uint32_t)FS_CODEC_LZ4 : (uint32_t)CODEC_ZSTD;
    for (int level = 1; level < 10; level += 8) {
      fs_ssize a = codec_encode(row, level, plain, sizeof(plain), with, sizeof(with));
      fs_ssize b = codec_encode(bare, level, plain, sizeof(plain), without, sizeof(without));
      assert_true(a > 0 && a < 40 && (b < 0 || b > 10 * a));
      assert_int_equal(fs_block_decode(&codecs, row, with, (size_t)a, back, sizeof(back), codec_work), 0);
      assert_memory_equal(back, plain, sizeof(plain));
      fs_err err = fs_block_decode(&codecs, bare, with, (size_t)a, back, sizeof(back), codec_work);
      assert_true(err == -EBADMSG || memcmp(back, plain, sizeof(plain)) != 0);
    }
  }
}

/* Numbers on a line, and on a curve, have small differences. Negative ones are as small. */
static void test_deltas(void **state) {
  (void)state;
  static const uint8_t bytes[] = {2, 4, 8};
  for (size_t e = 0; e < FS_ARRAY_LEN(bytes); e++) {
    uint8_t plain[64 * 8], mixed[64 * 8];
    const size_t w = bytes[e], n = 64 * w;
    for (uint64_t deltas = 1; deltas <= 2; deltas++) {
      for (uint64_t i = 0; i < 64; i++) {
        const uint64_t v = 50 - (deltas == 1 ? 3 * i : i * i - 7 * i);
        memcpy(plain + i * w, &v, w);
      }
      fs_shuffle(mixed, plain, n, (uint8_t)(w + deltas * FS_ELEMENT_DELTA));
      /* -3 is number 5, -2 is number 3 */
      for (size_t i = 2; i < 64; i++) assert_int_equal(mixed[i], deltas == 1 ? 5 : 3);
      for (size_t i = 64; i < n; i++) assert_int_equal(mixed[i], 0);
    }
  }
}

/* Shuffled numbers compress better, and every length and alignment comes back. */
static void test_shuffle(void **state) {
  (void)state;
  static const uint8_t elements[] = {2, 4, 8, 0x12, 0x14, 0x18, 0x22, 0x24, 0x28};
  uint8_t plain[700], mixed[700], back[700];
  for (size_t i = 0; i < sizeof(plain); i++) plain[i] = (uint8_t)(i * 7 + i / 256);
  for (size_t e = 0; e < FS_ARRAY_LEN(elements); e++) {
    for (size_t n = 0; n <= 600; n++) {
      fs_shuffle(mixed, plain + n % 5, n, elements[e]);
      for (size_t i = 0; i < n / elements[e] && e < 3; i++) assert_int_equal(mixed[i], plain[n % 5 + i * elements[e]]);
      memset(back, 0xa5, sizeof(back));
      fs_unshuffle(back + n % 3, mixed, n, elements[e]);
      assert_memory_equal(back + n % 3, plain + n % 5, n);
      assert_int_equal(back[n % 3 + n], 0xa5);
    }
  }
  float numbers[4096], read[4096];
  uint8_t stored[sizeof(numbers)];
  for (size_t i = 0; i < FS_ARRAY_LEN(numbers); i++) numbers[i] = 1.0f + (float)i * 1e-4f;
  fs_ssize shuffled = codec_encode(CODEC_LZ4_SHUFFLE4, 0, numbers, sizeof(numbers), stored, sizeof(stored));
  assert_true(shuffled > 0 && shuffled < (fs_ssize)sizeof(numbers) * 2 / 3);
  assert_int_equal(
      fs_block_decode(&codecs, CODEC_LZ4_SHUFFLE4, stored, (size_t)shuffled, read, sizeof(read), codec_work), 0);
  assert_memory_equal(read, numbers, sizeof(numbers));
}

static void test_incompressible(void **state) {
  (void)state;
  uint8_t noise[1000], out[1100];
  uint64_t x = 88172645463325252ull;
  for (size_t i = 0; i < sizeof(noise); i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    noise[i] = (uint8_t)(x >> 32);
  }
  for (uint32_t row = 0; row < CODEC_ROWS; row++) {
    assert_int_equal(codec_encode(row, 1, noise, sizeof(noise), out, sizeof(out)), -ENOSPC);
    assert_int_equal(codec_encode(row, 12, noise, sizeof(noise), out, sizeof(out)), -ENOSPC);
    assert_int_equal(codec_encode(row, 1, noise, 0, out, sizeof(out)), -ENOSPC);
    assert_int_equal(codec_encode(row, 1, noise, 1, out, sizeof(out)), -ENOSPC);
  }
}

static void test_raw_and_unknown(void **state) {
  (void)state;
  char out[8] = "-------";
  assert_int_equal(fs_block_decode(&codecs, FS_CODEC_RAW, "abcd", 4, out, 4, NULL), 0);
  assert_memory_equal(out, "abcd---", 8);
  assert_int_equal(fs_block_decode(&codecs, FS_CODEC_RAW, "abcd", 3, out, 4, NULL), -EBADMSG);
  for (uint32_t row = FS_CODEC_LZ4; row < CODEC_ROWS; row++) { /* equal lengths: raw */
    assert_int_equal(fs_block_decode(&codecs, row, "wxyz", 4, out, 4, NULL), 0);
    assert_memory_equal(out, "wxyz---", 8);
    assert_int_equal(fs_block_decode(&codecs, row, "wxyz", 4, out, 3, codec_work), -EBADMSG);
    assert_int_equal(fs_block_decode(&codecs, row, "", 0, out, 3, codec_work), -EBADMSG);
  }
  assert_int_equal(fs_block_decode(&codecs, 77, "abcd", 4, out, 4, codec_work), -EPROTONOSUPPORT);
  assert_int_equal(fs_block_decode(&codecs, CODEC_ZSTD, "abc", 3, out, 4, NULL), -ENOMEM);
  assert_int_equal(fs_block_decode(&codecs, FS_CODEC_RAW, NULL, 0, NULL, 0, NULL), 0);
}

/* Each byte changed: the result is refused or of the right length, and nothing is written behind it. */
static void test_damaged(void **state) {
  (void)state;
  enum { N = 3000, STEP = 17 };
  uint8_t *plain = malloc(N), *stored = malloc(N), *back = malloc(N);
  for (uint32_t row = FS_CODEC_LZ4; row < CODEC_ROWS; row++) {
    fill_for(row, plain, back, N, 5);
    fs_ssize put = codec_encode(row, 1, plain, N, stored, N);
    assert_true(put > 0);
    for (size_t at = 0; at < (size_t)put * 255; at += row == FS_CODEC_LZ4 ? 1 : STEP) {
      stored[at / 255] ^= (uint8_t)(at % 255 + 1);
      fs_err err = fs_block_decode(&codecs, row, stored, (size_t)put, back, N, codec_work);
      assert_true(err == 0 || err == -EBADMSG);
      stored[at / 255] ^= (uint8_t)(at % 255 + 1);
    }
    assert_int_equal(fs_block_decode(&codecs, row, stored, (size_t)put, back, N, codec_work), 0);
    assert_memory_equal(back, plain, N);
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
  assert_int_equal(fs_block_decode(&codecs, FS_CODEC_LZ4, bad, sizeof(bad), out, sizeof(out), NULL), 0);
  assert_false(fs_block_sound(&codecs, FS_CODEC_LZ4, bad, sizeof(bad), sizeof(out)));
  assert_false(fs_block_sound(&codecs, CODEC_LZ4_SHUFFLE4, bad, sizeof(bad), sizeof(out)));
  assert_true(fs_block_sound(&codecs, FS_CODEC_LZ4, bad, sizeof(bad), sizeof(bad))); /* raw */
  assert_true(fs_block_sound(&codecs, FS_CODEC_RAW, bad, sizeof(bad), sizeof(bad)));
  for (unsigned seed = 1; seed < 200; seed++) {
    size_t n = seed * 20;
    codec_fill(plain, n, seed);
    fs_ssize put = codec_encode(FS_CODEC_LZ4, seed % 13, plain, n, stored, sizeof(stored));
    if (put > 0) assert_true(fs_block_sound(&codecs, FS_CODEC_LZ4, stored, (size_t)put, n));
  }
}

/* What a table of codecs is refused for when a dataset is opened. */
static void test_table(void **state) {
  (void)state;
  struct fs_codec_rec rows[CODEC_ROWS];
  struct fs_codec_set set;
  static const struct {
    uint32_t row;
    struct fs_codec_rec to;
    fs_err err;
  } cases[] = {
      {0, {.family = FS_FAMILY_LZ4, .element = 1}, -EBADMSG},
      {1, {.family = FS_FAMILY_ZSTD, .element = 1}, -EBADMSG},
      {1, {.family = FS_FAMILY_LZ4, .element = 4}, -EBADMSG},
      {2, {.family = FS_FAMILY_RAW, .element = 1}, -EBADMSG},
      {2, {.family = FS_FAMILY_ZSTD, .element = 1, .dict_len = FS_DICT_MAX + 1}, -EBADMSG},
      {2, {.family = FS_FAMILY_ZSTD, .element = 1, .dict_len = CODEC_DICT, .dict = 1}, -EBADMSG},
      {2, {.family = FS_FAMILY_ZSTD, .element = 1, .dict_len = 1, .dict = UINT64_MAX}, -EBADMSG},
      {2, {.family = FS_FAMILY_ZSTD, .element = 1, .dict = CODEC_DICT + 1}, -EBADMSG},
      {2, {.family = FS_FAMILY_ZSTD, .element = 1, .dict_len = 1, .dict = CODEC_DICT - 1}, 0},
      {2, {.family = 9, .element = 1}, 0}, /* its files are refused */
      {2, {.family = FS_FAMILY_ZSTD, .element = 3}, 0},
      {2, {.family = FS_FAMILY_ZSTD, .element = 0x11}, 0},
      {2, {.family = FS_FAMILY_ZSTD, .element = 0x32}, 0},
  };
  for (size_t i = 0; i < FS_ARRAY_LEN(cases); i++) {
    memcpy(rows, codec_rows, sizeof(rows));
    rows[cases[i].row] = cases[i].to;
    assert_int_equal(fs_codec_set_open(&set, rows, CODEC_ROWS, (char *)codec_dict, CODEC_DICT), cases[i].err);
    if (cases[i].err == 0 && i > 8) assert_false(fs_codec_known(&set, 2));
  }
  assert_int_equal(fs_codec_set_open(&set, codec_rows, 1, (char *)codec_dict, CODEC_DICT), -EBADMSG);
  assert_int_equal(fs_codec_set_open(&set, codec_rows, 257, (char *)codec_dict, CODEC_DICT), -EBADMSG);
  fs_codec_set_first(&set);
  assert_true(fs_codec_known(&set, FS_CODEC_LZ4) && !fs_codec_known(&set, 2));
  assert_int_equal(fs_codec_work_size(&set, CODEC_BLOCK), 0);
}

/* A dictionary that begins as one of zstd's own and is none: its blocks are refused, again and again. */
static void test_bad_dictionary(void **state) {
  (void)state;
  static const uint8_t bytes[64] = {0x37, 0xa4, 0x30, 0xec, 1, 2, 3, 4, 0xff, 0xff};
  struct fs_codec_rec rows[3];
  struct fs_codec_set set;
  uint8_t plain[200], stored[200], back[200];
  memcpy(rows, codec_rows, sizeof(rows));
  rows[2] = (struct fs_codec_rec){.family = FS_FAMILY_ZSTD, .element = 1, .dict_len = sizeof(bytes)};
  assert_int_equal(fs_codec_set_open(&set, rows, 3, (const char *)bytes, sizeof(bytes)), 0);
  codec_fill(plain, sizeof(plain), 3);
  fs_ssize put = codec_encode(CODEC_ZSTD, 3, plain, sizeof(plain), stored, sizeof(stored));
  for (int i = 0; i < 3; i++)
    assert_int_equal(fs_block_decode(&set, 2, stored, (size_t)put, back, sizeof(back), codec_work), -EBADMSG);
  fs_codec_set_close(&set);
}

/* A frame that claims a huge window or length is refused, and costs no memory. */
static void test_huge_frame(void **state) {
  (void)state;
  static const uint8_t window[] = {0x00, 0xf8, 0x01, 0x00, 0x00}; /* window 2^41, an empty last block */
  static const uint8_t length[] = {0xe0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x01, 0x00, 0x00};
  uint8_t out[100];
  assert_int_equal(fs_block_decode(&codecs, CODEC_ZSTD, window, sizeof(window), out, sizeof(out), codec_work),
                   -EBADMSG);
  assert_int_equal(fs_block_decode(&codecs, CODEC_ZSTD, length, sizeof(length), out, sizeof(out), codec_work),
                   -EBADMSG);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),           cmocka_unit_test(test_names),           cmocka_unit_test(test_dictionary),
      cmocka_unit_test(test_shuffle),        cmocka_unit_test(test_deltas),          cmocka_unit_test(test_sound),
      cmocka_unit_test(test_incompressible), cmocka_unit_test(test_raw_and_unknown), cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_table),          cmocka_unit_test(test_bad_dictionary),  cmocka_unit_test(test_huge_frame)};
  return cmocka_run_group_tests_name("codec", tests, codec_setup, codec_teardown);
}
