/* SPDX-License-Identifier: BSD-3-Clause */
/* Spills of this node that stand for a file of another node: see relay.c. The MPI thread's. */
#ifndef FS_DAEMON_OUTPUTS_RELAY_H
#define FS_DAEMON_OUTPUTS_RELAY_H

#include "daemon/daemon.h"
#include "daemon/metadata/ns.h"

fs_err fs_relays_new(struct fs_daemon *d);
/* FS_NAMES_RELAY. */
fs_err fs_relay_begin(struct fs_daemon *d, const struct fs_names_call *c);
struct fs_relay *fs_relay_find(const struct fs_daemon *d, uint64_t id);
/* FS_NAMES_SYNC: done when all that was written to the spill before is published; with EAGAIN when that takes long. */
void fs_relay_sync(struct fs_daemon *d, const struct fs_names_call *c, fs_ns_done *done, void *ctx);
/* The kernel says that somebody has closed it. */
void fs_relay_closed(struct fs_daemon *d, uint64_t id);
/* Is something of what programs have closed still on its way? */
bool fs_relays_pending(struct fs_daemon *d);
void fs_relay_timers(struct fs_daemon *d);
/* Another node has said how much room it has: do programs wait for what they write here? */
void fs_relays_room(struct fs_daemon *d);

#endif
