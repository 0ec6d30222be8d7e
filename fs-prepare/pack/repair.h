/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by repair.c, which makes partitions, and repair_from.c, which opens the PLACEs and reads
   archives. */
#ifndef FS_PREPARE_REPAIR_H
#define FS_PREPARE_REPAIR_H

#include "../verify.h"
#include "pack.h"

/* A member of an archive that is a damaged file of the dataset. */
struct fs_wanted {
  uint64_t ino, size; /* of struct fs_item: where it is, and its bytes */
  uint32_t entry;
};
/* A PLACE: what an archive has of the damaged files, and how often its bytes had no level that fits. */
struct fs_wanted_list {
  struct fs_wanted *list; /* FLAT: sorted by entry; STREAM: by ino */
  size_t n, room;
  struct fs_problems problems; /* of the archive */
  _Atomic uint32_t misses[FS_CODEC_ROWS_MAX];
};

struct fs_repair {
  struct fs_verify *v;
  const char *copy_path;
  struct fs_dataset copy; /* if copy_path is set */
  struct fs_pack_options o;
  struct fs_tree tree;                  /* its sources only */
  struct fs_wanted_list *wanted;        /* one for each source */
  char from[PATH_MAX];                  /* for messages: what was given */
  bool both;                            /* without --shards: a PLACE's files are at its base name, or at the root */
  uint32_t tag;                         /* in the names of temporary files */
  bool streams;                         /* they may have blocks before the rest is made */
  uint8_t *gaps;                        /* of each partition: gaps are as in the damaged one, not zeros */
  _Atomic int level[FS_CODEC_ROWS_MAX]; /* of each row: the last one that fitted + 1 */
};

/* What a thread needs to make stored blocks. */
struct fs_coder {
  struct fs_repair *r;
  uint8_t *stored, *plain; /* room for a block each */
  struct fs_encoder *encoder;
  struct fs_encoding encoding; /* the one used last, with its dictionary prepared */
};
fs_err fs_coder_open(struct fs_coder *c, struct fs_repair *r);
void fs_coder_close(struct fs_coder *c);
/* Encodes c->plain to c->stored at this level, which does not matter for a raw block. Returns true if the result is
   the block: then the level is the row's known one. */
bool fs_coder_encode(struct fs_coder *c, const struct fs_passes_block *b, int level);
/* Returns the known level of the block's row, or -1. */
int fs_coder_known(const struct fs_coder *c, const struct fs_passes_block *b);
/* Returns true if all levels are to be tried with the bytes that a PLACE has for a block, and counts that. This
   becomes rare if none fits: the PLACE then has other contents. False for a raw block. */
bool fs_coder_may_search(struct fs_coder *c, const struct fs_passes_block *b, uint32_t source);
/* Returns the highest level of the block's row. The block is not raw. */
int fs_coder_most(const struct fs_coder *c, const struct fs_passes_block *b);
/* Like fs_coder_encode, at all levels. */
bool fs_coder_search(struct fs_coder *c, const struct fs_passes_block *b);
/* Returns true if the block is at its place in a file. Reads it to c->stored. */
bool fs_coder_read(struct fs_coder *c, int fd, const struct fs_passes_block *b);
/* Opens the temporary file that becomes a partition. */
fs_fd fs_repair_temp(const struct fs_repair *r, uint32_t part, char name[64]);

/* Finds the damaged files in the archives. Writes the blocks that streams have to the temporary files. */
fs_err fs_repair_read_archives(struct fs_repair *r);
/* Reads a block's plain bytes from one of the directories or FLAT archives. Returns true if c->stored is
   then the block. */
bool fs_repair_from_source(struct fs_coder *c, const struct fs_passes_block *b);

#endif
