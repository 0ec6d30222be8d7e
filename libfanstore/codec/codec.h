/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codecs: a constant table of functions found by the id in the index. Callers never switch on the codec. Thread
 * safe; decode allocates nothing and may run in a signal handler.
 */
#ifndef FS_CODEC_CODEC_H
#define FS_CODEC_CODEC_H

#include "util/base.h"

struct fs_codec {
  uint8_t id; /* enum fs_codec_id */
  const char *name;
  /* Largest stored length of n plain bytes. */
  size_t (*bound)(size_t n);
  /* Encodes n bytes into dst. Returns the stored length, or -ENOSPC when it would not be shorter than n. level 0: fast.
   */
  fs_ssize (*encode)(const void *src, size_t n, void *dst, size_t dst_size, int level);
  /* Decodes src into exactly n plain bytes. 0, or -EBADMSG. Never writes beyond dst + n. */
  fs_err (*decode)(const void *src, size_t src_len, void *dst, size_t n);
  /* The same for the first n plain bytes of a block that has more. */
  fs_err (*decode_prefix)(const void *src, size_t src_len, void *dst, size_t n);
};

const struct fs_codec *fs_codec_by_id(uint32_t id); /* NULL when unknown */

/* Decodes a stored block: raw when stored_len == plain_len, else by the codec. 0, -EBADMSG or -EPROTONOSUPPORT. */
fs_err fs_block_decode(uint32_t codec, const void *stored, size_t stored_len, void *plain, size_t plain_len);
/* Does what it decodes to depend on nothing but the stored bytes? LZ4's decoder takes a match at offset 0, which no
   encoder writes, for whatever the buffer had. Of a block that decodes; takes time: for verify and unpack. */
bool fs_block_sound(uint32_t codec, const void *stored, size_t stored_len, size_t plain_len);
/* Only its first n plain bytes: what comes after them is neither decoded nor checked. */
fs_err fs_block_decode_prefix(uint32_t codec, const void *stored, size_t stored_len, void *plain, size_t plain_len,
                              size_t n);

#endif
