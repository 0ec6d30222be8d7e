/* SPDX-License-Identifier: BSD-3-Clause */
/* An output that is to be copied, kept or named (stageout, finish), and the directories among them
   whose times have to be set at the very end. */
#ifndef FS_DAEMON_OUTPUTS_OUTPUT_H
#define FS_DAEMON_OUTPUTS_OUTPUT_H

#include <time.h>

#include "util/base.h"

struct fs_output {
  uint64_t id, dir;
  uint32_t mode; /* with the file type */
  uint32_t mtime_ns;
  int64_t mtime;    /* of a directory or symlink; if `gone`, of the file as it was last published */
  uint64_t version; /* of a directory: version of these times */
  char *target;     /* of a symlink */
  bool gone;        /* its home has died, so it can only be named */
  uint64_t size;    /* if `gone`: as last published */
};
static inline struct timespec fs_output_time(const struct fs_output *o) {
  return (struct timespec){.tv_sec = o->mtime, .tv_nsec = o->mtime_ns};
}

/* ---- settle.c ---- */
/* Records that a directory was made: `path` below --stage-out's directory or the directory of
   kept outputs. */
void fs_settle_add(const struct fs_output *o, bool kept, const char *path);
/* Sets the times of the recorded directories below these two, and forgets them. -1: a directory
   that is not to be touched. */
void fs_settle(int kept, int staged);

#endif
