/* SPDX-License-Identifier: BSD-3-Clause */
/* The one part that this node has of each file of several writers that its programs write: see node_part.c. */
#ifndef FS_DAEMON_OUTPUTS_NODE_PART_H
#define FS_DAEMON_OUTPUTS_NODE_PART_H

#include "daemon/daemon.h"

fs_err fs_node_parts_new(struct fs_daemon *d);
/* FS_NAMES_OFFER, whose spill (or 0) is one of this node's. *part: that of the file, or 0. */
fs_err fs_node_part_offered(struct fs_daemon *d, uint64_t file, uint64_t offered, uint64_t *part);
/* This spill goes; if it is a part, its file is gone. */
void fs_node_part_dropped(struct fs_daemon *d, uint64_t part);
/* The file is gone, says its home: so its part here is dropped, of which home may never have heard. */
void fs_node_part_useless(struct fs_daemon *d, uint64_t file);

#endif
