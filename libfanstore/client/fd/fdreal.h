/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open files that become real. A placeholder will not do as standard input, for a program that does not load the
 * library, or in a message to a stranger: the slot's offset then moves, for good, into the open file description of a
 * real file, and every process that holds the slot takes the same description over when it next needs the offset.
 * Between processes the description waits as a message in the store, a socket that they all inherit.
 *
 * Raw system calls only, no lock that a dead process could keep. docs/internals/descriptors.md has the protocol.
 */
#ifndef FS_CLIENT_FD_FDREAL_H
#define FS_CLIENT_FD_FDREAL_H

#include "client/fd/fdtab.h"

static inline bool fs_slot_is_real(const struct fs_slot *s) {
  return (atomic_load_explicit(&s->offset, memory_order_relaxed) & FS_OFFSET_REAL) != 0;
}

/* The real descriptor of an open file, for this process: CLOEXEC, the caller's to close. From now on the offset is in
   its open file description, if others hold the slot. -EISDIR, -EBADF where there can be none. */
fs_fd fs_real_get(struct fs_slot *s);
/* Puts it at fd and at all other descriptors of this process that are open on s. 0, or why there is none. */
fs_err fs_fd_take_over(int fd, struct fs_slot *s);
/* Before children are made: what became real elsewhere becomes it here, too, while the store still has it. */
void fs_real_follow(void);
/* Before a program is executed that does not load the library: all that it would inherit becomes real. With `named`
   also what posix_spawn's file actions name (fs_fd_name). */
void fs_real_inherited(bool named);

/* ---- fdstore.c: real descriptors on their way from one process to another ---- */

/* The socket of a new state, or a negative errno. */
fs_fd fs_store_new(void);
/* Around the next two. Waits for a thread that is alive at most two seconds. */
void fs_store_begin(struct fs_state *st);
void fs_store_end(struct fs_state *st);
/* Leaves a copy of `real` for those that hold the slot. */
void fs_store_put(struct fs_state *st, uint32_t slot, uint32_t token, int real);
/* The same open file description, and the thread that left it; or -ENOENT. */
fs_fd fs_store_get(const struct fs_state *st, uint32_t slot, uint32_t token, uint32_t *from);
/* While waiting since `begin` for a thread of another process, maybe: is there no use in it any more? */
bool fs_store_give_up(uint32_t tid, uint64_t begin);

#endif
