/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages of the name service (ns.h) over the daemons' network: whole, in order between two
 * ranks, and bounded in number. A message is lost only if its rank dies or if too many are under
 * way; the asker's deadline then passes, and it asks again. Only the MPI thread uses it.
 */
#ifndef FS_DAEMON_METADATA_NS_NET_H
#define FS_DAEMON_METADATA_NS_NET_H

#include "daemon/core/net.h"
#include "daemon/metadata/ns.h"
#include "ipc/wire.h"

struct fs_ns_net;
typedef void fs_ns_net_receive(void *ctx, uint32_t from, const struct fs_ns_message *head, const void *body, size_t n);

/* Posts receives on tag FS_TAG_NAMES. A message that is still missing after half of deadline_ns
   counts as lost. Returns 0, -ENOMEM, or the network's error. */
fs_err fs_ns_net_new(struct fs_ns_net **out, struct fs_net *net, uint64_t deadline_ns, fs_ns_net_receive *receive,
                     void *ctx);
/* Sends a message with the next flush. If too many are under way, the message is lost. */
void fs_ns_net_send(struct fs_ns_net *n, uint32_t to, const struct fs_ns_message *head, const void *body, size_t bytes);
/* Sends what has gathered, one packet to each rank unless it is long. Call it at the end of each
   round of the loop. What gathers after the last round is lost: all daemons of the job end then. */
void fs_ns_net_flush(struct fs_ns_net *n);
/* Gives up on missing messages whose time is over, and posts receives that had no room. Call it
   regularly. */
void fs_ns_net_timers(struct fs_ns_net *n, uint64_t now);
/* Returns the number of messages that this rank has thrown away, when sending or receiving. */
uint64_t fs_ns_net_dropped(const struct fs_ns_net *n);

#endif
