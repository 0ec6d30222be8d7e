/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mounts as the path code wants them: a flat list of prefixes, the mounts' other names behind them, filled from
 * client/data.h at first use. Lock-free: every thread that finds it empty fills it with the same values.
 */
#ifndef FS_CLIENT_PATH_MOUNTS_H
#define FS_CLIENT_PATH_MOUNTS_H

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
 * What tells most paths apart from all mounts at once: the bytes that every mount's path begins with, and for each byte
 * that may follow them the mounts that go on so (one bit each). '/' and '.' stand for all of them: such a path may
 * only be spelled in another way. And of the components of the mounts' paths, a bit for each by length and first byte.
 */
struct fs_mount_filter {
  size_t common;
  const char *path; /* of one of the mounts */
  uint32_t next[256];
  uint64_t component[4];
};
static inline uint32_t fs_mount_component_bit(const char *name, size_t len) {
  return ((uint8_t)name[0] + 37 * (uint32_t)len) % 256;
}
extern FS_INTERNAL struct fs_mount_filter fs_mount_filter;
/* From the first n of fs_mount_list. */
void fs_mount_filter_fill(uint32_t n);

uint32_t fs_mount_list_fill(void);
/* The index of mount i < fs_mount_count(), once it is known: it is then never unmapped. */
extern FS_INTERNAL const struct fs_index *_Atomic fs_mount_known[FS_MOUNT_NAMES];
const struct fs_index *fs_mount_ix_slow(uint32_t i, fs_err *err);

static inline uint32_t fs_mount_count(void) {
  int32_t n = atomic_load_explicit(&fs_mount_listed, memory_order_acquire);
  return FS_LIKELY(n >= 0) ? (uint32_t)n : fs_mount_list_fill();
}

/* fs_mount_index for the hot path. -EIO when there is no such mount: the number may come from shared memory. */
static inline const struct fs_index *fs_mount_ix(uint32_t i, fs_err *err) {
  const struct fs_index *ix = NULL;
  if (FS_LIKELY(i < FS_MOUNT_NAMES)) ix = atomic_load_explicit(&fs_mount_known[i], memory_order_acquire);
  return FS_LIKELY(ix != NULL) ? ix : fs_mount_ix_slow(i, err);
}

#endif
