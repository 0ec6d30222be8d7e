/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where run directories (ipc/node.h) are on this host: below fs_run_dir(NULL), the base, or below base.XXXXXX where
 * that is another user's (util/own.h). Each host has its own; a job's is found by its name. For the daemon and the
 * launcher; programs have it in FANSTORE_RUN.
 */
#ifndef FS_IPC_RUNDIR_H
#define FS_IPC_RUNDIR_H

#include "util/own.h"

/* The run directory that this job has here; where it would be, when it has none. Length or -ENAMETOOLONG. */
fs_ssize fs_run_find(const char *job, char *out, size_t size);
/* The base to make it in: where it is already, or the first of one's own, or a new one. 0 or a negative errno. */
fs_err fs_run_base(const char *job, char *out, size_t size);
#define FS_RUN_YOUNG_S 10 /* a directory may be without its locks for a moment: leave it alone */
/* Calls fn for each base of one's own. */
int fs_run_bases(fs_own_fn *fn, void *ctx);
/* May this name in a base be a job's, to be removed with all in it? One with a suffix could be of the user's making:
   there only what fs-launch has named. */
bool fs_run_is_job(const char *base, const char *name);
/* Does a daemon live, here or on another host, whose lock this file of a directory is? What cannot be looked at is
   held. 1, 0, or -ENOENT: there is no such file. */
int fs_run_lock_held(int dir, const char *name);
/* Does a daemon hold this spill directory (ipc/local.h)? If not, the caller locks it for as long as dir is open. One
   of another host may not have made its lock's file yet: a young directory without one is held, unless its job is over.
   Calling it again asks again. */
bool fs_run_spill_held(int dir, bool over);

#endif
