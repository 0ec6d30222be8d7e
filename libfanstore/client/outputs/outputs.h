/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output files: what programs write below a mount (docs/outputs.md). A file whose bytes are on this node is a file
 * of the kernel's: paths lead to it by FS_REDIRECT, and its descriptors are noted so that closing publishes it. Output
 * directories, and files of other nodes, have entry numbers as those of datasets have (slot.h), and virtual
 * descriptors. Without a daemon there are none. Lock-free, no allocation; a call to the daemon where names are asked
 * for.
 */
#ifndef FS_CLIENT_OUTPUTS_OUTPUTS_H
#define FS_CLIENT_OUTPUTS_OUTPUTS_H

#include <sys/statfs.h>

#include "client/outputs/calls.h"
#include "client/path/path.h"

/* ---- outputs.c: directories and numbers ---- */

/* The id of a directory, as the daemons know it. 0: nothing can be made there. */
uint64_t fs_output_dir_id(uint32_t mount, uint32_t entry);
/* May the directory have outputs? Reads shared memory only. */
bool fs_output_maybe(const struct fs_node *node, uint64_t dir);
/* The record of a name; -ENOENT. `flags`: FS_LOOKUP_UNPUBLISHED, or 0. */
fs_err fs_output_look_up(uint64_t dir, const char *name, size_t len, uint32_t flags, struct fs_answer *a,
                         const struct fs_record **r);
/* A directory that was come through lately: its number, or 0. */
uint32_t fs_output_known_dir(const struct fs_node *node, uint64_t dir, const char *name, size_t len);
void fs_output_note_dir(const struct fs_node *node, uint64_t dir, const char *name, size_t len, uint32_t entry,
                        uint64_t tree);
/* What the directory tree's number was before a question. */
uint64_t fs_output_tree(const struct fs_node *node);
/* The number of a directory or of another node's file in directory `parent`; -ENFILE. AS_IS: what it was, or the
   mount's own directory, until somebody climbs. */
#define FS_OUTPUT_PARENT_AS_IS UINT32_MAX
int64_t fs_output_number(const struct fs_record *r, uint32_t parent);
/* The number of the directory of that id, as fs_output_number, also if it was removed. Asks, if no process of this
   table has come to it. */
int64_t fs_output_number_of(uint64_t id);
/* NULL: no such number. */
struct fs_output_node *fs_output_node(uint32_t entry);
/* Type and permissions of a number. What root sees of a directory's, who needs none, may have been changed since. */
fs_err fs_output_mode(uint32_t entry, uint32_t *mode);
/* The directory had this mode at or after the time when that was the tree's number. */
void fs_output_permits(uint32_t entry, uint32_t mode, uint64_t tree);
/* f->out was found in the directory f->entry: the route to it. A file of this node, which nobody else has written, is
   the kernel's; others, and symlinks, get a number, unless they are only looked at. `flags`: of the walk. */
int fs_output_found(struct fs_found *f, unsigned flags);
/* A file that was found was not there (ENOENT). Is it to be looked up again? real: where its bytes are on this node, or
   NULL. If they are missing time and again, errno is EIO, and a line is said. */
bool fs_output_gone(const char *real, unsigned tries);
/* The bytes of a file of this node: FS_REDIRECT's path. */
fs_err fs_output_path(const struct fs_node *node, uint64_t id, char out[PATH_MAX]);
/* The directory that an output directory is in: it may have been renamed. */
uint32_t fs_output_up(uint32_t mount, uint32_t entry);
/* Path of an output directory: fs_path_of. */
fs_ssize fs_output_path_of(uint32_t mount, uint32_t entry, char *buf, size_t size);
/* Of a symlink, by number. */
fs_ssize fs_output_readlink(uint32_t entry, char *buf, size_t n);
void fs_output_record_stat(uint32_t mount, const struct fs_record *r, struct stat *st);
/* A call about a record, whose directory is brought up to date in the call where the record has moved; the record that
   is answered, or NULL. */
fs_err fs_output_ask_id(struct fs_names_call *c, struct fs_answer *a, const struct fs_record **r);
/* The same of a number's record, whose id is in the call: its directory is known here. */
fs_err fs_output_ask_number(uint32_t entry, struct fs_names_call *c, struct fs_answer *a, const struct fs_record **r);
/* By number. */
fs_err fs_output_stat(uint32_t mount, uint32_t entry, struct stat *st);

/* ---- times.c: directories that have outputs ---- */

/* When names in it were changed last, in ns since 1970; 0: never. Asks. */
fs_err fs_output_changed_at(uint64_t dir, uint64_t *changed);
/* Of an output directory's record, unless that is answered with it. */
void fs_output_record_times(struct fs_record *r);
/* Of a dataset's directory, beside what the index says. */
void fs_output_dataset_times(uint32_t mount, uint32_t entry, struct stat *st);

/* ---- space.c: what there is room for ---- */

/* The word of this node's daemon that says whether its outputs take more than they may (FS_OUTPUT_FULL), and whether
   what is passed on to other nodes may be refused there (FS_OUTPUT_AWAIT). */
extern FS_INTERNAL const _Atomic uint32_t *_Atomic fs_output_full_word;
static inline uint32_t fs_output_room_word(void) {
  return atomic_load_explicit(atomic_load_explicit(&fs_output_full_word, memory_order_relaxed), memory_order_relaxed);
}
static inline bool fs_output_full(void) {
  return (fs_output_room_word() & FS_OUTPUT_FULL) != 0;
}
static inline bool fs_output_awaits(void) {
  return FS_UNLIKELY((fs_output_room_word() & FS_OUTPUT_AWAIT) != 0);
}
/* After a write to a real descriptor, where that is so: of a forwarder, whether home has taken it. */
fs_err fs_output_await(int fd);
/* 0, or -EDQUOT: a real descriptor of an output must not become longer, or, with `size` UINT64_MAX, not be written. */
fs_err fs_output_room(int fd, uint64_t size);

/* To what statfs says of a dataset: the room that there is for outputs. */
void fs_output_add_room(const struct fs_node *node, struct statfs *st);
/* What is left of the limit, for what the kernel says of the file system that the outputs are on; UINT64_MAX. */
uint64_t fs_output_left(void);

/* ---- file.c: files of this node ---- */

/* The id of the directory in which f's name is to be made or removed; -EROFS, -EACCES. */
fs_err fs_output_may_make(const struct fs_found *f, uint64_t *dir);
/* -EACCES; but -EEXIST where the name that was to be made is there, -ENOENT where the one that was to go is not. */
fs_err fs_output_refused(const struct fs_found *f, uint64_t dir, bool made);
/* open(2) with O_CREAT of a name that was not looked for (FS_MAKE): a descriptor of the kernel's; -EEXIST, and f->out
   is what was there: also a file that is not published yet, as a look-up would not find it. */
fs_fd fs_output_create(struct fs_found *f, int flags, mode_t mode);
/* The kernel has opened the file of f->out as fd: it is noted, when it can be written, or when
   it is --stage-in's; one that was emptied, and can only be read, is published besides. */
void fs_output_opened(int fd, int flags, const struct fs_record *r);
/* Is it open for reading on a file of --stage-in's directory, whose attributes are not to be changed? */
static inline bool fs_output_staged_in(uint64_t e) {
  return (e & FS_FDE_STAGED) != 0;
}
/* Does the path name such a descriptor ("/proc/self/fd/5")? By it the kernel would open the file anew, for writing. */
extern _Atomic bool fs_output_staged_in_any;
bool fs_output_staged_in_path(const char *path);
static inline bool fs_output_staged_in_name(const char *path) {
  return atomic_load_explicit(&fs_output_staged_in_any, memory_order_relaxed) && fs_output_staged_in_path(path);
}
/* Is the descriptor one of an output file that can be written, or was made or emptied by opening it? */
static inline bool fs_output_tracked(uint64_t e) {
  return (e & FS_FDE_OUTPUT) != 0;
}
/* Other nodes shall see what was written through fd, before close; after fsync. 0, or a negative errno: EIO. */
fs_err fs_output_publish(int fd);
fs_err fs_output_publish_synced(int fd);
/* Before a noted descriptor that is real is cut (then 1: not to be cut by the kernel), or moved. */
fs_err fs_output_real_cut(int fd, int64_t size);
fs_err fs_output_real_seek(int fd, int64_t off, int whence);
/* Before attributes are set by a real descriptor, or by its name. 1: it is a forwarder, and f->entry the number of the
   file that is to be changed. Else the kernel's does it, and after it the second is called. */
fs_err fs_output_real_set(int fd, struct fs_found *f);
fs_err fs_output_real_was_set(int fd, const struct fs_found *f);
/* The same for a file that was changed by its name. */
fs_err fs_output_publish_path(const struct fs_record *r, const char *path);
/* Its id, or 0. */
uint64_t fs_output_tracked_id(int fd);
/* Is it a file of this node that this process has opened by its name? */
bool fs_output_is_own(int fd);
/* copy was made of fd, by dup and its like. */
void fs_output_copied(int fd, int copy);
/* Publishes all: the process ends, or becomes another program. */
void fs_output_publish_all(void);
/* The same for what the process has opened itself: it ends at once, maybe in a signal handler, and is a forked child,
 * often. */
void fs_output_leave(void);

/* ---- map.c: this node's files, mapped to be written ---- */

extern FS_INTERNAL _Atomic uint32_t fs_output_maps; /* how many there are */
void fs_output_mapped(int fd, const void *addr, size_t n);
/* Publishes those that lie there, and forgets them where they are there no more. */
fs_err fs_output_map_sync(const void *addr, size_t n, bool unmapped);

/* ---- change.c: names ---- */

fs_err fs_output_mkdir(const struct fs_found *f, mode_t mode);
fs_err fs_output_symlink(const struct fs_found *f, const char *target);
/* Directories with `directory`, else all but those. */
fs_err fs_output_remove(const struct fs_found *f, bool directory);
fs_err fs_output_rename(const struct fs_found *from, const struct fs_found *to, unsigned flags);
/* chmod, utimens and truncate of what fs_path_route found with FS_IN. */
fs_err fs_output_chmod(const struct fs_found *f, mode_t mode);
/* By root, to anybody; by others, to themselves and their groups; else -EPERM. Nothing is kept. */
fs_err fs_output_chown(uid_t uid, gid_t gid);
fs_err fs_output_times(const struct fs_found *f, const struct timespec t[2]);
fs_err fs_output_truncate(const struct fs_found *f, int64_t size);
/* The same for who has not opened it for writing. */
fs_err fs_output_truncate_path(const struct fs_found *f, int64_t size);
/* Before a file of --stage-in's is changed: waits until its home has a copy of it (an empty one). -EINTR after a second
   of that, when a signal came. */
fs_err fs_output_own(uint64_t id, bool empty);

/* ---- read.c, write.c: files of other nodes, and of several writers ---- */

/* At open: asks home, which keeps the bytes as long as they are held. */
fs_err fs_output_open(uint32_t entry);
/* A descriptor of it was closed: what it wrote is published, and it is given back. */
void fs_output_closed(const struct fs_slot *s);
/* fstat: as home has it now. */
fs_err fs_output_fstat(uint32_t mount, uint32_t entry, struct stat *st);
/* In a forked child, for what it has inherited. */
void fs_output_forked(void);
/* Size; asks home again where less than `need` is known. */
fs_err fs_output_size(uint32_t entry, uint64_t need, uint64_t *size);
/* O_APPEND, of n bytes: as much as went there, in one piece; *off: where, or FS_APPEND_UNKNOWN. */
fs_ssize fs_output_append(uint32_t entry, const struct iovec *iov, int count, size_t n, uint64_t *off);
/* The process ends: what is written from now on is published at once. */
void fs_output_at_end(void);
/* A descriptor of it was copied. */
void fs_output_copied_slot(const struct fs_slot *s);
fs_ssize fs_output_write(uint32_t entry, const void *buf, size_t n, uint64_t off);
/* Tells home what this process has written. */
fs_err fs_output_flush(uint32_t entry, bool sync);
fs_ssize fs_output_read(uint32_t entry, void *buf, size_t n, uint64_t off);
/* fs_data_prefetch_from: of what its home has of the file; what is in segments is fetched ahead as it is read. */
fs_err fs_output_prefetch_from(uint32_t entry, uint64_t *off, uint64_t end);
/* Does home keep its bytes for this process? It need not, unless it is open. */
bool fs_output_is_open(uint32_t entry);
void fs_output_close(uint32_t entry);
/* While a call that came by a path has to do with a file that is open here: its last descriptor's end is the call's,
   then. False: it is not open, as far as this process knows. */
bool fs_output_pin(uint32_t entry);
void fs_output_unpin(uint32_t entry, bool pinned);
/* A file of the kernel's whose bytes become that file's, write-only, by the flags of its open; off: where it stands. */
fs_fd fs_output_forwarder(uint32_t entry, uint32_t flags, uint64_t off);
/* The first `size` bytes that were written to a backing file of this node are published; -EAGAIN: not until `end`. */
fs_err fs_output_sync(uint64_t id, uint64_t size, uint64_t end);
/* Before the kernel cuts or moves fd, a forwarder of this id or a backing file: for the file. Of cut 1: not to be cut
 * then. */
fs_err fs_output_forwarder_cut(int fd, uint64_t id, uint64_t size);
fs_err fs_output_forwarder_seek(int fd, uint64_t id, int64_t off, int whence);
fs_err fs_output_forwarder_await(int fd, uint64_t id);
/* The id of the backing file of this node that a real descriptor is open on; 0. By the kernel's word. */
uint64_t fs_output_real_id(int fd);
/* It is a forwarder: 1, all that was written to it is the file's, and *entry its number; 0: it is none, and what it is
   now others see, if they see it at all. */
fs_err fs_output_forwarded(int fd, uint64_t id, uint32_t *entry);
/* 0, or -ENOLCK: a real descriptor stands for another node's file, so that a lock of it would exclude nobody. */
fs_err fs_output_real_lock(int fd);
/* Is it the copy that fs_output_materialize has made, by its name in /proc? It has none, in the backing directory or in
 * memory. */
bool fs_output_copy_link(const char *link);
/* Is a real descriptor, which came from elsewhere, one of an output that can be written? It is noted then. */
void fs_output_note_real(int fd);
/* A file of the kernel's with the same bytes, read-only. */
fs_fd fs_output_materialize(uint32_t entry);

/* ---- list.c ---- */

/* In a directory's positions: the outputs' places begin here, after all that the dataset has. */
#define FS_OUTPUT_AT (1ull << 41)
static_assert(FS_RECORD_SEQ_MAX < FS_OUTPUT_AT, "a position is an offset of 47 bits");
/* Then come the names of this node (nodelocal.h). */
#define FS_NL_AT (1ull << 42)
/* getdents64 records of the outputs of a directory, from position *at on, which moves. Bytes; 0 at the end; -EINVAL
   when not even one fits. */
fs_ssize fs_output_list(uint32_t mount, uint32_t dir, uint64_t *at, void *buf, size_t n);

#endif
