/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mounts as the path code wants them: a flat list of prefixes, filled from client/data.h at first use. Lock-free:
 * every thread that finds it empty fills it with the same values.
 */
#ifndef FS_CLIENT_MOUNTS_H
#define FS_CLIENT_MOUNTS_H

#include "client/data.h"

struct fs_mount_prefix {
  const char *path;
  size_t len;
  uint64_t key; /* hash of the path: the mount's name in shared memory */
};
extern struct fs_mount_prefix fs_mount_list[FS_MAX_DATASETS];
extern _Atomic int32_t fs_mount_listed; /* -1: not filled */

uint32_t fs_mount_list_fill(void);

static inline uint32_t fs_mount_count(void) {
  int32_t n = atomic_load_explicit(&fs_mount_listed, memory_order_acquire);
  return FS_LIKELY(n >= 0) ? (uint32_t)n : fs_mount_list_fill();
}

#endif
