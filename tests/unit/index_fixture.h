/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small index with one of everything, and a function that uses every accessor on an index, however damaged. Shared by
 * test_index.c and the fuzz target of the index.
 */
#ifndef FS_TEST_INDEX_FIXTURE_H
#define FS_TEST_INDEX_FIXTURE_H

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "index/builder.h"
#include "index/index.h"
#include "index/section.h"
#include "util/util.h"

#define FIX_BLOCK FS_BLOCK_SIZE_MIN
#define FIX_PART_SIZE (1u << 20)

static const struct fs_built_block fix_lz4_blocks[3] = {
    {4096, 11, 5000, 0}, {9096, 12, FIX_BLOCK, 1}, {30000, 13, 70, 0}};
static const struct fs_built_block fix_raw_blocks[2] = {{65536, 21, FIX_BLOCK, 1}, {65536 + FIX_BLOCK, 22, 100, 1}};
static const struct fs_built_block fix_small_block = {40000, 31, 5, 0};
static const struct fs_built_block fix_zstd_block = {45000, 51, 90, 0};
static const struct fs_built_block fix_same_block = {50000, 41, 300, 1};

#define FIX_FILE(p, n, ...)                                                                                            \
  { .path = p, .mode = S_IFREG | 0644, .mtime_sec = 1700000000, .mtime_nsec = 5, .size = n, __VA_ARGS__ }
#define FIX_DIR(p)                                                                                                     \
  { .path = p, .mode = S_IFDIR | 0755, .mtime_sec = -5, .mtime_nsec = 999999999 }

static const struct fs_build_file fix_files[] = {
    FIX_DIR(""),
    FIX_DIR("train"),
    FIX_DIR("train/cat"),
    FIX_DIR("train/cat!"),
    FIX_DIR("empty"),
    FIX_FILE("train/cat/none", 0),
    FIX_FILE("train/cat/small", 5, .blocks = &fix_small_block, .nblocks = 1),
    FIX_FILE("train/cat!/lz4", 2 * FIX_BLOCK + 100, .codec = FS_CODEC_LZ4, .blocks = fix_lz4_blocks, .nblocks = 3),
    FIX_FILE("train/cat!/copy", 2 * FIX_BLOCK + 100, .codec = FS_CODEC_LZ4, .blocks = fix_lz4_blocks, .nblocks = 3),
    FIX_FILE("train/raw", FIX_BLOCK + 100, .flags = FS_ENTRY_CONTIG | FS_ENTRY_ALIGNED, .blocks = fix_raw_blocks,
             .nblocks = 2),
    FIX_FILE("zz-linked", FIX_BLOCK + 100, .flags = FS_ENTRY_CONTIG | FS_ENTRY_ALIGNED, .blocks = fix_raw_blocks,
             .nblocks = 2, .inode_group = 7),
    FIX_FILE("train/linked", FIX_BLOCK + 100, .flags = FS_ENTRY_CONTIG | FS_ENTRY_ALIGNED, .blocks = fix_raw_blocks,
             .nblocks = 2, .inode_group = 7),
    FIX_FILE("train/cat/linked", FIX_BLOCK + 100, .flags = FS_ENTRY_CONTIG | FS_ENTRY_ALIGNED, .blocks = fix_raw_blocks,
             .nblocks = 2, .inode_group = 7),
    FIX_FILE("train/zstd", 200, .codec = 3, .blocks = &fix_zstd_block, .nblocks = 1),
    FIX_FILE("same", 300, .blocks = &fix_same_block, .nblocks = 1),
    FIX_FILE("same2", 300, .blocks = &fix_same_block, .nblocks = 1),
    {.path = "link", .mode = S_IFLNK | 0777, .target = "train/../same"},
    {.path = "link2", .mode = S_IFLNK | 0777, .target = "/abs"},
    FIX_FILE("\x01 \xff\n", 0),
};

/* Adds the fixture's files, first to last or last to first, and finishes. Exits the program on failure. */
static inline void *fix_build(bool backwards, uint64_t *size) {
  char why[256] = "no memory";
  void *out = NULL;
  struct fs_builder *b = fs_builder_new(FIX_BLOCK, FS_ALIGN);
  for (uint8_t element = 1; element < 8; element *= 2) { /* rows 2 to 4, with one dictionary */
    const struct fs_build_codec codec = {FS_FAMILY_ZSTD, element, "a dictionary", 12};
    if (fs_builder_codec(b, &codec) < 0) abort();
  }
  for (size_t i = 0; i < FS_ARRAY_LEN(fix_files); i++) {
    size_t at = backwards ? FS_ARRAY_LEN(fix_files) - 1 - i : i;
    if (fs_builder_add(b, &fix_files[at]) < 0) abort();
  }
  for (uint64_t i = 0; i < 2; i++) {
    const struct fs_part_rec part = {.size = FIX_PART_SIZE, .xxh3 = 100 + i};
    if (fs_builder_part(b, &part) < 0) abort();
  }
  if (fs_builder_finish(b, &out, size, why, sizeof(why)) < 0) {
    fprintf(stderr, "fixture: %s\n", why);
    abort();
  }
  fs_builder_free(b);
  return out;
}

/* Makes the checksums right again: of the header, and of the sections too when `deep`. */
static inline void fix_checksums(uint8_t *base, uint64_t size, bool deep) {
  struct fs_index_header *h = (struct fs_index_header *)base;
  uint64_t sums[FS_SEC_COUNT];
  for (int i = 0; deep && i < FS_SEC_COUNT; i++) {
    struct fs_section *s = &h->section[i];
    uint64_t bytes;
    sums[i] = s->xxh3;
    if (__builtin_mul_overflow(s->count, (uint64_t)fs_record_sizes[i], &bytes)) continue;
    if (s->offset > size || bytes > size - s->offset) continue;
    sums[i] = s->xxh3 = fs_xxh3(base + s->offset, bytes);
  }
  if (deep) fs_xxh3_128(sums, sizeof(sums), h->dataset_id);
  h->header_xxh3 = fs_xxh3(h, offsetof(struct fs_index_header, header_xxh3));
}

static inline void fix_touch(const void *p, uint64_t n, volatile uint8_t *sink) {
  for (uint64_t i = 0; i < n; i++) *sink ^= ((const uint8_t *)p)[i];
}

/* What an accessor promises of a block must hold, or a reader would leave its partition. Aborts when it does not. */
static inline void fix_check_block(const struct fs_index *ix, const struct fs_block *block, bool plain_known) {
  if (block->partition >= ix->nparts || block->stored_len == 0 || block->offset < FS_PART_HEADER_SIZE) abort();
  if (block->offset + block->stored_len > ix->parts[block->partition].size) abort();
  if (plain_known && (block->stored_len > block->plain_len || block->plain_len > ix->block_size)) abort();
  if (block->stored_len > ix->block_size || (block->key & ~FS_KEY_MASK)) abort();
}

static inline void fix_use_entry(const struct fs_index *ix, uint32_t n, volatile uint8_t *sink) {
  const struct fs_entry *e = fs_index_entry(ix, n);
  const char *text;
  char path[PATH_MAX];
  uint32_t len, first;
  uint64_t count;
  struct fs_block block, again;
  struct stat st;
  fs_index_stat(ix, n, &st);
  if (st.st_size < 0 || st.st_mtim.tv_nsec >= 1000000000) abort();
  if (fs_index_name(ix, e, &text, &len) == 0) {
    fix_touch(text, len, sink);
    int64_t child = fs_index_child(ix, e->parent, text, len);
    if (child >= 0 && (uint64_t)child >= ix->nentries) abort();
  }
  if (fs_index_target(ix, e, &text, &count) == 0) fix_touch(text, count, sink);
  if (fs_index_children(ix, n, &first, &count) == 0 && first + count > ix->nentries) abort();
  fs_ssize path_len = fs_index_path(ix, n, path, sizeof(path));
  if (path_len >= 0 && fs_index_lookup(ix, path, (size_t)path_len) >= (int64_t)ix->nentries) abort();
  count = fs_index_block_count(ix, e);
  const uint64_t tries[] = {0, 1, 2, count / 2, count - 1, count, UINT64_MAX};
  for (size_t i = 0; i < FS_ARRAY_LEN(tries); i++) {
    if (fs_index_block(ix, n, tries[i], &block) < 0) continue;
    fix_check_block(ix, &block, true);
    if (fs_index_block_by_key(ix, block.key, &again) < 0 || again.offset != block.offset) abort();
  }
}

/* The short way to a raw file in one piece believes nothing that the long way refuses. */
static inline void fix_use_place(const struct fs_index *ix, uint32_t n) {
  struct fs_block block;
  uint32_t partition;
  uint64_t offset;
  if (!fs_index_place(ix, n, &partition, &offset)) return;
  if (fs_index_block(ix, n, 0, &block) < 0 || block.partition != partition || block.offset != offset) abort();
}

/* Uses every accessor on every entry (at most 4096 of them), and on numbers that are none. */
static inline void fix_use(const struct fs_index *ix) {
  volatile uint8_t sink = 0;
  struct fs_block block;
  struct stat st;
  for (uint64_t n = 0; n < FS_MIN(ix->nentries, 4096u); n++) {
    fix_use_entry(ix, (uint32_t)n, &sink);
    fix_use_place(ix, (uint32_t)n);
  }
  for (uint64_t k = 0; k < FS_MIN(ix->nblocks + 2, 4096u); k++) {
    if (fs_index_block_by_key(ix, FS_KEY_BLOCK | k, &block) == 0) fix_check_block(ix, &block, false);
  }
  fs_index_block_by_key(ix, UINT64_MAX, &block);
  fs_index_block(ix, UINT32_MAX, 0, &block);
  fs_index_stat(ix, UINT32_MAX, &st);
  for (size_t i = 0; i < FS_ARRAY_LEN(fix_files); i++) {
    if (fs_index_lookup(ix, fix_files[i].path, strlen(fix_files[i].path)) >= (int64_t)ix->nentries) abort();
  }
}

/* Is it what a damaged header, or one of another version, is refused with? */
static inline bool fix_refused(fs_err err) {
  return err == -EBADMSG || err == -EPROTONOSUPPORT || err == -EPFNOSUPPORT;
}
/* Attaches an index whose version is made an older one. */
static inline fs_err fix_attach_older(uint8_t *copy, uint64_t size) {
  char why[256] = "";
  struct fs_index ix;
  ((struct fs_index_header *)(void *)copy)->version = FS_FORMAT_VERSION_OLDEST - 1;
  fs_err err = fs_index_attach(copy, size, &ix, why, sizeof(why));
  return strstr(why, "pack it again") != NULL ? err : 0;
}

#endif
