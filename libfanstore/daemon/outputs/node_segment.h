/* SPDX-License-Identifier: BSD-3-Clause */
/* The one segment that this node has of each file of several writers that its programs write: see node_segment.c. */
#ifndef FS_DAEMON_OUTPUTS_NODE_SEGMENT_H
#define FS_DAEMON_OUTPUTS_NODE_SEGMENT_H

#include "daemon/daemon.h"

fs_err fs_node_segments_new(struct fs_daemon *d);
/* FS_NAMES_OFFER, whose backing file (or 0) is one of this node's. *segment: that of the file, or 0. */
fs_err fs_node_segment_offered(struct fs_daemon *d, uint64_t file, uint64_t offered, uint64_t *segment);
/* This backing file goes; if it is a segment, its file is gone. */
void fs_node_segment_dropped(struct fs_daemon *d, uint64_t segment);
/* The file is gone, says its home: so its segment here is dropped, of which home may never have heard. */
void fs_node_segment_useless(struct fs_daemon *d, uint64_t file);

#endif
