/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages of the name service (ns.h) over the daemons' network: whole, in order between two ranks, bounded. A
 * message is lost only with its rank, or when too many are under way; whoever asked then finds its deadline passed and
 * asks again. Used by the MPI thread alone.
 */
#ifndef FS_DAEMON_METADATA_NS_NET_H
#define FS_DAEMON_METADATA_NS_NET_H

#include "daemon/core/net.h"
#include "daemon/metadata/ns.h"
#include "ipc/wire.h"

struct fs_ns_net;
typedef void fs_ns_net_receive(void *ctx, uint32_t from, const struct fs_ns_message *head, const void *body, size_t n);

/* Posts receives on tag FS_TAG_NAMES. deadline_ns: what did not come by a half of it is taken for lost. */
fs_err fs_ns_net_new(struct fs_ns_net **out, struct fs_net *net, uint64_t deadline_ns, fs_ns_net_receive *receive,
                     void *ctx);
/* With head->later: with the next message to this rank, or by the next flush. */
void fs_ns_net_send(struct fs_ns_net *n, uint32_t to, const struct fs_ns_message *head, const void *body, size_t bytes);
/* Sends what was kept for a while; or all of it, before the thread sleeps. */
void fs_ns_net_flush(struct fs_ns_net *n, uint64_t now, bool all);
/* Gives up waiting for what is missing. Call now and then. */
void fs_ns_net_timers(struct fs_ns_net *n, uint64_t now);
/* Messages that were thrown away, on either side. */
uint64_t fs_ns_net_dropped(const struct fs_ns_net *n);

#endif
