/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codecs: a constant table of functions, found by the id in the index. Readers decode all codecs by
 * this table alone. Only fs-prepare chooses a codec (encode.c). Raw blocks are a case of their own
 * in the index and in fs-prepare, because their stored bytes can be read in place. All functions
 * are thread-safe. Decoding allocates nothing and may run in a signal handler.
 */
#ifndef FS_CODEC_CODEC_H
#define FS_CODEC_CODEC_H

#include "util/base.h"

struct fs_codec {
  uint8_t id; /* enum fs_codec_id */
  const char *name;
  /* Returns the largest stored length of n plain bytes. */
  size_t (*bound)(size_t n);
  /* Encodes n bytes into dst. Returns the stored length, or -ENOSPC if it would not be below n.
     Level 0 is fast. */
  fs_ssize (*encode)(const void *src, size_t n, void *dst, size_t dst_size, int level);
  /* Decodes src into exactly n plain bytes. Returns 0 or -EBADMSG. Never writes beyond dst + n. */
  fs_err (*decode)(const void *src, size_t src_len, void *dst, size_t n);
  /* Decodes only the first n plain bytes of a longer block. Returns 0 or -EBADMSG. */
  fs_err (*decode_prefix)(const void *src, size_t src_len, void *dst, size_t n);
};

const struct fs_codec *fs_codec_by_id(uint32_t id); /* NULL if unknown */

/* Decodes a stored block. If stored_len == plain_len, the block is raw. Returns 0, -EBADMSG or
   -EPROTONOSUPPORT. */
fs_err fs_block_decode(uint32_t codec, const void *stored, size_t stored_len, void *plain, size_t plain_len);
/* Returns true if the plain bytes depend only on the stored bytes. LZ4's decoder accepts a match at
   offset 0, which no encoder writes, and copies what the buffer held before. The block must decode.
   This is slow: only verify and unpack call it. */
bool fs_block_sound(uint32_t codec, const void *stored, size_t stored_len, size_t plain_len);
/* Decodes the first n plain bytes of a stored block. The bytes after these are not decoded or
   checked. Returns 0, -EBADMSG or -EPROTONOSUPPORT. */
fs_err fs_block_decode_prefix(uint32_t codec, const void *stored, size_t stored_len, void *plain, size_t plain_len,
                              size_t n);

#endif
