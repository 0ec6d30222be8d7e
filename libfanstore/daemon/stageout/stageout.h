/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging out: copies of this node's output files in a directory that outlives the job, made while the job runs
 * (docs/internals/stage-out.md). By a thread of its own, whose work gives way to the job's: one large file at a
 * time, or a batch of small ones, which wait for the disk together.
 *
 *   stageout.c  decides what to copy, rename or remove there, and when: the MPI thread
 *   batch.c     hands batches to the thread; asks for the paths before and after: the MPI thread
 *   copy.c      copies, renames and removes: the copying thread
 *   there.c     checks that a file there is still the copy: the copying thread
 *   log.c       this daemon's log, by which a later job finds what it has left
 *   old.c       cleans up after dead daemons
 *   inplace.c   the case that the directory is the dataset's own source
 */
#ifndef FS_DAEMON_STAGEOUT_STAGEOUT_H
#define FS_DAEMON_STAGEOUT_STAGEOUT_H

#include <sys/stat.h>

#include "daemon/outputs/backing.h"
#include "daemon/outputs/output.h"
#include "daemon/outputs/source.h"
#include "util/sys.h"
#include "util/table.h"

/* Describes a copy: what was copied, and where to. The copying thread owns it while it is at
   work on the file, else the MPI thread. */
struct fs_staged {
  char *path; /* below the directory; NULL: there is no copy */
  uint64_t ino, size;
  uint64_t sum;                 /* compared if `open` */
  uint64_t changes;             /* version of the extent map */
  struct timespec mtime, ctime; /* of what was copied */
  /* of the copy: its birth time, and its ctime when it got its name; 0: unknown */
  struct timespec born, moved;
  uint32_t mode;
  /* somebody had it open for writing, so it may have changed since without new times */
  bool open;
};

enum fs_stage_task { FS_STAGE_COPY, FS_STAGE_NAME, FS_STAGE_REMOVE, FS_STAGE_REMOVED };

struct fs_stageout;
struct fs_stageout_file {
  struct fs_table_link by_id;
  struct fs_stageout *out;
  struct fs_chain chain;
  struct fs_output output; /* its target belongs to the caller of fs_stageout_last */
  uint64_t due;
  uint32_t tries;
  bool busy, again, removed;
  /* after the removal. asking: a question whether another file has its name. gone: none has */
  bool asking, gone;
  struct fs_staged staged;
  void (*done)(void *ctx, fs_err err);
  void *ctx;
};

/* One file of a batch. */
struct fs_stageout_item {
  struct fs_stageout *out;
  struct fs_stageout_file *file;
  enum fs_stage_task task;
  fs_err err;
  bool later; /* there was no time for it in this batch */
  struct fs_output output;
  struct fs_staged *staged; /* of this file */
  /* for COPY: the new copy, under its temporary path; NULL: none was needed */
  struct fs_staged copy;
  int fd; /* of the copy, until it is synced */
  struct fs_scattered scattered;
  bool changed; /* the file has changed since it was copied */
  bool there;   /* --in-place: the directory was there before the job */
  /* late: its path is too old and has to be asked for again. through: it is done */
  bool late, through;
  uint64_t asked_ns; /* when its path was last asked for */
  char *path;        /* the file's path */
};

/* The time between a publication and the copy. So if another node publishes a file under a name
   after this node has asked for the name, it cannot have copied that file before this time is
   over. */
#define FS_STAGEOUT_QUIET_NS 1000000000ull

#define FS_BATCH_FILES 256u
#define FS_BATCH_BYTES (16u << 20)
#define FS_BATCH_SMALL (1u << 20) /* larger files form a batch of their own */

struct fs_stageout_batch {
  struct fs_io io;
  uint32_t count;
  uint32_t asking; /* paths that are being asked for */
  struct fs_stageout_item item[FS_BATCH_FILES];
};

struct fs_stageout_log;
struct fs_inplace;
struct fs_stageout {
  struct fs_daemon *d;
  const char *dir;
  int fd; /* of dir */
  struct fs_iopool pool;
  struct fs_inside *inside; /* the thread's */
  char *buf;                /* the thread's, FS_SOURCE_BYTES */
  char way[PATH_MAX];       /* the thread's: the last directory found to be free of symlinks */
  struct fs_stageout_log *log;
  /* the directory is the dataset's own source; `log` opens with the first copy */
  bool in_place;
  struct fs_inplace *own; /* the thread's */
  struct fs_table files;
  struct fs_chain now, due, retry; /* the last two in order of time */
  struct fs_chain looks;           /* that are with the thread */
  struct fs_stageout_batch batch;  /* being worked on, if there is any in it */
  struct fs_io sync;
  struct fs_io clean;
  bool syncing, synced;
  bool named;        /* there are new names, which have to be synced at the end */
  bool ending;       /* no new names come any more */
  uint32_t removing; /* removed files that are still in the table */
  bool held;         /* --stage-in has the same directory: its files are held by hard links there */
  bool warned;
  _Atomic bool cancelled;
  _Atomic bool given_up;   /* nobody waits for the thread any more, and it names no more copies */
  uint64_t cancel_by;      /* when `given_up` will be set */
  _Atomic uint64_t copied; /* bytes */
  uint64_t copied_before;  /* value of `copied` before this batch */
};

/* ---- stageout.c ---- */
/* Opens the directory, before the daemon says hello. On an error, `why` gets a message. */
fs_err fs_stageout_open(struct fs_daemon *d, char *why, size_t why_size);
fs_err fs_stageout_start(struct fs_daemon *d);
/* fs_stageout_touch says that a file was published; fs_stageout_removed says that it has lost
   its name. */
void fs_stageout_touch(struct fs_daemon *d, uint64_t id);
void fs_stageout_removed(struct fs_daemon *d, uint64_t id);
/* Says that a staged-in file has this name in the directory already. */
void fs_stageout_there(struct fs_daemon *d, uint64_t id, const char *path, const struct stat *st);
void fs_stageout_timers(struct fs_daemon *d);
/* Copies an output at the end of the job, at once, with a few tries. Calls done. */
void fs_stageout_last(struct fs_daemon *d, const struct fs_output *o, void (*done)(void *ctx, fs_err err), void *ctx);
/* Returns true once the copies of all removed files are gone. At the very end; call until it is true. */
bool fs_stageout_removed_all(struct fs_stageout *o);
/* After that: the new names, if there are any, all at once on the disk; and the logs put in order. True when that
   is done, or cannot be: *err. */
bool fs_stageout_sync(struct fs_daemon *d, bool named, fs_err *err);
/* Returns true if the file's present contents are in the directory, as far as this daemon knows. */
bool fs_stageout_done(const struct fs_daemon *d, uint64_t id);
/* Returns true if the file is an unchanged staged-in one of the same directory. Such a file is
   followed but not counted. */
bool fs_stageout_held(const struct fs_daemon *d, uint64_t id);
/* Returns true if fs_stageout_done does, and the copy has this path. */
bool fs_stageout_at(const struct fs_daemon *d, uint64_t id, const char *path);
/* Returns how many bytes of the present batch have been copied, if it is one of the end of the
   job. */
uint64_t fs_stageout_under_way(const struct fs_daemon *d);
/* Was what was last published of this file, whose home has gone and whose path this is, copied there before? */
void fs_stageout_look(struct fs_daemon *d, const struct fs_output *output, const char *path,
                      void (*done)(void *ctx, bool whole, const char *path), void *ctx);
/* Nothing more is copied. */
void fs_stageout_cancel(struct fs_daemon *d);

/* ---- batch.c ---- */
/* Adds a file to the batch, which has not begun. */
void fs_batch_add(struct fs_stageout *o, struct fs_stageout_file *f);
void fs_batch_begin(struct fs_stageout *o);
/* (stageout.c) Ends one item of a batch, with success or an error. */
void fs_stageout_end(struct fs_stageout *o, struct fs_stageout_item *i);
/* Marks a file as removed. Returns true if its copy can be removed without asking for its name. */
bool fs_stageout_nameless(struct fs_stageout *o, struct fs_stageout_file *f);

/* ---- copy.c ---- */
/* Jobs of the copying thread. Each does what the items' tasks say; items with an error are
   skipped. */
fs_err fs_stageout_copy_work(struct fs_io *io);
fs_err fs_stageout_name_work(struct fs_io *io);
fs_err fs_stageout_clean_work(struct fs_io *io);
fs_err fs_stageout_sync_work(struct fs_io *io);

/* ---- there.c ---- */
static inline struct timespec fs_statx_time(struct statx_timestamp t) {
  return (struct timespec){.tv_sec = t.tv_sec, .tv_nsec = t.tv_nsec};
}
/* Looks at a name in `dir`; "" means the descriptor itself. Returns false with errno if there is
   nothing. */
bool fs_staged_look(int dir, const char *path, struct statx *there);
/* Returns the birth time, or 0 if the file system has none. */
struct timespec fs_staged_born(const struct statx *there);
/* Returns true if the copy's name still belongs to this copy. */
bool fs_staged_there(int dir, const struct fs_staged *s);
/* Records the times of a copy that has just been given its name. */
void fs_staged_named(int dir, struct fs_staged *s);
/* Checks that the file just renamed to `path` was this copy. Else it gets its old name back, and
   -EAGAIN is returned. */
fs_err fs_staged_moved(int dir, const struct fs_staged *s, const char *path);
/* Removes a copy. A file that somebody puts there at the same time stays. */
void fs_staged_remove(int dir, const struct fs_staged *s);
/* Removes the empty directories above `path`. At the end they are made again if the job still
   has them. */
void fs_staged_prune(int dir, const char *path);

/* ---- log.c ---- */
/* The name of a copy that has no final name yet, in the same directory: the log's name, then 16
   digits. */
#define FS_STAGEOUT_COPY ".fanstore-%s-"
fs_err fs_stageout_log_open(struct fs_stageout_log **log, int dir, const char *name);
/* Adds a line for a copy, for --in-place. The next flush writes and syncs it. */
void fs_stageout_log_add(struct fs_stageout_log *log, const char *path, const struct fs_staged *s);
void fs_stageout_log_flush(struct fs_stageout_log *log);
const char *fs_stageout_log_name(const struct fs_stageout_log *log);
/* Records that an unnamed copy is about to be made beside this path, so that it is found if this
   daemon dies. */
void fs_stageout_log_dir(struct fs_stageout_log *log, const char *path);

/* ---- old.c ---- */
/* Removes the unfinished copies of dead daemons. */
void fs_stageout_log_clean(struct fs_stageout_log *log);
/* Removes this daemon's log, and the logs of dead daemons whose copies are gone. No line is written
   after that. */
void fs_stageout_log_end(struct fs_stageout_log *log);

#endif
