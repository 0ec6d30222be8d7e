/* SPDX-License-Identifier: BSD-3-Clause */
/* See channel.h. */
#include "ipc/channel.h"

#include "util/sys.h"

/* Says that it sleeps, so that the daemon makes the system call only then. */
fs_err fs_chan_sleep(_Atomic uint32_t *state, uint64_t ns) {
  uint32_t posted = FS_REQ_POSTED;
  if (!atomic_compare_exchange_strong_explicit(state, &posted, FS_REQ_ASLEEP, memory_order_acq_rel,
                                               memory_order_acquire) &&
      posted != FS_REQ_ASLEEP)
    return 0;
  return fs_futex_wait(state, FS_REQ_ASLEEP, ns);
}

bool fs_chan_abandon(_Atomic uint32_t *word) {
  uint32_t state = atomic_load_explicit(word, memory_order_acquire);
  do {
    if (!fs_chan_pending(state)) return false;
  } while (!atomic_compare_exchange_weak_explicit(word, &state, FS_REQ_ABANDONED, memory_order_acq_rel,
                                                  memory_order_acquire));
  return true;
}

bool fs_chan_taken(struct fs_chan_slot s) {
  uint32_t state = atomic_load_explicit(s.state, memory_order_acquire);
  if (state == FS_REQ_ABANDONED) fs_chan_free(s);
  return fs_chan_pending(state);
}

void fs_chan_answer(struct fs_chan_slot s) {
  uint32_t before = atomic_exchange_explicit(s.state, FS_REQ_DONE, memory_order_acq_rel);
  if (before == FS_REQ_ASLEEP)
    fs_futex_wake(s.state, 1);
  else if (before != FS_REQ_POSTED)
    fs_chan_free(s); /* abandoned */
}
