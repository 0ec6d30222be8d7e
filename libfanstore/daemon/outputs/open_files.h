/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files of other nodes that this node's clients hold (docs/internals/output-bytes.md): which client holds which
 * contents, how often, and when their home is to be told that nobody here does any more. The MPI thread's.
 */
#ifndef FS_DAEMON_OUTPUTS_OPEN_FILES_H
#define FS_DAEMON_OUTPUTS_OPEN_FILES_H

#include "daemon/daemon.h"
#include "daemon/outputs/snapshots.h"

fs_err fs_open_files_new(struct fs_daemon *d);
/* A client's OPEN goes to the file's home; its answer has come, or never will. */
fs_err fs_open_files_ask(struct fs_daemon *d, const struct fs_client *c, uint64_t id);
/* client is NULL when it is gone. In `held`, which is checked, the snapshot is filled in. */
fs_err fs_open_files_answered(struct fs_daemon *d, struct fs_client *c, uint64_t id, fs_err err,
                              struct fs_opened *held);
fs_err fs_open_files_release(struct fs_daemon *d, struct fs_client *c, uint64_t id, uint64_t snapshot);
/* A client that is gone gives all back. */
void fs_open_files_forget(struct fs_daemon *d, struct fs_client *c);
/* The contents that a client's key is about. NULL: there are none. */
const struct fs_snapshot *fs_open_files_find(const struct fs_daemon *d, uint32_t snapshot);
void fs_open_files_fetch(struct fs_daemon *d, uint32_t snapshot, bool begins);

/* ---- blocks.c ---- */
extern const struct fs_block_source fs_output_blocks;

#endif
