/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names below a local directory, fanstore or fanstore-nodeK of a node: of the daemon that writes there, and of the
 * launcher that removes what a dead one has left (docs/internals/staging.md, docs/internals/end-of-job.md).
 */
#ifndef FS_IPC_LOCAL_H
#define FS_IPC_LOCAL_H

#define FS_LOCAL_BACKING "outputs-"        /* JOB-RANK: outputs; its daemon holds a lock on it as long as it lives, */
#define FS_OUTPUTS_KEPT "fanstore-outputs" /* in the local directory itself: JOB/PATH, what jobs have kept */
#define FS_BACKING_LOCK "lock"             /* and on this file in it: on NFS another host sees locks of files only */

/* In a dataset's directory, whose name is its id. */
#define FS_STAGE_LOCK ".lock"       /* shared: a job uses the copies; exclusive: they are being removed */
#define FS_STAGE_STAGING ".staging" /* exclusive: one copy is being made */
#define FS_STAGE_NEW ".new-"        /* prefix of a copy that is not whole yet; its writer holds .staging */

#endif
