/* SPDX-License-Identifier: BSD-3-Clause */
/* Outputs that finished jobs have left in a local directory (left.c, backing.c). For fs-launch
   clean and the launcher's own cleanup. One thread. */
#ifndef FS_LAUNCH_CLEAN_LEFT_H
#define FS_LAUNCH_CLEAN_LEFT_H

#include "util/base.h"

struct fs_left_clean {
  bool remove;    /* --outputs; else they are only listed */
  const char *to; /* --to: an absolute path, or NULL */
  bool *failed;   /* set if something could not be copied or removed */
  int kept;       /* private to left.c: the current directory */
};
struct fs_left_sum {
  uint64_t files, bytes, links;
  uint64_t nameless, split, taken; /* of the files: without a name; incomplete; with a name that
                                      another file has there */
};

/* Lists, copies or removes one directory of outputs. `backing` is a daemon's backing directory; if
   it is -1, *sum says what the directory holds. Returns true if the directory is removed. */
bool fs_left_done(const struct fs_left_clean *c, int backing, const char *path, const char *job,
                  struct fs_left_sum *sum);
/* Does the same for the outputs that jobs have kept. */
void fs_kept_clean(const char *local, bool by_default, const struct fs_left_clean *c);
/* backing.c. Removes what dead daemons left. Directories with outputs go to fs_left_done. */
void fs_backing_files_clean(const char *local, bool by_default, const struct fs_left_clean *c);
/* Returns true if a process of this job runs on this host. */
bool fs_job_lives(const char *job);

#endif
