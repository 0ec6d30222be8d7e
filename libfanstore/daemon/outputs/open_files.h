/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files of other nodes that this node's clients have open (docs/internals/output-bytes.md): which
 * client has which snapshot open, how often, and when the home is told that nobody here has it open
 * any more. The MPI thread's.
 */
#ifndef FS_DAEMON_OUTPUTS_OPEN_FILES_H
#define FS_DAEMON_OUTPUTS_OPEN_FILES_H

#include "daemon/daemon.h"
#include "daemon/outputs/snapshots.h"

fs_err fs_open_files_new(struct fs_daemon *d);
/* fs_open_files_ask records that a client's OPEN goes to the file's home. */
fs_err fs_open_files_ask(struct fs_daemon *d, const struct fs_client *c, uint64_t id);
/* Takes the answer to an OPEN, or the error that there is none. c is NULL if the client has
   gone. Checks `held`, and fills the snapshot's number into it. Returns 0 or the error for the
   client. */
fs_err fs_open_files_answered(struct fs_daemon *d, struct fs_client *c, uint64_t id, fs_err err,
                              struct fs_opened *held);
fs_err fs_open_files_release(struct fs_daemon *d, struct fs_client *c, uint64_t id, uint64_t snapshot);
/* Closes all files of a client that has gone. */
void fs_open_files_forget(struct fs_daemon *d, struct fs_client *c);
/* Returns the snapshot with this number, or NULL. */
const struct fs_snapshot *fs_open_files_find(const struct fs_daemon *d, uint32_t snapshot);
void fs_open_files_fetch(struct fs_daemon *d, uint32_t snapshot, bool begins);

#endif
