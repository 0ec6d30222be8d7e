/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client inside the daemon. Some threads of the daemon need bytes of other nodes' output files
 * (stageout/copy.c, keep.c). They ask the MPI thread through a channel, as programs of this node
 * do, and wait for the answer. So open files are counted in one place, and only the MPI thread
 * touches MPI. Each client is used by one thread.
 */
#ifndef FS_DAEMON_CORE_INSIDE_H
#define FS_DAEMON_CORE_INSIDE_H

#include "daemon/daemon.h"

struct fs_inside;
/* Makes a client. The MPI thread calls it before the guard listens, as only the guard may add
   clients after that. */
fs_err fs_inside_new(struct fs_daemon *d, struct fs_inside **out);
/* Opens a file of another node. Its contents stay the same until it is closed. */
fs_err fs_inside_open(struct fs_inside *in, uint64_t id, struct fs_opened *held);
void fs_inside_close(struct fs_inside *in, const struct fs_opened *held);
/* Reads all n bytes from off on, n at most FS_INSIDE_BYTES. Returns 0, -EAGAIN if the file has
   become shorter, or another error. Each wait for an answer ends after two deadlines. */
#define FS_INSIDE_BYTES (4 * FS_OUTPUT_BLOCK)
fs_err fs_inside_read(struct fs_inside *in, const struct fs_opened *held, void *buf, size_t n, uint64_t off);

#endif
