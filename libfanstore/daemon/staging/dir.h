/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to this folder: the directory of one dataset on one node, its locks, and its stamps. All
 * names are relative to the directory's descriptor, and symlinks are never followed.
 */
#ifndef FS_DAEMON_STAGING_DIR_H
#define FS_DAEMON_STAGING_DIR_H

#include "daemon/staging/stage.h"
#include "ipc/local.h"
#include "util/util.h"

#define FS_STAGE_INDEX UINT32_MAX /* "partition number" of the index in its stamp */

/* Whether another thread is copying when the process ends. If so, the ending thread removes
   incomplete copies under the copying thread's lock. */
enum fs_stage_copying {
  FS_STAGE_IDLE,
  FS_STAGE_COPYING,  /* the copying thread holds .staging */
  FS_STAGE_SWEEPING, /* the copying thread keeps .staging until FS_STAGE_ABANDONED */
  FS_STAGE_ABANDONED /* nothing more is copied */
};

/* A file to stage: a partition or the index. */
struct fs_stage_item {
  uint32_t number;    /* FS_STAGE_INDEX for the index */
  uint64_t size;      /* of the file */
  uint64_t xxh3;      /* checksum of the bytes from `checked` on */
  uint64_t checked;   /* FS_PART_HEADER_SIZE, or 0 for the index */
  const char *id;     /* dataset id, 16 bytes */
  char name[32];      /* "part-00003" */
  char temporary[48]; /* ".new-part-00003" */
};
struct fs_stage_item fs_stage_item_part(const struct fs_stage *s, uint32_t p);
struct fs_stage_item fs_stage_item_index(const struct fs_stage *s);

/* Opens <root>/<name>/<id>, and makes what is missing with mode 0700. Refuses directories of
   other users. */
fs_fd fs_stage_dir_open(const char *root, const char *local, char *why, size_t why_size);
/* Takes .lock shared, on the file that is in the directory now. Returns the descriptor, -ESTALE
   if the directory was removed meanwhile, or another error. */
fs_fd fs_stage_lock_use(int dir);
/* Takes .staging, and waits as long as its holder makes progress. Returns the descriptor,
   -EBUSY, or the callback's error. */
fs_fd fs_stage_lock_staging(int dir, fs_stage_progress_fn *progress, void *ctx);
/* Removes the temporary files of dead jobs. The caller holds .staging. */
void fs_stage_sweep(int dir);

/* Links the partitions that other datasets have on this node. The caller holds .staging. */
void fs_stage_reuse(const struct fs_stage *s);

/* Returns true if the item's stamp fits the copy that is there. */
bool fs_stamp_fits(int dir, const struct fs_stage_item *item);
/* Stamps the copy that is there. The caller has checked and synced it. Without `sync`, the stamp may
   be gone after the machine stops; then the copy is checked again. */
fs_err fs_stamp_write(int dir, const struct fs_stage_item *item, bool sync);
void fs_stamp_remove(int dir, const struct fs_stage_item *item);

/* Opens the local copy of the index in place of the source's. If verify is set, reads and checks
   all of it first. */
fs_err fs_stage_use_local_index(struct fs_stage *s, bool verify, char *why, size_t why_size);

/* Fills `why` with "what: strerror(err)" unless it says something already. Returns err. */
fs_err fs_stage_why(fs_err err, char *why, size_t why_size, const char *dir, const char *what);

#endif
