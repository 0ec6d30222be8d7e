/* SPDX-License-Identifier: BSD-3-Clause */
/* What the two halves of the builder share: collecting the entries (builder.c), and laying them out (layout.c). */
#ifndef FS_INDEX_BUILD_H
#define FS_INDEX_BUILD_H

#include "index/builder.h"

/* One added entry. Strings and blocks live in the builder's arena. */
struct fs_node {
  const char *path; /* with NUL in place of '/': so memcmp puts the paths of a level into order by components */
  const char *target;
  const struct fs_built_block *blocks;
  uint64_t hash; /* of the path as given */
  uint64_t size; /* file: plain bytes; symlink: of the target; directory: number of children */
  uint64_t nblocks;
  uint64_t group;
  uint64_t first; /* as fs_entry.data: of the first child, block record or byte of the target. Known after layout */
  int64_t mtime_sec;
  uint32_t mtime_nsec;
  uint32_t mode;
  uint32_t path_len;
  uint32_t name_len;
  uint32_t depth; /* components of the path */
  uint32_t codec, flags;
  uint32_t parent, nlink, inode; /* entry numbers, known after sorting */
};

/* A file whose only block is in its entry, or a directory, or a symlink: no block records. */
static inline bool fs_node_has_records(const struct fs_node *node) {
  return node->nblocks > 1;
}

struct fs_arena_chunk;

struct fs_builder {
  uint32_t block_size, align;
  struct fs_node *nodes;
  uint64_t nnodes, nodes_room;
  struct fs_part_rec *parts;
  uint64_t nparts, parts_room;
  struct fs_arena_chunk *arena;
};

/* The work of one fs_builder_finish. Node i of `sorted` becomes entry i. */
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

/* Sorts the nodes, finds parents, children and hard links. */
fs_err fs_layout_tree(struct fs_layout *l);
/* Numbers the block records and targets, checks the blocks, and sums up. */
fs_err fs_layout_data(struct fs_layout *l);
/* Fills `why` with the text and the node's path. Returns -EINVAL. */
fs_err fs_layout_refuse(const struct fs_layout *l, const char *text, const struct fs_node *node);

#endif
