/* SPDX-License-Identifier: BSD-3-Clause */
/* Backing files of this node that stand for a file of another node: see forwarder.c. The MPI thread's. */
#ifndef FS_DAEMON_OUTPUTS_FORWARDER_H
#define FS_DAEMON_OUTPUTS_FORWARDER_H

#include "daemon/daemon.h"
#include "daemon/metadata/ns.h"

fs_err fs_forwarders_new(struct fs_daemon *d);
/* FS_NAMES_FORWARD. */
fs_err fs_forwarder_begin(struct fs_daemon *d, const struct fs_names_call *c);
struct fs_forwarder *fs_forwarder_find(const struct fs_daemon *d, uint64_t id);
/* FS_NAMES_SYNC: done when all that was written to the backing file before is published; with EAGAIN when that takes
 * long. */
void fs_forwarder_sync(struct fs_daemon *d, const struct fs_names_call *c, fs_ns_done *done, void *ctx);
/* The kernel says that somebody has closed it. */
void fs_forwarder_closed(struct fs_daemon *d, uint64_t id);
/* Is something of what programs have closed still on its way? */
bool fs_forwarders_pending(struct fs_daemon *d);
void fs_forwarder_timers(struct fs_daemon *d);
/* Another node has said how much room it has: do programs wait for what they write here? */
void fs_forwarders_room(struct fs_daemon *d);

#endif
