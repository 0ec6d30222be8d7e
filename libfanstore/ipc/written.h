/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a client has written of files with several writers and its daemon has not published yet
 * (docs/internals/shared-memory.md, "Ranges that were written"). The client notes ranges, the
 * daemon takes and publishes them: when the client asks, and when they are a second old. Nobody else
 * publishes a range, so after a success none is published again. All words are atomic,
 * because a process may stop or die between any two instructions. tests/model/written.pml is the
 * model.
 */
#ifndef FS_IPC_WRITTEN_H
#define FS_IPC_WRITTEN_H

#include <stdalign.h>
#include <stdatomic.h>

#include "ipc/call.h"

#define FS_WRITTEN_FILES 64u   /* of one client at once */
#define FS_WRITTEN_RANGES 240u /* of one file that are not published; an EXTEND has room for them */
#define FS_WRITTEN_PLACES 256u /* a power of two, because the numbers of ranges wrap around */
#define FS_WRITTEN_TAKEN (1ull << 63)
static_assert(FS_WRITTEN_RANGES <= FS_WRITTEN_PLACES, "each unpublished range has a place");

/* Range k is at place k % FS_WRITTEN_PLACES. Those from `tail` to `head` are not published. */
struct fs_written {
  alignas(64) _Atomic uint64_t file, segment; /* by the client, before the first range */
  _Atomic uint32_t head;                      /* by the client */
  _Atomic uint32_t tail;                      /* by the daemon */
  struct {
    _Atomic uint64_t off, len; /* len has FS_WRITTEN_TAKEN from when the daemon has taken the range */
  } range[FS_WRITTEN_PLACES];
};

/* ---- the client, one thread at a time ---- */

/* Returns how many ranges are not published. */
static inline uint32_t fs_written_pending(const struct fs_written *w) {
  uint32_t tail = atomic_load_explicit(&w->tail, memory_order_acquire);
  return atomic_load_explicit(&w->head, memory_order_relaxed) - tail;
}

/* Makes the last range longer if the new one begins in it or behind it. Returns false if it does
   not, or the daemon has taken the last range. */
static inline bool fs_written_join(struct fs_written *w, uint32_t last, uint64_t off, uint64_t n) {
  uint64_t begin = atomic_load_explicit(&w->range[last % FS_WRITTEN_PLACES].off, memory_order_relaxed);
  _Atomic uint64_t *len = &w->range[last % FS_WRITTEN_PLACES].len;
  uint64_t now = atomic_load_explicit(len, memory_order_relaxed);
  if ((now & FS_WRITTEN_TAKEN) || off < begin || off - begin > now) return false;
  /* The swap tells that the daemon publishes the range after this write, even if its length stays. */
  uint64_t more = FS_MAX(now, off - begin + n);
  return atomic_compare_exchange_strong_explicit(len, &now, more, memory_order_acq_rel, memory_order_relaxed);
}

/* Notes a range whose bytes are in the segment. Returns false if there is no place for it. */
static inline bool fs_written_note(struct fs_written *w, uint64_t off, uint64_t n) {
  uint32_t head = atomic_load_explicit(&w->head, memory_order_relaxed), pending = fs_written_pending(w);
  if (pending > 0 && fs_written_join(w, head - 1, off, n)) return true;
  if (pending >= FS_WRITTEN_RANGES) return false;
  atomic_store_explicit(&w->range[head % FS_WRITTEN_PLACES].off, off, memory_order_relaxed);
  atomic_store_explicit(&w->range[head % FS_WRITTEN_PLACES].len, n, memory_order_relaxed);
  atomic_store_explicit(&w->head, head + 1, memory_order_release);
  return true;
}

/* Returns range k, if it is not published yet. */
static inline struct fs_range fs_written_at(const struct fs_written *w, uint32_t k) {
  uint64_t off = atomic_load_explicit(&w->range[k % FS_WRITTEN_PLACES].off, memory_order_relaxed);
  uint64_t len = atomic_load_explicit(&w->range[k % FS_WRITTEN_PLACES].len, memory_order_relaxed);
  return (struct fs_range){.off = off, .len = len & ~FS_WRITTEN_TAKEN};
}

/* ---- the daemon ---- */

/* Takes the ranges from `tail`, which the daemon keeps itself, to *upto. From now on the client
   joins nothing to them. Returns how many there are, or -EINVAL. The ranges are not checked. */
static inline int32_t fs_written_take(struct fs_written *w, uint32_t tail, uint32_t *upto,
                                      struct fs_range range[FS_WRITTEN_RANGES]) {
  uint32_t n = atomic_load_explicit(&w->head, memory_order_acquire) - tail;
  if (n > FS_WRITTEN_RANGES) return -EINVAL;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t place = (tail + i) % FS_WRITTEN_PLACES;
    range[i].len = atomic_fetch_or_explicit(&w->range[place].len, FS_WRITTEN_TAKEN, memory_order_acq_rel);
    range[i].len &= ~FS_WRITTEN_TAKEN;
    range[i].off = atomic_load_explicit(&w->range[place].off, memory_order_relaxed);
  }
  *upto = tail + n;
  return (int32_t)n;
}

/* Says that the home has the ranges before `tail`. */
static inline void fs_written_published(struct fs_written *w, uint32_t tail) {
  atomic_store_explicit(&w->tail, tail, memory_order_release);
}

#endif
