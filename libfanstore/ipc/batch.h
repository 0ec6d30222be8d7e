/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A batch: the bytes of small outputs with neighbouring ids, in one block of the node's cache. The
 * files' home makes it (daemon/outputs/batch.c), and a program of another node opens them by it
 * without a question (client/outputs/batch.c). docs/internals/output-bytes.md, "Batches", has the
 * argument, tests/model/batch.pml the model.
 *
 * A batch never changes. Bytes of it are used only while the file's record in shared memory has the
 * version that the batch names. So an old batch does no harm. The next turn has newer bytes.
 */
#ifndef FS_IPC_BATCH_H
#define FS_IPC_BATCH_H

#include <assert.h>

#include "ipc/record.h"

#define FS_BATCH_FILES 16u
#define FS_BATCH_SMALL 8192u /* bytes of a file in a batch, at most */

struct fs_batch_file {
  uint64_t version; /* of the record of the publication that the bytes belong to; 0: the file is not here */
  int64_t mtime, ctime;
  uint32_t mtime_ns, ctime_ns, mode;
  uint32_t size, at; /* of the bytes; where they begin in the batch */
  uint32_t reserved;
};
static_assert(sizeof(struct fs_batch_file) == 48, "fs_batch_file is 48 bytes");

struct fs_batch {
  uint64_t appended; /* ctl's word of the asking node, before it asked */
  struct fs_batch_file file[FS_BATCH_FILES];
};
#define FS_BATCH_MOST (sizeof(struct fs_batch) + FS_BATCH_FILES * FS_BATCH_SMALL)

/* Returns true if a client has made the id: those of one client follow each other. */
static inline bool fs_batch_id(uint64_t id) {
  return fs_id_ok(id) && (id >> 47 & 1) != 0;
}
/* The key of a batch is the id of its first file, with the turn in place of the low bits. */
#define FS_BATCH_FIRST(id) ((id) & ~(uint64_t)(FS_BATCH_FILES - 1))
#define FS_BATCH_TURN(key) ((uint32_t)(key) & (FS_BATCH_FILES - 1))

#endif
