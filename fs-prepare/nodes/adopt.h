/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes staged copies of what this node has packed. Apart from nodes.h, because the daemon's headers
   and fs-prepare's have types of the same names. */
#ifndef FS_PREPARE_NODES_ADOPT_H
#define FS_PREPARE_NODES_ADOPT_H

#include "util/base.h"

/* This node's copies of a dataset whose partitions are on the nodes only. While this process lives, nobody
   removes them. */
struct fs_held;
/* Returns 0, or an error with `why`. *h is never freed. */
fs_err fs_held_find(struct fs_held **h, const char *dataset, const char *local, int emulated, char *why,
                    size_t why_size);
/* Removes them, unless a job uses them: another dataset has taken its place. */
void fs_held_remove(struct fs_held *h);
uint32_t fs_held_parts(const struct fs_held *h);
bool fs_held_has(const struct fs_held *h, uint32_t part);

struct fs_adopt {
  const char *dataset, *local;
  int emulated;     /* this node of several on one host, or -1 */
  int from;         /* descriptor of the directory with the partitions, which are complete and synced */
  const bool *here; /* [new partition]: it is there */
  const uint32_t *number;
  struct fs_held *held;  /* each of these that the dataset has kept must be staged, too; or NULL */
  uint32_t parts, total; /* new ones; all of the dataset */
  uint64_t bytes;        /* set: of the partitions that are staged */
  char why[512];         /* set after an error, or empty */
};
fs_err fs_adopt(struct fs_adopt *a);

#endif
