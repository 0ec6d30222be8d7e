/* SPDX-License-Identifier: BSD-3-Clause */
/* What names.c and names_share.c share. */
#ifndef FS_DAEMON_METADATA_NAMES_PRIV_H
#define FS_DAEMON_METADATA_NAMES_PRIV_H

#include "daemon/core/chain.h"
#include "daemon/metadata/names.h"
#include "daemon/metadata/shared_names.h"
#include "util/table.h"

struct fs_name {
  struct fs_table_link by_id, by_name;
  struct fs_names_dir *in;
  uint32_t slot; /* in the shared table; 0: none */
  struct fs_record rec;
  char text[]; /* the name and the target, as they follow a record in a message */
};

struct fs_place_of {
  uint64_t seq;
  struct fs_name *name; /* NULL: a hole */
};

struct fs_places { /* places in order of seq */
  struct fs_place_of *place;
  size_t used, room, live;
};

struct fs_names_dir {
  struct fs_table_link by_id;
  uint64_t seq, closed_until, changed;
  uint64_t subdirs;           /* the number of its records that are directories */
  struct fs_places all, late; /* `all` always has room for the places of `late` */
  enum fs_names_part part;    /* of its records: shared, if there is room */
  bool missing;               /* there was no room for one */
  enum fs_names_stage stage;  /* of its way from a private to a known directory */
  uint32_t slot;              /* its own in the shared table; 0: none */
  struct fs_chain lag;        /* link in the list of those whose older records are not shared yet */
  uint64_t shared_upto;       /* seq, while it is in that list */
};

struct fs_names {
  struct fs_table dirs, by_id, by_name;
  uint64_t bytes;
  void (*watch)(void *ctx, const struct fs_record *r, bool gone);
  void *watch_ctx;
  struct fs_names_sharing share; /* table NULL: nothing is shared */
  struct fs_chain lagging;
};

/* ---- names.c ---- */
struct fs_names_dir *fs_names_dir_find(const struct fs_names *n, uint64_t id);
/* Makes the directory if it is not here. Returns NULL without memory. */
struct fs_names_dir *fs_names_dir_make(struct fs_names *n, uint64_t id);
/* Puts all places of the directory into `all`. */
void fs_dir_merge(struct fs_names_dir *d);
/* Returns the first record with a greater seq, or NULL. */
struct fs_name *fs_dir_after(struct fs_names_dir *d, uint64_t seq);

/* ---- names_share.c ---- */
/* Puts a record in the shared table or updates it there, or takes it away if its directory is not
   shared. */
void fs_share(const struct fs_names *n, struct fs_name *e);
/* The same for what is known of a directory. Without a slot, all its names are asked for. */
void fs_share_dir(const struct fs_names *n, struct fs_names_dir *d);
void fs_unshare(const struct fs_names *n, uint32_t *slot);

#endif
