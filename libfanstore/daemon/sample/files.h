/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that programs of this node waited for (ipc/layout.h, struct fs_wait_rec): the slowest
 * reads of the job, and those files that most reads of the last seconds waited for. Memory is fixed.
 * The sampler's. The MPI thread's.
 */
#ifndef FS_DAEMON_SAMPLE_FILES_H
#define FS_DAEMON_SAMPLE_FILES_H

#include "daemon/daemon.h"

#define FS_FILES_SLOW 16u
#define FS_FILES_BUSY 64u  /* while a window lasts: a file of more than 1/64 of its reads is not missed */
#define FS_FILES_SHOWN 8u  /* of the last window */
#define FS_FILES_WINDOW 5u /* samples */

struct fs_file_waits {
  uint64_t file;  /* FS_WAIT_FILE */
  uint64_t reads; /* that waited, and what is known of them: */
  uint64_t bytes, us, longest_us;
  uint64_t inherited; /* reads of other files, whose place this one took */
};
struct fs_files {
  struct fs_file_waits slow[FS_FILES_SLOW], busy[FS_FILES_BUSY], shown[FS_FILES_SHOWN];
  unsigned nslow, nbusy, nshown;
  unsigned window;                  /* samples since it began */
  bool slow_changed, shown_changed; /* since they were said */
};

/* Takes what a client has told. */
void fs_files_take(struct fs_daemon *d, struct fs_files *f, struct fs_client *c);
/* A sample is due: ends the window if it is long enough. */
void fs_files_sample(struct fs_files *f);
/* Writes a list for a line `files` (ipc/control.h). Returns its length. */
size_t fs_files_text(const struct fs_file_waits *list, unsigned n, char *out, size_t size);

#endif
