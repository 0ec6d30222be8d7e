/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happens to output files at the end of the job. The launcher says `finish`. Each rank counts
 * its outputs, names some, copies or keeps them if it was asked to, and reports to the launcher
 * (ipc/control.h). All ranks go on serving meanwhile, since they ask each other for paths. The MPI
 * thread does this; the I/O pool moves the files.
 *
 *   finish.c    works off the list of this rank's outputs
 *   tell.c      what the launcher is told
 *   keep.c      one of them into <local-dir>/fanstore-outputs/<job>
 */
#ifndef FS_DAEMON_FINISH_FINISH_H
#define FS_DAEMON_FINISH_FINISH_H

#include "daemon/daemon.h"
#include "daemon/outputs/output.h"
#include "ipc/local.h"

struct fs_backing_file;

/* Begins the end of the job. Called for the launcher's line `finish`; a second one can only
   cancel the copies. */
void fs_outputs_finish(struct fs_daemon *d, const struct fs_control *c);
void fs_outputs_timers(struct fs_daemon *d);
/* Adds a file whose home this node has become, also after the list was made. */
void fs_outputs_adopted(struct fs_daemon *d, const struct fs_backing_file *f);

/* Sets the times of the directories that were copied or kept (outputs/output.h). The thread that
   leaves calls it, when all ranks have finished. */
void fs_outputs_settle(const struct fs_daemon *d);

/* ---- tell.c ---- */
/* Returns the text for an error, of an output that was not copied or not kept. */
const char *fs_output_why(fs_err err);

/* ---- keep.c ---- */
/* fs_keep_open makes the directory of kept outputs, common to all jobs, before anything is to be
   kept, so that nobody else makes it. fs_keep_close removes it if nothing was kept. fs_keep_dir
   gives the path for this job. */
fs_err fs_keep_open(const struct fs_daemon *d, char *why, size_t why_size);
void fs_keep_close(const struct fs_daemon *d);
fs_err fs_keep_dir(const struct fs_daemon *d, char *path, size_t size);
/* Moves an output to its name below that directory, then calls done. */
void fs_keep(struct fs_daemon *d, const struct fs_output *o, const char *path, void (*done)(void *ctx, fs_err err),
             void *ctx);
int fs_keep_reap(void); /* calls back for what is complete */

#endif
