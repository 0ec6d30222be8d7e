/* SPDX-License-Identifier: BSD-3-Clause */
/* Decoding of one encoding: a table of codecs that has only this one. */
#include "decode.h"

#include <stdlib.h>

fs_err fs_decoder_open(struct fs_decoder *d, const struct fs_encoding *e, size_t block_size) {
  *d = (struct fs_decoder){.row = e->family == FS_FAMILY_RAW ? FS_CODEC_RAW : FS_CODEC_ROWS_MIN,
                           .rows = {{.family = FS_FAMILY_RAW, .element = 1},
                                    {.family = FS_FAMILY_LZ4, .element = 1},
                                    {.family = e->family, .element = e->element, .dict_len = e->dict_len}}};
  const uint64_t n = e->family == FS_FAMILY_RAW ? FS_CODEC_ROWS_MIN : FS_ARRAY_LEN(d->rows);
  fs_err err = fs_codec_set_open(&d->set, d->rows, n, e->dict, e->dict_len);
  if (err < 0) return err;
  d->memory = calloc(1, fs_codec_work_size(&d->set, block_size) + FS_CODEC_WORK_HEAD + 64);
  d->work = (void *)fs_round_up((uintptr_t)d->memory, 64);
  return d->memory != NULL ? 0 : -ENOMEM;
}

void fs_decoder_close(struct fs_decoder *d) {
  fs_codec_set_close(&d->set);
  free(d->memory);
  d->memory = NULL;
}

fs_err fs_decoder_block(struct fs_decoder *d, const void *stored, size_t stored_len, void *plain, size_t plain_len) {
  return fs_block_decode(&d->set, d->row, stored, stored_len, plain, plain_len, d->work);
}
