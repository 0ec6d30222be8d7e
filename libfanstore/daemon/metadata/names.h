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
fs_err fs_names_new(struct fs_names **out);
void fs_names_free(struct fs_names *n);

const struct fs_record *fs_names_find(const struct fs_names *n, uint64_t dir, const char *name, size_t len);
const struct fs_record *fs_names_find_id(const struct fs_names *n, uint64_t dir, uint64_t id);

/*
 * Makes r (its name and target given apart, of its lengths) the record of its id and of its name in its directory: one
 * of either that was there goes. A seq of 0 is the directory's next. 0 with the record in *now (which may be NULL), or
 * -ENOMEM with nothing changed.
 */
fs_err fs_names_put(struct fs_names *n, const struct fs_record *r, const char *name, const char *target,
                    const struct fs_record **now);
/* Calls watch for each directory and symlink that is put or removed, but for fs_names_drop_dir. It may not change the
   table. */
void fs_names_watch(struct fs_names *n, void (*watch)(void *ctx, const struct fs_record *r, bool gone), void *ctx);
/* Removes the record of this id from this directory. False: there is none. */
bool fs_names_drop(struct fs_names *n, uint64_t dir, uint64_t id);
/* Forgets a directory with all its records. */
void fs_names_drop_dir(struct fs_names *n, uint64_t dir);

/* Memory that all of it takes, about. */
uint64_t fs_names_bytes(const struct fs_names *n);
/* Records of a directory. */
uint64_t fs_names_count(const struct fs_names *n, uint64_t dir);
/* The number of its records that are directories. */
uint64_t fs_names_subdirs(const struct fs_names *n, uint64_t dir);
/* The first record in the directory's order with a greater seq, or NULL. */
const struct fs_record *fs_names_after(const struct fs_names *n, uint64_t dir, uint64_t seq);
/* Calls visit for each directory that has records or is closed, in no order; it may not change the table. */
void fs_names_each(const struct fs_names *n, void (*visit)(void *ctx, uint64_t dir), void *ctx);

/* When names in a directory were changed last, in ns; 0: never. A change here: later than all before,
   and than what was stamped up to now. */
uint64_t fs_names_changed(const struct fs_names *n, uint64_t dir);
void fs_names_change(struct fs_names *n, uint64_t dir, uint64_t now);
/* The primary's word. -ENOMEM. */
fs_err fs_names_changed_at(struct fs_names *n, uint64_t dir, uint64_t at);

/* A directory that is about to be removed takes no new names until this time (0: it does again). -ENOMEM. */
fs_err fs_names_close(struct fs_names *n, uint64_t dir, uint64_t until);
uint64_t fs_names_closed_until(const struct fs_names *n, uint64_t dir);
bool fs_names_closed(const struct fs_names *n, uint64_t dir, uint64_t now);

#endif
