/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds an output file's path below the mount, from its id and the directory in which its record
 * was last known to be. Other nodes know a directory only by its id, so the path is put together
 * from its end, with one question a level. A directory's parent never changes and its name seldom
 * does; both are remembered. The MPI thread's.
 */
#ifndef FS_DAEMON_OUTPUTS_OUTPATH_H
#define FS_DAEMON_OUTPUTS_OUTPATH_H

#include "daemon/daemon.h"

struct fs_record;
/* Gets the path, relative to the mount, or to the root if there are several datasets. It is
   valid during the call-back. -ENOENT: the file has no name. */
typedef void fs_path_done(void *ctx, fs_err err, const char *path);
void fs_path_find(struct fs_daemon *d, uint64_t dir, uint64_t id, fs_path_done *done, void *ctx);
/* Remembers that a program of this node has created directory `id` in `parent`. */
void fs_path_parent(struct fs_daemon *d, uint64_t id, uint64_t parent);

#endif
