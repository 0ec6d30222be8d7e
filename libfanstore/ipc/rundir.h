/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where run directories (ipc/node.h) are on this host: in a base, which is PLACE/fanstore-UID, or
 * PLACE/fanstore-UID.XXXXXX where another user has that name (util/own.h). The places are, in this order:
 *   - FANSTORE_RUN_BASE alone, if it is set to an absolute path; else
 *   - the local directory, if the user chose it (fs_run_prefer),
 *   - TMPDIR,
 *   - /dev/shm,
 *   - /tmp.
 * A new run directory is made in the first place that fits: its file system is of this host alone, no other user can
 * rename what is in it, a socket's name is short enough there, and it is not below /tmp or /var/tmp. Programs often
 * have private directories by these two names (unshare, containers, PrivateTmp=, plugins of Slurm), and would not see
 * the run directory. If none fits, it is made in TMPDIR, else in /tmp. A job's run directory is found by the job's name
 * in all places, and dead jobs' are removed from all. Each host has its own. For the daemon and the launcher; programs
 * have it in FANSTORE_RUN.
 */
#ifndef FS_IPC_RUNDIR_H
#define FS_IPC_RUNDIR_H

#include "util/own.h"

/* The run directory that this job has here; where it would be, when it has none. Length or -ENAMETOOLONG. */
fs_ssize fs_run_find(const char *job, char *out, size_t size);
/* The base to make it in: where it is already, or the first that fits, perhaps a new one. 0 or a negative errno; then
   `out` is the place that was tried last. */
fs_err fs_run_base(const char *job, char *out, size_t size);
/* Adds the local directory that the user chose to the places; NULL or "" for none. The text must stay. Called before
   all others of this file, by one thread. */
void fs_run_prefer(const char *local);
#define FS_RUN_YOUNG_S 10 /* a directory may be without its locks for a moment: leave it alone */
/* Calls fn for each base of one's own. */
int fs_run_bases(fs_own_fn *fn, void *ctx);
/* May this name in a base be a job's, to be removed with all in it? Any may in FANSTORE_RUN_BASE/fanstore-UID, or else
   in that of TMPDIR or /tmp. Other bases could be of the user's making (as a local directory, say): there only names
   that fs-launch gives. FS_MEMORY_LOCAL is never a job's: the base may also be where copies in memory are. */
bool fs_run_is_job(const char *base, const char *name);
/* Does a daemon live, here or on another host, whose lock this file of a directory is? What cannot be looked at is
   held. 1, 0, or -ENOENT: there is no such file. */
int fs_run_lock_held(int dir, const char *name);
/* Does a daemon hold this backing directory (ipc/local.h)? If not, the caller locks it for as long as dir is open. One
   of another host may not have made its lock's file yet: a young directory without one is held, unless its job is over.
   Calling it again asks again. */
bool fs_run_backing_held(int dir, bool over);

#endif
