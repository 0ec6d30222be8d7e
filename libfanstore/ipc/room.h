/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much of a node's partitions is to be in its memory: computed alike by clients, for whom it decides, and by the
 * daemon, which tells it. No state.
 */
#ifndef FS_IPC_ROOM_H
#define FS_IPC_ROOM_H

#include "ipc/layout.h"

#define FS_ROOM_SHIFT 8u
#define FS_ROOM_ALL (1u << FS_ROOM_SHIFT)

/* Of FS_ROOM_ALL chunks those that memory is to have, where `bytes` of partitions are on a node with `available` bytes
   of memory, the page cache's among them: a quarter of it is left to all else. */
static inline uint32_t fs_room_share(uint32_t flags, uint64_t bytes, uint64_t available) {
  uint64_t room = available / 4 * 3;
  if (flags & FS_CTL_IO_DIRECT) return 0;
  if (bytes <= room) return FS_ROOM_ALL;
  return flags & FS_CTL_IO_CACHED ? 0 : (uint32_t)(room / ((bytes >> FS_ROOM_SHIFT) + 1));
}

#endif
