/* SPDX-License-Identifier: BSD-3-Clause */
/* Outputs that jobs which are over have left in a local directory: left.c, backing.c. */
#ifndef FS_LAUNCH_CLEAN_LEFT_H
#define FS_LAUNCH_CLEAN_LEFT_H

#include "util/base.h"

struct fs_left_clean {
  bool remove;    /* --outputs; else they are only told */
  const char *to; /* --to: an absolute path, or NULL */
  bool *failed;   /* something could not be copied or removed */
  int kept;       /* left.c's own: the directory at work */
};
struct fs_left_sum {
  uint64_t files, bytes, links;
  uint64_t nameless, split, taken; /* of them: without a name; not whole; with a name that something else has there */
};

/* What is done with one directory of outputs: `backing file` is a daemon's, or -1 (then *sum says what is in it). True:
   it is gone. */
bool fs_left_done(const struct fs_left_clean *c, int backing, const char *path, const char *job,
                  struct fs_left_sum *sum);
/* The same for what jobs have kept. */
void fs_kept_clean(const char *local, bool by_default, const struct fs_left_clean *c);
/* backing.c: removes what dead daemons have left, but for outputs, with which fs_left_done is asked. */
void fs_backing_files_clean(const char *local, bool by_default, const struct fs_left_clean *c);
/* Does anything of this job run on this host? */
bool fs_job_lives(const char *job);

#endif
