/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by verify.c, which finds damage, and pack/repair.c, which repairs it. */
#ifndef FS_PREPARE_VERIFY_H
#define FS_PREPARE_VERIFY_H

#include "passes.h"
#include "progress.h"

enum { FS_GOOD, FS_DAMAGED, FS_UNCHECKED };

struct fs_verify {
  struct fs_dataset ds;
  unsigned jobs;
  struct fs_repair *repair; /* of --repair-from, or NULL */
  const char *local_dir;    /* check the copies that are staged there, or NULL */
  const char *where;        /* directory of the partitions */
  bool all_missing;         /* which is said once, and not for each */
  bool only_nodes;          /* the partitions are on the nodes only: all or none are made here */
  _Atomic uint8_t *state;   /* of each entry */
  uint8_t *part;            /* of each partition */
  struct fs_progress progress;
};

/* What is given with --repair-from. Each function prints one line if it returns an error, but fs_repair_new,
   which returns NULL if out of memory. */
struct fs_repair *fs_repair_new(struct fs_verify *v);
fs_err fs_repair_add(struct fs_repair *r, const char *place);
fs_err fs_repair_shards(struct fs_repair *r, const char *how);
/* Opens what was added. Returns 0 if it may be given to fs_repair. */
fs_err fs_repair_open(struct fs_repair *r);
/* Replaces damaged partitions by ones that are made of their good blocks and of what was added. Sets
   v->part[] of those to FS_GOOD. Returns 0, also if some or all could not be repaired, after a line
   for each of them. */
fs_err fs_repair(struct fs_repair *r);
void fs_repair_free(struct fs_repair *r);

#endif
