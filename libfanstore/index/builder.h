/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Builds an index, for fs-prepare and tests. One thread. The entries are directories, files and
 * symlinks with full relative paths. They come from the caller's function in the index's order, or
 * are added in any order. The builder numbers them and makes all sections. The same input gives the
 * same bytes.
 */
#ifndef FS_INDEX_BUILDER_H
#define FS_INDEX_BUILDER_H

#include "fanstore/format.h"
#include "util/base.h"

struct fs_builder;

struct fs_built_block {
  uint64_t offset;
  uint64_t xxh3;
  uint32_t stored_len;
  uint32_t partition;
};

struct fs_build_file {
  const char *path; /* relative; parents must be added too, in any order */
  uint32_t mode;    /* with the type bits */
  int64_t mtime_sec;
  uint32_t mtime_nsec;
  uint64_t size;      /* regular files */
  const char *target; /* symlinks */
  uint32_t codec;     /* number of a row */
  uint32_t flags;     /* FS_ENTRY_CONTIG, FS_ENTRY_ALIGNED */
  const struct fs_built_block *blocks;
  uint64_t nblocks;     /* 0 for an empty file, else ceil(size / block_size) */
  uint64_t inode_group; /* hard links: the same non-zero group; nlink is the group's
                           size as packed */
};

struct fs_builder *fs_builder_new(uint32_t block_size, uint32_t align);
void fs_builder_free(struct fs_builder *b);
/* Adds a row to the table of codecs and copies its dictionary. Rows with an equal dictionary share it.
   FS_CODEC_RAW and FS_CODEC_LZ4 are there already. Call this before fs_builder_add of the row's files.
   Returns the row's number, -ENOMEM, -ENOSPC if the table is full, or -EINVAL. */
struct fs_build_codec {
  uint8_t family, element;
  const void *dict; /* or NULL */
  uint32_t dict_len;
};
int fs_builder_codec(struct fs_builder *b, const struct fs_build_codec *c);
/* Adds an entry, and copies its strings and blocks. Returns 0, -ENOMEM or -EINVAL. */
fs_err fs_builder_add(struct fs_builder *b, const struct fs_build_file *f);
/* Sets n entries that are not added: `get` gives entry i of the index's order. It is called several times
   for each. Its strings and blocks stay until the builder has ended. */
typedef void fs_build_get_fn(void *ctx, uint64_t i, struct fs_build_file *f);
void fs_builder_entries(struct fs_builder *b, uint64_t n, fs_build_get_fn *get, void *ctx);
/* Adds a partition. Call in the order of the partition numbers. Returns 0, -ENOMEM or -EINVAL. */
fs_err fs_builder_part(struct fs_builder *b, const struct fs_part_rec *part);
/* Writes the index by `put`, which gets pieces of it and their offsets. What lies between them is 0.
   Stores the header, which is written last. Returns 0, -ENOMEM, an error of `put`, or -EINVAL with a
   line in `why`. */
typedef fs_err fs_build_put_fn(void *ctx, uint64_t at, const void *data, size_t n);
fs_err fs_builder_write(struct fs_builder *b, fs_build_put_fn *put, void *ctx, struct fs_index_header *header,
                        char *why, size_t why_size);
/* Makes the index in *out, which the caller frees by fs_builder_release. Returns 0, -ENOMEM, or
   -EINVAL with a line in `why`. */
fs_err fs_builder_finish(struct fs_builder *b, void **out, uint64_t *size, char *why, size_t why_size);
void fs_builder_release(void *out, uint64_t size);

#endif
