/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging out into the directory that the dataset was packed from (--in-place): only this job's own
 * copies are replaced there (docs/internals/stage-out.md). See inplace.c. Called by the thread
 * that copies, except where stated.
 */
#ifndef FS_DAEMON_STAGEOUT_INPLACE_H
#define FS_DAEMON_STAGEOUT_INPLACE_H

#include "daemon/stageout/stageout.h"

/* Returns true if an earlier job has left a log in the directory. */
bool fs_inplace_dirty(const struct fs_stageout *o);
/* Opens this daemon's log in the directory if it is not open yet. Must succeed before the first
   copy. */
fs_err fs_inplace_begin(struct fs_stageout *o);
/* Returns true if the name belongs to something that this job has not put there. Always false
   without --in-place. */
bool fs_inplace_taken(struct fs_stageout *o, const char *path);
/* Gives a copy its name. Returns -EEXIST if something has the name that is not this job's. */
fs_err fs_inplace_rename(struct fs_stageout *o, const char *from, const char *to);
/* Records that this daemon has given a copy its name. Does nothing without --in-place. */
void fs_inplace_named(struct fs_stageout *o, const char *path, const struct fs_staged *s);
/* Records that this daemon has made the directory `path`. Does nothing without --in-place. */
void fs_inplace_made(struct fs_stageout *o, const char *path);
/* Returns true if a daemon of this job has made the directory `path`. */
bool fs_inplace_made_by_job(struct fs_stageout *o, const char *path);
/* Removes the directories above `path` that are empty and that this job has made. */
void fs_inplace_prune(struct fs_stageout *o, const char *path);
/* Removes this daemon's log, and the logs of dead daemons whose copies are gone. Called by the
   thread that leaves. */
void fs_inplace_leave(struct fs_daemon *d);

#endif
