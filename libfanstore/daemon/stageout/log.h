/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DIR/.fanstore-staged: a file for each job and rank, <job>-<rank>, which its daemon holds a lock on (flock) while it
 * lives. Lines: which kernel it runs under, the directories in which there may be copies of its without a name, and one
 * for each copy that is complete. log.c writes and reads them; old.c sees to those of dead daemons.
 * Opened by the MPI thread, then used by the thread that copies.
 */
#ifndef FS_DAEMON_STAGEOUT_LOG_H
#define FS_DAEMON_STAGEOUT_LOG_H

#include "daemon/stageout/stageout.h"

#define FS_LOG_DIR ".fanstore-staged"
#define FS_LOG_CHAINS 16384u
#define FS_LOG_MOST (1u << 20) /* lines that are remembered */
#define FS_LOG_BOOT_SIZE 64u

struct fs_logged {
  struct fs_logged *next;
  uint64_t size, mtime, mtime_ns, sum;
  char name[];
};

struct fs_log_table {
  uint32_t count;
  struct fs_logged *chain[FS_LOG_CHAINS];
};

/* A dead daemon's, locked by this one. */
struct fs_log_old {
  int fd;
  bool same_kernel;
  bool stays; /* copies of its may not be removed yet */
  char *name;
};

struct fs_stageout_log {
  int out, dir, fd; /* DIR, its .fanstore-staged, the file there */
  char *name;
  char boot[FS_LOG_BOOT_SIZE];
  int64_t now; /* at the start, by the clock of DIR's file system */
  char *text;  /* lines that are still to be written */
  size_t len, room;
  uint64_t *made_in; /* hashes of the directories that it has lines for; open addressing */
  uint32_t dirs, dirs_mask;
  struct fs_log_old *old;
  uint32_t olds;
  struct fs_log_table table; /* of earlier jobs, and others */
};

/* Calls `line` for each well-formed line of a log, from its beginning. */
typedef void fs_log_line_fn(void *ctx, const struct fs_control *c);
void fs_log_lines(int fd, fs_log_line_fn *line, void *ctx);
/* From this place on; moves it behind the last whole line. */
void fs_log_lines_from(int fd, off_t *at, fs_log_line_fn *line, void *ctx);
/* For a struct fs_log_table: a line of a copy, once; others are passed over. */
fs_log_line_fn fs_log_remember;
bool fs_log_table_find(const struct fs_log_table *t, const char *path, const struct stat *st, uint64_t *sum);
fs_err fs_log_line(struct fs_control_line *l, const char *path, const struct fs_logged *e);

/* ---- old.c ---- */
/* Is this log a dead daemon's? Then it is this one's from now on. */
void fs_log_adopt(struct fs_stageout_log *log, const char *name);

#endif
