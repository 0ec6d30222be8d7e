/* SPDX-License-Identifier: BSD-3-Clause */
/* Staged copies on this node: of the dataset that an update starts from, and of what this node has
   packed. Nobody removes them while this process lives. Apart from nodes.h, because the daemon's headers
   and fs-prepare's have types of the same names. */
#ifndef FS_PREPARE_NODES_ADOPT_H
#define FS_PREPARE_NODES_ADOPT_H

#include "util/base.h"

/* This node's copies of a dataset whose partitions are on the nodes only. */
struct fs_held;
/* Finds them, and refuses a dataset with another id. Returns 0, or an error with `why`. *h is never
   freed. */
fs_err fs_held_find(struct fs_held **h, const char *dataset, const uint8_t id[16], const char *local, int emulated,
                    char *why, size_t why_size);
uint32_t fs_held_parts(const struct fs_held *h);
bool fs_held_has(const struct fs_held *h, uint32_t part);

struct fs_adopt {
  const char *dataset, *local;
  int emulated;     /* this node of several on one host, or -1 */
  int from;         /* descriptor of the directory with the partitions, which are complete and synced */
  const bool *here; /* [new partition]: it is there */
  const uint32_t *number;
  const struct fs_held *held; /* those of these that the new dataset keeps must be staged, too; or NULL */
  uint32_t parts, total;      /* new ones; all of the dataset */
  uint64_t bytes;             /* set: of the partitions that are staged */
  char why[512];              /* set after an error, or empty */
};
fs_err fs_adopt(struct fs_adopt *a);

#endif
