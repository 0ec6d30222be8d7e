/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the table of records that the node's programs read (ipc/record_table.h). It is in a memfd,
 * which others can only map for reading. Pages of it take memory when they are written first. The
 * MPI thread is the only writer. If the daemon dies in the middle of a change, the sequence number
 * stays odd, and everybody asks.
 */
#ifndef FS_DAEMON_METADATA_SHARED_NAMES_H
#define FS_DAEMON_METADATA_SHARED_NAMES_H

#include "ipc/record_table.h"

struct fs_shared_names;

/* Makes a table for as many records as `bytes` has room for. Returns 0 or a negative errno. */
fs_err fs_shared_names_new(struct fs_shared_names **out, uint64_t bytes);
void fs_shared_names_free(struct fs_shared_names *t);
int fs_shared_names_fd(const struct fs_shared_names *t, uint64_t *size);

/* Enclose changes that readers see together. They may be nested. */
void fs_shared_names_begin(struct fs_shared_names *t);
void fs_shared_names_end(struct fs_shared_names *t);
/* Puts a record, or what is known of a directory (name_len 0), in a slot of its own. Returns the
   slot's number + 1, or 0 if there is no room or the name is too long. */
uint32_t fs_shared_names_put(struct fs_shared_names *t, const struct fs_record *r, const char *name,
                             const char *target);
/* Replaces the record of a slot by one with the same directory and name. */
void fs_shared_names_set(struct fs_shared_names *t, uint32_t slot, const struct fs_record *r, const char *name,
                         const char *target);
void fs_shared_names_drop(struct fs_shared_names *t, uint32_t slot);
/* What is in the table is certain until this time; 0: nothing is. */
void fs_shared_names_until(struct fs_shared_names *t, uint64_t until);

#endif
