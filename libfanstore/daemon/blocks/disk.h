/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cache on this node's disk (--cache-disk): blocks of other nodes' partitions that the cache in
 * memory lets pass. They are in a file without a name in the local directory, which disappears with
 * the daemon. All functions are the MPI thread's; threads of its own read and write the file.
 * docs/internals/read-path.md has the protocol.
 */
#ifndef FS_DAEMON_BLOCKS_DISK_H
#define FS_DAEMON_BLOCKS_DISK_H

#include "daemon/blocks/fetch.h"

/* Makes the file if the job asks for it. If that fails, one warning says so, and the job has no
   such cache. Returns an error if memory or threads are missing. */
fs_err fs_disk_start(struct fs_daemon *d);
/* Calls back for finished reads and writes. Returns how many. */
int fs_disk_reap(struct fs_daemon *d);
/* Gives the disk back if outputs need it, and reads that it does not answer to other nodes. */
void fs_disk_timers(struct fs_daemon *d);
/* Puts a block that has just been published on the disk, if memory will not keep it and the disk
   has room. Copies the bytes, and does not wait. */
void fs_disk_keep(struct fs_daemon *d, const struct fs_fetch *f, uint32_t line, const void *bytes);
/* Returns 1 if there is room for a block of so many bytes, 0 if there is none at the moment, and -1
   if there will be none. */
int fs_disk_room(const struct fs_daemon *d, uint32_t len);
/* Begins to read a block from the disk. Later it either ends the fetch or routes it again. Returns
   false if the block is not there, or if the disk does not answer. */
bool fs_disk_fetch(struct fs_daemon *d, struct fs_fetch *f);

#endif
