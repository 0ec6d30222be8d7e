/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names of output files that this rank keeps, as primary or backup of their directories
 * (docs/internals/metadata.md): a table in memory, by (directory, name), by (directory, id), and by order within a
 * directory. It knows nothing of other ranks and does no I/O; whoever changes it tells the backup. One thread. A record
 * that is handed out is valid until the next change.
 */
#ifndef FS_DAEMON_METADATA_NAMES_H
#define FS_DAEMON_METADATA_NAMES_H

#include "ipc/record.h"

struct fs_names;
struct fs_shared_names;
fs_err fs_names_new(struct fs_names **out);
void fs_names_free(struct fs_names *n);

/* Return the record of a name, or of an id, in a directory, or NULL. */
const struct fs_record *fs_names_find(const struct fs_names *n, uint64_t dir, const char *name, size_t len);
const struct fs_record *fs_names_find_id(const struct fs_names *n, uint64_t dir, uint64_t id);

/*
 * Stores the record r, whose name and target are given apart, with the lengths that r states. A
 * record with the same id or the same name in the directory is removed first. If r->seq is 0, the
 * record gets the directory's next number. Returns 0 and sets *now (unless now is NULL) to the
 * stored record, or returns -ENOMEM and changes nothing.
 */
fs_err fs_names_put(struct fs_names *n, const struct fs_record *r, const char *name, const char *target,
                    const struct fs_record **now);
/* Enclose changes that readers of the shared table see together. */
void fs_names_begin(const struct fs_names *n);
void fs_names_end(const struct fs_names *n);
/* From now on calls watch for each directory and symlink that is put or removed, except by
   fs_names_drop_dir. The call-back may not change the table. */
void fs_names_watch(struct fs_names *n, void (*watch)(void *ctx, const struct fs_record *r, bool gone), void *ctx);
/* How much of a directory is shared: nothing; records, while others may be missing; all records. */
enum fs_names_part { FS_NAMES_NONE, FS_NAMES_SOME, FS_NAMES_ALL };
/*
 * From now on the records of the directories of which `part` is not NONE are also in the shared
 * table. `home` returns the rank that has a file's bytes. `part` is asked when a directory is made
 * here, and by fs_names_share_again, which goes through all records: after a change of members.
 * There must be no records yet at fs_names_share.
 */
struct fs_names_sharing {
  struct fs_shared_names *table;
  enum fs_names_part (*part)(void *ctx, uint64_t dir);
  uint32_t (*home)(void *ctx, const struct fs_record *r);
  void *ctx;
};
void fs_names_share(struct fs_names *n, const struct fs_names_sharing *s);
void fs_names_share_again(struct fs_names *n);
/* Shares up to `most` records of directories that have come to the table with records: after the call
   before, or after a change of their stage. Call it every few milliseconds. */
void fs_names_share_more(struct fs_names *n, uint32_t most);
/* A directory that is new here is private; ns_private.c changes that. Of one that is not here,
   FS_NAMES_SHOWN is returned. `part` may ask for the stage, and is asked when it changes. */
enum fs_names_stage { FS_NAMES_PRIVATE, FS_NAMES_ENDING, FS_NAMES_SHOWN };
enum fs_names_stage fs_names_stage(const struct fs_names *n, uint64_t dir);
void fs_names_set_stage(struct fs_names *n, uint64_t dir, enum fs_names_stage stage);
/* From now on all records of this directory are here; its names changed last at `changed`. */
fs_err fs_names_complete(struct fs_names *n, uint64_t dir, uint64_t changed);
/* Removes the record of this id from this directory. Returns false if there is none. */
bool fs_names_drop(struct fs_names *n, uint64_t dir, uint64_t id);
/* Forgets a directory with all its records. */
void fs_names_drop_dir(struct fs_names *n, uint64_t dir);
void fs_names_drop_all(struct fs_names *n);

/* Returns about how many bytes of memory the table takes. */
uint64_t fs_names_bytes(const struct fs_names *n);
/* Records of a directory. */
uint64_t fs_names_count(const struct fs_names *n, uint64_t dir);
/* The number of its records that are directories. */
uint64_t fs_names_subdirs(const struct fs_names *n, uint64_t dir);
/* Returns the directory's first record with a sequence number above seq, or NULL. */
const struct fs_record *fs_names_after(const struct fs_names *n, uint64_t dir, uint64_t seq);
/* Calls visit for each directory that has records or is closed, in no order. The call-back may
   not change the table. */
void fs_names_each(const struct fs_names *n, void (*visit)(void *ctx, uint64_t dir), void *ctx);

/* fs_names_changed returns when names in a directory last changed, in ns, or 0 for never.
   fs_names_change stamps a change made here, later than every earlier change and than every
   stamp given up to now. */
uint64_t fs_names_changed(const struct fs_names *n, uint64_t dir);
void fs_names_change(struct fs_names *n, uint64_t dir, uint64_t now);
/* Stores the time of change that the primary has sent, unless a later one is known. Returns 0 or
   -ENOMEM. */
fs_err fs_names_changed_at(struct fs_names *n, uint64_t dir, uint64_t at);

/* fs_names_close closes a directory until the time `until`: a closed directory takes no new
   names. If until is 0, the directory is open again. Returns 0 or -ENOMEM. */
fs_err fs_names_close(struct fs_names *n, uint64_t dir, uint64_t until);
uint64_t fs_names_closed_until(const struct fs_names *n, uint64_t dir);
bool fs_names_closed(const struct fs_names *n, uint64_t dir, uint64_t now);

#endif
