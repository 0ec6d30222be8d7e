/* SPDX-License-Identifier: BSD-3-Clause */
/* Forwarders: backing files of this node that stand for a file of another node (forwarder.c).
   The MPI thread's. */
#ifndef FS_DAEMON_OUTPUTS_FORWARDER_H
#define FS_DAEMON_OUTPUTS_FORWARDER_H

#include "daemon/daemon.h"
#include "daemon/metadata/ns.h"

fs_err fs_forwarders_new(struct fs_daemon *d);
/* Handles FS_NAMES_FORWARD. */
fs_err fs_forwarder_begin(struct fs_daemon *d, const struct fs_names_call *c);
struct fs_forwarder *fs_forwarder_find(const struct fs_daemon *d, uint64_t id);
/* Handles FS_NAMES_SYNC: calls done when all earlier writes to the backing file are published,
   or with -EAGAIN if that takes long. */
void fs_forwarder_sync(struct fs_daemon *d, const struct fs_names_call *c, fs_ns_done *done, void *ctx);
/* Looks now which forwarders programs have closed. */
void fs_forwarders_look_all(struct fs_daemon *d);
/* Returns true if writes that programs have finished by a close are still on their way. */
bool fs_forwarders_pending(const struct fs_daemon *d);
void fs_forwarder_timers(struct fs_daemon *d);

#endif
