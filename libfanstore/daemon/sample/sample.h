/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lines `sample`, `stats`, `latency`, `waits` and `files` (ipc/control.h): what this node counts and how long its
 * programs wait, for fs-launch. See docs/internals/live.md. The MPI thread's.
 */
#ifndef FS_DAEMON_SAMPLE_SAMPLE_H
#define FS_DAEMON_SAMPLE_SAMPLE_H

#include "daemon/daemon.h"

fs_err fs_sampler_new(struct fs_daemon *d);
/* Says what has changed, once a second. */
void fs_sampler_timers(struct fs_daemon *d);
void fs_sampler_client_gone(struct fs_daemon *d, struct fs_client *c);
/* Says all counters once more, at the end. */
void fs_sampler_leave(struct fs_daemon *d, int status);

#endif
