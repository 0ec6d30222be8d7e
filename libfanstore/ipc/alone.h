/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where processes without a daemon share the copies of files that they map (docs/internals/read-path.md,
 * "Real files"):
 *
 *   BASE/fanstore-copies-<uid>/<dataset id>-<boot>/
 *
 * Both directories have mode 0700. <boot> is the first part of the kernel's boot id: after a crash
 * of the machine a file may say that it is filled and not be. Each process that uses the inner
 * directory holds a shared flock on it. A process that ends tries to make this lock exclusive. The
 * one that succeeds is the last, and removes the directory. A directory without a lock is one that
 * killed processes have left: the next process that needs such directories removes it, and so does
 * `fs-launch clean`.
 *
 * Raw system calls only; no allocation. Safe between processes, and in threads by descriptors of
 * their own.
 */
#ifndef FS_IPC_ALONE_H
#define FS_IPC_ALONE_H

#include <limits.h>

#include "util/base.h"

#define FS_ALONE_DIR "fanstore-copies-"

/* BASE of this number: FANSTORE_TMPDIR, TMPDIR, /tmp, /dev/shm. NULL: not set, or not absolute. */
#define FS_ALONE_BASES 4u
#define FS_ALONE_MEMORY 3u /* /dev/shm, for what the others have no room for */
const char *fs_alone_base(unsigned i);

/* The inner directory's path. -ENAMETOOLONG; -ENOENT: the kernel does not tell its boot id. */
fs_err fs_alone_path(const char *base, const uint8_t id[16], char out[PATH_MAX]);

/* Opens the inner directory of this path with a shared lock; makes it if it is not there.
   -EOPNOTSUPP: BASE is not on a file system of this machine's
   own, where a lock and the bytes of a mapping hold; -EUCLEAN: the name is not ours, or others may
   write there; -EAGAIN: it was being removed for two seconds. */
fs_fd fs_alone_enter(const char *path);

/* Is this path still this open directory's name? */
bool fs_alone_is(const char *path, int fd);

/* Gives the lock up; removes the directory if no other process has one. Does not close. */
void fs_alone_leave(const char *path, int fd);

/* Removes what nobody uses in BASE. */
void fs_alone_clean(const char *base);

/* Reads PATH/ID-BOOT/NAME: the id and where NAME begins, or NULL. */
const char *fs_alone_parse(const char *path, uint8_t id[16]);

#endif
