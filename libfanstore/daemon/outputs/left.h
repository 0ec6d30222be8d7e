/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps the names of this node's outputs on the disk, in case the daemon is killed (ipc/left.h).
   See left.c. The MPI thread's. */
#ifndef FS_DAEMON_OUTPUTS_LEFT_H
#define FS_DAEMON_OUTPUTS_LEFT_H

#include "daemon/daemon.h"

void fs_left_start(struct fs_daemon *d);
/* Takes the answer to a call that has created, renamed or published something: its record. */
void fs_left_record(struct fs_daemon *d, const void *body, size_t n);
/* Takes a directory or symlink whose record is on this node. Calls nothing of ns.h. */
void fs_left_other(struct fs_daemon *d, const struct fs_record *r, bool gone);
/* Says that another node has bytes of this file. */
void fs_left_split(struct fs_daemon *d, uint64_t id);
void fs_left_timers(struct fs_daemon *d);
/* Writes all names that are not written yet. */
void fs_left_flush(struct fs_daemon *d);
/* Returns true if the backing directory has outputs that should have been saved and were not. */
bool fs_left_any(const struct fs_daemon *d);

#endif
