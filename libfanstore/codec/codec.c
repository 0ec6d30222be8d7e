/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of codecs. fs-prepare encodes; clients and fs-prepare decode. Thread safe, no state. Decoding allocates
 * nothing and makes no system call; LZ4's high-compression encoder allocates, and only fs-prepare calls it.
 */
#include "codec/codec.h"

#include <limits.h>
#include <lz4.h>
#include <lz4hc.h>
#include <string.h>

#include "fanstore/format.h"

static size_t fs_raw_bound(size_t n) {
  return n;
}

/* Encoding raw never saves space, so the result is always "store the bytes as they are". */
static fs_ssize fs_raw_encode(const void *src, size_t n, void *dst, size_t dst_size, int level) {
  (void)src, (void)n, (void)dst, (void)dst_size, (void)level;
  return -ENOSPC;
}

static fs_err fs_raw_decode(const void *src, size_t src_len, void *dst, size_t n) {
  if (src_len != n) return -EBADMSG;
  if (n > 0) memcpy(dst, src, n);
  return 0;
}

static fs_err fs_raw_decode_prefix(const void *src, size_t src_len, void *dst, size_t n) {
  return src_len < n ? -EBADMSG : fs_raw_decode(src, n, dst, n);
}

static size_t fs_lz4_bound(size_t n) {
  return n + n / 255 + 16;
}

static fs_ssize fs_lz4_encode(const void *src, size_t n, void *dst, size_t dst_size, int level) {
  if (n < 2 || n > LZ4_MAX_INPUT_SIZE || dst_size == 0) return -ENOSPC;
  int room = (int)FS_MIN(dst_size, n - 1);
  int put = level > 0 ? LZ4_compress_HC(src, dst, (int)n, room, FS_MIN(level, LZ4HC_CLEVEL_MAX))
                      : LZ4_compress_default(src, dst, (int)n, room);
  return put > 0 ? put : -ENOSPC;
}

static fs_err fs_lz4_decode(const void *src, size_t src_len, void *dst, size_t n) {
  if (src_len > INT_MAX || n > INT_MAX) return -EBADMSG;
  return LZ4_decompress_safe(src, dst, (int)src_len, (int)n) == (int)n ? 0 : -EBADMSG;
}

static fs_err fs_lz4_decode_prefix(const void *src, size_t src_len, void *dst, size_t n) {
  if (src_len > INT_MAX || n > INT_MAX) return -EBADMSG;
  return LZ4_decompress_safe_partial(src, dst, (int)src_len, (int)n, (int)n) == (int)n ? 0 : -EBADMSG;
}

/* Reads a length. 15 means that it continues in the following bytes, up to the first that is not
   255. */
static size_t fs_lz4_length(const uint8_t *p, size_t n, size_t *at, unsigned nibble) {
  size_t len = nibble;
  uint8_t more = nibble == 15 ? 255 : 0;
  for (; more == 255 && *at < n; len += more) more = p[(*at)++];
  return len;
}

/* Returns true if a decodable block has no match at offset 0, which would copy bytes that are not
   written yet. */
static bool fs_lz4_sound(const uint8_t *p, size_t n) {
  for (size_t at = 0; at < n;) {
    unsigned token = p[at++];
    size_t literals = fs_lz4_length(p, n, &at, token >> 4);
    if (literals >= n - at || n - at - literals < 2) return true; /* the last sequence ends with its literals */
    at += literals;
    if (p[at] == 0 && p[at + 1] == 0) return false;
    at += 2;
    (void)fs_lz4_length(p, n, &at, token & 15);
  }
  return true;
}

static const struct fs_codec fs_codecs[] = {
    [FS_CODEC_RAW] = {FS_CODEC_RAW, "raw", fs_raw_bound, fs_raw_encode, fs_raw_decode, fs_raw_decode_prefix},
    [FS_CODEC_LZ4] = {FS_CODEC_LZ4, "lz4", fs_lz4_bound, fs_lz4_encode, fs_lz4_decode, fs_lz4_decode_prefix},
};

const struct fs_codec *fs_codec_by_id(uint32_t id) {
  return id < FS_ARRAY_LEN(fs_codecs) ? &fs_codecs[id] : NULL;
}

fs_err fs_block_decode_prefix(uint32_t codec, const void *stored, size_t stored_len, void *plain, size_t plain_len,
                              size_t n) {
  const struct fs_codec *c = fs_codec_by_id(codec);
  if (!c) return -EPROTONOSUPPORT;
  if (stored_len > plain_len || n > plain_len) return -EBADMSG;
  if (stored_len == plain_len) c = &fs_codecs[FS_CODEC_RAW];
  return n == plain_len ? c->decode(stored, stored_len, plain, n) : c->decode_prefix(stored, stored_len, plain, n);
}

fs_err fs_block_decode(uint32_t codec, const void *stored, size_t stored_len, void *plain, size_t plain_len) {
  return fs_block_decode_prefix(codec, stored, stored_len, plain, plain_len, plain_len);
}

bool fs_block_sound(uint32_t codec, const void *stored, size_t stored_len, size_t plain_len) {
  return codec != FS_CODEC_LZ4 || stored_len == plain_len || fs_lz4_sound(stored, stored_len);
}
