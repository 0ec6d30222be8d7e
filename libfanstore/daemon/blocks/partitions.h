/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This node's partitions as mapped memory, so that blocks are sent without a copy by the daemon. If
 * bytes are not in the page cache, another thread reads them first, so that sending does not wait
 * for a disk. If all of the node's partitions fit in memory, it reads whole chunks of 2 MiB, since
 * neighbouring blocks will be asked for, too. Else it reads only what is asked for. The MPI
 * thread's.
 */
#ifndef FS_DAEMON_BLOCKS_PARTITIONS_H
#define FS_DAEMON_BLOCKS_PARTITIONS_H

#include "daemon/daemon.h"

fs_err fs_parts_new(struct fs_daemon *d);
/* Returns the address of the bytes at off of a staged partition; the caller has checked that
   they are inside. Returns NULL if the partition is not mapped or the network cannot send from
   there. The bytes may be touched only when fs_pages_resident says that they are in memory, or
   after the I/O pool has read their span. */
const void *fs_part_bytes(struct fs_daemon *d, uint32_t dataset, uint32_t part, uint64_t off);
/* Returns true if a dataset's partitions are in memory (tmpfs): reading them never blocks. */
bool fs_parts_in_memory(const struct fs_daemon *d, uint32_t dataset);
/* Returns what has to be read of a mapped partition so that these bytes are in memory. Returns
   nothing if there is no room to keep them, or if a part of the chunk could not be read before.
   Each non-empty span needs a fs_part_read. */
struct fs_span fs_part_missing(struct fs_daemon *d, uint32_t dataset, uint32_t part, uint64_t off, uint32_t len);
/* Takes the result of reading a span. A chunk that could not be read is not read whole again. */
void fs_part_read(struct fs_daemon *d, uint32_t dataset, uint32_t part, struct fs_span s, fs_err err);

/* Warns that a read of a partition has failed, once for each dataset. */
void fs_part_failed(struct fs_daemon *d, uint32_t dataset, uint32_t part, fs_err err);

/* Replaces the mapping of a partition by zeros, as its file may change or shrink from now on. A
   reply under way then has zeros, which the receiver's checksum detects. */
void fs_part_forget(struct fs_daemon *d, uint32_t dataset, uint32_t part);

#endif
