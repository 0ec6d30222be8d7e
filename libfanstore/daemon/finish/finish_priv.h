/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by finish.c and tell.c: the outputs of this rank at the end of the job. The MPI
   thread's. */
#ifndef FS_DAEMON_FINISH_FINISH_PRIV_H
#define FS_DAEMON_FINISH_FINISH_PRIV_H

#include "daemon/finish/finish.h"

#define FS_OUTPUTS_REASONS 16u

/* Counts outputs that were not copied or not kept, for one error. failed: outputs with this
   first error. unkept: those of `failed` that are nowhere. lost: outputs that are nowhere
   because of this error, whatever error came before. */
struct fs_outputs_reason {
  fs_err err;
  uint64_t failed, unkept, lost, others; /* others: directories and symlinks among `failed` */
};

struct fs_outputs {
  struct fs_output *item;
  size_t n, room, next;
  uint32_t flight;
  bool keep, stage, kept, listed;
  bool others;    /* all files are done, so directories and symlinks may follow */
  uint64_t names; /* how many names may still be reported */
  uint64_t files, bytes, failed, say_at, list_by;
  /* outputs that were neither copied nor kept */
  uint64_t lost;
  /* total: bytes of all outputs; staged: files copied to --stage-out */
  uint64_t total, staged;
  /* made by the job, with their names on this rank */
  uint64_t dirs, links;
  struct fs_outputs_reason reason[FS_OUTPUTS_REASONS]; /* the errors that occurred */
  /* files whose home has died; how many of their names may still be reported */
  uint64_t gone, gone_names;
  uint64_t gone_by;
  uint32_t gone_nodes; /* how many nodes were no members when `gone` was counted */
  bool gone_asked, gone_listed, gone_sure;
};

/* Sends the launcher the counts so far. If `end` is true, they are final. */
void fs_outputs_tell(const struct fs_daemon *d, bool end);
/* Tells the launcher of an output that went with its home. */
void fs_outputs_tell_gone(const struct fs_daemon *d, const struct fs_output *output, const char *path);

#endif
