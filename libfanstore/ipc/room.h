/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decides how much of a node's partitions is kept in its memory. The client uses the result; the
 * daemon computes the same to report it. No state.
 */
#ifndef FS_IPC_ROOM_H
#define FS_IPC_ROOM_H

#include "ipc/layout.h"

#define FS_ROOM_SHIFT 8u
#define FS_ROOM_ALL (1u << FS_ROOM_SHIFT)

/* Returns how many of FS_ROOM_ALL chunks memory keeps. The node has `bytes` of partitions and
   `available` bytes of memory, including the page cache. A quarter of the memory is left to other
   uses. */
static inline uint32_t fs_room_share(uint32_t flags, uint64_t bytes, uint64_t available) {
  uint64_t room = available / 4 * 3;
  if (flags & FS_CTL_IO_DIRECT) return 0;
  if (bytes <= room) return FS_ROOM_ALL;
  return flags & FS_CTL_IO_CACHED ? 0 : (uint32_t)(room / ((bytes >> FS_ROOM_SHIFT) + 1));
}

#endif
