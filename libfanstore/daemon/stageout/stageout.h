/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging out: copies of this node's output files in a directory that outlives the job, made while the job runs
 * (docs/internals/stage-out.md). By a thread of its own, whose work gives way to the job's: one large file at a
 * time, or a batch of small ones, which wait for the disk together.
 *
 *   stageout.c  what is to be copied, moved or removed there, and when: the MPI thread's
 *   batch.c     from the table to the thread and back: what files are called, before and after: the MPI thread's
 *   copy.c      doing it: the thread's
 *   there.c     is what is there what was copied? The thread's
 *   log.c       what earlier jobs have copied there, and what this one has
 *   old.c       what dead daemons have left there
 *   inplace.c   where the directory is the dataset's own source
 */
#ifndef FS_DAEMON_STAGEOUT_STAGEOUT_H
#define FS_DAEMON_STAGEOUT_STAGEOUT_H

#include <sys/stat.h>

#include "daemon/finish/finish.h"
#include "daemon/outputs/backing.h"
#include "daemon/outputs/source.h"
#include "util/sys.h"

/* What was copied, and where to. Changed by the thread while it is at work on it, else by the MPI thread. */
struct fs_staged {
  char *path; /* below the directory; NULL: nowhere */
  uint64_t ino, size, sum;
  uint64_t changes;             /* of the list of its parts */
  struct timespec mtime, ctime; /* of what was copied */
  struct timespec born, moved;  /* of the copy: when it was made, and its ctime under its name; 0: not known */
  uint32_t mode;
  bool open;     /* for writing: it may have changed since without a trace in the times */
  bool unsummed; /* nobody knows its checksum */
};

enum fs_stage_task { FS_STAGE_COPY, FS_STAGE_NAME, FS_STAGE_REMOVE, FS_STAGE_REMOVED };

struct fs_stageout;
struct fs_stageout_file {
  struct fs_stageout_file *next;
  struct fs_stageout *out;
  struct fs_chain chain;
  struct fs_output output; /* target: the caller's of fs_stageout_last */
  uint64_t due;
  uint32_t tries;
  bool busy, again, removed;
  bool asking, gone; /* once removed: has its name been given to another? It has not */
  struct fs_staged staged;
  void (*done)(void *ctx, fs_err err);
  void *ctx;
};

/* One file on its way. */
struct fs_stageout_item {
  struct fs_stageout *out;
  struct fs_stageout_file *file;
  enum fs_stage_task task;
  fs_err err;
  bool later; /* its turn did not come */
  struct fs_output output;
  struct fs_staged *staged; /* of this file */
  struct fs_staged copy;    /* COPY: its path is the copy's, without a name yet; NULL: it is there already */
  int fd;                   /* of the copy, until it is on the disk */
  struct fs_scattered scattered;
  bool changed;       /* since it was copied */
  bool there;         /* --in-place: a directory that was there before */
  bool late, through; /* the second time with the thread: its path is to be asked for again; it is done */
  uint64_t asked_ns;  /* when its path was asked for last */
  char *path;         /* what it is called */
};

/* Between a publication and the copy. So what another node has published under a name since that was asked for cannot
   have been copied before this time is over. */
#define FS_STAGEOUT_QUIET_NS 1000000000ull

#define FS_BATCH_FILES 256u
#define FS_BATCH_BYTES (16u << 20)
#define FS_BATCH_SMALL (1u << 20) /* a larger file is a batch of its own */

struct fs_stageout_batch {
  struct fs_io io;
  uint32_t count;
  uint32_t asking; /* paths that are asked for */
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
  char way[PATH_MAX];       /* the thread's: a directory that no symlink leads to */
  struct fs_stageout_log *log;
  bool in_place;          /* the directory is the dataset's own source, where `log` is made with the first copy */
  struct fs_inplace *own; /* the thread's */
  struct fs_stageout_file **chain;
  uint64_t mask, count;
  struct fs_chain now, due, retry; /* the last two in order of time */
  struct fs_chain looks;           /* that are with the thread */
  struct fs_stageout_batch batch;  /* being worked on, if there is any in it */
  struct fs_io sync;
  struct fs_io clean;
  bool syncing, synced;
  bool named;        /* there are new names, which are to be on the disk at the end */
  bool ending;       /* no name is taken any more */
  uint32_t removing; /* files that were removed, and are still in the table */
  bool held;         /* --stage-in's files are hard links to what is in this directory */
  bool warned;
  _Atomic bool cancelled;
  _Atomic bool given_up;   /* what is still with the thread: its end is not waited for any more, and it gets no name */
  uint64_t cancel_by;      /* when that will be */
  _Atomic uint64_t copied; /* bytes */
  _Atomic uint64_t reused; /* bytes that were there from an earlier job */
  uint64_t copied_before;  /* this batch */
};

/* ---- stageout.c ---- */
/* Before the daemon says hello: the directory must be there and writable. */
fs_err fs_stageout_open(struct fs_daemon *d, char *why, size_t why_size);
fs_err fs_stageout_start(struct fs_daemon *d);
/* A file has been published, or has lost its name. */
void fs_stageout_touch(struct fs_daemon *d, uint64_t id);
void fs_stageout_removed(struct fs_daemon *d, uint64_t id);
/* A file of --stage-in's has this name there already. */
void fs_stageout_there(struct fs_daemon *d, uint64_t id, const char *path, const struct stat *st);
void fs_stageout_timers(struct fs_daemon *d);
/* At the end: now, a few times if it must be. */
void fs_stageout_last(struct fs_daemon *d, const struct fs_output *o, void (*done)(void *ctx, fs_err err), void *ctx);
/* Returns true once the copies of all removed files are gone. At the very end; call until it is true. */
bool fs_stageout_removed_all(struct fs_stageout *o);
/* After that: the new names, if there are any, all at once on the disk; and the logs put in order. True when that
   is done, or cannot be: *err. */
bool fs_stageout_sync(struct fs_daemon *d, bool named, fs_err *err);
/* Is what the file is now there, as far as is known? */
bool fs_stageout_done(const struct fs_daemon *d, uint64_t id);
/* Is it there already, by --stage-in? It is looked after, and not counted. */
bool fs_stageout_held(const struct fs_daemon *d, uint64_t id);
/* And is this its name there? */
bool fs_stageout_at(const struct fs_daemon *d, uint64_t id, const char *path);
/* Bytes of the file that is being copied. */
uint64_t fs_stageout_under_way(const struct fs_daemon *d);
/* Was what was last published of this file, whose home has gone and whose path this is, copied there before? */
void fs_stageout_look(struct fs_daemon *d, const struct fs_output *output, const char *path,
                      void (*done)(void *ctx, bool whole, const char *path), void *ctx);
/* Nothing more is copied. */
void fs_stageout_cancel(struct fs_daemon *d);

/* ---- batch.c ---- */
/* Into the batch, which has not begun. */
void fs_batch_add(struct fs_stageout *o, struct fs_stageout_file *f);
void fs_batch_begin(struct fs_stageout *o);
/* stageout.c again: one of a batch is done, or could not be. */
void fs_stageout_end(struct fs_stageout *o, struct fs_stageout_item *i);
/* A file that has no name any more. Can its copy be removed without a question? */
bool fs_stageout_nameless(struct fs_stageout *o, struct fs_stageout_file *f);

/* ---- copy.c ---- */
/* What each item's task says; those with an error are passed over. */
fs_err fs_stageout_copy_work(struct fs_io *io);
fs_err fs_stageout_name_work(struct fs_io *io);
fs_err fs_stageout_clean_work(struct fs_io *io);
fs_err fs_stageout_sync_work(struct fs_io *io);

/* ---- there.c ---- */
static inline struct timespec fs_statx_time(struct statx_timestamp t) {
  return (struct timespec){.tv_sec = t.tv_sec, .tv_nsec = t.tv_nsec};
}
/* What has this name; "": the descriptor itself. */
bool fs_staged_look(int dir, const char *path, struct statx *there);
/* When it was made; 0 where the file system does not say. */
struct timespec fs_staged_born(const struct statx *there);
/* Is what has its name still this copy? */
bool fs_staged_there(int dir, const struct fs_staged *s);
/* It has just been given its name. */
void fs_staged_named(int dir, struct fs_staged *s);
/* It has been given the name `path`. -EAGAIN: that was another file, which has its own name again. */
fs_err fs_staged_moved(int dir, const struct fs_staged *s, const char *path);
/* Removes it, with directories that are empty then; not what another has put there at the same time. */
void fs_staged_take_away(int dir, const struct fs_staged *s);
void fs_staged_remove(int dir, const struct fs_staged *s); /* without the directories */
/* After the last file of a directory has gone: they are made again at the end, where the job still has them. */
void fs_staged_prune(int dir, const char *path);

/* ---- log.c ---- */
/* A copy that has no name yet, in the directory of its name: the log's name, then 16 digits. */
#define FS_STAGEOUT_COPY ".fanstore-%s-"
fs_err fs_stageout_log_open(struct fs_stageout_log **log, int dir, const char *name);
/* Was this copied by an earlier job, and what was its checksum? */
bool fs_stageout_log_find(const struct fs_stageout_log *log, const char *path, const struct stat *st, uint64_t *sum);
/* Written and on the disk by the next flush. */
void fs_stageout_log_add(struct fs_stageout_log *log, const char *path, const struct fs_staged *s);
void fs_stageout_log_flush(struct fs_stageout_log *log);
const char *fs_stageout_log_name(const struct fs_stageout_log *log);
/* A copy is about to be made beside this path: so that it is found should this daemon die. */
void fs_stageout_log_dir(struct fs_stageout_log *log, const char *path);

/* ---- old.c ---- */
/* Removes what dead daemons have left half done. */
void fs_stageout_log_clean(struct fs_stageout_log *log);
/* Theirs and this one's become one log, with what is still there. No line is written any more. */
void fs_stageout_log_compact(struct fs_stageout_log *log);

#endif
