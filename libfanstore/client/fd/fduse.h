/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which open files calls are under way on. A call on a descriptor names the slot in a word of its thread, by plain
 * stores; who takes the last descriptor of a slot away (dup2 over it, say) looks at the words of all threads, and where
 * one names it, the slot is retired: freed once no call uses it any more. docs/internals/descriptors.md, section 3, has
 * the protocol.
 */
#ifndef FS_CLIENT_FD_FDUSE_H
#define FS_CLIENT_FD_FDUSE_H

#include "client/fd/slot.h"

#define FS_USE_LEVELS 14u /* calls of a thread at once: signal handlers interrupt calls, and make some of their own */
#define FS_USERS 1024u    /* threads that have words */

/* One thread's, a cache line. Only that thread writes it, but for the end of a thread that is gone. */
struct fs_user {
  _Atomic uint32_t thread;              /* its number; 0: nobody's */
  _Atomic uint32_t depth;               /* levels in use */
  _Atomic uint32_t slot[FS_USE_LEVELS]; /* + 1; 0: none */
};
static_assert(sizeof(struct fs_user) == 64, "a cache line");

extern FS_INTERNAL FS_TLS struct fs_user *fs_user; /* NULL: none yet */

/* One call's. */
struct fs_use {
  struct fs_user *user; /* NULL: it names nothing */
  uint32_t level, depth;
};

/* This thread's from now on. Where all are taken, slots are left to a scan of holders from then on. */
struct fs_user *fs_user_new(void);

/* The level first, so that a signal handler's call takes the next one. Who left a call by siglongjmp leaves its level
   in use: the next to find none begins at the bottom. */
static inline void fs_use_begin(struct fs_use *u) {
  struct fs_user *me = fs_user;
  if (FS_UNLIKELY(me == NULL)) me = fs_user_new();
  u->user = me;
  u->depth = atomic_load_explicit(&me->depth, memory_order_relaxed);
  u->level = FS_LIKELY(u->depth < FS_USE_LEVELS) ? u->depth : 0;
  atomic_store_explicit(&me->depth, u->level + 1, memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst);
}

/* Before the table's entry is read once more: who has taken it out by then finds the slot named. */
static inline void fs_use_name(const struct fs_use *u, uint32_t slot) {
  atomic_store_explicit(&u->user->slot[u->level], slot + 1, memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst);
}

static inline void fs_use_end(struct fs_use *u) {
  if (u->user == NULL) return;
  atomic_store_explicit(&u->user->slot[u->level], 0, memory_order_release);
  atomic_signal_fence(memory_order_seq_cst);
  atomic_store_explicit(&u->user->depth, u->depth, memory_order_relaxed);
  u->user = NULL;
}
/* Until the end of the scope. */
#define FS_USE(u) struct fs_use __attribute__((cleanup(fs_use_end))) u = {.user = NULL}

/*
 * The last descriptor of a slot was taken out of the table, by its entry e. `sure`: not only a call that began a while
 * ago is looked for. `told`: its closing was told.
 */
enum fs_use_end {
  FS_USE_NONE,    /* no call is under way: it can be freed */
  FS_USE_RETIRED, /* it is freed when that has ended */
  FS_USE_SCAN     /* that is not known, or there is no room: fs_use_leave, when its closing was told */
};
enum fs_use_end fs_use_retire(struct fs_slot *s, uint64_t e, bool sure, bool told);
/* A scan of holders frees it, and not the next one. */
void fs_use_leave(struct fs_slot *s);
/* The same of a placeholder that is idle, of the generation that the slot has now; frees it. */
void fs_use_free_idle(uint32_t slot);
/* Is a call under way on it that began a while ago? */
bool fs_use_seen(uint32_t slot);

/* Are there retired ones? Then nobody comes by later to publish what is written. */
extern FS_INTERNAL _Atomic uint32_t fs_use_retired;
/* Is one of them of this output file? */
bool fs_use_retired_file(uint32_t entry);
/* Frees those whose calls have ended. */
void fs_use_reap(void);
/* In a forked child. alone: it has no other thread yet. */
void fs_use_forked(bool alone);

#endif
