/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Directories in which processes without a daemon share the copies of files that they map
 * (docs/internals/read-path.md, "Real files"):
 *
 *   BASE/fanstore-copies-<uid>/<dataset id>-<boot>/
 *
 * Both directories have mode 0700. <boot> is the first part of the kernel's boot id: after a crash
 * of the machine a file may be marked as filled and not be. Each process that uses the inner
 * directory holds a shared flock on it. A process that ends tries to make this lock exclusive. The
 * process that succeeds is the last one and removes the directory. If a directory has no lock, its
 * processes were killed. The next process that needs such directories removes it, and so does
 * `fs-launch clean`.
 *
 * All functions make raw system calls only and allocate nothing. They are safe between processes,
 * and between threads that use different descriptors.
 */
#ifndef FS_IPC_ALONE_H
#define FS_IPC_ALONE_H

#include <limits.h>

#include "util/base.h"

#define FS_ALONE_DIR "fanstore-copies-"

/* Returns base number i: FANSTORE_TMPDIR, TMPDIR, /tmp or /dev/shm. Returns NULL if the variable is
   not set or its path is not absolute. */
#define FS_ALONE_BASES 4u
#define FS_ALONE_MEMORY 3u /* /dev/shm: used if the other bases have no room */
const char *fs_alone_base(unsigned i);

/* Writes the path of the inner directory to `out`. Returns -ENAMETOOLONG, or -ENOENT if the kernel
   does not give its boot id. */
fs_err fs_alone_path(const char *base, const uint8_t id[16], char out[PATH_MAX]);

/* Opens the inner directory at this path with a shared lock, and makes the directory if it does not
   exist. Returns -EOPNOTSUPP if BASE is not on a local file system, where locks and mapped bytes
   are reliable; -EUCLEAN if another user owns the name or can write there; -EAGAIN if the directory
   was being removed for two seconds. */
fs_fd fs_alone_enter(const char *path);

/* Returns true if `path` still names the directory that is open at fd. */
bool fs_alone_is(const char *path, int fd);

/* Releases the lock, and removes the directory if no other process holds a lock. Does not close
   fd. */
void fs_alone_leave(const char *path, int fd);

/* Removes the directories in `base` that no process uses. */
void fs_alone_clean(const char *base);

/* Parses a path of the form .../ID-BOOT/NAME. Stores the id and returns where NAME begins, or
   NULL. */
const char *fs_alone_parse(const char *path, uint8_t id[16]);

#endif
