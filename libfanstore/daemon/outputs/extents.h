/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which bytes of a file of several writers are in which segment (docs/internals/several-writers.md): a list, sorted and
 * without overlaps, in which the last put wins. Memory and nothing else; one thread.
 */
#ifndef FS_DAEMON_OUTPUTS_EXTENTS_H
#define FS_DAEMON_OUTPUTS_EXTENTS_H

#include "ipc/call.h"

#define FS_EXTENTS_MAX (1u << 20) /* of one file; then EFBIG */

/* NULL is the empty list. */
struct fs_extents;
fs_err fs_extents_put(struct fs_extents **list, struct fs_output_extent e);
void fs_extents_truncate(struct fs_extents *x, uint64_t size);
uint64_t fs_extents_end(const struct fs_extents *x);
bool fs_extents_any(const struct fs_extents *x);
/* All of them, until the list is changed. */
struct fs_output_extent *fs_extents_all(struct fs_extents *x, uint32_t *count);
/* The first that ends beyond off: its place among them. */
uint32_t fs_extents_first(const struct fs_extents *x, uint64_t off);

#endif
