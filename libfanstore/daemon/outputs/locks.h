/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks between nodes (docs/internals/locks.md). locks.c is the home's part: it takes the kernel's
 * locks on backing files for programs of all nodes that do not have the backing file open.
 * lock_holders.c is the part of the node whose programs lock. All but a waiting thread is the MPI
 * thread's.
 */
#ifndef FS_DAEMON_OUTPUTS_LOCKS_H
#define FS_DAEMON_OUTPUTS_LOCKS_H

#include "daemon/outputs/backing.h"

/* ---- locks.c: the home ---- */

fs_err fs_locks_new(struct fs_daemon *d);
/* Handles LOCK at the file's home. */
void fs_locks_call(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f, const struct fs_names_call *c);
/* Returns true if the daemon itself has descriptors of the file that can be written, for locks. */
bool fs_locks_writable(const struct fs_daemon *d, uint64_t id);
/* Answers the calls whose waiting threads have ended. Returns how many. */
int fs_locks_reap(struct fs_daemon *d);
void fs_locks_timers(struct fs_daemon *d);
/* Ends the locks of ranks that are no members any more. */
void fs_locks_members(struct fs_daemon *d);

/* ---- lock_holders.c: the node of the program ---- */

fs_err fs_lock_holders_new(struct fs_daemon *d);
void fs_lock_holders_timers(struct fs_daemon *d);
void fs_lock_holders_members(struct fs_daemon *d);
void fs_lock_holders_forget(struct fs_daemon *d, struct fs_client *c);
/* Returns -EIO if the client had locks of the file whose home is gone. Others may have locked the
   file since, so the client must not read or write it. */
fs_err fs_lock_holders_check(const struct fs_daemon *d, const struct fs_client *c, uint64_t id);

#endif
