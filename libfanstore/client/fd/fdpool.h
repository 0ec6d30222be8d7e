/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool of this process's idle placeholders. They stay open between a close and the next open,
 * so that neither makes a system call. The pool is a bitmap by descriptor number: taking is one
 * compare and swap, and takes the lowest. Descriptors 0-2 are never kept, nor more than
 * FS_POOL_PER_WORD of each 64 numbers. If a real file gets a placeholder's number, the placeholder
 * is parked at a high number. Private to the fd table.
 */
#ifndef FS_CLIENT_FD_FDPOOL_H
#define FS_CLIENT_FD_FDPOOL_H

#include "util/base.h"

#define FS_POOL_PER_WORD 8

/* Takes the lowest idle placeholder and sets its slot. Returns the descriptor, or -ENOENT if there
   is none or none may be used. */
fs_fd fs_pool_take(uint32_t *slot);
/* Moves a parked placeholder to the lowest free number and sets its slot. Returns the descriptor,
   or -ENOENT if there is none. */
fs_fd fs_pool_unpark(uint32_t *slot);
/* Notes in the table that fd is an idle placeholder. */
void fs_fd_note_idle(int fd);
/* Keeps fd, and the slot of its entry, which the caller took out of the table while `process` was
   its process. Returns false if there is no room or the slot is not this process's; the caller then
   closes fd. */
bool fs_pool_put(int fd, uint64_t entry, int32_t process);
/* Marks the slots shared if the process was forked without the wrapper's knowledge. Called before a
   slot is given up. */
void fs_pool_check(void);
/* Takes fd out of the pool and frees its slot. The descriptor is then the caller's. Returns false
   if it was not in the pool. */
bool fs_pool_remove(int fd);

#endif
