/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes the codecs, with every kind of row: the input as a stored block of several plain lengths, as plain bytes that
 * must survive a round trip, and as a table of codecs with dictionaries. Buffers are of just the size allowed, for the
 * address sanitizer.
 */
#include "../unit/codec_fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(struct fs_codec_set *set, uint32_t row, const uint8_t *data, size_t size, size_t plain_len) {
  uint8_t *out = malloc(plain_len + 1), *exact = realloc(out, plain_len ? plain_len : 1);
  fs_err err = fs_block_decode(set, row, data, size, exact, plain_len, codec_work);
  if (err != 0 && err != -EBADMSG && err != -EPROTONOSUPPORT) abort();
  free(exact);
}

/* Part of what decodes whole is the same; part of anything is within its buffer. */
static void decode_part(uint32_t row, const uint8_t *data, size_t size, size_t plain_len, size_t part) {
  uint8_t *whole = malloc(plain_len + 1), *some = malloc(part ? part : 1);
  bool sound = fs_block_decode(&codecs, row, data, size, whole, plain_len, codec_work) == 0 &&
               fs_block_sound(&codecs, row, data, size, plain_len);
  fs_err partly = fs_block_decode_prefix(&codecs, row, data, size, some, plain_len, part, codec_work);
  if (sound && part <= plain_len && fs_codec_partial(&codecs, row) && partly != 0) abort();
  if (sound && partly == 0 && memcmp(whole, some, part) != 0) abort();
  if (partly != 0 && partly != -EBADMSG && partly != -EPROTONOSUPPORT) abort();
  free(some);
  free(whole);
}

/* The plain bytes of a block that is sound depend on nothing else. */
static void decode_twice(uint32_t row, const uint8_t *data, size_t size, size_t plain_len) {
  uint8_t *one = malloc(plain_len + 1), *two = malloc(plain_len + 1);
  memset(one, 0, plain_len);
  memset(two, 0xff, plain_len);
  fs_err err = fs_block_decode(&codecs, row, data, size, one, plain_len, codec_work);
  memset(codec_work, 0, FS_CODEC_WORK_HEAD);
  if (fs_block_decode(&codecs, row, data, size, two, plain_len, codec_work) != err) abort();
  bool sound = err == 0 && fs_block_sound(&codecs, row, data, size, plain_len);
  if (sound && codec_rows[row].element == 1 && memcmp(one, two, plain_len) != 0) abort();
  free(one);
  free(two);
}

static void round_trip(uint32_t row, const uint8_t *data, size_t size, int level) {
  uint8_t *stored = malloc(size + 1), *back = malloc(size + 1);
  fs_ssize n = codec_encode(row, level, data, size, stored, size);
  if (n != -ENOSPC) {
    if (n <= 0 || (size_t)n >= size) abort();
    if (fs_block_decode(&codecs, row, stored, (size_t)n, back, size, codec_work) < 0) abort();
    if (memcmp(back, data, size) != 0 || !fs_block_sound(&codecs, row, stored, (size_t)n, size)) abort();
    decode_part(row, stored, (size_t)n, size, (size_t)level * size / 13);
  }
  free(back);
  free(stored);
}

/* The input as a table of codecs, with the strings behind it, from which it decodes itself. */
static void table(const uint8_t *data, size_t size) {
  struct fs_codec_rec *rows = malloc(size + sizeof(*rows)); /* aligned */
  struct fs_codec_set set;
  const uint64_t n = data[0];
  memcpy(rows, codec_rows, FS_MIN(size, FS_CODEC_ROWS_MIN * sizeof(*rows)));
  if (size > 2 * sizeof(*rows)) memcpy(rows + 2, data + 1, size - 2 * sizeof(*rows) - 1);
  if (n * sizeof(*rows) <= size && fs_codec_set_open(&set, rows, n, (const char *)rows, size) == 0) {
    for (uint32_t row = 0; row < FS_MIN(set.n, 6u); row++) {
      fs_codec_name(&set, row);
      decode(&set, row, data + 1, size - 1, 2 * size);
    }
    fs_codec_set_close(&set);
  }
  free(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!codec_work) codec_setup(NULL);
  if (size < 3 || size > CODEC_BLOCK / 2) return 0;
  const size_t wish = data[0] | (size_t)data[1] << 8;
  const size_t lengths[] = {0, 1, size - 4 < size ? size - 4 : 0, size - 2, size - 1, wish, 65536};
  const uint32_t mine = 1 + data[0] % CODEC_ROWS;
  for (size_t i = 0; i < FS_ARRAY_LEN(lengths); i++) {
    for (uint32_t row = 0; row <= CODEC_ROWS; row++) decode(&codecs, row, data + 2, size - 2, lengths[i]);
    if (mine >= CODEC_ROWS) continue;
    decode_part(mine, data + 2, size - 2, lengths[i], data[1] * lengths[i] / 255);
    decode_twice(mine, data + 2, size - 2, lengths[i]);
  }
  round_trip(FS_CODEC_LZ4, data, size, 0);
  if (mine < CODEC_ROWS) round_trip(mine, data, size, 1 + data[1] % 12);
  table(data, size);
  return 0;
}
