/* SPDX-License-Identifier: BSD-3-Clause */
/* The name service (metadata/ns.h) as a part of this daemon. The MPI thread's. */
#ifndef FS_DAEMON_OUTPUTS_SERVICE_H
#define FS_DAEMON_OUTPUTS_SERVICE_H

#include "daemon/daemon.h"

/* Makes d->ns and d->ns_net. Returns 0 or -ENOMEM. */
fs_err fs_service_start(struct fs_daemon *d);
void fs_service_timers(struct fs_daemon *d);
bool fs_service_busy(const struct fs_daemon *d);
/* Sends the messages of this round. */
void fs_service_flush(struct fs_daemon *d);
/* Handles the case that this node is no member any more: nobody tells it of marks and of changed
   directories. */
void fs_service_members(struct fs_daemon *d);
bool fs_service_member(const struct fs_daemon *d, uint32_t rank);
/* Returns true if this node was taken for dead: it is no file's home any more. */
bool fs_service_evicted(const struct fs_daemon *d);
/* Reports the node's first output to the launcher. */
void fs_service_wrote(const struct fs_daemon *d);
uint64_t fs_service_lost(const struct fs_daemon *d); /* messages about names */

#endif
