/* SPDX-License-Identifier: BSD-3-Clause */
/* The caller's user, group and umask, which the kernel is asked for once (ids.c). Lock-free. */
#ifndef FS_CLIENT_NODE_IDS_H
#define FS_CLIENT_NODE_IDS_H

#include <sys/types.h>

#include "util/base.h"

/* Sets the caller's effective user and group. If they are known, the call makes no system call. */
void fs_ids(uint32_t *uid, uint32_t *gid);
/* Drops what is known of the caller's ids, after setuid or one of its like. */
void fs_ids_changed(void);
/* Returns whether the caller is root, to whom missing permissions do not matter. */
bool fs_caller_is_root(void);
/* Returns the process's umask. */
mode_t fs_umask(void);
/* Remembers the mask that umask has set. */
void fs_umask_changed(mode_t mask);

#endif
