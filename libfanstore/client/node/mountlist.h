/* SPDX-License-Identifier: BSD-3-Clause */
/* The mounts as paths and descriptors need them: a flat list of path prefixes, the mounts first, then
   their other names. The list is filled from client/data.h at first use. Lock-free: every thread
   that finds it empty fills it with the same values. */
#ifndef FS_CLIENT_NODE_MOUNTLIST_H
#define FS_CLIENT_NODE_MOUNTLIST_H

#include "client/data.h"

struct fs_mount_prefix {
  const char *path;
  size_t len;
  uint64_t key;       /* hash of the path: the mount's name in shared memory */
  uint32_t canonical; /* number of its canonical name (data.h), mostly its own */
  bool outer;         /* another mount lies below it */
};
#define FS_MOUNT_NAMES (2 * FS_MAX_DATASETS) /* a mount may have two */
extern FS_INTERNAL struct fs_mount_prefix fs_mount_list[FS_MOUNT_NAMES];
extern FS_INTERNAL _Atomic int32_t fs_mount_listed; /* -1: not filled */

/*
 * A quick test that tells most paths apart from all mounts at once. `common` is how many bytes all
 * the mounts' paths begin with. `next` has, for each byte that may follow them, one bit for each
 * mount that goes on so. '/' and '.' have the bits of all mounts, because such a path may be
 * another spelling. `component` has a bit for each component of the mounts' paths, by its length
 * and first byte.
 */
struct fs_mount_filter {
  size_t common;
  const char *path; /* one mount's path */
  uint32_t next[256];
  uint64_t component[4];
};
static inline uint32_t fs_mount_component_bit(const char *name, size_t len) {
  return ((uint8_t)name[0] + 37 * (uint32_t)len) % 256;
}
extern FS_INTERNAL struct fs_mount_filter fs_mount_filter;

uint32_t fs_mount_list_fill(void);
/* The index of mount i < fs_mount_count(), once it is known. It is never unmapped after that. */
extern FS_INTERNAL const struct fs_index *_Atomic fs_mount_known[FS_MOUNT_NAMES];
const struct fs_index *fs_mount_ix_slow(uint32_t i, fs_err *err);

static inline uint32_t fs_mount_count(void) {
  int32_t n = atomic_load_explicit(&fs_mount_listed, memory_order_acquire);
  return FS_LIKELY(n >= 0) ? (uint32_t)n : fs_mount_list_fill();
}

/* fs_mount_index for the hot path. Sets -EIO if there is no such mount: the number may come from
   shared memory. */
static inline const struct fs_index *fs_mount_ix(uint32_t i, fs_err *err) {
  const struct fs_index *ix = NULL;
  if (FS_LIKELY(i < FS_MOUNT_NAMES)) ix = atomic_load_explicit(&fs_mount_known[i], memory_order_acquire);
  return FS_LIKELY(ix != NULL) ? ix : fs_mount_ix_slow(i, err);
}

#endif
