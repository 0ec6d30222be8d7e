/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is done with output files at the end of the job: the launcher says `finish`, each rank counts its own, names
 * some, keeps them if it was asked to, and says so (ipc/control.h). All ranks serve on meanwhile, since paths are found
 * by asking each other. The MPI thread's; files are moved by the I/O pool.
 *
 *   finish.c    one after another
 *   tell.c      what the launcher is told
 *   keep.c      one of them into <local-dir>/fanstore-outputs/<job>
 *   settle.c    times of directories there, and in --stage-out's, when nobody puts anything into them any more
 */
#ifndef FS_DAEMON_FINISH_FINISH_H
#define FS_DAEMON_FINISH_FINISH_H

#include <time.h>

#include "daemon/daemon.h"
#include "ipc/local.h"

struct fs_backing_file;
struct fs_output {
  uint64_t id, dir;
  uint32_t mode; /* with the type */
  uint32_t mtime_ns;
  int64_t mtime;    /* of a directory or symlink; of a file that is gone as it was published */
  uint64_t version; /* of a directory: of these times */
  char *target;     /* of a symlink */
  bool gone;        /* with its home: it is only named */
  uint64_t size;    /* then: as it was published */
};
static inline struct timespec fs_output_time(const struct fs_output *o) {
  return (struct timespec){.tv_sec = o->mtime, .tv_nsec = o->mtime_ns};
}

/* Once; later ones are passed over. */
void fs_outputs_finish(struct fs_daemon *d, const struct fs_control *c);
void fs_outputs_timers(struct fs_daemon *d);
/* One more is this node's, perhaps after the list was made. */
void fs_outputs_adopted(struct fs_daemon *d, const struct fs_backing_file *f);

/* ---- tell.c ---- */
/* Why an output was not copied, or not kept. */
const char *fs_output_why(fs_err err);

/* ---- keep.c ---- */
/* The directory of what is kept, for all jobs: made before anything is to be kept, so that nobody else makes it; and
   removed if nothing was. */
fs_err fs_keep_open(const struct fs_daemon *d, char *why, size_t why_size);
void fs_keep_close(const struct fs_daemon *d);
fs_err fs_keep_dir(const struct fs_daemon *d, char *path, size_t size);
/* Gives an output its name below that directory. */
void fs_keep(struct fs_daemon *d, const struct fs_output *o, const char *path, void (*done)(void *ctx, fs_err err),
             void *ctx);
int fs_keep_reap(void); /* calls back what is done */

/* ---- settle.c ---- */
/* A directory has been made: `path` below that of --stage-out, or of what is kept. */
void fs_settle_add(const struct fs_output *o, bool kept, const char *path);
/* When all ranks are done: by the thread that leaves. */
void fs_settle(const struct fs_daemon *d);

#endif
