/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The processes of a job on this host (processes.c has by what they are known). For the daemon and the launcher. A
 * call reads the command line and the environment of each of this user's processes. Thread-safe.
 */
#ifndef FS_IPC_PROCESSES_H
#define FS_IPC_PROCESSES_H

#include <stdbool.h>
#include <sys/types.h>

#define FS_ENV_JOB "FANSTORE_JOB" /* in the environment of every mpirun */

/* Sends sig (0: none) to each but the caller; their number. daemons: fanstored and its mpirun too, else only COMMAND's:
   what inherited the job's environment, and --exec-node. run: the run directory. */
unsigned fs_job_signal(const char *job, const char *run, bool daemons, int sig);
/* TERM, a second of grace, KILL. */
unsigned fs_job_end(const char *job, const char *run, bool daemons);
bool fs_process_alive(pid_t pid); /* a zombie is not */

#endif
