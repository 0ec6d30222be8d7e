/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging out into the directory that the dataset was packed from (--in-place). What is there
 * belongs to the user: a file, directory or symlink is replaced or removed only if this job has put
 * it there. The job's logs tell what that is: they have a line for each copy and one for each
 * directory, whose name ends in a slash. The logs are made with the first copy and removed at the
 * end. The thread that copies calls this, and the thread that leaves calls fs_inplace_leave.
 */
#include "daemon/stageout/inplace.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/stageout/log.h"
#include "util/dir.h"
#include "util/sys.h"

#define FS_INPLACE "in-place-" /* name of a log: in-place-JOB-RANK */

struct fs_inplace {
  struct fs_log_table table; /* what this job has put there, as far as the logs were read */
  off_t at[FS_MAX_NODES];    /* how far each rank's log was read */
};

/* ---- the logs ---- */

static void fs_inplace_name(const struct fs_daemon *d, uint32_t rank, char *name, size_t size) {
  snprintf(name, size, FS_INPLACE "%s-%u", d->cfg->job, rank);
}

/* The directory of the logs exists only if a daemon that died has left something. */
bool fs_inplace_dirty(const struct fs_stageout *o) {
  return faccessat(o->fd, FS_LOG_DIR, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

fs_err fs_inplace_begin(struct fs_stageout *o) {
  char name[NAME_MAX + 1];
  if (!o->in_place || o->log) return 0;
  fs_inplace_name(o->d, o->d->net->rank, name, sizeof(name));
  return fs_stageout_log_open(&o->log, o->fd, name); /* after an error the next batch tries again */
}

/* Reads from the logs what the ranks have put there since the last call. */
static void fs_inplace_read(struct fs_stageout *o) {
  for (uint32_t rank = 0; rank < o->d->net->nodes; rank++) {
    char name[NAME_MAX + 1];
    fs_inplace_name(o->d, rank, name, sizeof(name));
    FS_AUTO_CLOSE int fd = openat(o->log->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0) fs_log_lines(fd, &o->own->at[rank], fs_log_remember, &o->own->table);
  }
}

/* Returns true if this job's logs have the path with this size and time. This daemon's lines of
   the present batch are written first. */
static bool fs_inplace_listed(struct fs_stageout *o, const char *path, const struct stat *st) {
  if (!o->log || (!o->own && (o->own = calloc(1, sizeof(*o->own))) == NULL)) return false;
  if (fs_log_table_find(&o->own->table, path, st)) return true;
  fs_stageout_log_flush(o->log);
  fs_inplace_read(o);
  return fs_log_table_find(&o->own->table, path, st);
}

static bool fs_inplace_ours(struct fs_stageout *o, const char *path, const struct statx *there) {
  struct stat st = {.st_size = (off_t)there->stx_size, .st_mtim = fs_statx_time(there->stx_mtime)};
  return S_ISREG(there->stx_mode) && fs_inplace_listed(o, path, &st);
}

/* ---- directories ---- */

static bool fs_inplace_slash(const char *path, char *name) {
  return snprintf(name, PATH_MAX, "%s/", path) < PATH_MAX;
}

void fs_inplace_named(struct fs_stageout *o, const char *path, const struct fs_staged *s) {
  if (o->in_place) fs_stageout_log_add(o->log, path, s);
}

void fs_inplace_made(struct fs_stageout *o, const char *path) {
  char name[PATH_MAX];
  if (o->in_place && o->log && fs_inplace_slash(path, name)) fs_stageout_log_add(o->log, name, &(struct fs_staged){0});
}

bool fs_inplace_made_by_job(struct fs_stageout *o, const char *path) {
  char name[PATH_MAX];
  return fs_inplace_slash(path, name) && fs_inplace_listed(o, name, &(struct stat){0});
}

void fs_inplace_prune(struct fs_stageout *o, const char *path) {
  char parent[PATH_MAX];
  snprintf(parent, sizeof(parent), "%s", path);
  for (char *slash; (slash = strrchr(parent, '/')) != NULL;) {
    *slash = '\0';
    if (!fs_inplace_made_by_job(o, parent) || unlinkat(o->fd, parent, AT_REMOVEDIR) < 0) return;
  }
}

/* ---- names ---- */

bool fs_inplace_taken(struct fs_stageout *o, const char *path) {
  struct statx there;
  return o->in_place && fs_staged_look(o->fd, path, &there) && !fs_inplace_ours(o, path, &there);
}

static bool fs_inplace_same(int dir, const char *path, const struct statx *want) {
  struct statx there;
  return fs_staged_look(dir, path, &there) && there.stx_ino == want->stx_ino && there.stx_size == want->stx_size &&
         fs_same_time(fs_statx_time(there.stx_mtime), fs_statx_time(want->stx_mtime));
}

/* Exchanges the files of `from` and `to` back. The file that comes out should be `put`. If it is
   another one, that one is newer than both and gets the name in turn. */
static fs_err fs_inplace_back(int dir, const char *from, const char *to, struct statx put) {
  struct statx back, have;
  while (fs_staged_look(dir, from, &back) && renameat2(dir, from, dir, to, RENAME_EXCHANGE) == 0) {
    if (!fs_staged_look(dir, from, &have)) return -errno;
    if (have.stx_ino == put.stx_ino && fs_same_time(fs_staged_born(&have), fs_staged_born(&put))) return -EEXIST;
    put = back;
  }
  return -errno;
}

/* Like fs_inplace_replace, for file systems that cannot exchange names. The old file gets the
   name `away` meanwhile. */
static fs_err fs_inplace_replace_old(int dir, const char *from, const char *to, const struct statx *old) {
  char away[PATH_MAX];
  if (snprintf(away, sizeof(away), "%s-old", from) >= (int)sizeof(away)) return -ENAMETOOLONG;
  if (renameat(dir, to, dir, away) < 0) return -errno;
  fs_err err = fs_inplace_same(dir, away, old) ? fs_rename_new(dir, from, to) : -EEXIST;
  fs_err back = err < 0 ? fs_rename_new(dir, away, to) : -EEXIST;
  if (back == -EEXIST) (void)unlinkat(dir, away, 0); /* the name has been given to a newer one */
  return err;
}

/* Replaces `old`, which is this job's. Another program may put a file of its own there at the
   same moment. So the replaced file is checked under its temporary name, and gets its name back
   if it is not `old`. */
static fs_err fs_inplace_replace(int dir, const char *from, const char *to, const struct statx *old) {
  struct statx put;
  if (!fs_staged_look(dir, from, &put)) return -errno;
  if (renameat2(dir, from, dir, to, RENAME_EXCHANGE) < 0)
    return errno == EINVAL || errno == ENOSYS ? fs_inplace_replace_old(dir, from, to, old) : -errno;
  if (!fs_inplace_same(dir, from, old)) return fs_inplace_back(dir, from, to, put);
  return unlinkat(dir, from, 0) < 0 ? -errno : 0;
}

fs_err fs_inplace_rename(struct fs_stageout *o, const char *from, const char *to) {
  struct statx there;
  fs_err err = fs_rename_new(o->fd, from, to);
  if (err != -EEXIST) return err;
  if (!fs_staged_look(o->fd, to, &there) || !fs_inplace_ours(o, to, &there)) return -EEXIST;
  return fs_inplace_replace(o->fd, from, to, &there);
}

/* ---- the end ---- */

void fs_inplace_leave(struct fs_daemon *d) {
  struct fs_stageout *o = d->stageout;
  struct fs_stageout_log *log = o && o->in_place ? o->log : NULL;
  /* the copying thread may still make copies */
  if (!log || o->batch.count > 0 || atomic_load(&o->given_up)) return;
  fs_stageout_log_end(log);
}
