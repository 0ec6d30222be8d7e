/* SPDX-License-Identifier: BSD-3-Clause */
/* Batches of small files (ipc/batch.h), for the source of blocks in blocks.c. See batch.c. */
#ifndef FS_DAEMON_OUTPUTS_BATCH_H
#define FS_DAEMON_OUTPUTS_BATCH_H

#include "daemon/blocks/source.h"

/* Fills in what is asked of the home for a batch that a client wants. -EINVAL: there is no such one. */
fs_err fs_batch_resolve(const struct fs_daemon *d, uint64_t key, struct fs_wanted *w);
bool fs_batch_sane(const struct fs_wire_req *q);
/* Makes the batch that another node asks for, and answers. */
void fs_batch_read(struct fs_daemon *d, struct fs_block_read *r);

#endif
