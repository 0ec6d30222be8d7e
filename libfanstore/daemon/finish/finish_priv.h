/* SPDX-License-Identifier: BSD-3-Clause */
/* What finish.c and tell.c share: the outputs of this rank at the end of the job. The MPI thread's. */
#ifndef FS_DAEMON_FINISH_FINISH_PRIV_H
#define FS_DAEMON_FINISH_FINISH_PRIV_H

#include "daemon/finish/finish.h"

#define FS_OUTPUTS_REASONS 16u

/* Of the outputs that were not copied or not kept: `failed` for this reason, `unkept` of them are nowhere; `lost`
   because of it, whatever came before. */
struct fs_outputs_reason {
  fs_err err;
  uint64_t failed, unkept, lost, others; /* of the failed: directories and symlinks */
};

struct fs_outputs {
  struct fs_output *item;
  size_t n, room, next;
  uint32_t flight;
  bool keep, stage, kept, listed;
  bool others;    /* all files are done */
  uint64_t names; /* that are still to be told */
  uint64_t files, bytes, failed, say_at, list_by;
  uint64_t lost;                                       /* neither copied nor kept */
  uint64_t total, staged;                              /* bytes of all; files copied to --stage-out */
  uint64_t dirs, links;                                /* that the job has made, and this rank has the names of */
  struct fs_outputs_reason reason[FS_OUTPUTS_REASONS]; /* those with an error */
  uint64_t gone, gone_names; /* files whose home has gone; their names that are still to be told */
  uint64_t gone_by;
  bool gone_asked, gone_listed, gone_sure;
};

/* Sends the launcher what has been done so far. `end`: it is all. */
void fs_outputs_tell(const struct fs_daemon *d, bool end);
/* Tells the launcher of an output that went with its home. */
void fs_outputs_tell_gone(const struct fs_daemon *d, const struct fs_output *output, const char *path);

#endif
