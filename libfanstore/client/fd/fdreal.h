/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open files that become real. A placeholder cannot serve as standard input, for a program that
 * does not load the library, or in a message to a stranger. The slot's offset then moves, for good,
 * into the open file description of a real file. Every process that holds the slot takes that
 * description over when it next needs the offset. Between processes the description waits as a
 * message in the store, a socket that they all inherit.
 *
 * Raw system calls only, and no lock that a dead process could keep. docs/internals/descriptors.md has the
 * protocol.
 */
#ifndef FS_CLIENT_FD_FDREAL_H
#define FS_CLIENT_FD_FDREAL_H

#include "client/fd/fdtab.h"

static inline bool fs_slot_is_real(const struct fs_slot *s) {
  return (atomic_load_explicit(&s->offset, memory_order_relaxed) & FS_OFFSET_REAL) != 0;
}

/* Returns the real descriptor of an open file for this process: CLOEXEC, and the caller closes it.
   If others hold the slot, the offset is from then on in its open file description. Returns -EISDIR
   or -EBADF if there can be none. */
fs_fd fs_real_get(struct fs_slot *s);
/* Puts the real descriptor of s at fd and at all other descriptors of this process that are open on
   s. Returns 0, or why there is none. */
fs_err fs_fd_take_over(int fd, struct fs_slot *s);
/* For a call on s that has returned r: makes fd a real descriptor if r is FS_E_REAL. Returns r or the error. */
static inline int64_t fs_fd_real_if(int fd, struct fs_slot *s, int64_t r) {
  fs_err err = r == FS_E_REAL ? fs_fd_take_over(fd, s) : 0;
  return err != 0 ? err : r;
}
/* Makes those descriptors real here whose files became real in another process, while the store
   still has them. Called before children are made. */
void fs_real_follow(void);

/* ---- fdstore.c: real descriptors on their way from one process to another ---- */

/* Returns the socket for a new state, or a negative errno. */
fs_fd fs_store_new(void);
/* Enclose the calls of fs_store_put and fs_store_get. Begin waits for a thread that is alive for
   two seconds at most. */
void fs_store_begin(struct fs_state *st);
void fs_store_end(struct fs_state *st);
/* Leaves a copy of `real` in the store for the others that hold the slot. */
void fs_store_put(struct fs_state *st, uint32_t slot, uint32_t token, int real);
/* Returns a descriptor of the open file description that was left under slot and token, and sets
   the thread that left it. Returns -ENOENT if there is none. */
fs_fd fs_store_get(const struct fs_state *st, uint32_t slot, uint32_t token, uint32_t *from);
/* Returns whether it is useless to wait longer for thread tid, perhaps of another process, for
   which the caller has waited since `begin`. */
bool fs_store_give_up(uint32_t tid, uint64_t begin);

#endif
