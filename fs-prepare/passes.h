/* SPDX-License-Identifier: BSD-3-Clause */
/* Goes over a dataset's blocks in the order of their places, for verify, its repair and info. */
#ifndef FS_PREPARE_PASSES_H
#define FS_PREPARE_PASSES_H

#include "index/index.h"

/* A block of a file. Blocks of several files, or of one, may have the same place. */
struct fs_passes_block {
  uint64_t offset, xxh3;
  uint64_t index; /* number of the block in its file */
  uint32_t partition, stored_len, plain_len, codec;
  uint32_t entry;
};

/* What is done with a partition. One thread at a time calls these functions of a partition, several
   threads those of several partitions. */
struct fs_passes_calls {
  /* Returns what the other functions get. If it returns NULL, they are not called for the partition. */
  void *(*begin)(void *ctx, uint32_t partition);
  /* Gets a block: by offset, and of one offset by codec, file and number. If very many blocks have the
     same offset, they come in several such orders, one after the other. */
  void (*block)(void *state, const struct fs_passes_block *b);
  void (*end)(void *state);
};

/* Calls these functions for each partition, also for those without blocks. only: of each partition,
   not 0 if it is wanted; NULL: all are. Of a file with a damaged block only the blocks before that
   one come. Holds at most (entries + 128 Ki + blocks / 64) blocks of 24 bytes. At most 2 * jobs
   partitions are between `begin` and `end`. Returns 0, or before the first call -ENOMEM or -EUCLEAN
   (impossible sizes of partitions). */
fs_err fs_passes(const struct fs_index *ix, const uint8_t *only, unsigned jobs, const struct fs_passes_calls *calls,
                 void *ctx);

/* Stores block i of a file. Returns like fs_index_block. */
fs_err fs_passes_get(const struct fs_index *ix, uint32_t entry, uint64_t i, struct fs_passes_block *out);
/* Returns true if two blocks of one partition are the same bytes, decoded in the same way. */
static inline bool fs_passes_same(const struct fs_passes_block *a, const struct fs_passes_block *b) {
  return a->offset == b->offset && a->stored_len == b->stored_len && a->plain_len == b->plain_len &&
         a->codec == b->codec && a->xxh3 == b->xxh3;
}

#endif
