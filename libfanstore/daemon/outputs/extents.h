/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The extent map of a file of several writers: which bytes are in which segment
 * (docs/internals/several-writers.md). It is a sorted list without overlaps, in which the last put
 * wins. It is only memory; one thread uses a map.
 */
#ifndef FS_DAEMON_OUTPUTS_EXTENTS_H
#define FS_DAEMON_OUTPUTS_EXTENTS_H

#include "ipc/call.h"

#define FS_EXTENTS_MAX (1u << 20) /* extents of one file; a further one gets -EFBIG */

/* An extent map; NULL is the empty one. */
struct fs_extents;
fs_err fs_extents_put(struct fs_extents **list, struct fs_output_extent e);
void fs_extents_truncate(struct fs_extents *x, uint64_t size);
uint64_t fs_extents_end(const struct fs_extents *x);
bool fs_extents_any(const struct fs_extents *x);
/* Returns all extents, valid until the map changes. */
struct fs_output_extent *fs_extents_all(struct fs_extents *x, uint32_t *count);
/* Returns the index of the first extent that ends beyond off. */
uint32_t fs_extents_first(const struct fs_extents *x, uint64_t off);

#endif
