/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals of the index builder: builder.c has the entries, tree.c and data.c number them, layout.c
   writes them. One thread. */
#ifndef FS_INDEX_BUILD_H
#define FS_INDEX_BUILD_H

#include <sys/stat.h>

#include "index/builder.h"
#include "util/arena.h"

struct fs_builder {
  uint32_t block_size, align;
  fs_build_get_fn *get; /* the entries; NULL: those in `added` */
  void *ctx;
  uint64_t n;
  struct fs_build_file *added; /* strings and blocks are in the arena */
  size_t added_room;
  struct fs_part_rec *parts;
  uint64_t nparts, parts_room;
  struct fs_codec_rec rows[FS_CODEC_ROWS_MAX]; /* `dict` is relative to the first dictionary */
  const void *dicts[FS_CODEC_ROWS_MAX];        /* in the arena; NULL: none, or an earlier row's */
  uint32_t nrows;
  uint64_t dicts_size;
  struct fs_arena arena;
};

/* Returns what is wrong with an entry, or NULL. */
const char *fs_builder_refuses(const struct fs_builder *b, const struct fs_build_file *f);

/* Returns true for a file with more than one block. The entry itself has the only block of other
   files. */
static inline bool fs_has_records(const struct fs_build_file *f) {
  return f->nblocks > 1;
}

/* An entry of a hard-link group of several. */
struct fs_member {
  uint64_t data; /* the group; once the first one is written: fs_entry.data */
  uint32_t entry, inode, nlink;
};

/* A file that has block records. Files with the same blocks share them. */
struct fs_owner {
  uint64_t first; /* block record */
  uint32_t entry;
};

/* The state of one run of the builder. All arrays together take less for each entry than an
   fs_entry: there may be millions. What follows from an entry is computed again when it is needed. */
struct fs_layout {
  struct fs_builder *b;
  uint32_t *sorted; /* numbers of added entries, in the index's order; NULL: they come in it */
  uint32_t *parent;
  struct fs_member *members; /* sorted by entry */
  uint64_t nmembers;
  struct fs_owner *owners;
  uint64_t nowners;
  uint32_t *slots; /* hash table of owners + 1, by the place of their first block */
  uint64_t slot_mask;
  uint64_t n;
  uint64_t nblocks, nlinks;
  uint64_t names_size, targets_size;
  struct fs_index_header hdr; /* counts and totals */
  char *why;
  size_t why_size;
};

/* Gets what becomes entry i. */
static inline void fs_layout_get(const struct fs_layout *l, uint64_t i, struct fs_build_file *f) {
  if (l->b->get)
    l->b->get(l->b->ctx, i, f);
  else
    *f = l->b->added[l->sorted[i]];
}

/* Sorts the entries, and finds parents and hard links. Returns 0, -ENOMEM, or -EINVAL with `why`. */
fs_err fs_layout_tree(struct fs_layout *l);
/* Numbers the block records, checks the blocks, and computes the totals. Returns 0, -ENOMEM, or
   -EINVAL with `why`. */
fs_err fs_layout_data(struct fs_layout *l);
/* Returns the owner of the records of file f, which has some, or NULL. */
const struct fs_owner *fs_layout_owner(const struct fs_layout *l, const struct fs_build_file *f);
/* Returns the first member whose entry is `entry` or a later one. It may be behind the last one. */
struct fs_member *fs_layout_member(const struct fs_layout *l, uint64_t entry);
/* Writes the text and the entry's path to `why`. Returns -EINVAL. */
fs_err fs_layout_refuse(const struct fs_layout *l, const char *text, const struct fs_build_file *f);
/* Returns the bytes of a path's last component. */
static inline uint32_t fs_name_len(const char *path, size_t len) {
  const char *slash = memrchr(path, '/', len);
  return (uint32_t)(slash ? len - 1 - (size_t)(slash - path) : len);
}

#endif
