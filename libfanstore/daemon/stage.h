/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Node-local copies of a dataset: <local>/fanstore/<dataset id in hex>/{index,part-NNNNN} (emulated node k of several
 * on one host: <local>/fanstore-node<k>/<id>/...). A copy is written under a temporary name, checksummed on the way
 * against the index, fsynced, renamed, and then stamped: a file "part-NNNNN.stamp" with dataset id, size, mtime and
 * inode of the copy and a checksum, fsynced. Only a copy whose stamp fits is used without reading it again. A
 * lock file in the directory keeps two jobs from staging the same partition at once. docs/staging.md.
 * Used by the daemon; blocking, one thread.
 */
#ifndef FS_DAEMON_STAGE_H
#define FS_DAEMON_STAGE_H

#include <limits.h>

#include "index/index.h"
#include "util/base.h"

struct fs_stage {
  char source[PATH_MAX]; /* dataset directory */
  char local[PATH_MAX];  /* this node's directory for this dataset */
  struct fs_index index; /* of the local copy once staged, else of the source */
};

/* bytes copied by now of the whole; return a negative errno to stop */
typedef fs_err fs_stage_progress_fn(void *ctx, uint64_t done_bytes);

/* Finds the local directory's name (not yet made) and opens the dataset's index (manifest checked). */
fs_err fs_stage_open(struct fs_stage *s, const char *source, const char *local_root, int emulated_node, char *why,
                     size_t why_size);
void fs_stage_close(struct fs_stage *s);
/* Makes the local directory, removes fragments of dead jobs. -EROFS, -EACCES, -ENOSPC with why. */
fs_err fs_stage_prepare(struct fs_stage *s, char *why, size_t why_size);
/* Bytes free for this user on the local directory's file system. */
uint64_t fs_stage_free_bytes(const char *local_root);
/* Sets have[p] for every partition with a fitting stamp. */
void fs_stage_scan(const struct fs_stage *s, bool *have);
/* Copies the index (verified in full) and switches s->index to it. */
fs_err fs_stage_index(struct fs_stage *s, char *why, size_t why_size);
/* Copies, checks, syncs, renames and stamps partition p. -ENOSPC leaves nothing behind. */
fs_err fs_stage_partition(struct fs_stage *s, uint32_t p, fs_stage_progress_fn *progress, void *ctx, char *why,
                          size_t why_size);
/* Removes this dataset's copies on this node (--purge), unless another live job uses them (shared lock). */
fs_err fs_stage_purge(struct fs_stage *s);

#endif
