/* SPDX-License-Identifier: BSD-3-Clause */
/* Publishes what clients have written of files with several writers (written.c). The MPI thread's. */
#ifndef FS_DAEMON_OUTPUTS_WRITTEN_H
#define FS_DAEMON_OUTPUTS_WRITTEN_H

#include "daemon/outputs/client_calls.h"

fs_err fs_written_new(struct fs_daemon *d);
/* Handles a client's EXTEND without a tail: publishes the ranges that its channel has, and ends in
   fs_client_call_done. */
void fs_written_extend(struct fs_client_call *call, const struct fs_names_call *c);
/* Publishes what is a second old. */
void fs_written_timers(struct fs_daemon *d);
/* Publishes now whatever clients have written. */
void fs_written_look_all(struct fs_daemon *d);
/* Returns true while a publication is under way. */
bool fs_written_busy(const struct fs_daemon *d);
/* Publishes what a client has left that is gone. */
void fs_written_forget(struct fs_daemon *d, struct fs_client *c);

#endif
