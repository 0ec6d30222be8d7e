/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of outputs, as this process knows them: their directories, and the numbers by which
 * descriptors and paths mean them. Lock-free, no allocation. A question about a name is a call to
 * the daemon (calls.h).
 *
 * A "number" here is an entry number of slot.h's table. The "tree's number" is a counter that
 * changes with the tree of directories.
 */
#ifndef FS_CLIENT_NAMES_NAMES_H
#define FS_CLIENT_NAMES_NAMES_H

#include <errno.h>
#include <sys/stat.h>

#include "client/names/calls.h"
#include "client/names/found.h"
#include "client/node/mountlist.h"

/* ---- names.c: directories and numbers ---- */

/* Returns the id by which the daemons know a directory, or 0 if nothing can be made there. */
uint64_t fs_output_dir_id(uint32_t mount, uint32_t entry);
/* Returns whether the directory may have outputs. Reads shared memory only. */
bool fs_output_maybe(const struct fs_node *node, uint64_t dir);
/* Finds the record of a name, which may be a whiteout. Returns 0 with the record, or -ENOENT. */
fs_err fs_output_find(uint64_t dir, const char *name, size_t len, struct fs_answer *a, const struct fs_record **r);
/* Returns the number of the slot of a name's record in shared memory + 1, or 0. */
uint32_t fs_output_slot(uint64_t dir, const char *name, size_t len);
/* Reads the record with this id if that slot has it still. Returns false if it has not, or if the
   daemon must be asked. Makes no call. */
bool fs_output_record_at(uint32_t slot, uint64_t id, struct fs_record *r);
/* Returns what the dataset has of a name in the directory `dir` of a mount, or NULL. */
const struct fs_entry *fs_names_entry(uint32_t mount, uint32_t dir, const char *name, size_t len);
/* Looks a name up. Returns 0 with the record, or -ENOENT. */
fs_err fs_output_look_up(uint64_t dir, const char *name, size_t len, struct fs_answer *a, const struct fs_record **r);
/* A way to an output directory: from the directory `dir` by a name, or by a path of directories'
   names only. A path is known together with what the caller may search, a name without. */
enum fs_known_as { FS_KNOWN_NAME, FS_KNOWN_AS_ROOT, FS_KNOWN_AS_OTHER };
struct fs_known {
  uint64_t dir, tree; /* tree: fs_output_tree from before the look-up */
  const char *name;
  size_t len;
  enum fs_known_as as;
};
/* Returns the number of a directory that was walked through lately, or 0. */
uint32_t fs_output_known_dir(const struct fs_known *k);
/* Remembers the number `entry` of a directory for fs_output_known_dir, if the tree's number is the
   same still. */
void fs_output_note_dir(const struct fs_node *node, const struct fs_known *k, uint32_t entry);
/* Returns the tree's number, which the caller reads before a question. */
uint64_t fs_output_tree(const struct fs_node *node);
/* Returns the number of a record's directory or file in directory `parent`, or -ENFILE. With
   FS_OUTPUT_PARENT_AS_IS the known parent stays, or is the mount's own directory until a walk goes
   up. */
#define FS_OUTPUT_PARENT_AS_IS UINT32_MAX
int64_t fs_output_number(const struct fs_record *r, uint32_t parent);
/* Returns the number of the directory with that id, also if it was removed, or what
   fs_output_number returns. Asks the daemon if no process of this table has come to the
   directory. */
int64_t fs_output_number_of(uint64_t id);
/* Returns the node of a number, or NULL if there is no such number. */
struct fs_output_node *fs_output_node(uint32_t entry);
/* Sets the type and permissions of a number. For root, who needs no permissions, those of a
   directory may be out of date. */
fs_err fs_output_mode(uint32_t entry, uint32_t *mode);
/* Sets the type and permissions of any entry. */
static inline fs_err fs_entry_mode(uint32_t mount, uint32_t entry, uint32_t *mode) {
  fs_err err = 0;
  *mode = S_IFDIR | 0755;
  if (FS_UNLIKELY(fs_is_vdir(entry))) return 0;
  if (fs_is_output(entry)) return fs_output_mode(entry, mode);
  const struct fs_index *ix = fs_mount_ix(mount, &err);
  const struct fs_entry *e = ix == NULL ? NULL : fs_index_entry(ix, entry);
  if (FS_UNLIKELY(e == NULL)) return ix == NULL ? err : -EUCLEAN;
  *mode = e->mode;
  return 0;
}
/* Remembers that the directory had this mode at or after the time of that tree's number. */
void fs_output_permits(uint32_t entry, uint32_t mode, uint64_t tree);
/* Decides the route to f->out, which was found in the directory f->entry by a walk with `flags`. A
   file of this node that nobody else has written is the kernel's. Other files, and symlinks, get a
   number, unless they are only looked at. */
int fs_output_found(struct fs_found *f, unsigned flags);
/* Decides what to do if a file that was found is missing (ENOENT), and sets errno. `real` is the
   path of its bytes on this node, or NULL. Returns true if the name is to be looked up again. If
   the bytes are missing time and again, errno is EIO and a line goes to stderr. */
bool fs_output_gone(const char *real, unsigned tries);
/* Writes the path of the backing file of a file of this node. */
fs_err fs_output_path(const struct fs_node *node, uint64_t id, char out[PATH_MAX]);
/* Returns the number of the directory that an output directory is in. A rename may have changed
   it. */
uint32_t fs_output_up(uint32_t mount, uint32_t entry);
/* Writes the names of an output directory and of the output directories above it, each after a "/",
   to the end of buf. Sets *entry to the dataset's directory that they are in. Returns their length,
   -ENAMETOOLONG, or why there is no answer. */
fs_ssize fs_output_path_below(uint32_t mount, uint32_t *entry, char *buf, size_t size);
/* Gets the record of a number. */
fs_err fs_output_record_of(uint32_t entry, struct fs_answer *a, const struct fs_record **r);
/* Reads a symlink by its number. */
fs_ssize fs_output_readlink(uint32_t entry, char *buf, size_t n);
/* Makes a call about a record. If the record has moved to another directory, the call is corrected
   and repeated. *r is the record in the answer, or NULL. */
fs_err fs_output_ask_id(struct fs_names_call *c, struct fs_answer *a, const struct fs_record **r);
/* Publishes a file and follows its name if that has moved. Sets *dir to where it is. flags:
   FS_PUBLISH_DURABLE. Returns 0 also if the file has no name any more. */
fs_err fs_output_tell(uint64_t *dir, uint64_t id, const struct stat *st, uint32_t flags);
/* Like fs_output_ask_id, for the record of a number. The id is in the call; the directory is known
   here. */
fs_err fs_output_ask_number(uint32_t entry, struct fs_names_call *c, struct fs_answer *a, const struct fs_record **r);
/* Checks that f's name can be made or removed, and sets its directory's id. Returns 0, -EROFS or
   -EACCES. */
fs_err fs_output_may_make(const struct fs_found *f, uint64_t *dir);
/* Returns the error if the directory may not be written: -EEXIST if a name to be made is there,
   -ENOENT if a name to be removed is not, else -EACCES. */
fs_err fs_output_refused(const struct fs_found *f, uint64_t dir, bool made);

/* ---- own.c ---- */

/* Waits until the home of a file of --stage-in has a copy of it, or an empty file. Called before
   the file is changed. Returns -EINTR if a signal comes after the first second. */
fs_err fs_output_own(uint64_t id, bool empty);

#endif
