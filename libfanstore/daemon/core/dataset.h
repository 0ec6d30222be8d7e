/* SPDX-License-Identifier: BSD-3-Clause */
/* A dataset, as all of the daemon sees it: its source, this node's copy, and who has its partitions.
   The functions on the copy are in staging/stage.h. */
#ifndef FS_DAEMON_CORE_DATASET_H
#define FS_DAEMON_CORE_DATASET_H

#include <limits.h>

#include "format/manifest.h"
#include "index/index.h"
#include "ipc/layout.h"

struct fs_stage {
  char source[PATH_MAX]; /* dataset directory */
  char local[PATH_MAX];  /* this node's directory for this dataset */
  struct fs_index index; /* of the local copy once staged, else of the source */
  struct fs_manifest manifest;
  int dir_fd;          /* staging's: of `local`, -1 before fs_stage_prepare */
  int lock_fd;         /* staging's: of `local`/.lock, held shared */
  _Atomic int copying; /* staging's: enum fs_stage_copying of dir.h */
};

#define FS_FROM_SHARED UINT16_MAX /* from shared storage */

struct fs_dataset {
  struct fs_stage stage;
  char mount[PATH_MAX];
  uint32_t partitions;
  uint32_t max_stored; /* length of the longest stored block */
  struct fs_placement *place;
  uint16_t *from; /* rank from which a partition of this node comes, or FS_FROM_SHARED */
  bool *have;     /* which partitions are staged on this node */
  int *fd;        /* descriptors of staged partitions; -1: opened by name for each read */
};

#endif
