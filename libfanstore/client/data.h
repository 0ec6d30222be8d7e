/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This is the client's interface to its mounts and to the bytes of their files. It says which
 * datasets this process sees, attaches to the node's daemon, and reads a range of a file from
 * wherever its blocks are: a local partition, the node's cache, a peer through the daemon, or the
 * shared copy. client/files and preload/ call it; it works without preload/.
 *
 * Everything is lazy: any thread, signal handler or forked child may make the first call. The read
 * path takes no lock, allocates nothing, sets no errno and makes raw system calls only. If two
 * threads race to open something, one wins and the other's is dropped.
 */
#ifndef FS_CLIENT_DATA_H
#define FS_CLIENT_DATA_H

#include "index/index.h"
#include "ipc/layout.h"
#include "util/base.h"

struct fs_mount; /* opaque but for the accessors below */

/* Returns the number of mounts, 0 if none is configured. The first call reads the environment; a
   constructor may make it. */
uint32_t fs_mounts(void);
/*
 * Returns the number of mounts and of their canonical names together. If a mount's path leads
 * through a symlink of the real file system, the path without the symlink is its canonical name,
 * which getcwd and realpath give. A canonical name has a number of its own, above the mounts'.
 */
uint32_t fs_mount_names(void);
/* Returns the number of the canonical name of mount i, or i if the mount has no other name. */
uint32_t fs_mount_canonical(uint32_t i);
/* Returns the normalised path of mount i and sets its length. The path is known without attaching,
   unless the dataset's manifest names it. */
const char *fs_mount_path(uint32_t i, size_t *len);
/* Returns the index of mount i. The first call attaches. If there is no index, the call returns
   NULL and sets *err, with which the program's calls then fail. */
const struct fs_index *fs_mount_index(uint32_t i, fs_err *err);
/* Returns the st_dev of everything below mount i. */
dev_t fs_mount_dev(uint32_t i);
bool fs_mounts_read_only(void);
/* Keeps the job's run directory and this process's node, for programs that clear their environment.
   A constructor calls this. */
void fs_run_remember(void);
/* Calls set(name, value) with absolute paths for the variables that name datasets relative to the
   current directory, so that children that start elsewhere find them. A constructor calls this. */
void fs_mounts_export(void (*set)(const char *name, const char *value));

/*
 * Reads up to n bytes at off of a regular file into buf. Returns the count, which is short only at
 * the end of the file, or -EIO, -EFAULT or -EUCLEAN. Sets *place, if not NULL, to where the first
 * block came from. buf may be any memory of the caller's. A bad pointer is -EFAULT where the kernel
 * would say so, for large reads too; the fast path for small reads may fault instead.
 */
fs_ssize fs_data_read(uint32_t mount, uint32_t entry, void *buf, size_t n, uint64_t off, enum fs_place *place);

/* Has the processor fetch what the first read of a just opened file waits for. The call makes no
   system call, does not fault and counts nothing. */
void fs_data_opened(uint32_t mount, uint32_t entry);

/*
 * Sets *fd and *fd_off to a descriptor and an offset in it where [off, off + len) of the file can
 * be mapped with page granularity: in a page-aligned raw file of a partition, else in the
 * materialised copy. off is page-aligned. `exec` says that the mapping is to be executable. Bytes
 * between the file's end and the page's end are zero. The library owns the descriptor, which is
 * CLOEXEC. If *temporary is set, the caller closes it after mmap; otherwise it must not.
 */
fs_err fs_data_map(uint32_t mount, uint32_t entry, uint64_t off, uint64_t len, bool exec, int *fd, uint64_t *fd_off,
                   bool *temporary);

/* Fills the node's copy for n bytes from `off` of its file, before mremap or remap_file_pages lets
   a mapping at addr show them. Returns 0, also if the mapping shows nothing of a dataset, or
   -ENOMEM. */
#define FS_REMAP_HERE UINT64_MAX /* off: where addr is */
fs_err fs_data_remap(const void *addr, uint64_t off, uint64_t n);

/* Returns a new read-only kernel descriptor (CLOEXEC) at offset 0 of a real file with the entry's
   content. exec, descriptors 0-2, sendfile and programs without the library need such a file. If a
   daemon runs, the node shares the file; otherwise it is anonymous. */
fs_fd fs_data_materialize(uint32_t mount, uint32_t entry);
/* Like fs_data_materialize, for an entry of any kind. Returns -EISDIR for what is no regular file,
   and -EACCES if the caller may not read it. */
fs_fd fs_data_materialize_checked(uint32_t mount, uint32_t entry);

/* Removes what this process shares with others without a daemon, if it is the last of them. The
   process calls this at its end. Async-signal-safe. */
void fs_data_leave(void);

/* Carry the process's locks over a fork. The forking thread calls fs_data_locks_fork before the
   fork, to make locks for the child, and fs_data_locks_forked after it. The child takes the locks
   over; the parent closes its descriptors of them. */
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

/* Returns whether path names a file that fs_data_materialize has made, and sets of which entry. */
bool fs_data_materialized(const char *path, uint32_t *mount, uint32_t *entry);

/* ---- prefetch.c: hints; nobody waits for the data ---- */

#define FS_PREFETCH_BLOCKS 256u /* of one file at most */
/* Starts to fetch [*off, end) of a file: remote blocks into the node's cache, others into the page
   cache. Moves *off past what was taken. Returns 0, -EAGAIN if the queue of remote blocks is full,
   or why the dataset cannot be used. */
fs_err fs_data_prefetch_from(uint32_t mount, uint32_t entry, uint64_t *off, uint64_t end);
/* Starts to fetch n bytes at off of a file, as fs_data_prefetch_from does. Reports no error. */
void fs_data_prefetch(uint32_t mount, uint32_t entry, uint64_t off, uint64_t n);
/* Prefetches whole files by their paths, by the rules of fanstore_prefetch in fanstore.h. */
fs_ssize fs_data_prefetch_list(const char *const *paths, size_t n, size_t *started);

/* Adds to a counter of this client (enum fs_counter + place). */
void fs_count(unsigned counter, uint64_t n);

/* Keep other threads from publishing descriptors during a fork (ownfd.c says why). A wrapper of
   fork calls begin in the parent and end in both processes. The waits are bounded. */
void fs_data_fork_begin(void);
void fs_data_fork_end(bool child);
/* More than 0 in a vfork child, whose memory is its parent's and whose descriptors are not. */
extern FS_INTERNAL FS_TLS int fs_vfork_depth;
/* Drops the parent's attachment and populated chunks. A forked child calls this before anything
   else. Async-signal-safe. */
void fs_data_forked(void);
/* Returns whether fd is the library's own, so that close, closefrom and the like must spare it. */
bool fs_data_owns_fd(int fd);
/* The lowest number that any descriptor of the library's own has ever had. */
extern FS_INTERNAL _Atomic int fs_own_lowest;
/* Returns the library's lowest descriptor that is not below fd, or -1. */
int fs_data_next_owned(int fd);
/* Moves fd to the library's own range, marks it as owned and sets CLOEXEC. The range begins at
   1000, or above the soft limit if that is lower and the hard limit allows. Returns the new number;
   the old one is closed. */
fs_fd fs_data_adopt_fd(int fd);
/* Grows the kernel's table of descriptors to the size that the library's own need. A constructor
   calls this, because the kernel takes 10 ms for it once there are threads. */
void fs_own_make_room(void);
/* Moves the library's descriptor away from a number that the program wants. The old number stays
   open, for dup2 to replace. Returns whether the descriptor moved. Its users then fail
   fs_own_still. */
bool fs_own_move(int fd);
/* Opens a file at a number above the soft limit. Returns -EMFILE if the hard limit has no room. */
fs_fd fs_own_open_above(const char *path, int flags);
/* Closes a descriptor that fs_data_adopt_fd returned. */
void fs_own_close(int fd);

#endif
