/* SPDX-License-Identifier: BSD-3-Clause */
/* The names of this node's outputs on the disk, for the case that the daemon is killed (ipc/left.h). See left.c. */
#ifndef FS_DAEMON_OUTPUTS_LEFT_H
#define FS_DAEMON_OUTPUTS_LEFT_H

#include "daemon/daemon.h"

void fs_left_start(struct fs_daemon *d);
/* The answer to a call that has made, renamed or published something: its record. */
void fs_left_record(struct fs_daemon *d, const void *body, size_t n);
/* A directory or symlink of which this node has the record. Calls nothing of ns.h. */
void fs_left_other(struct fs_daemon *d, const struct fs_record *r, bool gone);
/* Another node has bytes of this file. */
void fs_left_split(struct fs_daemon *d, uint64_t id);
void fs_left_timers(struct fs_daemon *d);
/* Writes what is not written yet. */
void fs_left_flush(struct fs_daemon *d);
/* Is there anything in the backing directory that was to be saved, and is not? */
bool fs_left_any(const struct fs_daemon *d);

#endif
