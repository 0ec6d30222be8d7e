/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This node's partitions as memory, for sending from it without a copy of the daemon's own. What is not in the page
 * cache is read by another thread first, so that sending does not wait for a disk: whole chunks of 2 MiB where all of
 * the node's partitions fit in memory, since neighbours will be asked for too, else what is asked for alone.
 */
#ifndef FS_DAEMON_BLOCKS_PARTITIONS_H
#define FS_DAEMON_BLOCKS_PARTITIONS_H

#include "util/base.h"

struct fs_daemon;

struct fs_span {
  const uint8_t *at;
  uint64_t len;
};

fs_err fs_parts_new(struct fs_daemon *d);
/* The bytes at off of a staged partition, which the caller has checked to be inside it; NULL: not mapped, or the
   network cannot send from there. Not to be touched before fs_pages_resident, or what follows, says that they are in
   memory. */
const void *fs_part_bytes(struct fs_daemon *d, uint32_t dataset, uint32_t part, uint64_t off);
/* What to read of a mapped partition so that these bytes are in memory, or nothing where there is no room to keep them,
   or a part of the chunk could not be read before; */
struct fs_span fs_part_missing(struct fs_daemon *d, uint32_t dataset, uint32_t part, uint64_t off, uint32_t len);
/* reads it, in any thread; */
fs_err fs_bytes_read(struct fs_span s);
/* and, once for each that was to be read, how that went. A chunk that could not be read is not read whole again. */
void fs_part_read(struct fs_daemon *d, uint32_t dataset, uint32_t part, struct fs_span s, fs_err err);

/* A read of it failed: said once for each dataset. */
void fs_part_failed(struct fs_daemon *d, uint32_t dataset, uint32_t part, fs_err err);

/* Its file may change or shrink from now on: what is under way reads zeros, which the receiver's checksum tells. */
void fs_part_forget(struct fs_daemon *d, uint32_t dataset, uint32_t part);

#endif
