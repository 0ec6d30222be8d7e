/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decides which node stages which partition; no other code does. A pure function of its input, so
 * that tests need no nodes. fs-launch calls it once, after each daemon has reported its copies and
 * its free space.
 */
#ifndef FS_LAUNCH_PLACEMENT_H
#define FS_LAUNCH_PLACEMENT_H

#include "ipc/layout.h"

struct fs_place_part {
  uint64_t size;
  bool everywhere;  /* FS_PART_REPLICATE */
  bool only_staged; /* there is no shared copy: the first owner is a node that has a copy */
};

struct fs_place_input {
  uint32_t nodes;
  uint64_t parts;
  uint32_t replicas;                /* wanted copies, at least 1 */
  const struct fs_place_part *part; /* [parts] */
  const bool *staged;               /* [node * parts + partition]: a valid copy is there */
  const uint32_t *group;            /* [nodes]: nodes of one group share a file system; counted from
                                       0 */
  uint64_t *room;                   /* [group]: usable bytes; on return the rest */
};

struct fs_owners {
  uint16_t owner[FS_MAX_OWNERS]; /* the first is asked first */
  uint8_t owners;
  bool everywhere; /* on every node; owner[] is empty */
  bool passed;     /* the owners that do not have it get it from `source`, and from each other */
  uint16_t source; /* an owner, or another node that has it; reads it from shared storage if it does not have it */
};

/*
 * Places the partitions, balanced by bytes. A staged copy stays where it is as long as that is
 * balanced. Copies of a partition are on distinct nodes. Partitions of
 * --replicate come first. Of the others, each gets its first copy before any gets its second. A partition that fits
 * nowhere has no owner. Each partition is read from shared storage once at most: by its source. Returns 0 or -ENOMEM.
 */
fs_err fs_place_compute(const struct fs_place_input *in, struct fs_owners *out);
/* Returns whether a partition got fewer copies than the nodes could have. */
bool fs_place_lacks(const struct fs_place_input *in, const struct fs_owners *out, uint64_t p);

#endif
