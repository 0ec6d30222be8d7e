/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment that fs-launch passes to the preloaded library, the run directory, and the node
 * of a process. The functions allocate nothing, make raw system calls only, and may be called from
 * a library constructor.
 *
 *   FANSTORE_DATASET, FANSTORE_MOUNT   lists of equal length (util.h, fs_list_next): datasets and
 *                                      their mounts; an empty or missing mount is the dataset's own
 *   FANSTORE_RUN                       run directory of this job on this host; unset: no daemon
 *   FANSTORE_NODE                      the node (rank) of this process
 *   FANSTORE_EMULATE                   number of nodes emulated on this host, if more than one
 *   FANSTORE_TMPDIR                    without a daemon: directory for materialised files; else
 *                                      TMPDIR, else /tmp
 *   FANSTORE_STATE                     inherited descriptor of the shared open-file table
 *   FANSTORE_READ_ONLY                 "1": every write below a mount fails with EROFS
 *   FANSTORE_VERIFY                    which blocks are checked: always, remote (default), never
 *   FANSTORE_IO_URING                  io_uring_setup by syscall(2) or liburing: "0" refuses all,
 *                                      "1" allows all, else only libuv's is refused
 *   FANSTORE_TRACE                     a file in which calls are recorded (ipc/trace.h)
 *   FANSTORE_RUN_BASE                  where the launcher and the daemons make run directories, if
 *                                      not in the usual places (ipc/rundir.h)
 *
 * The run directory is <place>/fanstore-<uid>/<job>/, both of mode 0700. ipc/rundir.h finds the
 * place on each host. If another user owns the name fanstore-<uid>, fanstore-<uid>.XXXXXX replaces
 * it. It holds:
 *   node-<rank>.lock    flock'ed by the daemon while it lives
 *   node-<rank>.sock    the daemon's socket; exists when the node is ready. Its mode is normally
 *                       FS_SOCKET_MODE. A client that waits for a welcome in vain sets
 *                       FS_SOCKET_SILENT, until a client is welcomed
 *   node-<rank>.ctl     a copy of `ctl` (ipc/layout.h) for clients that start while the daemon does
 *                       not answer. The daemon keeps only LOCAL flags and `outputs` up to date
 *   node-<rank>.env     the environment for programs that join the job, as words NAME=VALUE, each
 *                       with a NUL. It disappears when the job begins to finish
 *   node-<rank>.said    the daemon's lines to the launcher (ipc/control.h) after mpirun has died
 */
#ifndef FS_IPC_NODE_H
#define FS_IPC_NODE_H

#include "util/base.h"

#define FS_ENV_DATASET "FANSTORE_DATASET"
#define FS_ENV_MOUNT "FANSTORE_MOUNT"
#define FS_ENV_RUN "FANSTORE_RUN"
#define FS_ENV_RUN_BASE "FANSTORE_RUN_BASE"
#define FS_ENV_NODE "FANSTORE_NODE"
#define FS_ENV_EMULATE "FANSTORE_EMULATE"
#define FS_ENV_TMPDIR "FANSTORE_TMPDIR"
#define FS_ENV_STATE "FANSTORE_STATE"
#define FS_ENV_READ_ONLY "FANSTORE_READ_ONLY"
#define FS_ENV_VERIFY "FANSTORE_VERIFY"
/* If not "" or "0", a program that is started with its own environment is not given the library
   again. */
#define FS_ENV_AS_IS "FANSTORE_ENV_AS_IS"
#define FS_ENV_IO_URING "FANSTORE_IO_URING"
#define FS_ENV_PREFETCH_BYTES "FANSTORE_PREFETCH_BYTES" /* libfanstore/python/fanstore_torch.py reads it */

#define FS_SOCKET_MODE 0600
#define FS_SOCKET_SILENT 0700

/* Writes <place>/fanstore-<uid> to `out`, without making it. Returns the length or
   -ENAMETOOLONG. */
fs_ssize fs_run_name(const char *place, char *out, size_t size);
/* Each of these four writes the path of a file in the run directory to `out`: node-<rank>.sock,
   .ctl, .env and .said. They return the length or -ENAMETOOLONG. */
fs_ssize fs_run_socket(const char *run, uint32_t node, char *out, size_t size);
fs_ssize fs_run_ctl(const char *run, uint32_t node, char *out, size_t size);
fs_ssize fs_run_env(const char *run, uint32_t node, char *out, size_t size);
fs_ssize fs_run_said(const char *run, uint32_t node, char *out, size_t size);

/* The directories for real files of datasets if the local directory is full. fs_memory_backing
   writes /dev/shm/fanstore-<uid>/fanstore/<last component of `backing`>: the layout is that of a
   local directory (ipc/local.h). Both functions only make names and return the length or
   -ENAMETOOLONG. */
#define FS_MEMORY_LOCAL "fanstore"
fs_ssize fs_memory_local(char *out, size_t size); /* /dev/shm/fanstore-<uid> */
fs_ssize fs_memory_backing(const char *backing, char *out, size_t size);

/* Which blocks are checked when read: none; those from other nodes and shared storage; also those
   from the node's own disk. */
enum fs_verify { FS_VERIFY_NEVER, FS_VERIFY_REMOTE, FS_VERIFY_ALWAYS };
#define FS_VERIFY_DEFAULT FS_VERIFY_REMOTE
/* Returns the enum fs_verify of a word, or -EINVAL. */
int fs_verify_parse(const char *word);

/* Returns the FS_CTL_IO_* (ipc/layout.h) of "cached" or "direct", 0 for "auto", else -EINVAL. */
int fs_local_io_parse(const char *word);

enum fs_node_source { FS_NODE_NAMED, FS_NODE_BY_RANK, FS_NODE_DEFAULT };
/*
 * Returns the node of this process. FANSTORE_NODE decides if it is set. Else, if FANSTORE_EMULATE
 * is N, the node is the first variable that is set of OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK,
 * SLURM_PROCID, RANK and LOCAL_RANK, modulo N. Else it is 0. SLURM_PROCID counts only in a step of
 * several tasks (SLURM_STEP_NUM_TASKS). If this step has several nodes, which are slurmds on one
 * host, SLURM_NODEID counts instead. The caller exports the result in FANSTORE_NODE unless *source
 * is FS_NODE_DEFAULT: a preloaded torchrun or mpirun has no rank itself, and must not decide for
 * the ranks that it starts.
 */
uint32_t fs_node_decide(enum fs_node_source *source);

#endif
