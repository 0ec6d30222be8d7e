/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging in: the files of a directory that outlived an earlier job become output files before
 * COMMAND starts (docs/internals/stage-in.md). Their bytes stay there: the backing file of
 * such a file is a symlink to it. The file is copied when somebody is about to change it.
 *
 *   stagein.c  creates the names: the MPI thread
 *   walk.c     finds the files: a thread of its own
 *   own.c      as their home: reads them for other nodes, and copies them
 *   held.c     the case that --stage-out has the same directory
 */
#ifndef FS_DAEMON_STAGEIN_STAGEIN_H
#define FS_DAEMON_STAGEIN_STAGEIN_H

#include <sys/stat.h>

#include "daemon/blocks/source.h"
#include "daemon/core/chain.h"
#include "daemon/outputs/backing.h"

/* A file, directory or symlink that becomes a record. */
struct fs_in_dir;
struct fs_in_item {
  uint64_t link; /* its name in `held`, a number */
  struct fs_chain chain;
  struct fs_stagein *in;
  struct fs_in_dir *dir; /* the directory that has it */
  struct stat st;
  uint64_t id;
  bool takes;   /* the dataset has the name, too (--overlay) */
  char *target; /* of a symlink */
  char *name;
};

/* A directory. All are kept until the end of the job, as there are few. */
struct fs_in_dir {
  struct fs_in_item self;
  uint64_t id; /* 0: unknown yet, or no names can be made in it */
  bool above;  /* the directory is above a mount, so it can have no outputs */
  bool asked, failed;
  bool mine;               /* this rank looks after it at the end */
  struct fs_chain waiting; /* items that wait for the id */
  char path[];
};

/* How many names were left out, and the first of them as an example. */
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
  uint32_t reading; /* jobs in `reads`; `moved` is when one last ended */
  uint64_t moved;
  /* bytes copied, of files that are about to change or cannot be linked to */
  _Atomic uint64_t copied;
  /* the walk and its results, under `lock` */
  pthread_mutex_t lock;
  pthread_cond_t room;
  struct fs_chain found;
  uint32_t waiting;
  bool walked;
  /* a directory below `dir` with hard links to the files, if --stage-out has the same directory */
  char held[FS_JOB_NAME_MAX + 64];
  int held_fd;
  fs_err err; /* error of the walk */
  /* names left out: of the dataset's, others; under `lock` until `walked` */
  struct fs_in_left dataset, odd;
  /* the MPI thread's alone: */
  bool begun, ended, pumping;
  uint32_t pending;
  fs_err failed;
  struct fs_in_name *name; /* directories and symlinks that may have to be removed */
  size_t names, names_room, names_next;
  uint32_t names_asked;
  bool settling, settled;
  struct fs_io settle;
  /* made: names; files and bytes: of files; told, say_at: the last report */
  uint64_t made, files, bytes, told, say_at;
};

/* ---- stagein.c ---- */
/* Opens the directory, before the daemon says hello. On an error, `why` gets a message. */
fs_err fs_stagein_open(struct fs_daemon *d, char *why, size_t why_size);
fs_err fs_stagein_start(struct fs_daemon *d);
/* Begins to create names, when all ranks serve. */
void fs_stagein_begin(struct fs_daemon *d);
void fs_stagein_timers(struct fs_daemon *d);
int fs_stagein_reap(struct fs_daemon *d);

/* ---- walk.c ---- */
void *fs_stagein_walk(void *arg);

/* ---- held.c ---- */
/* If --stage-out has the same directory, prepares to hold its files by hard links, so that they
   stay whatever becomes of their names. */
fs_err fs_stagein_held_open(struct fs_daemon *d, char *why, size_t why_size);
/* Holds a file by a hard link, or by a copy if that is impossible. Called by the walking thread. */
fs_err fs_stagein_link(struct fs_stagein *in, struct fs_in_item *item, int dir, const char *name);
/* Records that a directory or symlink of this rank has become a record. */
void fs_stagein_named(struct fs_stagein *in, const struct fs_in_item *item);
/* At the end: removes the directories and symlinks that have lost their names. Returns true when
   that is complete. */
bool fs_stagein_settled(struct fs_daemon *d);
void fs_stagein_leave(struct fs_daemon *d);

/* ---- own.c ---- */
extern const struct fs_block_source fs_staged_in_blocks;
/* Copies all bytes of `from` to `to`. Returns 0 or an error. */
fs_err fs_stagein_bytes(struct fs_stagein *in, int from, int to);

#endif
