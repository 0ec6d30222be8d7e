/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside of staging: the directory of one dataset on one node, its locks, and the stamps. Private to this folder. All
 * names are relative to the directory's descriptor and never followed when they are symlinks.
 */
#ifndef FS_DAEMON_STAGING_DIR_H
#define FS_DAEMON_STAGING_DIR_H

#include "daemon/staging/stage.h"
#include "ipc/local.h"
#include "util/util.h"

#define FS_STAGE_INDEX UINT32_MAX /* "partition number" of the index in its stamp */

/* Whether another thread copies when the process ends, which then removes what is not whole under that one's lock. */
enum fs_stage_copying {
  FS_STAGE_IDLE,
  FS_STAGE_COPYING,  /* the copying thread holds .staging */
  FS_STAGE_SWEEPING, /* and keeps it until */
  FS_STAGE_ABANDONED /* this; it copies nothing more */
};

/* What is being staged: a partition, or the index. */
struct fs_stage_item {
  uint32_t number;    /* FS_STAGE_INDEX for the index */
  uint64_t size;      /* of the file */
  uint64_t xxh3;      /* of the bytes from `checked` on */
  uint64_t checked;   /* FS_PART_HEADER_SIZE, or 0 for the index */
  const char *id;     /* dataset id, 16 bytes */
  char name[32];      /* "part-00003" */
  char temporary[48]; /* ".new-part-00003" */
};
struct fs_stage_item fs_stage_item_part(const struct fs_stage *s, uint32_t p);
struct fs_stage_item fs_stage_item_index(const struct fs_stage *s);

/* Opens <root>/<name>/<id>, making what is missing with mode 0700; refuses directories of other users. */
fs_fd fs_stage_dir_open(const char *root, const char *local, char *why, size_t why_size);
/* Takes .lock shared, on the file that is in the directory now. The descriptor, -ESTALE when the directory was
   removed meanwhile, or an error. */
fs_fd fs_stage_lock_use(int dir);
/* Takes .staging, waiting while its holder makes progress. The descriptor, -EBUSY, or the callback's error. */
fs_fd fs_stage_lock_staging(int dir, fs_stage_progress_fn *progress, void *ctx);
/* Removes the temporary files of dead jobs. The caller holds .staging. */
void fs_stage_sweep(int dir);

/* Does the stamp of the item fit the copy that is there? */
bool fs_stamp_fits(int dir, const struct fs_stage_item *item);
/* Stamps the copy that is there (it was checked and synced). */
fs_err fs_stamp_write(int dir, const struct fs_stage_item *item);
void fs_stamp_remove(int dir, const struct fs_stage_item *item);

/* Opens the copy of the index in place of the source's, after reading all of it when verify is set. */
fs_err fs_stage_use_local_index(struct fs_stage *s, bool verify, char *why, size_t why_size);

/* Fills why unless it says something already, as "what: strerror(err)". Returns err. */
fs_err fs_stage_why(fs_err err, char *why, size_t why_size, const char *dir, const char *what);

#endif
