/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waits for what this process has posted in its channel: requests for blocks (remote.c) and calls
 * about names (calls.c). Each wait has a deadline, and ends early if the daemon has died, hangs or
 * stops.
 */
#include <poll.h>

#include "client/data_priv.h"
#include "ipc/channel.h"
#include "util/util.h"

#define FS_SPIN_MAX_NS 50000u
#define FS_CROWDED_NS 500000u /* if a yield takes so long, others compute here */
/* So many waits then sleep, which spin_ns counts down. Each crowded yield doubles the number, up to
   the most. Each wait that needs no sleep takes 1/256 of the number off, and one more. */
#define FS_CROWDED_WAITS 50u
#define FS_CROWDED_MOST 6400u
#define FS_SLICE_NS 50000000ull
#define FS_REVIVE_NS 500000000ull

bool fs_link_known_dead(const struct fs_link *link) {
  return atomic_load_explicit(&link->dead, memory_order_relaxed);
}

/* Finds out by the connection. When the daemon ends, the kernel first drops its memory, with the
   channel, and then closes its end of the connection. */
bool fs_link_dead(struct fs_link *link) {
  struct pollfd p = {.fd = link->socket, .events = POLLRDHUP};
  struct timespec now = {0};
  if (fs_link_known_dead(link)) return true;
  bool dead = FS_SYS5(SYS_ppoll, &p, 1, &now, NULL, 0) > 0 && (p.revents & (POLLHUP | POLLRDHUP | POLLERR));
  if (dead) atomic_store_explicit(&link->dead, true, memory_order_relaxed);
  return dead;
}

static bool fs_pending(const _Atomic uint32_t *word) {
  return fs_chan_pending(atomic_load_explicit(word, memory_order_acquire));
}

/* Notes whether another process computed on this processor while a wait spun. */
static void fs_wait_crowded(struct fs_self *self, bool crowded) {
  uint32_t waits = atomic_load_explicit(&self->crowded_waits, memory_order_relaxed);
  if (crowded)
    waits = FS_MIN(FS_MAX(2 * waits, FS_CROWDED_WAITS), FS_CROWDED_MOST);
  else if (waits > 0)
    waits -= 1 + waits / 256;
  else
    return;
  atomic_store_explicit(&self->crowded_waits, waits, memory_order_relaxed);
  if (crowded) atomic_store_explicit(&self->spin_ns, FS_SPIN_MAX_NS + waits, memory_order_relaxed);
}

/* Spins for as long as short answers take, if the last answer was short: a sleep and a wake-up cost
   more. In between it yields its processor, which the daemon may need to answer. A computing
   process does not give the processor back for milliseconds, where a wake-up would take it. If that
   happens, the next waits are sleeps. */
static bool fs_wait_spin(const struct fs_node *node, const _Atomic uint32_t *state, uint64_t start) {
  struct fs_self *self = fs_self();
  uint32_t spin = atomic_load_explicit(&self->spin_ns, memory_order_relaxed);
  uint64_t took = 0;
  if (spin > FS_SPIN_MAX_NS || !(node->ctl->flags & FS_CTL_LOOK)) return false;
  while (fs_pending(state) && took < spin) {
    FS_SYS0(SYS_sched_yield);
    took = fs_now_ns() - start;
  }
  bool done = !fs_pending(state), crowded = took >= FS_CROWDED_NS;
  if (done || crowded) fs_wait_crowded(self, crowded);
  return done;
}

static void fs_wait_learn(uint64_t took) {
  _Atomic uint32_t *word = &fs_self()->spin_ns;
  uint32_t spin = atomic_load_explicit(word, memory_order_relaxed), next = spin - 1;
  if (spin <= FS_SPIN_MAX_NS) next = took <= FS_SPIN_MAX_NS ? FS_SPIN_MAX_NS : spin / 2;
  if (next != spin) atomic_store_explicit(word, next, memory_order_relaxed);
}

fs_err fs_wait_done(const struct fs_node *node, struct fs_link *link, _Atomic uint32_t *state, uint64_t ns,
                    bool signals) {
  /* A handler that runs between two sleeps is not noticed, so a call that it may end sleeps long. */
  const uint64_t slice = signals ? FS_NS_PER_S : FS_SLICE_NS;
  uint64_t start = fs_now_ns(), end = start + ns, look = start + slice, slept = 0;
  fs_timing_slow(start);
  if (!fs_wait_spin(node, state, start)) {
    while (fs_pending(state)) {
      uint64_t now = fs_now_ns();
      /* The deadline is by the clock, or by the sum of the sleeps. */
      if (now >= end || slept >= 2 * ns) return -ETIMEDOUT;
      if (fs_link_known_dead(link)) return -EHOSTDOWN;
      if (now >= look && (!fs_node_alive(node) || fs_link_dead(link))) return -EHOSTDOWN;
      if (now >= look) look = now + slice;
      uint64_t nap = FS_MIN(end, look) - now;
      fs_err err = fs_chan_sleep(state, nap);
      if (err == -EINTR && signals) return err;
      if (err == -ETIMEDOUT) slept += nap, look = now; /* a signal may end it, again and again */
    }
  }
  fs_wait_learn(fs_now_ns() - start);
  return 0;
}

bool fs_wait_slot(struct fs_slot_wait *w, uint64_t ns) {
  const struct timespec nap = {.tv_nsec = 50000};
  uint64_t now = fs_now_ns();
  fs_timing_slow(now);
  if (w->tries == 0) w->end = now + ns;
  if (now >= w->end || w->tries * (uint64_t)nap.tv_nsec >= 2 * ns) return false;
  if (w->tries++ < 16)
    FS_SYS0(SYS_sched_yield);
  else
    FS_SYS2(SYS_nanosleep, &nap, NULL);
  return true;
}

/* A batch system may have suspended the whole job. A client that goes on first then finds a daemon
   that seems to have stopped, and waits for it once. */
bool fs_wait_alive(const struct fs_node *node, struct fs_link *link) {
  static _Atomic uint64_t doubted; /* the heartbeat that none came after */
  const struct timespec nap = {.tv_nsec = FS_REVIVE_NS / 100};
  uint64_t beat = atomic_load_explicit(&node->ctl->heartbeat_ns, memory_order_relaxed);
  if (FS_LIKELY(fs_node_alive(node))) return !fs_link_known_dead(link);
  bool again = fs_node_silent(node) && atomic_load(&doubted) != beat && !fs_link_dead(link);
  uint64_t end = again ? fs_now_ns() + FS_REVIVE_NS : 0;
  for (unsigned naps = 0; again && naps < 200 && fs_now_ns() < end; naps++) {
    FS_SYS2(SYS_nanosleep, &nap, NULL);
    if (fs_node_alive(node)) return true;
    again = !fs_link_dead(link);
  }
  atomic_store(&doubted, beat);
  return false;
}

void fs_link_ring(const struct fs_node *node, const struct fs_link *link) {
  uint64_t one = 1;
  /* This process posts, then reads `asleep`; the daemon sets `asleep`, then reads what was posted.
     Both are sequentially consistent, so one sees the other. */
  if (atomic_load_explicit(&node->ctl->asleep, memory_order_seq_cst)) fs_sys_write(link->doorbell, &one, sizeof(one));
}
