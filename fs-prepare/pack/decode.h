/* SPDX-License-Identifier: BSD-3-Clause */
/* Decodes blocks of one encoding, without a dataset: to measure, and to compare. One thread. */
#ifndef FS_PREPARE_DECODE_H
#define FS_PREPARE_DECODE_H

#include "codec/codec.h"
#include "codec/encode.h"

struct fs_decoder {
  struct fs_codec_rec rows[FS_CODEC_ROWS_MIN + 1];
  struct fs_codec_set set;
  uint32_t row;
  void *memory; /* what `work` lies in */
  void *work;
};
/* Returns 0, -ENOMEM or -EBADMSG. The dictionary must live as long as the decoder, which does not
   move. Close the decoder in any case. */
fs_err fs_decoder_open(struct fs_decoder *d, const struct fs_encoding *e, size_t block_size);
void fs_decoder_close(struct fs_decoder *d);
/* Decodes one block, which may be stored raw. Returns 0, -ENOMEM or -EBADMSG. */
fs_err fs_decoder_block(struct fs_decoder *d, const void *stored, size_t stored_len, void *plain, size_t plain_len);

#endif
