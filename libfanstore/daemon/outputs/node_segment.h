/* SPDX-License-Identifier: BSD-3-Clause */
/* The node's segments: one for each file of several writers that its programs write
   (node_segment.c). The MPI thread's. */
#ifndef FS_DAEMON_OUTPUTS_NODE_SEGMENT_H
#define FS_DAEMON_OUTPUTS_NODE_SEGMENT_H

#include "daemon/daemon.h"

fs_err fs_node_segments_new(struct fs_daemon *d);
/* Handles FS_NAMES_OFFER, which offers a backing file of this node, or 0, as a segment. Sets
 *segment to the file's segment, or 0. */
fs_err fs_node_segment_offered(struct fs_daemon *d, uint64_t file, uint64_t offered, uint64_t *segment);
/* Says that a backing file is being removed. If it is a segment, its file has gone. */
void fs_node_segment_dropped(struct fs_daemon *d, uint64_t segment);
/* Drops the node's segment of a file that has gone, as its home says; home may never have heard
   of the segment. */
void fs_node_segment_useless(struct fs_daemon *d, uint64_t file);

#endif
