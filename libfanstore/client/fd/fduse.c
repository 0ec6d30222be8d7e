/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slots that calls are using (fduse.h): the threads' words, and the retired slots. Opens and closes
 * of all threads call this, without locks. A call that only reads or writes comes here once in a
 * thread's life, for the thread's words.
 */
#include "client/fd/fduse.h"

#include <linux/membarrier.h>
#include <sys/prctl.h>

#include "client/fd/fdhooks.h"
#include "client/fd/fdtab.h"
#include "util/sys.h"

#define FS_RETIRED 64u
#define FS_USERS_STEP 64u    /* so many more threads, and ended ones are looked for */
#define FS_USER_ENDING (~0u) /* in `thread`: the words are being cleared */
#define FS_RETIRED_TOLD FS_FDE_CLAIMED

FS_TLS struct fs_user *fs_user;
_Atomic uint32_t fs_use_retired;

static struct fs_user users[FS_USERS];
static _Atomic uint32_t users_high;
static _Atomic bool users_short; /* too many threads; the last write where nobody looks */
static struct fs_user nobody;
static _Atomic uint64_t retired[FS_RETIRED]; /* entries of the table, as they were */

/* ---- the words ---- */

static bool is_gone(uint32_t thread) {
  return FS_SYS3(SYS_tgkill, FS_SYS0(SYS_getpid), thread, 0) == -ESRCH;
}

static bool clear_words(struct fs_user *u) {
  for (unsigned i = 0; i < FS_USE_LEVELS; i++) atomic_store(&u->slot[i], 0);
  atomic_store(&u->depth, 0);
  return true;
}

/* Clears the words of a thread that is gone. Returns true for one caller only. */
static bool clear_user(struct fs_user *u, uint32_t thread) {
  if (!atomic_compare_exchange_strong(&u->thread, &thread, FS_USER_ENDING)) return false;
  clear_words(u);
  atomic_store(&u->thread, 0);
  return true;
}

static bool clear_gone(uint32_t high) {
  bool any = false;
  for (uint32_t i = 0; i < high; i++) {
    uint32_t thread = atomic_load(&users[i].thread);
    if (thread != 0 && thread != FS_USER_ENDING && is_gone(thread) && clear_user(&users[i], thread)) any = true;
  }
  return any;
}

/* Returns words that are free, or that an earlier thread of the same number left. */
static struct fs_user *find_user(uint32_t high, uint32_t me) {
  for (uint32_t i = 0; i < high; i++) {
    uint32_t none = 0;
    if (atomic_load_explicit(&users[i].thread, memory_order_relaxed) == me && clear_words(&users[i])) return &users[i];
    if (atomic_compare_exchange_strong(&users[i].thread, &none, me)) return &users[i];
  }
  return NULL;
}

struct fs_user *fs_user_new(void) {
  uint32_t me = (uint32_t)fs_sys_gettid();
  struct fs_user *u;
  for (;;) {
    uint32_t high = atomic_load(&users_high);
    u = find_user(high, me);
    if (u == NULL && high > 0 && high % FS_USERS_STEP == 0 && clear_gone(high)) continue;
    if (u != NULL || high == FS_USERS) break;
    atomic_compare_exchange_strong(&users_high, &high, high + 1);
  }
  if (u == NULL) atomic_store(&users_short, true);
  fs_user = u != NULL ? u : &nobody;
  /* If settle sees no words but its own thread's, it need not wait for this thread. */
  atomic_thread_fence(memory_order_seq_cst);
  return fs_user;
}

static bool names(struct fs_user *u, uint32_t slot) {
  for (unsigned i = 0; i < FS_USE_LEVELS; i++)
    if (atomic_load_explicit(&u->slot[i], memory_order_acquire) == slot + 1) return true;
  return false;
}

/* A thread that ended in the middle of a call does not go on with it, so its words do not count. */
bool fs_use_seen(uint32_t slot) {
  uint32_t high = atomic_load(&users_high);
  for (uint32_t i = 0; i < high; i++) {
    if (FS_LIKELY(!names(&users[i], slot))) continue;
    uint32_t thread = atomic_load(&users[i].thread);
    if (&users[i] == fs_user || !is_gone(thread)) return true;
    clear_user(&users[i], thread);
  }
  return false;
}

/* ---- the barrier ---- */

static int64_t barrier(void) {
  int64_t r = FS_SYS2(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0);
  if (r != -EPERM) return r;
  r = FS_SYS2(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0);
  return r < 0 ? r : FS_SYS2(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0);
}

/*
 * Waits until the words tell of every call that has found an entry which was taken out before.
 * Returns false if they may not tell. membarrier is not called under a filter of system calls,
 * which might kill for one that it does not know.
 */
static bool settle(void) {
  static _Atomic int refused;
  atomic_thread_fence(memory_order_seq_cst);
  if (atomic_load(&users_short)) return false;
  uint32_t high = atomic_load(&users_high);
  /* Nobody else has made a call yet. */
  if (high == 0 || (high == 1 && &users[0] == fs_user)) return true;
  if (atomic_load_explicit(&refused, memory_order_relaxed) != 0) return false;
  if (FS_SYS1(SYS_prctl, PR_GET_SECCOMP) == 0 && barrier() == 0) return true;
  atomic_store(&refused, 1);
  return false;
}

/* ---- retired slots ---- */

static struct fs_slot *slot_of(uint64_t e) {
  return &atomic_load_explicit(&fs_state, memory_order_acquire)->slot[FS_FDE_SLOT(e)];
}

static void end_slot(uint64_t e) {
  struct fs_slot *s = slot_of(e);
  if (atomic_load(&s->gen) != FS_FDE_GEN(e)) return; /* a scan of holders has freed it */
  bool output = fs_is_output(s->entry) && atomic_load(&s->kind) == FS_SLOT_FILE;
  if (output && !(e & FS_RETIRED_TOLD)) fs_fd_hooks.closed(s);
  if (atomic_load(&s->shared))
    atomic_fetch_add(&atomic_load(&fs_state)->left, 1);
  else
    fs_slot_free_if(atomic_load(&fs_state), FS_FDE_SLOT(e), FS_FDE_GEN(e));
}

void fs_use_reap(void) {
  if (FS_LIKELY(atomic_load_explicit(&fs_use_retired, memory_order_relaxed) == 0) || fs_vfork_depth > 0) return;
  for (unsigned i = 0; i < FS_RETIRED; i++) {
    uint64_t e = atomic_load(&retired[i]);
    if (e == 0 || fs_use_seen(FS_FDE_SLOT(e)) || !atomic_compare_exchange_strong(&retired[i], &e, 0)) continue;
    atomic_fetch_sub(&fs_use_retired, 1);
    end_slot(e);
  }
}

/* Puts an entry among the retired ones. It is counted first: a call that ends meanwhile then
   publishes by itself what it has written. */
static bool put(uint64_t e) {
  atomic_fetch_add(&fs_use_retired, 1);
  for (unsigned i = 0; i < FS_RETIRED; i++) {
    uint64_t none = 0;
    if (atomic_compare_exchange_strong(&retired[i], &none, e)) return true;
  }
  atomic_fetch_sub(&fs_use_retired, 1);
  return false;
}

enum fs_use_end fs_use_retire(struct fs_slot *s, uint64_t e, bool sure, bool told) {
  fs_use_reap();
  bool settled = !sure || settle();
  e = (e & ~(uint64_t)FS_RETIRED_TOLD) | (told ? FS_RETIRED_TOLD : 0);
  bool seen = fs_use_seen(FS_FDE_SLOT(e));
  if (FS_LIKELY(settled && !seen)) return FS_USE_NONE;
  if (!seen) return FS_USE_SCAN;
  fs_slot_stays(atomic_load(&fs_state), s);
  const bool flush = !told && fs_slot_writable(s) == 0;
  const uint32_t entry = s->entry;
  if (!put(e)) return FS_USE_SCAN;
  /* Another thread may have freed the slot by now, and given it to another file. */
  if (flush) (void)fs_fd_hooks.flush(entry, false);
  return FS_USE_RETIRED;
}

void fs_use_leave(struct fs_slot *s) {
  fs_slot_stays(atomic_load(&fs_state), s);
  atomic_store(&s->shared, 1);
  atomic_fetch_add(&atomic_load(&fs_state)->left, 1);
}

bool fs_use_retired_file(uint32_t entry) {
  for (unsigned i = 0; i < FS_RETIRED && atomic_load_explicit(&fs_use_retired, memory_order_relaxed) > 0; i++) {
    uint64_t e = atomic_load(&retired[i]);
    if (e != 0 && slot_of(e)->entry == entry && atomic_load(&slot_of(e)->gen) == FS_FDE_GEN(e)) return true;
  }
  return false;
}

void fs_use_free_idle(uint32_t slot) {
  struct fs_state *st = atomic_load(&fs_state);
  uint64_t e = (uint64_t)atomic_load(&st->slot[slot].gen) << 32 | FS_FDE_VIRTUAL | slot;
  if (FS_UNLIKELY(fs_use_seen(slot))) {
    if (!put(e | FS_RETIRED_TOLD)) fs_use_leave(&st->slot[slot]);
    return;
  }
  fs_slot_free_if(st, slot, FS_FDE_GEN(e));
}

void fs_use_forked(bool alone) {
  uint32_t me = (uint32_t)fs_sys_gettid(), high = alone ? atomic_load(&users_high) : 0;
  if (fs_user == &nobody) fs_user = NULL;
  if (fs_user != NULL) atomic_store(&fs_user->thread, me);
  if (alone) atomic_store(&users_short, false);
  for (uint32_t i = 0; i < high; i++)
    if (&users[i] != fs_user) clear_user(&users[i], atomic_load(&users[i].thread));
  for (unsigned i = 0; i < FS_RETIRED; i++) atomic_store(&retired[i], 0); /* the parent's */
  atomic_store(&fs_use_retired, 0);
}
