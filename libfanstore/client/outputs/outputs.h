/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output files: what programs write below a mount (docs/outputs.md). If a file's bytes are on
 * this node, it is a file of the kernel's. Paths lead to it by FS_REDIRECT, and its descriptors are
 * tracked so that close publishes it. Output directories, and files of other nodes, have virtual
 * descriptors and entry numbers (slot.h), as those of datasets do. Without a daemon there are no
 * outputs. Lock-free, no allocation. A question about names is a call to the daemon.
 */
#ifndef FS_CLIENT_OUTPUTS_OUTPUTS_H
#define FS_CLIENT_OUTPUTS_OUTPUTS_H

#include <sys/statfs.h>

#include "client/names/names.h"
#include "client/node/words.h"
#include "client/path/path.h"
#include "ipc/call.h"

/* ---- stat.c ---- */

void fs_output_record_stat(uint32_t mount, const struct fs_record *r, struct stat *st);
/* stat of a number. */
fs_err fs_output_stat(uint32_t mount, uint32_t entry, struct stat *st);

/* ---- times.c: directories that have outputs ---- */

/* Sets when names in the directory were changed last, in ns since 1970, or 0 if never. Asks the
   daemon. */
fs_err fs_output_changed_at(uint64_t dir, uint64_t *changed);
/* Waits until changes of names in this directory of outputs that have returned are on two nodes. Does
   nothing if the number is that of another directory. */
fs_err fs_output_dir_sync(uint32_t entry);
/* Adds the times to an output directory's record, unless the answer had them. */
void fs_output_record_times(struct fs_record *r);
/* Gets the kernel's attributes of a file of this node, whose backing file f->real names, by a
   descriptor of their directory: a fifth faster than by the whole path. The other
   arguments are those of fstatat and statx. */
fs_err fs_output_kernel_stat(const struct fs_found *f, struct stat *st, int flags);
fs_err fs_output_kernel_statx(const struct fs_found *f, int flags, unsigned mask, struct statx *sx);
/* Asks the home for the attributes of a file that was not published yet. */
void fs_output_record_size(struct fs_record *r);
/* Adds the times of the outputs to those that the index has for a dataset's directory. */
void fs_output_dataset_times(uint32_t mount, uint32_t entry, struct stat *st);

/* ---- space.c: what there is room for ---- */
/* Returns 0, or -EDQUOT if the limit is reached and a real descriptor of an output must not grow to
   `size`, or not be written at all with UINT64_MAX. */
fs_err fs_output_room(int fd, uint64_t size);

/* Adds the room for outputs to a dataset's statfs. */
void fs_output_add_room(const struct fs_node *node, struct statfs *st);
/* Returns how many bytes the limit leaves, or UINT64_MAX without a limit. statfs of the backing
   file system is cut to this. */
uint64_t fs_output_left(void);
/* ---- file.c: files of this node ---- */

/* open(2) with O_CREAT of a name that was not looked for (FS_MAKE). Returns a descriptor of the
   kernel's. If the name exists, returns -EEXIST with its record in f->out, also of a file that is
   not published yet, which a look-up would not find. */
fs_fd fs_output_create(struct fs_found *f, int flags, mode_t mode);
/* Tracks fd, which the kernel has opened on the file of f->out, if it can be written or is of
   --stage-in's directory. If the open has emptied the file and fd can only be read, the call
   publishes the file too. */
void fs_output_opened(int fd, int flags, const struct fs_record *r);
/* Returns whether the entry is of a descriptor open for reading on a file of --stage-in's
   directory. Its attributes must not be changed. */
static inline bool fs_output_staged_in(uint64_t e) {
  return (e & FS_FDE_STAGED) != 0;
}
/* Returns whether a path like "/proc/self/fd/5" names a descriptor of a file of --stage-in's
   directory. By that path the kernel would open the file anew, for writing. */
extern _Atomic bool fs_output_staged_in_any;
bool fs_output_staged_in_path(const char *path);
static inline bool fs_output_staged_in_name(const char *path) {
  return atomic_load_explicit(&fs_output_staged_in_any, memory_order_relaxed) && fs_output_staged_in_path(path);
}
/* Returns whether the entry is of a tracked descriptor: one of an output file that can be written,
   or that the open has made or emptied. */
static inline bool fs_output_tracked(uint64_t e) {
  return (e & FS_FDE_OUTPUT) != 0;
}
/* Publish what was written through fd, so that other nodes see it before close; the second is for
   use after fsync. Return 0 or -EIO. */
fs_err fs_output_publish(int fd);
fs_err fs_output_publish_synced(int fd);
/* Called before a tracked real descriptor is cut or moved. fs_output_real_cut returns 1 if the
   kernel must not cut it. */
fs_err fs_output_real_cut(int fd, int64_t size);
fs_err fs_output_real_seek(int fd, int64_t off, int whence);
/* Called before attributes are set by a real descriptor or its name. Returns 1 if the descriptor is
   a forwarder; f->entry is then the number of the file to change. Otherwise the caller changes the
   kernel's file and calls fs_output_real_was_set. */
fs_err fs_output_real_set(int fd, struct fs_found *f);
fs_err fs_output_real_was_set(int fd, const struct fs_found *f);
/* Publishes a file of this node whose attributes were changed by its name. */
fs_err fs_output_publish_path(const struct fs_record *r, const char *path);
/* Returns the id of the output that a descriptor is tracked for, or 0. */
uint64_t fs_output_tracked_id(int fd);
/* Returns whether fd is of a file of this node that this process has opened by its name. */
bool fs_output_is_own(int fd);
/* Tracks `copy`, which dup or one of its like has made of fd. */
void fs_output_copied(int fd, int copy);
/* Publishes all tracked files. The process calls this before it ends or becomes another program. */
void fs_output_publish_all(void);
/* Publishes the tracked files that this process has opened itself. For a process that ends at once,
   maybe in a signal handler, and often a forked child. */
void fs_output_leave(void);

/* ---- locks.c ---- */

/* Sets, ends or tests locks of an output by a virtual descriptor (FS_LOCK_* in ipc/call.h). Returns
   -EAGAIN if another owner has a lock that conflicts, -EINTR if a signal handler ended the wait, and
   -ENOLCK. For FS_LOCK_TEST, fills *found. */
fs_err fs_output_lock(struct fs_slot *s, uint32_t flags, uint64_t start, uint64_t end, struct fs_lock_found *found);
/* Ends the locks that go with a descriptor which was closed. */
void fs_output_lock_closed(struct fs_slot *s);
/* Closes what this process has locked, because it ends: who waits for the end of the process finds no
   lock. Leaves open what stdio has still to write, unless `streams` is set. */
void fs_output_locks_leave(bool streams);
/* Called before a lock is ended by a real descriptor. Publishes the file if other nodes lock files of
   this node. */
void fs_output_unlocking(int fd);

/* ---- map.c: this node's files, mapped to be written ---- */

extern FS_INTERNAL _Atomic uint32_t fs_output_maps; /* how many mappings are tracked */
void fs_output_mapped(int fd, const void *addr, size_t n);
void fs_output_note_mapped(int fd); /* file.c: for map.c */
/* Publishes the mapped files in the range. With `unmapped`, forgets the mappings that are gone. */
fs_err fs_output_map_sync(const void *addr, size_t n, bool unmapped);

/* ---- change.c: names ---- */

fs_err fs_output_mkdir(const struct fs_found *f, mode_t mode);
fs_err fs_output_symlink(const struct fs_found *f, const char *target);
/* Removes a directory if `directory` is set, else anything but a directory. */
fs_err fs_output_remove(const struct fs_found *f, bool directory);
fs_err fs_output_rename(const struct fs_found *from, const struct fs_found *to, unsigned flags);
/* chmod, utimens and truncate of what fs_path_route found with FS_IN. */
fs_err fs_output_chmod(const struct fs_found *f, mode_t mode);
/* Returns 0 if the kernel would allow this chown: root to anybody, others to themselves and their
   groups. Else returns -EPERM. Nothing is kept. */
fs_err fs_output_chown(uid_t uid, gid_t gid);
fs_err fs_output_times(const struct fs_found *f, const struct timespec t[2]);
fs_err fs_output_truncate(const struct fs_found *f, int64_t size);
/* Truncates as fs_output_truncate does, after a check of permissions, for a caller that has not
   opened the file for writing. */
fs_err fs_output_truncate_path(const struct fs_found *f, int64_t size);

/* ---- opened.c, read.c, write.c: files of other nodes, and of several writers ---- */

/* Opens the file at its home, which then keeps the bytes as long as it is open, or by a batch. `slot`
   is that of its record in shared memory, or 0 (fs_output_slot). `flags` are those of open(2). */
fs_err fs_output_open(uint32_t entry, uint32_t slot, int flags);
/* Publishes what a closed descriptor of the file has written. The last close gives the file back to
   home. */
void fs_output_closed(struct fs_slot *s);
/* fstat with home's current answer, or with one of the last 10 ms if nobody has published the file
   since. */
fs_err fs_output_fstat(uint32_t mount, uint32_t entry, struct stat *st);
/* Opens, in a forked child, the files that it has inherited. */
void fs_output_forked(void);
/* Sets the size. Asks home again if the known size is less than `need` and may be out of date. */
fs_err fs_output_size(uint32_t entry, uint64_t need, uint64_t *size);
/* Appends n bytes (O_APPEND). Returns how many went there in one piece, and sets *off to where, or
   to FS_APPEND_UNKNOWN. */
fs_ssize fs_output_append(uint32_t entry, const struct iovec *iov, int count, size_t n, uint64_t *off);
/* Makes later writes publish at once, because the process ends. */
void fs_output_at_end(void);
/* Counts a copy of a descriptor of the file. */
void fs_output_copied_slot(const struct fs_slot *s);
fs_ssize fs_output_write(uint32_t entry, const void *buf, size_t n, uint64_t off);
/* Tells home what this process has written. */
fs_err fs_output_flush(uint32_t entry, bool sync);
fs_ssize fs_output_read(uint32_t entry, void *buf, size_t n, uint64_t off);
/* Prefetches what home has of the file, as fs_data_prefetch_from does. Bytes in segments are only
   fetched ahead while they are read. */
fs_err fs_output_prefetch_from(uint32_t entry, uint64_t *off, uint64_t end);
/* Returns whether home keeps the bytes for this process. */
bool fs_output_is_open(uint32_t entry);
/* For a file that is about to be handed on to another process: opens it at its home, if it is open by a
   batch. Returns true if it was removed meanwhile: then only this process has the bytes. */
bool fs_output_only_here(uint32_t entry);
/* Called before an open file is changed or locked: opens it at its home, if it is open by a batch. Returns
   0, FS_E_REAL if it was removed meanwhile, or an error. After FS_E_REAL, fs_output_forwarder gives the
   process a copy to write to. */
fs_err fs_output_at_home(uint32_t entry);
/* Ends home's duty to keep the bytes, unless a descriptor of the file is open here. */
void fs_output_close(uint32_t entry);
/* Pins a file that is open here while a call that came by a path uses it. If the last descriptor is
   closed meanwhile, fs_output_unpin does the last close's work. Returns false if the file is not
   open, as far as this process knows. */
bool fs_output_pin(uint32_t entry);
void fs_output_unpin(uint32_t entry, bool pinned);
/* Returns a write-only file of the kernel's whose bytes become the file's. `flags` are those of its
   open, and off is where it stands. */
fs_fd fs_output_forwarder(uint32_t entry, uint32_t flags, uint64_t off);
/* Waits until the first `size` bytes that were written to a backing file of this node are
   published. Returns -EAGAIN if that takes longer than `end`. */
fs_err fs_output_sync(uint64_t id, uint64_t size, uint64_t end);
/* Act on the file before the kernel cuts or moves fd, a forwarder of this id or a backing file. If
   the cut returns 1, the kernel must not cut fd. */
fs_err fs_output_forwarder_cut(int fd, uint64_t id, uint64_t size);
fs_err fs_output_forwarder_seek(int fd, uint64_t id, int64_t off, int whence);
/* Returns the id of the backing file of this node that a real descriptor is open on, as the kernel
   says, or 0. */
uint64_t fs_output_real_id(int fd);
/* If fd is a forwarder, waits until the file has all that was written, sets *entry to its number
   and returns 1. Otherwise returns 0; other nodes then see the file's present state, if they see it
   at all. */
fs_err fs_output_forwarded(int fd, uint64_t id, uint32_t *entry);
/* Returns -ENOLCK if a real descriptor stands for another node's file, so that a lock of it would
   exclude nobody. Else returns 0. */
fs_err fs_output_real_lock(int fd);
/* Returns whether `link`, a name in /proc, is of a copy that fs_output_copy has made. Such a
   copy has no name, in the backing directory or in memory. */
bool fs_output_copy_link(const char *link);
/* Tracks a real descriptor that came from elsewhere, if it is of an output and can be written. */
void fs_output_note_real(int fd);
/* Returns a file of the kernel's with the same bytes, open to read. */
fs_fd fs_output_materialize(uint32_t entry);
/* The same, open with the access and O_APPEND of `flags`. What is written there is this process's alone. */
fs_fd fs_output_copy(uint32_t entry, uint32_t flags);

/* ---- list.c ---- */

/* Positions in a directory. The outputs' begin here, after all that the dataset has. */
#define FS_OUTPUT_AT (1ull << 41)
static_assert(FS_RECORD_SEQ_MAX < FS_OUTPUT_AT, "a position is an offset of 47 bits");
/* Writes getdents64 records of the outputs of a directory from position *at on, and moves *at.
   Returns the number of bytes, 0 at the end, or -EINVAL if not even one record fits. */
fs_ssize fs_output_list(uint32_t mount, uint32_t dir, uint64_t *at, void *buf, size_t n);

#endif
