/* SPDX-License-Identifier: BSD-3-Clause */
/* A table of names and their numbers, for save.c, make.c and play.c. One thread. */
#ifndef FS_LAUNCH_REPLAY_NAMES_H
#define FS_LAUNCH_REPLAY_NAMES_H

#include "util/base.h"

struct fs_names_table {
  struct fs_names_entry {
    char *name; /* NULL: free */
    size_t len;
    uint64_t value;
  } * entry;
  size_t used, room; /* room: a power of two, or 0 */
};
/* Returns the entry of a name, which is made with value UINT64_MAX if it is not there. Returns NULL
   without memory. It stays valid until the next call. */
struct fs_names_entry *fs_names_table_get(struct fs_names_table *t, const char *name, size_t len);
void fs_names_table_free(struct fs_names_table *t);

#endif
