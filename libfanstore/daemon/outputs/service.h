/* SPDX-License-Identifier: BSD-3-Clause */
/* The name service (metadata/ns.h) in this daemon. All by the MPI thread. */
#ifndef FS_DAEMON_OUTPUTS_SERVICE_H
#define FS_DAEMON_OUTPUTS_SERVICE_H

#include "daemon/daemon.h"

/* Makes d->ns and d->ns_net. -ENOMEM. */
fs_err fs_service_start(struct fs_daemon *d);
void fs_service_timers(struct fs_daemon *d);
bool fs_service_busy(const struct fs_daemon *d);
/* Sends the messages that wait for others to go with them and have waited long enough; with `all`,
   before the thread sleeps, every one. */
void fs_service_flush(const struct fs_daemon *d, bool all);
/* The node is no member any more: nobody tells it of marks and trees. */
void fs_service_members(struct fs_daemon *d);
uint64_t fs_service_lost(const struct fs_daemon *d); /* messages about names */

#endif
