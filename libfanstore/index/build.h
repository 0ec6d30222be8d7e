/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals of the index builder: builder.c collects the entries, layout.c lays them out. One
   thread. */
#ifndef FS_INDEX_BUILD_H
#define FS_INDEX_BUILD_H

#include <sys/stat.h>

#include "index/builder.h"

/* One added entry. Strings and blocks live in the builder's arena, or are the caller's. There may be
   millions, so fields that are not needed at one time share memory. */
struct fs_node {
  const char *path; /* as given */
  union {
    const char *target;                  /* symlink */
    const struct fs_built_block *blocks; /* file; NULL: it shares another file's records */
  };
  uint64_t size; /* file: plain bytes; symlink: target's length; directory: children */
  union {
    uint64_t group; /* of files and symlinks, until the hard links are joined */
    uint64_t first; /* fs_entry.data: first child, block record or target byte; set by layout */
  };
  int64_t mtime_sec;
  uint32_t mtime_nsec;
  uint32_t mode;
  uint32_t parent, nlink, inode; /* entry numbers; set by sorting */
  uint16_t path_len;
  uint16_t depth; /* components of the path */
  uint8_t name_len;
  uint8_t codec; /* a row */
  uint8_t flags;
};

struct fs_arena_chunk;

struct fs_builder {
  uint32_t block_size, align;
  struct fs_node *nodes;
  uint64_t nnodes, nodes_room;
  struct fs_part_rec *parts;
  uint64_t nparts, parts_room;
  struct fs_codec_rec rows[FS_CODEC_ROWS_MAX]; /* `dict` is relative to the first dictionary */
  const void *dicts[FS_CODEC_ROWS_MAX];        /* in the arena; NULL: none, or an earlier row's */
  uint32_t nrows;
  uint64_t dicts_size;
  struct fs_arena_chunk *arena;
};

/* Returns the number of blocks of a file; 0 for what is no file. */
static inline uint64_t fs_node_nblocks(const struct fs_builder *b, const struct fs_node *node) {
  return S_ISREG(node->mode) && node->size > 0 ? (node->size - 1) / b->block_size + 1 : 0;
}

/* Returns true for a file with more than one block. The entry itself has the only block of other
   files. */
static inline bool fs_node_has_records(const struct fs_builder *b, const struct fs_node *node) {
  return S_ISREG(node->mode) && node->size > b->block_size;
}

/* The state of one fs_builder_finish. Node i of `sorted` becomes entry i. */
struct fs_layout {
  struct fs_builder *b;
  struct fs_node **sorted;
  uint64_t n;
  uint64_t nblocks, nlinks;
  uint64_t names_size, targets_size;
  struct fs_index_header hdr; /* counts and totals */
  char *why;
  size_t why_size;
};

/* Sorts the nodes, and finds parents, children and hard links. Returns 0, -ENOMEM, or -EINVAL with
   `why`. */
fs_err fs_layout_tree(struct fs_layout *l);
/* Numbers the block records and targets, checks the blocks, and computes the totals. Returns 0 or
   -EINVAL with `why`. */
fs_err fs_layout_data(struct fs_layout *l);
/* Writes the text and the node's path to `why`. Returns -EINVAL. */
fs_err fs_layout_refuse(const struct fs_layout *l, const char *text, const struct fs_node *node);

#endif
