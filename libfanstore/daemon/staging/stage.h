/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Node-local copies of a dataset: <local>/fanstore/<dataset id in hex>/{index,part-NNNNN}. For
 * emulated node k of several on one host they are in <local>/fanstore-node<k>/<id>/. See
 * docs/internals/staging.md. The daemon uses this; the functions block; one thread.
 *
 * A copy is written under a temporary name, checksummed on the way against the index, synced,
 * renamed, and then stamped. A stamp is a synced file "part-NNNNN.stamp" with the dataset id, the
 * copy's size, mtime and inode, and a checksum. Only a copy whose stamp fits is used without
 * reading it again. Lock files in the directory keep two jobs from staging the same partition at
 * once (".staging", held for one copy), and from removing what another job reads (".lock", held
 * shared from fs_stage_prepare to fs_stage_close).
 */
#ifndef FS_DAEMON_STAGING_STAGE_H
#define FS_DAEMON_STAGING_STAGE_H

#include "daemon/core/dataset.h"

/* Gets the number of bytes of the present partition copied so far, every few MiB. Returns a
   negative errno to stop. */
typedef fs_err fs_stage_progress_fn(void *ctx, uint64_t done_bytes);

/* Where a copy's bytes come from, if not from the source: another node. */
struct fs_stage_peer {
  /* Reads n bytes at `off`: called for the file's bytes in order. After an error that is not
     -ECANCELED the rest comes from the source. */
  fs_err (*read)(void *ctx, void *buf, size_t n, uint64_t off);
  void *ctx;
  uint64_t bytes; /* read in this way */
  bool wrong;     /* they were not the partition's, which was copied from the source then */
};

/* Finds the name of the local directory, without making it, and opens the dataset's index and
   checks its manifest. emulated_node is negative unless several nodes share this host. */
fs_err fs_stage_open(struct fs_stage *s, const char *source, const char *local_root, int emulated_node, char *why,
                     size_t why_size);
void fs_stage_close(struct fs_stage *s);
/* Removes incomplete copies at the end of the process, while another thread may be copying.
   Nothing is copied after that. */
void fs_stage_abandon(struct fs_stage *s);
/* Makes the local directory and removes fragments of dead jobs. Returns 0, or -EROFS, -EACCES or
   -ENOSPC with `why`. */
fs_err fs_stage_prepare(struct fs_stage *s, char *why, size_t why_size);
/* Returns how many bytes are free for this user on the local directory's file system. */
uint64_t fs_stage_free_bytes(const char *local_root);
/* Sets have[p] for every partition with a fitting stamp. */
void fs_stage_scan(const struct fs_stage *s, bool *have);
/* Copies the index (verified in full) and switches s->index to it. */
fs_err fs_stage_index(struct fs_stage *s, char *why, size_t why_size);
/* Copies, checks, syncs, renames and stamps partition p, from the peer unless it is NULL. A complete
   copy without a stamp is only checked and stamped. -ENOSPC, -EBADMSG and all other errors leave
   nothing behind. */
fs_err fs_stage_partition(struct fs_stage *s, uint32_t p, struct fs_stage_peer *peer, fs_stage_progress_fn *progress,
                          void *ctx, char *why, size_t why_size);
/* Links a complete and synced file of partition p, which the caller has just packed, into this node's
   directory, and stamps it. `from` is on the same file system. If that has no links, moves the file. */
fs_err fs_stage_adopt(struct fs_stage *s, uint32_t p, int from, const char *name, char *why, size_t why_size);
/* Removes this dataset's copies on this node (--purge), unless another live job uses them (shared lock). */
fs_err fs_stage_purge(struct fs_stage *s);

#endif
