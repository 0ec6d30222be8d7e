/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slot protocol of a channel, for requests and for calls about names: how the client claims,
 * posts, gives up and frees a slot, and how the daemon takes, answers and frees it. The caller
 * fills a slot before it posts it, and writes the answer before it gives it.
 * docs/internals/shared-memory.md has the argument ("Requests"), tests/model/slots.pml the model.
 */
#ifndef FS_IPC_CHANNEL_H
#define FS_IPC_CHANNEL_H

#include "ipc/layout.h"

/* The words of slot i. */
struct fs_chan_slot {
  _Atomic uint32_t *state; /* enum fs_req_state */
  _Atomic uint32_t *pin;   /* NULL: a slot of this kind has none */
  _Atomic uint64_t *claimed, *posted;
  uint64_t bit;
};

static inline struct fs_chan_slot fs_chan_req(struct fs_channel *c, uint32_t i) {
  return (struct fs_chan_slot){&c->req[i].state, &c->pin[i], &c->claimed, &c->posted, 1ull << i};
}

static inline struct fs_chan_slot fs_chan_call(struct fs_channel *c, uint32_t i) {
  return (struct fs_chan_slot){&c->call_slot[i].state, NULL, &c->calls_claimed, &c->calls_posted, 1ull << i};
}

/* Returns true if the daemon has still to answer a slot in this state. */
static inline bool fs_chan_pending(uint32_t state) {
  return state == FS_REQ_POSTED || state == FS_REQ_ASLEEP;
}

/* ---- the client ---- */

/* Claims the first free slot of those in `all`. Returns its number, or -1 if none is free. */
static inline int32_t fs_chan_claim(_Atomic uint64_t *claimed, uint64_t all) {
  uint64_t now = atomic_load_explicit(claimed, memory_order_relaxed), unused;
  while ((unused = ~now & all) != 0) {
    int i = __builtin_ctzll(unused);
    if (atomic_compare_exchange_weak_explicit(claimed, &now, now | 1ull << i, memory_order_acquire,
                                              memory_order_relaxed))
      return i;
  }
  return -1;
}

static inline int32_t fs_chan_claim_req(struct fs_channel *c) {
  return fs_chan_claim(&c->claimed, UINT64_MAX);
}

static inline int32_t fs_chan_claim_call(struct fs_channel *c) {
  return fs_chan_claim(&c->calls_claimed, (1ull << FS_CHANNEL_CALLS) - 1);
}

/* Puts a word into the ring of what nobody waits for (layout.h). Returns false if that is full. */
static inline bool fs_chan_want(struct fs_channel *c, uint64_t word) {
  uint32_t head = atomic_load_explicit(&c->prefetch_head, memory_order_relaxed);
  do {
    if (head - atomic_load_explicit(&c->prefetch_tail, memory_order_acquire) >= FS_PREFETCH_RING) return false;
  } while (!atomic_compare_exchange_weak_explicit(&c->prefetch_head, &head, head + 1, memory_order_seq_cst,
                                                  memory_order_relaxed));
  atomic_store_explicit(&c->prefetch[head % FS_PREFETCH_RING], word, memory_order_seq_cst);
  return true;
}

/* Posts a claimed and filled slot. The caller then wakes the daemon if that sleeps. */
static inline void fs_chan_post(struct fs_chan_slot s) {
  atomic_store_explicit(s.state, FS_REQ_POSTED, memory_order_release);
  atomic_fetch_or_explicit(s.posted, s.bit, memory_order_seq_cst);
}

/* Sleeps until the daemon answers, for ns at most. Returns 0 or -ETIMEDOUT; may return early. */
fs_err fs_chan_sleep(_Atomic uint32_t *state, uint64_t ns);
/* Leaves a slot to the daemon, which frees it. Returns false if the daemon has answered it before. */
bool fs_chan_abandon(_Atomic uint32_t *state);

/* ---- both ---- */

/* Frees a slot: the client after it has used the answer, the daemon if no client waits for one. */
static inline void fs_chan_free(struct fs_chan_slot s) {
  if (s.pin) atomic_store_explicit(s.pin, 0, memory_order_release);
  atomic_store_explicit(s.state, FS_REQ_FREE, memory_order_release);
  atomic_fetch_and_explicit(s.claimed, ~s.bit, memory_order_release);
}

/* ---- the daemon ---- */

/* Takes what was posted: a bit for each slot. */
static inline uint64_t fs_chan_take(_Atomic uint64_t *posted) {
  return atomic_exchange_explicit(posted, 0, memory_order_acq_rel);
}

/* Returns true if a slot that was taken has to be answered. Frees one that its client has given up. */
bool fs_chan_taken(struct fs_chan_slot s);
/* Gives the answer that the caller has written. Wakes the client if that sleeps. Frees the slot if
   the client has given it up. */
void fs_chan_answer(struct fs_chan_slot s);

#endif
