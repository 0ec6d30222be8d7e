/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kinds of files of a tree: files of one suffix, or of one suffix below one directory. All files
 * of a kind get the same row of the table of codecs, or are raw. One thread makes the kinds after the
 * plan; then the pipeline's threads read them.
 */
#ifndef FS_PREPARE_KINDS_H
#define FS_PREPARE_KINDS_H

#include "choose.h"
#include "pack.h"

#define FS_SAMPLE_PIECE (64u << 10) /* most bytes of a sample */

/* Files of a kind that were stored: their number, plain bytes, and the bytes that they take. */
struct fs_packed {
  uint64_t files, plain, stored;
  uint64_t raw, lz4; /* plain bytes of those that have these rows of the table of codecs */
};

struct fs_kind {
  char *name;                /* "*.json", "*.json in train", "no suffix", "others" */
  uint64_t files;            /* files that are packed: not empty, and no alias when planned */
  uint64_t bytes;            /* their plain bytes */
  struct fs_verdict verdict; /* with --codec auto */
  struct fs_packed packed;   /* fs_kinds_count */
  double rate;               /* plain bytes that one core decoded in a second, now; 0: not measured */
};

struct fs_kinds {
  struct fs_kind *kind;
  uint32_t n;
};

/* Makes the kinds and sets each item's kind. Returns 0 or -ENOMEM. */
fs_err fs_kinds_group(struct fs_kinds *kinds, struct fs_tree *tree);
/* Reads samples of each kind, chooses how it is stored, and adds rows to plan->codecs. Returns 0,
   -ENOMEM or -EINTR. */
fs_err fs_kinds_choose(struct fs_kinds *kinds, struct fs_plan *plan);
/* Adds up what was stored of each kind. Files that are stored once, for another file, do not count. */
void fs_kinds_count(struct fs_kinds *kinds, const struct fs_tree *tree);
/* Prints the largest kinds with what was chosen for them, and what packing made of them. */
void fs_kinds_print(const struct fs_kinds *kinds, const struct fs_plan *plan);
void fs_kinds_free(struct fs_kinds *kinds);

#endif
