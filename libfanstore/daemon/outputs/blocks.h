/* SPDX-License-Identifier: BSD-3-Clause */
/* See blocks.c. */
#ifndef FS_DAEMON_OUTPUTS_BLOCKS_H
#define FS_DAEMON_OUTPUTS_BLOCKS_H

#include "daemon/blocks/source.h"

extern const struct fs_block_source fs_output_blocks;
/* Reads as many of the request's bytes as the file has, and their checksum. Any thread may call it. */
fs_err fs_output_read_bytes(struct fs_block_read *r, int fd);
/* Answers after fs_output_read_bytes. Answers with -ESTALE if some of the bytes may have moved to a
   segment during the read. */
void fs_output_read_done(struct fs_block_read *r, fs_err err);

#endif
