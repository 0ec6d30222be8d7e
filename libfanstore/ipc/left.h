/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Outputs in the backing directory of a daemon that ended before they were saved
 * (docs/internals/end-of-job.md). The backing files are in `out`, their names in the file
 * FS_LEFT_NAMES. Daemons use this to keep such outputs, and the launcher to list, copy and remove
 * them. No state.
 */
#ifndef FS_IPC_LEFT_H
#define FS_IPC_LEFT_H

#include "util/base.h"

/*
 * The file of names. The daemon appends lines in the format of ipc/control.h as changes happen. The
 * last line about an id is valid.
 *   name id=N dir=N name=NAME              file or directory N has this name in that directory
 *   path id=N path=PATH                    path of directory N below the mount; empty: the mount
 *   split id=N                             other nodes have segments of file N: the backing file
 *                                          here does not have all bytes
 * The daemons that keep the records of directory `dir` also write:
 *   name id=N dir=N name=NAME target=PATH  the directory has this symlink
 *   name id=N dir=N name=NAME made=        the directory has this subdirectory
 *   gone id=N dir=N                        the directory lost this symlink or subdirectory
 */
#define FS_LEFT_NAMES "names"

/* Counts the backing files in a backing directory, and their bytes. Returns 1 if there are any,
   0 if nothing is worth keeping. After an error the count is unknown: the caller must remove
   nothing. */
int fs_left_count(int backing, uint64_t *files, uint64_t *bytes);
/* Removes everything from the backing directory at `path` except outputs, their names and the lock.
   Returns 0 or the first error. */
fs_err fs_left_strip(int backing, const char *path);

#endif
