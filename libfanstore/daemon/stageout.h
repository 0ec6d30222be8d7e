/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging out: copies of this node's output files in a directory that outlives the job, made while the job runs
 * (docs/output-files.md, section 11). One file at a time, by a thread of its own, whose work gives way to the job's.
 *
 *   stageout.c       what is to be copied, moved or removed there, and when: the MPI thread's
 *   stageout_copy.c  doing it: the thread's
 *   stageout_log.c   what earlier jobs have copied there, and what this one has
 */
#ifndef FS_DAEMON_STAGEOUT_H
#define FS_DAEMON_STAGEOUT_H

#include <sys/stat.h>

#include "daemon/outputs.h"
#include "daemon/source.h"

/* What was copied, and where to. Changed by the thread while it is at work on it, else by the MPI thread. */
struct fs_staged {
  char *path; /* below the directory; NULL: nowhere */
  uint64_t ino, size, sum;
  uint64_t changes; /* of the list of its parts */
  struct timespec mtime;
  uint32_t mode;
};

enum fs_stage_task { FS_STAGE_COPY, FS_STAGE_NAME, FS_STAGE_REMOVE };

struct fs_stageout_job {
  struct fs_io io;
  struct fs_stageout *out;
  enum fs_stage_task task;
  struct fs_output output;
  struct fs_staged *staged; /* of this file */
  struct fs_staged copy;    /* COPY: its path is the copy's, without a name yet; NULL: it is there already */
  struct fs_scattered scattered;
  bool changed;        /* since it was copied */
  char path[PATH_MAX]; /* what it is called */
};

struct fs_stageout_log;
struct fs_stageout {
  struct fs_daemon *d;
  const char *dir;
  int fd; /* of dir */
  struct fs_iopool pool;
  struct fs_inside *inside; /* the thread's */
  struct fs_stageout_log *log;
  struct fs_stageout_file **chain;
  uint64_t mask, count;
  struct fs_chain now, due, retry; /* the last two in order of time */
  struct fs_stageout_file *at;     /* being worked on */
  struct fs_stageout_job job;
  struct fs_io sync;
  bool syncing, synced;
  bool warned;
  _Atomic bool cancelled;
  _Atomic uint64_t copied; /* bytes */
  _Atomic uint64_t reused; /* bytes that were there from an earlier job */
  uint64_t copied_before;  /* this file */
};

/* ---- stageout.c ---- */
/* Before the daemon says hello: the directory must be there and writable. */
fs_err fs_stageout_open(struct fs_daemon *d, char *why, size_t why_size);
fs_err fs_stageout_start(struct fs_daemon *d);
/* A file has been published, or has lost its name. */
void fs_stageout_touch(struct fs_daemon *d, uint64_t id);
void fs_stageout_removed(struct fs_daemon *d, uint64_t id);
void fs_stageout_timers(struct fs_daemon *d);
/* At the end: now, a few times if it must be. */
void fs_stageout_last(struct fs_daemon *d, const struct fs_output *o, void (*done)(void *ctx, fs_err err), void *ctx);
/* At the very end: the new names, all at once, on the disk. True when they are, or cannot be: *err. */
bool fs_stageout_sync(struct fs_daemon *d, fs_err *err);
/* Is what the file is now there, as far as is known? */
bool fs_stageout_done(const struct fs_daemon *d, uint64_t id);
/* Bytes of the file that is being copied. */
uint64_t fs_stageout_under_way(const struct fs_daemon *d);
/* Nothing more is copied. */
void fs_stageout_cancel(struct fs_daemon *d);

/* ---- stageout_copy.c ---- */
fs_err fs_stageout_work(struct fs_io *io);
fs_err fs_stageout_sync_work(struct fs_io *io);

/* ---- stageout_log.c ---- */
fs_err fs_stageout_log_open(struct fs_stageout_log **log, int dir, const char *name);
/* Was this copied by an earlier job, and what was its checksum? */
bool fs_stageout_log_find(const struct fs_stageout_log *log, const char *path, const struct stat *st, uint64_t *sum);
void fs_stageout_log_add(struct fs_stageout_log *log, const char *path, const struct fs_staged *s);

#endif
