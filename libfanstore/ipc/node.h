/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment between fs-launch and the preloaded library, the run directory, and which node a process is on.
 * No allocation; raw system calls only; callable from a library constructor.
 *
 *   FANSTORE_DATASET, FANSTORE_MOUNT   lists of equal length (util.h, fs_list_next): datasets and their mounts; an
 *                                      empty or missing mount means the dataset's own
 *   FANSTORE_RUN                       run directory of this job on this host; unset: no daemon
 *   FANSTORE_NODE                      this process's node (rank)
 *   FANSTORE_EMULATE                   number of nodes emulated on this host, when more than one
 *   FANSTORE_TMPDIR                     without a daemon: directory for materialised files (else TMPDIR, else /tmp)
 *   FANSTORE_STATE                     number of the inherited descriptor of the shared open-file table
 *   FANSTORE_READ_ONLY                 "1": every write below a mount is EROFS
 *   FANSTORE_VERIFY                    which blocks are compared with their checksums: always, remote (else), never
 *   FANSTORE_IO_URING                  io_uring_setup by syscall(2) or liburing: "0" refuses it, "1" lets it through;
 * else libuv's is refused
 *
 *   FANSTORE_RUN_BASE                  where the launcher and the daemons make run directories, if not where they
 *                                      would (ipc/rundir.h)
 *
 * Run directory: <place>/fanstore-<uid>/<job>/ (both 0700), on each host in the place that ipc/rundir.h finds; where
 * another user has the name fanstore-<uid>, below fanstore-<uid>.XXXXXX. It holds
 *   node-<rank>.lock    flock'ed by the daemon for its life
 *   node-<rank>.sock    the daemon's socket, there when the node is ready. Its mode is FS_SOCKET_MODE; and
 *                       FS_SOCKET_SILENT from when a client has waited for a welcome in vain until one is welcomed
 *   node-<rank>.ctl     what clients are handed over as `ctl` (ipc/layout.h), for those that start when the daemon does
 *                       not answer: as it was at first, but for LOCAL flags and `outputs`, which the daemon keeps true
 *   node-<rank>.said    the daemon's lines to the launcher (ipc/control.h) since mpirun, which carried them, has gone
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
/* Not "" or "0": programs that are started with an environment of their own do not get the library back. */
#define FS_ENV_AS_IS "FANSTORE_ENV_AS_IS"
#define FS_ENV_IO_URING "FANSTORE_IO_URING"

#define FS_SOCKET_MODE 0600
#define FS_SOCKET_SILENT 0700

/* The name alone: <place>/fanstore-<uid>. Length or -ENAMETOOLONG. */
fs_ssize fs_run_name(const char *place, char *out, size_t size);
/* <run>/node-<rank>.sock */
fs_ssize fs_run_socket(const char *run, uint32_t node, char *out, size_t size);
/* <run>/node-<rank>.ctl */
fs_ssize fs_run_ctl(const char *run, uint32_t node, char *out, size_t size);
/* <run>/node-<rank>.said */
fs_ssize fs_run_said(const char *run, uint32_t node, char *out, size_t size);

/* Where real files of datasets go when the backing directory is full: <memory>/<last component of backing file>, with
   memory = /dev/shm/fanstore-<uid>/fanstore, which is laid out as below a local directory (ipc/local.h). Names alone.
   Length or -ENAMETOOLONG. */
#define FS_MEMORY_LOCAL "fanstore"
fs_ssize fs_memory_local(char *out, size_t size); /* /dev/shm/fanstore-<uid> */
fs_ssize fs_memory_backing(const char *backing, char *out, size_t size);

/* Of the blocks that are read: none; those of other nodes and of shared storage; those of the node's own disk too. */
enum fs_verify { FS_VERIFY_NEVER, FS_VERIFY_REMOTE, FS_VERIFY_ALWAYS };
#define FS_VERIFY_DEFAULT FS_VERIFY_REMOTE
/* From a word, or -EINVAL. */
int fs_verify_parse(const char *word);

/* cached, direct or auto: FS_CTL_IO_* (ipc/layout.h), 0 for auto, or -EINVAL. */
int fs_local_io_parse(const char *word);

enum fs_node_source { FS_NODE_NAMED, FS_NODE_BY_RANK, FS_NODE_DEFAULT };
/*
 * The node of this process: FANSTORE_NODE; else, with FANSTORE_EMULATE = N, the first set of
 * OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK, SLURM_PROCID, RANK, LOCAL_RANK, modulo N; else 0.
 * A caller exports the result in FANSTORE_NODE unless it is FS_NODE_DEFAULT (a torchrun or mpirun under the preload
 * has no rank itself, and must not decide for the ranks that it starts).
 */
uint32_t fs_node_decide(enum fs_node_source *source);

#endif
