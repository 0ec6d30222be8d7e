/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds and signals the processes of a job on this host. The daemon and the launcher use it;
 * processes.c says how processes are recognised. Each call reads the command line and the
 * environment of all of this user's processes. If a process hangs in the kernel and these cannot be
 * read, the call waits up to a second, once. Later calls ignore that process until its memory can
 * be read again. Thread-safe.
 */
#ifndef FS_IPC_PROCESSES_H
#define FS_IPC_PROCESSES_H

#include <stdbool.h>
#include <sys/types.h>

#define FS_ENV_JOB "FANSTORE_JOB" /* in the environment of each mpirun */

/* Sends sig (0: none) to each process of the job except the caller, and returns their number. With
   `daemons` this includes fanstored and its mpirun; without, only COMMAND's processes: those that
   inherited the job's environment, and --exec-node. `run` is the run directory. If the caller lacks
   the descriptors or memory to look, the number is one higher, because a process may have been
   missed. */
unsigned fs_job_signal(const char *job, const char *run, bool daemons, int sig);
/* Ends the job's processes: SIGTERM, a second of grace, SIGKILL. The parameters and the result are
   those of fs_job_signal. */
unsigned fs_job_end(const char *job, const char *run, bool daemons);
/* Stores the pids of at most `most` processes that are ignored now because they hang. Returns how
   many hang. */
unsigned fs_processes_hang(pid_t *pid, unsigned most);
bool fs_process_alive(pid_t pid); /* false for a zombie; does not wait for its memory */

extern const char *fs_proc_dir; /* "/proc"; tests set another directory */

#endif
