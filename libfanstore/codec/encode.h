/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encoding of blocks, for fs-prepare and tests. An encoding is what the blocks of a row are made
 * with: family, shuffle, dictionary and level. Threads share encodings; each thread has an encoder of
 * its own. All of it allocates. The same bytes always give the same stored bytes.
 */
#ifndef FS_CODEC_ENCODE_H
#define FS_CODEC_ENCODE_H

#include "fanstore/format.h"
#include "util/base.h"

#define FS_ZSTD_LEVEL_MAX 22
#define FS_LZ4_LEVEL_MAX 12

struct fs_encoding {
  uint8_t family;  /* enum fs_codec_family */
  uint8_t element; /* as in struct fs_codec_rec */
  int level;       /* lz4: 0 is fast, 1 to 12 are lz4hc's; zstd: 1 to 22 */
  uint32_t dict_len;
  const void *dict; /* the caller's, or NULL; the rows of a dataset may share it */
  void *prepared;   /* the dictionary for this level; by fs_encoding_prepare */
};
/* Prepares the dictionary, if there is one. Returns 0, -ENOMEM, or -EINVAL if zstd refuses it. */
fs_err fs_encoding_prepare(struct fs_encoding *e);
void fs_encoding_release(struct fs_encoding *e);

struct fs_encoder; /* of one thread */
struct fs_encoder *fs_encoder_new(void);
void fs_encoder_free(struct fs_encoder *c);
/* Encodes n bytes into dst. Returns the stored length, -ENOSPC if it would not be below n or has no
   room, or -ENOMEM. Room for n - 1 bytes always suffices. */
fs_ssize fs_encode(struct fs_encoder *c, const struct fs_encoding *e, const void *src, size_t n, void *dst,
                   size_t room);

#endif
