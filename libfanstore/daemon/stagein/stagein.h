/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging in: the files of a directory that outlived an earlier job become output files before COMMAND starts
 * (docs/internals/stage-in.md). Their bytes stay there: the backing file of such a file is a symlink to it, until the
 * file is to be changed; then it is copied.
 *
 *   stagein.c  makes the names: the MPI thread's
 *   walk.c     finds them: a thread's
 *   own.c      as their home: reading them for other nodes, copying them
 *   held.c     where the same directory is --stage-out's
 */
#ifndef FS_DAEMON_STAGEIN_STAGEIN_H
#define FS_DAEMON_STAGEIN_STAGEIN_H

#include <sys/stat.h>

#include "daemon/core/chain.h"
#include "daemon/outputs/backing.h"

/* What becomes a record: a file, a directory or a symlink. */
struct fs_in_dir;
struct fs_in_item {
  uint64_t link; /* its name in `held` */
  struct fs_chain chain;
  struct fs_stagein *in;
  struct fs_in_dir *dir; /* that it is in */
  struct stat st;
  uint64_t id;
  char *target; /* of a symlink */
  char *name;
};

/* A directory. Kept to the end of the job: there are few. */
struct fs_in_dir {
  struct fs_in_item self;
  uint64_t id; /* 0: not known yet, or there can be no names in it */
  bool above;  /* only mounts are below it */
  bool asked, failed;
  bool mine;               /* this rank looks after it at the end */
  struct fs_chain waiting; /* items, for the id */
  char path[];
};

/* What was left out, with the first as an example. */
struct fs_in_left {
  uint64_t count;
  fs_err why;
  char name[256];
};

struct fs_stagein {
  struct fs_daemon *d;
  const char *dir;
  int fd;
  struct fs_iopool reads, copies;
  uint32_t reading; /* under way in `reads`, which last moved then: */
  uint64_t moved;
  _Atomic uint64_t copied; /* bytes, of files that are to be changed, or cannot be linked to */
  /* the walk, and what it has found */
  pthread_mutex_t lock;
  pthread_cond_t room;
  struct fs_chain found;
  uint32_t waiting;
  bool walked;
  char held[FS_JOB_NAME_MAX + 64]; /* below the directory: hard links to the files, if it is also --stage-out's */
  int held_fd;
  fs_err err;                     /* of the walk */
  struct fs_in_left dataset, odd; /* under `lock` until it has `walked` */
  /* the MPI thread's */
  bool begun, ended, pumping;
  uint32_t pending;
  fs_err failed;
  struct fs_in_name *name; /* directories and symlinks, where they may have to be removed */
  size_t names, names_room, names_next;
  uint32_t names_asked;
  bool settling, settled;
  struct fs_io settle;
  uint64_t made, files, bytes, told, say_at; /* names; files, their bytes */
};

/* ---- stagein.c ---- */
/* Before the daemon says hello: the directory must be there. */
fs_err fs_stagein_open(struct fs_daemon *d, char *why, size_t why_size);
fs_err fs_stagein_start(struct fs_daemon *d);
/* All ranks serve. */
void fs_stagein_begin(struct fs_daemon *d);
void fs_stagein_timers(struct fs_daemon *d);
int fs_stagein_reap(struct fs_daemon *d);

/* ---- walk.c ---- */
void *fs_stagein_walk(void *arg);

/* ---- held.c ---- */
/* Is it --stage-out's directory, too? Then what is there is held by links, so that it stays whatever becomes of names.
 */
fs_err fs_stagein_held_open(struct fs_daemon *d, char *why, size_t why_size);
/* By the walking thread: of a name in that directory. */
fs_err fs_stagein_link(struct fs_stagein *in, struct fs_in_item *item, int dir, const char *name);
/* One of this rank's directories or symlinks has become a record. */
void fs_stagein_named(struct fs_stagein *in, const struct fs_in_item *item);
/* At the end: those that have no such name any more are removed. True when that is done. */
bool fs_stagein_settled(struct fs_daemon *d);
void fs_stagein_leave(struct fs_daemon *d);

/* ---- own.c ---- */
/* Work that reads such a file. False: the directory hangs. */
bool fs_stagein_read(struct fs_daemon *d, struct fs_io *io);
void fs_stagein_has_read(struct fs_daemon *d);
/* Copies all that there is. */
fs_err fs_stagein_bytes(struct fs_stagein *in, int from, int to);

#endif
