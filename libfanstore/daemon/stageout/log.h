/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The logs of staging out: DIR/.fanstore-staged has a file for each job and rank, <job>-<rank>. Its
 * daemon holds a lock on it (flock) while it lives, and removes it at its end. Its lines tell the
 * kernel's boot id, the directories in which unnamed copies may be, and with --in-place each
 * complete copy. log.c writes and reads the logs; old.c handles those of dead daemons. The MPI
 * thread opens a log, then only the thread that copies uses it.
 */
#ifndef FS_DAEMON_STAGEOUT_LOG_H
#define FS_DAEMON_STAGEOUT_LOG_H

#include "daemon/stageout/stageout.h"

#define FS_LOG_DIR ".fanstore-staged"
#define FS_LOG_CHAINS 16384u
#define FS_LOG_MOST (1u << 20) /* most lines that are remembered */
#define FS_LOG_BOOT_SIZE 64u

struct fs_logged {
  struct fs_logged *next;
  uint64_t size, mtime, mtime_ns;
  char name[];
};

struct fs_log_table {
  uint32_t count;
  struct fs_logged *chain[FS_LOG_CHAINS];
};

/* The log of a dead daemon, locked by this one. */
struct fs_log_old {
  int fd;
  bool same_kernel;
  bool stays; /* some of its copies may not be removed yet */
  char *name;
};

struct fs_stageout_log {
  int out, dir, fd; /* descriptors of DIR, of its .fanstore-staged, of the log */
  char *name;
  char boot[FS_LOG_BOOT_SIZE];
  int64_t now; /* time of the start, by the clock of DIR's file system */
  char *text;  /* lines that are not written yet */
  size_t len, room;
  struct fs_table made_in; /* the directories that have a line, by the hash of the path */
  struct fs_log_old *old;
  uint32_t olds;
};

/* Calls `line` for each well-formed line of a log, from *at on. Moves *at behind the last whole
   line. */
typedef void fs_log_line_fn(void *ctx, const struct fs_control *c);
void fs_log_lines(int fd, off_t *at, fs_log_line_fn *line, void *ctx);
/* Adds a line that describes a copy to the struct fs_log_table in ctx, once. Ignores other
   lines. */
fs_log_line_fn fs_log_remember;
bool fs_log_table_find(const struct fs_log_table *t, const char *path, const struct stat *st);

/* ---- old.c ---- */
/* Takes the log over if its daemon is dead. */
void fs_log_adopt(struct fs_stageout_log *log, const char *name);

#endif
