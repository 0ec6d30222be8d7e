/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool of idle placeholders, and what fork does to it. Lock-free; see fdpool.h. The pool lies
 * in memory that the kernel zeroes in a forked child. Its placeholders are the parent's, and a
 * child that clone, for example, has made without the wrapper must not use them.
 */
#include "client/fd/fdpool.h"

#include "client/data_priv.h"
#include "client/fd/fdtab.h"

/* If a real file needs an idle placeholder's number, the placeholder moves up to here. The next
   open moves it down again. */
#define PARK_FIRST 1000

struct pool {
  _Atomic uint64_t idle[FS_POOL_WORDS];
  _Atomic uint64_t parked[FS_POOL_PARKED]; /* descriptor + 1, its slot from bit 32 on; 0: none */
  _Atomic uint32_t known;                  /* 0 in a process that has not been here yet */
};
static struct pool *_Atomic pool_memory;
static struct pool pool_fallback; /* the kernel cannot zero it; the fork wrapper empties it */
/* By number: the slot, and the process that put it there. A signal handler may fork in the middle
   of close. What its child then puts into its own pool is its parent's and must not be opened. */
static _Atomic uint64_t idle_slot[FS_POOL_WORDS * 64];
/* A program that closed 0, 1 or 2 counts on the next open to return it. */
static _Atomic bool low_closed;
_Atomic uint32_t fs_fd_hint = UINT32_MAX;
_Atomic bool fs_pool_maybe;

static __attribute__((noinline)) struct pool *map_pool(void) {
  struct pool *none = NULL, *p = atomic_load(&pool_memory);
  if (p != NULL) return p;
  p = fs_mem_map_wiped(sizeof(*p));
  if (p == NULL) p = &pool_fallback;
  if (atomic_compare_exchange_strong(&pool_memory, &none, p)) return p;
  if (p != &pool_fallback) fs_mem_unmap(p, sizeof(*p));
  return none;
}

static __attribute__((noinline)) struct pool *first_use(void) {
  struct pool *p = map_pool();
  fs_fd_share_known(); /* a parent may have them open too */
  fs_use_forked(false);
  atomic_store(&p->known, 1);
  return p;
}

static inline struct pool *the_pool(void) {
  struct pool *p = atomic_load_explicit(&pool_memory, memory_order_acquire);
  bool known = p != NULL && atomic_load_explicit(&p->known, memory_order_relaxed) != 0;
  return FS_LIKELY(known) ? p : first_use();
}

void fs_pool_check(void) {
  if (fs_vfork_depth == 0) the_pool();
}

void fs_fd_low_closed(void) {
  if (fs_vfork_depth == 0) atomic_store_explicit(&low_closed, true, memory_order_relaxed);
}

bool fs_fd_low_was_closed(void) {
  return atomic_load_explicit(&low_closed, memory_order_relaxed);
}

static bool idle_is_own(int fd, uint32_t *slot) {
  uint64_t e = atomic_load_explicit(&idle_slot[fd], memory_order_relaxed);
  *slot = (uint32_t)e;
  return FS_LIKELY((int32_t)(e >> 32) == fs_self_process());
}

static void free_idle(int fd) {
  uint32_t slot;
  if (idle_is_own(fd, &slot)) fs_use_free_idle(slot);
}

/* Closes an idle placeholder, unless another thread has put a file of its own at the number by dup2
   meanwhile. */
static void forget_idle(int fd) {
  uint64_t e = atomic_load(&fs_fdtab[fd]);
  while (e & FS_FDE_IDLE) {
    if (!atomic_compare_exchange_weak(&fs_fdtab[fd], &e, 0)) continue;
    fs_sys_close(fd);
    return;
  }
}

/* Clears the note once 0-2 are all open again. Returns whether a placeholder may be used. */
static bool low_numbers_taken(void) {
  for (int fd = 0; fd < 3; fd++)
    if (fs_sys_fcntl(fd, F_GETFD, 0) < 0) return false;
  atomic_store_explicit(&low_closed, false, memory_order_relaxed);
  return true;
}

fs_fd fs_pool_take(uint32_t *slot) {
  if (FS_UNLIKELY(atomic_load_explicit(&low_closed, memory_order_relaxed)) && !low_numbers_taken()) return -ENOENT;
  struct pool *p = the_pool();
  for (uint32_t w = 0; w < FS_POOL_WORDS; w++) {
    uint64_t mask = atomic_load_explicit(&p->idle[w], memory_order_relaxed);
    while (mask != 0) {
      uint32_t fd = w * 64 + (uint32_t)__builtin_ctzll(mask);
      /* The program closed a lower number and may count on it. */
      if (FS_UNLIKELY(atomic_load_explicit(&fs_fd_hint, memory_order_relaxed) < fd)) return -ENOENT;
      if (!atomic_compare_exchange_weak_explicit(&p->idle[w], &mask, mask & (mask - 1), memory_order_acquire,
                                                 memory_order_relaxed))
        continue;
      mask &= mask - 1;
      /* Evicted while a fork gave it back. */
      if (FS_UNLIKELY(fs_fd_entry((int)fd) != FS_FDE_IDLE)) continue;
      if (idle_is_own((int)fd, slot)) return (fs_fd)fd;
      forget_idle((int)fd);
    }
  }
  return -ENOENT;
}

/* Returns another number, at least min, for a placeholder. The old number stays, because a scan of
   holders must not miss both. */
static fs_fd renumber(int fd, uint32_t slot, int min) {
  struct fs_state *st = atomic_load(&fs_state);
  fs_fd to = (fs_fd)fs_sys_fcntl(fd, F_DUPFD_CLOEXEC, min);
  if (to >= (fs_fd)FS_FD_MAX) {
    fs_sys_close(to);
    return -EMFILE;
  }
  if (to >= 0) fs_slot_moved(st, &st->slot[slot]);
  return to;
}

/* Parks fd's placeholder at a high number. Returns false if there is no room or no number. Also
   returns false in a child that a signal handler forked since `process` began: the placeholder is
   then its parent's. */
static bool park(int fd, uint32_t slot, int32_t process) {
  struct pool *p = the_pool();
  uint32_t i = 0;
  while (i < FS_POOL_PARKED && atomic_load(&p->parked[i]) != 0) i++;
  fs_fd up = i < FS_POOL_PARKED ? renumber(fd, slot, PARK_FIRST) : -ENOENT;
  if (up < 0) return false;
  uint64_t none = 0;
  fs_fd_note_idle(up);
  uint64_t e = (uint64_t)slot << 32 | (uint32_t)(up + 1);
  bool parked = atomic_compare_exchange_strong(&p->parked[i], &none, e);
  if (parked && FS_LIKELY(fs_self_process() == process)) return true;
  if (!parked || atomic_compare_exchange_strong(&p->parked[i], &e, 0)) forget_idle(up);
  return false;
}

fs_fd fs_pool_unpark(uint32_t *slot) {
  struct pool *p = the_pool();
  for (uint32_t i = 0; i < FS_POOL_PARKED; i++) {
    uint64_t e = atomic_load_explicit(&p->parked[i], memory_order_relaxed);
    if (e == 0 || !atomic_compare_exchange_strong(&p->parked[i], &e, 0)) continue;
    int up = (int)(uint32_t)e - 1;
    *slot = (uint32_t)(e >> 32);
    /* A call may still use its old number. */
    fs_fd fd = fs_use_seen(*slot) ? -EBUSY : renumber(up, *slot, 0);
    forget_idle(up);
    if (fd >= 0) return fd;
    fs_use_free_idle(*slot);
  }
  return -ENOENT;
}

static bool remove_parked(int fd) {
  struct pool *p = the_pool();
  for (uint32_t i = 0; i < FS_POOL_PARKED; i++) {
    uint64_t e = atomic_load(&p->parked[i]);
    if ((uint32_t)e != (uint32_t)fd + 1 || !atomic_compare_exchange_strong(&p->parked[i], &e, 0)) continue;
    atomic_store(&fs_fdtab[fd], 0);
    fs_use_free_idle((uint32_t)(e >> 32));
    return true;
  }
  return false;
}

static bool has_room(uint64_t mask) {
  for (int i = 0; i < FS_POOL_PER_WORD - 1 && mask != 0; i++) mask &= mask - 1;
  return mask == 0;
}

/* Makes the slot idle and returns whether this process may have it. If a signal handler has forked
   since the entry was taken out of the table, two processes come here, and one gets true. The call
   changes generation and kind at once; otherwise the other process could write the kind once the
   slot is open again. */
static bool end_use(struct fs_slot *s, uint32_t gen) {
  typedef uint64_t __attribute__((may_alias)) word;
  union {
    struct {
      uint32_t gen;
      uint8_t kind, shared, counted, reserved;
    };
    uint64_t all;
  } was = {.all = __atomic_load_n((word *)s, __ATOMIC_RELAXED)}, idle = was;
  idle.gen++;
  idle.kind = FS_SLOT_IDLE;
  return was.gen == gen && !was.shared &&
         __atomic_compare_exchange_n((word *)s, &was.all, idle.all, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}
static_assert(offsetof(struct fs_slot, gen) == 0 && offsetof(struct fs_slot, kind) == 4 &&
                  offsetof(struct fs_slot, shared) == 5 && offsetof(struct fs_slot, ino) == 8,
              "they are a word");

bool fs_pool_put(int fd, uint64_t entry, int32_t process) {
  if (fd < 3 || fd >= FS_POOL_WORDS * 64) return false;
  _Atomic uint64_t *word = &the_pool()->idle[fd / 64];
  if (!has_room(atomic_load_explicit(word, memory_order_relaxed))) return false;
  struct fs_slot *s = &atomic_load_explicit(&fs_state, memory_order_relaxed)->slot[FS_FDE_SLOT(entry)];
  if (FS_UNLIKELY(!end_use(s, FS_FDE_GEN(entry)))) return false;
  atomic_store_explicit(&idle_slot[fd], (uint64_t)(uint32_t)process << 32 | FS_FDE_SLOT(entry), memory_order_relaxed);
  atomic_store_explicit(&fs_fdtab[fd], FS_FDE_IDLE, memory_order_relaxed);
  atomic_fetch_or(word, 1ull << fd % 64);
  if (!atomic_load(&fs_pool_maybe)) atomic_store(&fs_pool_maybe, true);
  return true;
}

bool fs_pool_remove(int fd) {
  if (fd < 3) return false;
  uint64_t bit = 1ull << fd % 64;
  bool here = fd < FS_POOL_WORDS * 64 && (atomic_fetch_and(&the_pool()->idle[fd / 64], ~bit) & bit) != 0;
  if (!here) return fd >= PARK_FIRST && remove_parked(fd);
  atomic_store(&fs_fdtab[fd], 0);
  free_idle(fd);
  return true;
}

static bool any_idle(void) {
  const struct pool *p = the_pool();
  uint64_t any = 0;
  for (uint32_t w = 0; w < FS_POOL_WORDS; w++) any |= atomic_load(&p->idle[w]);
  return any != 0;
}

void fs_fd_make_lowest(int n) {
  uint32_t slot;
  if (fs_vfork_depth > 0 || fs_fd_low_was_closed()) return;
  for (int32_t process = fs_self_process(); n > 0; n--) {
    atomic_store(&fs_pool_maybe, false); /* before looking: a later put sets it again */
    fs_fd fd = fs_pool_take(&slot);
    if (fd < 0 && !any_idle()) return;
    atomic_store(&fs_pool_maybe, true);
    if (fd < 0) return;
    if (!park(fd, slot, process) && fs_self_process() == process) fs_use_free_idle(slot);
    forget_idle(fd);
  }
}

static bool close_idle(const struct fs_fd_idle *taken, bool free_slots) {
  bool any = false;
  for (uint32_t w = 0; w < FS_POOL_WORDS; w++) {
    for (uint64_t mask = taken->mask[w]; mask != 0; mask &= mask - 1) {
      uint32_t fd = w * 64 + (uint32_t)__builtin_ctzll(mask);
      if (free_slots) free_idle((int)fd);
      forget_idle((int)fd);
      any = true;
    }
  }
  for (uint32_t i = 0; i < FS_POOL_PARKED; i++) {
    uint64_t e = taken->parked[i];
    if (e == 0) continue;
    if (free_slots) fs_use_free_idle((uint32_t)(e >> 32));
    forget_idle((int)(uint32_t)e - 1);
    any = true;
  }
  return any;
}

static void take_all(struct fs_fd_idle *taken) {
  struct pool *p = the_pool();
  for (uint32_t w = 0; w < FS_POOL_WORDS; w++)
    taken->mask[w] = atomic_load(&p->idle[w]) == 0 ? 0 : atomic_exchange(&p->idle[w], 0);
  for (uint32_t i = 0; i < FS_POOL_PARKED; i++) taken->parked[i] = atomic_exchange(&p->parked[i], 0);
}

bool fs_fd_pool_drop(void) {
  struct fs_fd_idle taken;
  if (fs_vfork_depth > 0) return false;
  take_all(&taken);
  return close_idle(&taken, true);
}

void fs_fd_prepare_fork(struct fs_fd_idle *taken) {
  *taken = (struct fs_fd_idle){.mask = {0}};
  if (fs_vfork_depth == 0) take_all(taken);
  fs_fd_share();
}

static void give_back_parked(const struct fs_fd_idle *taken) {
  for (uint32_t i = 0; i < FS_POOL_PARKED; i++) {
    uint64_t none = 0, e = taken->parked[i];
    int fd = (int)(uint32_t)e - 1;
    if (e == 0 || !(fs_fd_entry(fd) & FS_FDE_IDLE)) continue;
    if (atomic_compare_exchange_strong(&the_pool()->parked[i], &none, e)) continue;
    fs_use_free_idle((uint32_t)(e >> 32)); /* another thread parked one there meanwhile */
    forget_idle(fd);
  }
}

/* Leaves out numbers at which another thread has put a file of its own by dup2 or close_range
   meanwhile. A scan finds the slots that those leave. */
void fs_fd_parent(const struct fs_fd_idle *taken) {
  give_back_parked(taken);
  for (uint32_t w = 0; w < FS_POOL_WORDS; w++) {
    uint64_t back = 0;
    for (uint64_t mask = taken->mask[w]; mask != 0; mask &= mask - 1)
      if (atomic_load(&fs_fdtab[w * 64 + (uint32_t)__builtin_ctzll(mask)]) & FS_FDE_IDLE) back |= mask & -mask;
    if (back == 0) continue;
    atomic_fetch_or(&the_pool()->idle[w], back);
    atomic_store(&fs_pool_maybe, true);
  }
}

/* Closes the pool's placeholders. Their slots stay: the parent goes on using them. */
void fs_fd_child(const struct fs_fd_idle *taken) {
  uint32_t high = atomic_load(&fs_fdtab_high);
  for (uint32_t fd = 0; fd < high; fd++) {
    if (fs_vfork_depth > 0) /* the table was not about this thread's descriptors */
      atomic_store(&fs_fdtab[fd], 0);
    else if (fs_fd_entry((int)fd) & FS_FDE_CLAIMED) /* its thread is not in this process */
      atomic_fetch_and(&fs_fdtab[fd], ~FS_FDE_CLAIMED);
  }
  fs_vfork_depth = 0;
  fs_use_forked(true);
  close_idle(taken, false);
}
