/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open files that calls are using. A call on a descriptor names the slot in a word of its thread,
 * by plain stores. A thread that takes the last descriptor of a slot away, by dup2 over it for
 * example, looks at the words of all threads. If one names the slot, the slot is retired: it is
 * freed once no call uses it any more. docs/internals/descriptors.md, section 3, has the protocol.
 */
#ifndef FS_CLIENT_FD_FDUSE_H
#define FS_CLIENT_FD_FDUSE_H

#include "client/fd/slot.h"

#define FS_USE_LEVELS 14u /* calls of a thread at once: signal handlers make calls within calls */
#define FS_USERS 1024u    /* threads that have words */

/* The words of one thread, in one cache line. Only that thread writes them, but another may clear
   the words of a thread that is gone. */
struct fs_user {
  _Atomic uint32_t thread;              /* the thread's number; 0: free */
  _Atomic uint32_t depth;               /* levels in use */
  _Atomic uint32_t slot[FS_USE_LEVELS]; /* slot number + 1; 0: none */
};
static_assert(sizeof(struct fs_user) == 64, "a cache line");

extern FS_INTERNAL FS_TLS struct fs_user *fs_user; /* NULL: none yet */

/* One call's use of a slot. */
struct fs_use {
  struct fs_user *user; /* NULL: it names nothing */
  uint32_t level, depth;
};

/* Gives this thread words of its own. If all are taken, slots are left to a scan of holders from
   then on. */
struct fs_user *fs_user_new(void);

/* Begins a call's use. The level is taken first, so that a signal handler's call takes the next
   one. A call that was left by siglongjmp leaves its level in use; a call that finds no free level
   begins at the bottom. */
static inline void fs_use_begin(struct fs_use *u) {
  struct fs_user *me = fs_user;
  if (FS_UNLIKELY(me == NULL)) me = fs_user_new();
  u->user = me;
  u->depth = atomic_load_explicit(&me->depth, memory_order_relaxed);
  u->level = FS_LIKELY(u->depth < FS_USE_LEVELS) ? u->depth : 0;
  atomic_store_explicit(&me->depth, u->level + 1, memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst);
}

/* Names the slot. The caller reads the table's entry once more afterwards: a thread that has taken
   the entry out by then finds the slot named. */
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
/* Declares a use that ends with the scope. */
#define FS_USE(u) struct fs_use __attribute__((cleanup(fs_use_end))) u = {.user = NULL}

/*
 * Decides what becomes of slot s, whose last descriptor was taken out of the table by its entry e.
 * If `sure` is false, only calls that began a while ago are looked for. `told` says that
 * the hook `closed` was called for s.
 */
enum fs_use_end {
  FS_USE_NONE,    /* no call uses it: the caller can free it */
  FS_USE_RETIRED, /* it is freed when the call that uses it has ended */
  FS_USE_SCAN     /* not known, or no room: call the hook `closed`, then fs_use_leave */
};
enum fs_use_end fs_use_retire(struct fs_slot *s, uint64_t e, bool sure, bool told);
/* Leaves the slot to a scan of holders, but not to the next scan. */
void fs_use_leave(struct fs_slot *s);
/* Frees the slot of an idle placeholder in its current generation, or retires it or leaves it to a
   scan if a call uses it. */
void fs_use_free_idle(uint32_t slot);
/* Returns whether a call that began a while ago uses the slot. */
bool fs_use_seen(uint32_t slot);

/* How many slots are retired. If there are any, no thread comes by later to publish what a call has
   written. */
extern FS_INTERNAL _Atomic uint32_t fs_use_retired;
/* Returns whether a retired slot is of this output file. */
bool fs_use_retired_file(uint32_t entry);
/* Frees the retired slots whose calls have ended. */
void fs_use_reap(void);
/* Drops what a forked child has inherited. alone: it has no other thread yet. */
void fs_use_forked(bool alone);

#endif
