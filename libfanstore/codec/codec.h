/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decoding of stored blocks by the rows of a dataset's table of codecs (struct fs_codec_rec). Clients
 * and fs-prepare decode; encode.h is for fs-prepare only. Raw blocks are a case of their own in the
 * index and in fs-prepare, because their stored bytes can be read in place.
 *
 * Decoding may run in any thread, in a signal handler and after fork. It takes no lock, allocates
 * nothing from malloc, and never writes beyond its room, whatever it reads. The first use of a zstd
 * row's dictionary makes one mapping.
 */
#ifndef FS_CODEC_CODEC_H
#define FS_CODEC_CODEC_H

#include "fanstore/format.h"
#include "util/base.h"

/* The table of an opened dataset: a copy, since the index may change while it is mapped. May be
   copied until the first decoding. */
struct fs_codec_set {
  struct fs_codec_rec rows[FS_CODEC_ROWS_MAX];
  uint32_t n;
  const char *strings; /* the dictionaries' offsets count from here */
  void *_Atomic dicts; /* dictionaries that are prepared for zstd, or NULL */
};

/* Checks the table that a dataset has, and the bounds of its dictionaries. Returns 0 or -EBADMSG. A row
   of an unknown family is accepted: only the files that have it are refused. */
fs_err fs_codec_set_open(struct fs_codec_set *set, const struct fs_codec_rec *rows, uint64_t n, const char *strings,
                         uint64_t strings_size);
/* Sets the table of version 1, which no dataset of that version has in its index: raw and lz4. */
void fs_codec_set_first(struct fs_codec_set *set);
void fs_codec_set_close(struct fs_codec_set *set);

/* Returns whether this FanStore can decode blocks of that row. */
bool fs_codec_known(const struct fs_codec_set *set, uint32_t row);
/* Returns "raw", "lz4+shuffle4", "zstd+dict" and the like, or "?". The text is static. */
const char *fs_codec_name(const struct fs_codec_set *set, uint32_t row);
/* Returns whether the first bytes of a block can be decoded without the rest. */
bool fs_codec_partial(const struct fs_codec_set *set, uint32_t row);
/* Returns whether decoding a block of that row needs work memory. */
bool fs_codec_works(const struct fs_codec_set *set, uint32_t row);

/* Returns the bytes of memory that one decoding of a block of this set needs, or 0. The memory is
   aligned as malloc's, and its first FS_CODEC_WORK_HEAD bytes are zeros before its first use. It
   serves one decoding at a time, of any set for which it is large enough. */
#define FS_CODEC_WORK_HEAD 64u
size_t fs_codec_work_size(const struct fs_codec_set *set, size_t block_size);

/* Decodes a stored block. If stored_len == plain_len, the block is raw. `work` has
   fs_codec_work_size(set, at least plain_len) bytes. Returns 0, -EBADMSG, -EPROTONOSUPPORT or
   -ENOMEM. */
fs_err fs_block_decode(struct fs_codec_set *set, uint32_t row, const void *stored, size_t stored_len, void *plain,
                       size_t plain_len, void *work);
/* Decodes the first n plain bytes of a stored block. The bytes after these are not decoded or
   checked. If n is less than plain_len, fs_codec_partial is true, or the block is raw. */
fs_err fs_block_decode_prefix(struct fs_codec_set *set, uint32_t row, const void *stored, size_t stored_len,
                              void *plain, size_t plain_len, size_t n, void *work);
/* Returns true if the plain bytes depend only on the stored bytes. LZ4's decoder accepts a match at
   offset 0, which no encoder writes, and copies what the buffer held before. The block must decode.
   This is slow: only verify and unpack call it. */
bool fs_block_sound(const struct fs_codec_set *set, uint32_t row, const void *stored, size_t stored_len,
                    size_t plain_len);

#endif
