/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The processes of a job on this host (processes.c has by what they are known). For the daemon and the launcher. A
 * call reads the command line and the environment of each of this user's processes. One that hangs in the kernel so
 * that these cannot be read is given a second, once, and is then passed over, as if it were not the job's, until its
 * memory can be read again. Thread-safe.
 */
#ifndef FS_IPC_PROCESSES_H
#define FS_IPC_PROCESSES_H

#include <stdbool.h>
#include <sys/types.h>

#define FS_ENV_JOB "FANSTORE_JOB" /* in the environment of every mpirun */

/* Sends sig (0: none) to each but the caller; their number. daemons: fanstored and its mpirun too, else only COMMAND's:
   what inherited the job's environment, and --exec-node. run: the run directory. One more where the caller has no
   descriptor or memory to look at all: of those it cannot say that none is there. */
unsigned fs_job_signal(const char *job, const char *run, bool daemons, int sig);
/* TERM, a second of grace, KILL. */
unsigned fs_job_end(const char *job, const char *run, bool daemons);
/* Those that are passed over just now, `most` at most; their number. */
unsigned fs_processes_hang(pid_t *pid, unsigned most);
bool fs_process_alive(pid_t pid); /* a zombie is not; does not wait for its memory */

extern const char *fs_proc_dir; /* "/proc"; tests have another one */

#endif
