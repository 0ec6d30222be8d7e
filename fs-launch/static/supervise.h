/* SPDX-License-Identifier: BSD-3-Clause */
/* Between main.c, the process that is waited for, and supervise.c, the one that answers. */
#ifndef FS_STATIC_SUPERVISE_H
#define FS_STATIC_SUPERVISE_H

#include <signal.h>

#include "static.h"

struct fs_static {
  char **command;
  const char *preload; /* for COMMAND's LD_PRELOAD, or NULL */
  sigset_t old_mask;
  void (*old_child)(int); /* what SIGCHLD did */
  int front;              /* the socket to the process in front */
  bool ended;
};

enum fs_static_news {
  FS_STATIC_STARTED,    /* value: COMMAND's pid */
  FS_STATIC_ENDED,      /* value: its status; nobody else is under the filter */
  FS_STATIC_ENDED_ALONE /* others go on, and so does the supervisor */
};
struct fs_static_message {
  int32_t what, value;
};

/* Gives up what was inherited for COMMAND, but stderr: somebody may wait for the end of a pipe. */
void fs_static_let_go(void);
/* The supervisor's life: its exit status. */
int fs_supervise(struct fs_static *s);

#endif
