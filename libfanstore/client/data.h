/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client's mounts and the bytes of their files: which datasets this process sees, attaching to the node's
 * daemon, and reading a range of a file from wherever its blocks are (local partition, node cache, peer through the
 * daemon, shared copy). Used by client/files and preload; tested with no preload.
 *
 * Everything is lazy and may be called first from any thread, a signal handler, or a forked child. The read path
 * takes no lock, allocates nothing and sets no errno; raw system calls only. Where two threads race to open
 * something, one wins and the other's is dropped.
 */
#ifndef FS_CLIENT_DATA_H
#define FS_CLIENT_DATA_H

#include "index/index.h"
#include "ipc/layout.h"
#include "util/base.h"

struct fs_mount; /* opaque but for the accessors below */

/* Reads the environment once (cheap; a constructor may call it). Number of mounts: 0 when nothing is configured. */
uint32_t fs_mounts(void);
/*
 * The same with the mounts' other names: one whose path leads through a symlink of the real file system can also be
 * reached by the path without it. Such a name has a number of its own, above the mounts'; it is the canonical one,
 * which getcwd and realpath give. fs_mount_canonical: from a mount's number to that of its canonical name.
 */
uint32_t fs_mount_names(void);
uint32_t fs_mount_canonical(uint32_t i);
/* Normalised mount path of mount i, and its length. Known without attaching unless the dataset's manifest names it. */
const char *fs_mount_path(uint32_t i, size_t *len);
/* The index of mount i, attaching on first use. NULL with *err set when it cannot be had (the calls then fail with it).
 */
const struct fs_index *fs_mount_index(uint32_t i, fs_err *err);
/* st_dev of everything below mount i. */
dev_t fs_mount_dev(uint32_t i);
bool fs_mounts_read_only(void);
/* For a constructor: keeps the job's run directory and this process's node, for programs that clear their environment.
 */
void fs_run_remember(void);
/* For a constructor: where datasets were named relative to the current directory, calls set(name, value) with what says
   the same in any directory, so that children that start elsewhere find them too. */
void fs_mounts_export(void (*set)(const char *name, const char *value));

/*
 * Reads up to n bytes at off of a regular file into buf. Count (short only at the end of the file), or -EIO, -EFAULT,
 * -EUCLEAN. *place (may be NULL) is where the first block came from. buf may be any memory of the caller's; a bad
 * pointer is -EFAULT where the kernel would say so for large reads too (the small-read fast path may fault).
 */
fs_ssize fs_data_read(uint32_t mount, uint32_t entry, void *buf, size_t n, uint64_t off, enum fs_place *place);

/* A file was opened, and will probably be read from its beginning: has the processor fetch what a read waits for first.
   No system call, no fault, nothing is counted. */
void fs_data_opened(uint32_t mount, uint32_t entry);

/*
 * A file descriptor (owned by the library, CLOEXEC, do not close) and an offset in it where [off, off + len) of
 * the file can be mapped with page granularity: a page-aligned raw file in a partition, else the materialised copy.
 * off is page-aligned; exec: the mapping is to be executable. Bytes after the file's end up to the page's end are zero.
 * *temporary is set when the descriptor is to be closed by the caller after mmap.
 */
fs_err fs_data_map(uint32_t mount, uint32_t entry, uint64_t off, uint64_t len, bool exec, int *fd, uint64_t *fd_off,
                   bool *temporary);

/* Before mremap or remap_file_pages lets a mapping at addr show n bytes from `off` of its file on: has the node's copy
   filled there. 0, also when the mapping shows nothing of ours; -ENOMEM. */
#define FS_REMAP_HERE UINT64_MAX /* off: where addr is */
fs_err fs_data_remap(const void *addr, uint64_t off, uint64_t n);

/* A new read-only kernel descriptor (CLOEXEC) of a real file with the entry's content, at offset 0: for exec, fds
   0-2, sendfile and programs without the preload. Shared by the node where a daemon runs; anonymous else. */
fs_fd fs_data_materialize(uint32_t mount, uint32_t entry);

/* The process ends: what it shares with others without a daemon is removed if it is the last. Safe
   in a signal handler. */
void fs_data_leave(void);

/* Around fork, in the thread that forks: makes locks for the child, which takes them over; the
   parent closes its descriptors of them. */
#define FS_FORK_LOCKS 16u
struct fs_fork_locks {
  unsigned n;
  struct {
    void *of;
    int fd;
  } lock[FS_FORK_LOCKS];
};
void fs_data_locks_fork(struct fs_fork_locks *l);
void fs_data_locks_forked(struct fs_fork_locks *l, bool child);

/* Is this the name of a file that fs_data_materialize has made? */
bool fs_data_materialized(const char *path, uint32_t *mount, uint32_t *entry);

/* ---- prefetch.c: hints; nobody waits for the data ---- */

#define FS_PREFETCH_BLOCKS 256u /* of one file at most */
/* Starts fetching [*off, end) of a file: the remote blocks into the node's cache, the others into the page cache. *off
   goes on beyond what was taken. 0, -EAGAIN (the queue of remote blocks is full), or why the dataset cannot be used. */
fs_err fs_data_prefetch_from(uint32_t mount, uint32_t entry, uint64_t *off, uint64_t end);
/* The same without a word about it. */
void fs_data_prefetch(uint32_t mount, uint32_t entry, uint64_t off, uint64_t n);
/* Whole files by their paths; fanstore.h has the rules (fanstore_prefetch). */
fs_ssize fs_data_prefetch_list(const char *const *paths, size_t n, size_t *started);

/* Adds to a counter of this client (enum fs_counter + place). */
void fs_count(unsigned counter, uint64_t n);

/* Around a fork by a wrapper: begin in the parent, end in both. Bounded waits; see ownfd.c. */
void fs_data_fork_begin(void);
void fs_data_fork_end(bool child);
/* In a forked child, before anything else: drops the parent's attachment and populated chunks. Async-signal-safe. */
void fs_data_forked(void);
/* Is this descriptor one of the library's own (to be shielded from close, closefrom and the like)? */
bool fs_data_owns_fd(int fd);
/* No descriptor of the library's own has ever had a lower number. */
extern FS_INTERNAL _Atomic int fs_own_lowest;
/* The lowest of them that is not below fd, or -1. */
int fs_data_next_owned(int fd);
/* Moves a descriptor to the library's own range (>= 1000, and above a soft limit that is lower, where the hard limit
   allows), CLOEXEC, and marks it owned.
   The new number; the old is closed. */
fs_fd fs_data_adopt_fd(int fd);
/* For a constructor: the kernel's table of descriptors becomes as large as the
   library's own will need it. Later, with threads, that takes the kernel 10 ms. */
void fs_own_make_room(void);
/* The program wants this number: moves the library's descriptor away. The old number stays open, to be replaced by
 * dup2. */
bool fs_own_move(int fd);
/* Opens a file at a number above the soft limit, where the hard limit has room; -EMFILE. */
fs_fd fs_own_open_above(const char *path, int flags);
/* Closes a descriptor that fs_data_adopt_fd gave. */
void fs_own_close(int fd);

#endif
