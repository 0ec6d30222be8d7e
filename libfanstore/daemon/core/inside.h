/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client inside the daemon: a thread of its own that needs bytes of other nodes' output files (stageout/copy.c,
 * keep.c) asks the MPI thread for them as a program of this node would, through a channel, and waits for the answer.
 * So what is held, given back and counted is so in one place, and only the MPI thread touches MPI. One thread each.
 */
#ifndef FS_DAEMON_CORE_INSIDE_H
#define FS_DAEMON_CORE_INSIDE_H

#include "daemon/daemon.h"

struct fs_inside;
/* By the MPI thread, before the guard listens: after that only the guard may add clients. */
fs_err fs_inside_new(struct fs_daemon *d, struct fs_inside **out);
/* A file of another node, held until it is let go: the same contents as often as it is held. */
fs_err fs_inside_open(struct fs_inside *in, uint64_t id, struct fs_opened *held);
void fs_inside_close(struct fs_inside *in, const struct fs_opened *held);
/* All n bytes from off on, FS_INSIDE_BYTES at most; -EAGAIN: it has become shorter. */
#define FS_INSIDE_BYTES (4 * FS_OUTPUT_BLOCK)
fs_err fs_inside_read(struct fs_inside *in, const struct fs_opened *held, void *buf, size_t n, uint64_t off);

#endif
