/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Idle placeholders of this process, kept open between a close and the next open so that neither makes a system
 * call. A bitmap by descriptor number: taking is one compare and swap, and takes the lowest. Descriptors 0-2 are
 * never kept, nor more than FS_POOL_PER_WORD of each 64 numbers. Those whose numbers real files get are parked at high
 * ones. Private to the fd table.
 */
#ifndef FS_CLIENT_FD_FDPOOL_H
#define FS_CLIENT_FD_FDPOOL_H

#include "util/base.h"

#define FS_POOL_PER_WORD 8

/* The lowest idle placeholder and its slot, now the caller's; -ENOENT when there is none (or none may be used). */
fs_fd fs_pool_take(uint32_t *slot);
/* A parked placeholder, now at the lowest free number, and its slot; -ENOENT when there is none. */
fs_fd fs_pool_unpark(uint32_t *slot);
/* Notes in the table that fd is an idle placeholder. */
void fs_fd_note_idle(int fd);
/* Keeps fd with the slot of its entry, which was taken out of the table. False: the caller closes it; there is no room,
   or it is not this process's, which was `process` before that. */
bool fs_pool_put(int fd, uint64_t entry, int32_t process);
/* Before a slot is given up: in a process that was forked behind our back, marks the slots shared. */
void fs_pool_check(void);
/* Takes fd itself out of the pool; its slot becomes free, the descriptor is the caller's. False: it was not there. */
bool fs_pool_remove(int fd);

#endif
