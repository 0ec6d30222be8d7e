/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an output file is called: its path below the mount, found from its id and the directory that its record was last
 * known to be in. Everybody knows a directory by its id alone, so the path is put together from its end, one question
 * a level; a directory's parent never changes and its name seldom does, and both are remembered. The MPI thread's.
 */
#ifndef FS_DAEMON_OUTPUTS_OUTPATH_H
#define FS_DAEMON_OUTPUTS_OUTPATH_H

#include "daemon/daemon.h"

struct fs_record;
/* path: relative to the mount, or with several datasets to the root, valid during the call-back. -ENOENT: it has no
   name. */
typedef void fs_path_done(void *ctx, fs_err err, const char *path);
void fs_path_find(struct fs_daemon *d, uint64_t dir, uint64_t id, fs_path_done *done, void *ctx);
/* A program of this node has made directory `id` in `parent`. */
void fs_path_parent(struct fs_daemon *d, uint64_t id, uint64_t parent);

#endif
