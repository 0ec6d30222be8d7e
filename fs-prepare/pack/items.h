/* SPDX-License-Identifier: BSD-3-Clause */
/* The items of a pack: one for each file, directory and symlink of SOURCE, and where its bytes are
   stored. */
#ifndef FS_PREPARE_ITEMS_H
#define FS_PREPARE_ITEMS_H

#include "../prepare.h"
#include "index/builder.h"

#define FS_DEPTH_MASK 0xfffu /* of fs_item.depth: a path of PATH_MAX bytes has fewer components */

/* The blocks of a file that has several, in the block file. */
struct fs_item_blocks {
  uint64_t n; /* so far */
  struct fs_built_block block[];
};

/* The file that has them (blocks.c). Its name is there for a moment only. */
#define FS_BLOCK_FILE "blocks"
struct fs_block_file {
  int fd;       /* -1: `map` is memory of the process */
  uint8_t *map; /* NULL: no file has several blocks */
  uint64_t block_size;
  uint64_t size;     /* of the mapping: all files of the tree have room */
  uint64_t used;     /* bytes that items have */
  uint64_t last;     /* where the last item's begin */
  uint64_t reserved; /* bytes that the disk has */
};

/*
 * One file, directory or symlink of SOURCE. There may be millions, so what is not needed at one time
 * shares memory. Threads of the pipeline read the fields up to `choice` of an item whose further
 * chunks are being stored.
 */
struct fs_item {
  char *path; /* relative; "" for the root; in tree->text, like the target */
  uint64_t size;
  uint64_t ino; /* archives: the member (archive.c) */
  int64_t mtime_sec;
  uint32_t mtime_nsec;
  uint32_t dev;    /* fs_item_device; archives: a number above all devices. 0: not compared (fs-prepare/nodes) */
  uint32_t source; /* number in tree->sources */
  uint16_t mode;
  uint16_t depth : 12; /* components; 0 for the root */
  bool replicate : 1;
  bool linked : 1;        /* other names may be hard links of the same file */
  bool followed : 1;      /* its path contains a followed symlink */
  uint8_t kind;           /* number of its kind (kinds.h) */
  _Atomic uint8_t choice; /* large files: CHOICE_* in encode.c */
  uint8_t codec;
  bool alias : 1;    /* the content is the same as that of item `same` */
  bool left_out : 1; /* by --keep-going, after the plan: the index does not get it */
  bool kept : 1;     /* its blocks are those of the dataset that is updated */
  bool one : 1;      /* `block` is its only block */
  bool many : 1;     /* it has room for several blocks, in `blocks` */
  bool contig : 1;   /* FS_ENTRY_CONTIG */
  bool aligned : 1;  /* FS_ENTRY_ALIGNED */
  uint32_t group;    /* hard links: the same number for all of a group; 0: none */
  union {
    struct fs_built_block block;   /* if `one` */
    struct fs_item_blocks *blocks; /* if `many` */
    struct {                       /* of items without blocks */
      char *target;                /* symlinks; else NULL */
      uint32_t same;               /* see `alias`; of what is left out: keep_going.c */
    };
  };
};
static_assert(sizeof(struct fs_item) == 80, "docs/fs-prepare.1 says how much memory a file takes");

/* Returns a device's number in 32 bits, which is all that Linux has. */
static inline uint32_t fs_item_device(dev_t dev) {
  return (uint32_t)dev;
}
/* Returns the number of blocks that a file has so far. */
static inline uint64_t fs_item_nblocks(const struct fs_item *item) {
  return item->many ? item->blocks->n : item->one;
}
static inline const struct fs_built_block *fs_item_block(const struct fs_item *item, uint64_t i) {
  return item->many ? &item->blocks->block[i] : &item->block;
}
static inline uint32_t fs_item_flags(const struct fs_item *item) {
  return (item->contig ? FS_ENTRY_CONTIG : 0) | (item->aligned ? FS_ENTRY_ALIGNED : 0);
}
static inline void fs_item_set_flags(struct fs_item *item, uint32_t flags) {
  item->contig = (flags & FS_ENTRY_CONTIG) != 0;
  item->aligned = (flags & FS_ENTRY_ALIGNED) != 0;
}
/* Makes room for all blocks of a file that has none. Returns 0, or an error of the disk. */
fs_err fs_item_room(struct fs_block_file *f, struct fs_item *item);
void fs_item_add_block(struct fs_item *item, const struct fs_built_block *block);
/* Places the blocks from number `first` on one behind the other. */
void fs_item_place(struct fs_item *item, uint64_t first, uint32_t partition, uint64_t offset);
/* Takes a file's blocks away. */
void fs_item_drop_blocks(struct fs_block_file *f, struct fs_item *item);
/* Gives the pages back that this process has mapped. */
void fs_block_file_forget(const struct fs_block_file *f);
/* Returns the error of an earlier write of the kernel's, or 0. */
fs_err fs_block_file_sync(const struct fs_block_file *f);
/* Takes all blocks away: the items must not be asked for them any more. */
void fs_block_file_close(struct fs_block_file *f);
/* Makes an item that has no blocks an alias. */
static inline void fs_item_make_alias(struct fs_item *item, uint64_t same) {
  item->alias = true;
  item->same = (uint32_t)same;
}
/* Returns true if all blocks lie one behind the other in one partition. */
bool fs_item_in_one_piece(const struct fs_item *item);

#endif
