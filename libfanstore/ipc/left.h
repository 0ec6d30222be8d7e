/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Outputs that a daemon has left in its backing directory when it ended before they were saved
 * (docs/internals/end-of-job.md): backing files in `out`, and their names in the file FS_LEFT_NAMES. Used by daemons,
 * which do not remove them, and by the launcher.
 */
#ifndef FS_IPC_LEFT_H
#define FS_IPC_LEFT_H

#include "util/base.h"

/*
 * Lines as in ipc/control.h, appended by the daemon as things happen; the last line about an id counts:
 *   name id=N dir=N name=NAME               the file or directory N has this name in that directory
 *   path id=N path=PATH                     the directory N has this path below the mount; empty: the mount itself
 *   split id=N                              other nodes have written into the file N: this backing file has not all of
 *                                           its bytes
 *   name id=N dir=N name=NAME target=PATH   this directory has such a symlink. From the daemons that keep its records,
 *   name id=N dir=N name=NAME made=         as are: it has such a directory;
 *   gone id=N dir=N                         it has this symlink or directory no more
 */
#define FS_LEFT_NAMES "names"

/* Counts the backing files of a backing directory, and their bytes. Returns 1 if there are any, 0 if nothing in it is
   worth keeping. An error: nobody knows, so nothing may be removed. */
int fs_left_count(int backing, uint64_t *files, uint64_t *bytes);
/* Removes all from the backing directory at `path` but outputs, their names and its lock. The first error. */
fs_err fs_left_strip(int backing, const char *path);

#endif
