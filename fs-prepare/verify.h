/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by verify.c, which finds damage, and repair.c, which repairs it. */
#ifndef FS_PREPARE_VERIFY_H
#define FS_PREPARE_VERIFY_H

#include "progress.h"

enum { FS_GOOD, FS_DAMAGED, FS_UNCHECKED };

struct fs_vblock {
  uint64_t offset, xxh3;
  uint64_t index; /* number of the block in its file */
  uint32_t stored_len, plain_len;
  uint32_t entry, codec;
};

struct fs_verify {
  struct fs_dataset ds;
  unsigned jobs;
  const char *repair_from;  /* or NULL */
  const char *local_dir;    /* check the copies that are staged there, or NULL */
  const char *where;        /* directory of the partitions */
  bool all_missing;         /* which is said once, and not for each */
  struct fs_vblock *blocks; /* by partition; a partition's are sorted when it has been scanned */
  uint64_t nblocks;
  uint64_t *first;        /* first block of each partition, and the end */
  _Atomic uint8_t *state; /* of each entry */
  uint8_t *part;          /* of each partition */
  struct fs_progress progress;
};
/* Compares blocks of one partition by place. Those with the same stored bytes and the same decoding are neighbours. */
int fs_vblock_order(const void *a, const void *b);

/* Returns 0 if v->repair_from may be given to fs_repair, or a negative errno after one line. */
fs_err fs_repair_check(struct fs_verify *v);
/* Replaces damaged partitions by ones that are made of their good blocks and of v->repair_from. Sets
   v->part[] of those to FS_GOOD. Returns 0, also if some or all could not be repaired, after a line
   for each of them; or a negative errno after one line. */
fs_err fs_repair(struct fs_verify *v);

#endif
