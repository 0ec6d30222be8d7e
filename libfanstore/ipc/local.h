/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names in the directory fanstore, or fanstore-nodeK, below a local directory. The daemon writes
 * there; the launcher removes what a dead daemon has left (docs/internals/staging.md; docs/internals/end-of-job.md).
 */
#ifndef FS_IPC_LOCAL_H
#define FS_IPC_LOCAL_H

#include <limits.h>
#include <stdbool.h>

#define FS_LOCAL_BACKING "outputs-"        /* outputs-JOB-RANK; locked while its daemon lives */
#define FS_LOCAL_PACK ".pack-"             /* .pack-XXXXXX-RANK: partitions that are being packed; locked */
#define FS_OUTPUTS_KEPT "fanstore-outputs" /* JOB/PATH, in the local directory: what jobs kept */
#define FS_BACKING_LOCK "lock"             /* also locked: over NFS only file locks are visible */

/* Files in a dataset's directory. The dataset's id is the name of that directory. */
#define FS_STAGE_LOCK ".lock"       /* shared lock: copies in use; exclusive: being removed */
#define FS_STAGE_STAGING ".staging" /* exclusive lock: a copy is being made */
#define FS_STAGE_NEW ".new-"        /* prefix of an incomplete copy; its writer locks .staging */

/* In a .pack-XXXXXX-RANK: the path of the directory .NAME.partial-XXXXXX (docs/internals/pack.md), whose
   journal has a checkpoint if it has more bytes than these. */
#define FS_LOCAL_PACK_OF "dataset"
#define FS_LOCAL_JOURNAL_LEAST 112u
/* Returns true if an interrupted pack can go on with what is in this directory. Stores that path, or "". */
bool fs_local_pack_resumes(int dir, char of[PATH_MAX]);

#endif
