/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging out to the directory that the dataset was packed from: nothing is replaced there but this job's own copies
 * (docs/internals/stage-out.md). See inplace.c.
 */
#ifndef FS_DAEMON_STAGEOUT_INPLACE_H
#define FS_DAEMON_STAGEOUT_INPLACE_H

#include "daemon/stageout/stageout.h"

/* An earlier job has left a log there. */
bool fs_inplace_dirty(const struct fs_stageout *o);
/* Opens this daemon's log there, before the first copy. */
fs_err fs_inplace_begin(struct fs_stageout *o);
/* Something that this job has not put there has this name. False without --in-place. */
bool fs_inplace_taken(struct fs_stageout *o, const char *path);
/* Gives a copy its name. -EEXIST: something has it that is not this job's. */
fs_err fs_inplace_rename(struct fs_stageout *o, const char *from, const char *to);
/* This daemon has made the directory `path`. Nothing happens without --in-place. */
void fs_inplace_made(struct fs_stageout *o, const char *path);
/* A daemon of this job has made the directory `path`. */
bool fs_inplace_made_by_job(struct fs_stageout *o, const char *path);
/* Removes the directories above `path` that this job has made and that are empty. */
void fs_inplace_prune(struct fs_stageout *o, const char *path);
/* Removes this daemon's log, and those of dead daemons whose copies are gone. */
void fs_inplace_leave(struct fs_daemon *d);

#endif
