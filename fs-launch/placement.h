/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which node stages which partition: the only place where that is decided. A pure function of its input, so that it is
 * tested without any node. Called by fs-launch once, when every daemon has told what it has and what room there is.
 */
#ifndef FS_LAUNCH_PLACEMENT_H
#define FS_LAUNCH_PLACEMENT_H

#include "ipc/layout.h"

struct fs_place_part {
  uint64_t size;
  bool everywhere; /* FS_PART_REPLICATE */
};

struct fs_place_input {
  uint32_t nodes;
  uint64_t parts;
  uint32_t replicas;                /* wanted copies, at least 1 */
  const struct fs_place_part *part; /* [parts] */
  const bool *staged;               /* [node * parts + partition]: a fitting copy is there */
  const uint32_t *group;            /* [nodes]: nodes of one group share one file system; groups count from 0 */
  uint64_t *room;                   /* [group]: bytes that may be used; what is left afterwards */
};

struct fs_owners {
  uint16_t owner[FS_MAX_OWNERS]; /* the first is asked first */
  uint8_t owners;
  bool everywhere; /* on every node; owner[] is empty */
};

/*
 * Balanced by bytes; what is staged stays where it is as long as that is balanced; copies of a partition are on
 * distinct nodes; every partition gets its first copy before any gets its second. What fits nowhere has no owner.
 * 0 or -ENOMEM.
 */
fs_err fs_place_compute(const struct fs_place_input *in, struct fs_owners *out);

#endif
