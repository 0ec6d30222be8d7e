/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names in the directory fanstore, or fanstore-nodeK, below a local directory. The daemon writes
 * there; the launcher removes what a dead daemon has left (docs/internals/staging.md; docs/internals/end-of-job.md).
 */
#ifndef FS_IPC_LOCAL_H
#define FS_IPC_LOCAL_H

#define FS_LOCAL_BACKING "outputs-"        /* outputs-JOB-RANK; locked while its daemon lives */
#define FS_LOCAL_PACK ".pack-"             /* directory of partitions that are being packed; locked */
#define FS_OUTPUTS_KEPT "fanstore-outputs" /* JOB/PATH, in the local directory: what jobs kept */
#define FS_BACKING_LOCK "lock"             /* also locked: over NFS only file locks are visible */

/* Files in a dataset's directory. The dataset's id is the name of that directory. */
#define FS_STAGE_LOCK ".lock"       /* shared lock: copies in use; exclusive: being removed */
#define FS_STAGE_STAGING ".staging" /* exclusive lock: a copy is being made */
#define FS_STAGE_NEW ".new-"        /* prefix of an incomplete copy; its writer locks .staging */

#endif
