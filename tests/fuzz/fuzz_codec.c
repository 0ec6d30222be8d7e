/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes the codecs: the input as a stored block of several plain lengths, and as plain bytes that must survive a round
 * trip. Buffers are of just the size allowed, for the address sanitizer.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"
#include "fanstore/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(uint32_t codec, const uint8_t *data, size_t size, size_t plain_len) {
  uint8_t *out = malloc(plain_len + 1), *exact = realloc(out, plain_len ? plain_len : 1);
  fs_err err = fs_block_decode(codec, data, size, exact, plain_len);
  if (err != 0 && err != -EBADMSG && err != -EPROTONOSUPPORT) abort();
  free(exact);
}

/* Part of what decodes whole is the same; part of anything is within its buffer. */
static void decode_part(uint32_t codec, const uint8_t *data, size_t size, size_t plain_len, size_t part) {
  uint8_t *whole = malloc(plain_len + 1), *some = malloc(part ? part : 1);
  bool sound =
      fs_block_decode(codec, data, size, whole, plain_len) == 0 && fs_block_sound(codec, data, size, plain_len);
  fs_err partly = fs_block_decode_prefix(codec, data, size, some, plain_len, part);
  if (sound && part <= plain_len && (partly != 0 || memcmp(whole, some, part) != 0)) abort();
  if (partly != 0 && partly != -EBADMSG && partly != -EPROTONOSUPPORT) abort();
  free(some);
  free(whole);
}

static void round_trip(const uint8_t *data, size_t size, int level) {
  const struct fs_codec *c = fs_codec_by_id(FS_CODEC_LZ4);
  uint8_t *stored = malloc(size + 1), *back = malloc(size + 1);
  fs_ssize n = c->encode(data, size, stored, size, level);
  if (n != -ENOSPC) {
    if (n <= 0 || (size_t)n >= size) abort();
    if (fs_block_decode(FS_CODEC_LZ4, stored, (size_t)n, back, size) < 0) abort();
    if (memcmp(back, data, size) != 0 || !fs_block_sound(FS_CODEC_LZ4, stored, (size_t)n, size)) abort();
    decode_part(FS_CODEC_LZ4, stored, (size_t)n, size, (size_t)level * size / 13);
  }
  free(back);
  free(stored);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 3) return 0;
  const size_t wish = data[0] | (size_t)data[1] << 8;
  const size_t lengths[] = {0, 1, size - 4 < size ? size - 4 : 0, size - 2, size - 1, wish, 65536};
  for (size_t i = 0; i < FS_ARRAY_LEN(lengths); i++) {
    for (uint32_t codec = 0; codec < 3; codec++) decode(codec, data + 2, size - 2, lengths[i]);
    decode_part(FS_CODEC_LZ4, data + 2, size - 2, lengths[i], data[1] * lengths[i] / 255);
  }
  round_trip(data, size, 0);
  round_trip(data, size, data[0] % 13);
  return 0;
}
