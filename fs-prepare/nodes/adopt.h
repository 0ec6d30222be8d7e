/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes staged copies of what this node has packed. Apart from nodes.h, because the daemon's headers
   and fs-prepare's have types of the same names. */
#ifndef FS_PREPARE_NODES_ADOPT_H
#define FS_PREPARE_NODES_ADOPT_H

#include "util/base.h"

struct fs_adopt {
  const char *dataset, *local;
  int emulated;     /* this node of several on one host, or -1 */
  int from;         /* descriptor of the directory with the partitions, which are complete and synced */
  const bool *here; /* [new partition]: it is there */
  const uint32_t *number;
  uint32_t parts, total; /* new ones; all of the dataset */
  uint64_t bytes;        /* set: of the partitions that are staged */
  char why[512];         /* set after an error, or empty */
};
fs_err fs_adopt(struct fs_adopt *a);

#endif
