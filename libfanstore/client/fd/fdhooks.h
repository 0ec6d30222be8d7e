/* SPDX-License-Identifier: BSD-3-Clause */
/* What client/outputs does with descriptors of outputs. Callers ask fs_is_output first, so that a
   call on a dataset's file never comes here. outputs/fdhooks.c has the functions. */
#ifndef FS_CLIENT_FD_FDHOOKS_H
#define FS_CLIENT_FD_FDHOOKS_H

#include "client/fd/slot.h"

struct fs_fd_hooks {
  /* A descriptor of s was copied. */
  void (*copied)(const struct fs_slot *s);
  /* A descriptor of s was closed: publishes what was written through it. */
  void (*closed)(struct fs_slot *s);
  /* Publishes what this process has written. */
  fs_err (*flush)(uint32_t entry, bool sync);
  /* Returns a file of the kernel's whose bytes become the output's. */
  fs_fd (*forwarder)(uint32_t entry, uint32_t flags, uint64_t off);
  /* The file is about to be handed on to another process. Returns true if that process could not read
     it: then it needs a real descriptor. */
  bool (*only_here)(uint32_t entry);
  /* A virtual descriptor became a real one. */
  void (*real)(int fd);
};
extern FS_INTERNAL const struct fs_fd_hooks fs_fd_hooks;

#endif
