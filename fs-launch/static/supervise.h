/* SPDX-License-Identifier: BSD-3-Clause */
/* The link between main.c, the process in front that the user waits for, and supervise.c, the
   process that answers calls. */
#ifndef FS_STATIC_SUPERVISE_H
#define FS_STATIC_SUPERVISE_H

#include <signal.h>

#include "static.h"

struct fs_static {
  char **command;
  const char *preload; /* for COMMAND's LD_PRELOAD, or NULL */
  sigset_t old_mask;
  void (*old_child)(int); /* the original action of SIGCHLD */
  int front;              /* the socket to the process in front */
  bool ended;
};

enum fs_static_news {
  FS_STATIC_STARTED,    /* value: COMMAND's pid */
  FS_STATIC_ENDED,      /* value: its status; no other process is under the filter */
  FS_STATIC_ENDED_ALONE /* other processes continue, and the supervisor too */
};
struct fs_static_message {
  int32_t what, value;
};

/* Closes the descriptors that were inherited for COMMAND, except stderr: another process may wait
   for the end of a pipe. */
void fs_static_let_go(void);
/* Runs the supervisor until its end. Returns the exit status. */
int fs_supervise(struct fs_static *s);

#endif
