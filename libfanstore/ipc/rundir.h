/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds run directories (ipc/node.h) on this host, for the daemon and the launcher; programs have
 * the path in FANSTORE_RUN. Each host has its own run directories. They are in a base:
 * PLACE/fanstore-UID, or PLACE/fanstore-UID.XXXXXX if another user owns the first name
 * (util/own.h). The places, in order:
 *   - FANSTORE_RUN_BASE alone, if it is set to an absolute path; else
 *   - the local directory, if the user chose it (fs_run_prefer),
 *   - TMPDIR,
 *   - /dev/shm,
 *   - /tmp.
 * A new run directory goes to the first place that fits. In a place that fits the file system is
 * local to this host, no other user can rename the contents, and the socket's path is short enough.
 * A place below /tmp or /var/tmp does not fit: programs often have private directories there
 * (unshare, containers, PrivateTmp=, Slurm plugins) and would not see the run directory. If no
 * place fits, TMPDIR is used, else /tmp. A job's run directory is searched by the job's name in all
 * places, and dead jobs' run directories are removed from all places.
 */
#ifndef FS_IPC_RUNDIR_H
#define FS_IPC_RUNDIR_H

#include "util/own.h"

/* Writes the job's run directory on this host to `out`, or the path that it would have. Returns the
   length or -ENAMETOOLONG. */
fs_ssize fs_run_find(const char *job, char *out, size_t size);
/* Writes the base for the job's run directory to `out`: the base that already has it, or the first
   that fits, which may be made now. Returns 0 or a negative errno; then `out` is the last place
   tried. */
fs_err fs_run_base(const char *job, char *out, size_t size);
/* Adds the local directory that the user chose to the places (NULL or "": none). The text must stay
   valid. One thread calls this before all other functions here. */
void fs_run_prefer(const char *local);
#define FS_RUN_YOUNG_S 10 /* keep a younger directory: its locks may not exist yet */
/* Calls fn for each base of this user and stops at the first result that is not 0. Returns that
   result, or 0. */
int fs_run_bases(fs_own_fn *fn, void *ctx);
/* Returns true if this name in a base can be a job's, so that it may be removed with its contents.
   In FANSTORE_RUN_BASE/fanstore-UID, or else that of TMPDIR or /tmp, this is any name. Another
   base, such as a local directory, may hold the user's own files: there only names that fs-launch
   gives count. FS_MEMORY_LOCAL is never a job's: copies in memory can share the base. */
bool fs_run_is_job(const char *base, const char *name);
/* Returns 1 if a live daemon, on this or another host, locks this file of a directory; 0 if not;
   -ENOENT if there is no such file. A file that cannot be examined counts as locked. */
int fs_run_lock_held(int dir, const char *name);
/* Returns true if a daemon holds this backing directory (ipc/local.h). If not, the caller locks it
   until it closes `dir`. A daemon of another host may not have made its lock file yet: a young
   directory without one counts as held unless `over` says that its job is over. May be called
   again. */
bool fs_run_backing_held(int dir, bool over);

#endif
