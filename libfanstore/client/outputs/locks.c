/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks of files that have no kernel file in this process (outputs.h; docs/internals/locks.md). Each
 * is a call to the file's home. A wait is a call that the home answers after some tenths of a second
 * at the latest, again and again, so that no call slot is taken for long. Lock-free, no allocation.
 */
#include <errno.h>
#include <signal.h>

#include "client/data_priv.h"
#include "client/outputs/segment.h"
#include "util/util.h"

#define FS_LOCK_WAITERS 4u /* threads of this process that wait by a call slot */
#define FS_LOCK_NAP_NS 5000000l
#define FS_LOCK_NAPS 4u            /* doublings */
#define FS_LOCK_SHORT_NS 10000000u /* an answer that came too soon for a wait */

static fs_err call(const struct fs_call_lock *l, uint32_t flags, struct fs_lock_found *found) {
  const struct fs_names_call c = {.op = FS_NAMES_LOCK, .flags = flags, .lock = *l};
  size_t got;
  fs_err err = fs_names_call(&c, "", "", found, sizeof(*found), &got);
  return err == 0 && (flags & FS_LOCK_TEST) && (got != sizeof(*found) || found->end > INT64_MAX) ? -EIO : err;
}

/* ---- waiting ---- */

/* What the kernel's rt_sigaction tells. */
struct action {
  uintptr_t handler;
  unsigned long flags;
  uintptr_t restorer;
  uint64_t mask;
};

/* Returns whether all of this process's signal handlers restart system calls. A call cannot know
   which handler has run. */
static bool handlers_restart(void) {
  struct action a;
  for (int sig = 1; sig <= 64; sig++) {
    if (FS_SYS4(SYS_rt_sigaction, sig, NULL, &a, sizeof(a.mask)) != 0) continue;
    if (a.handler > (uintptr_t)SIG_IGN && !(a.flags & SA_RESTART)) return false;
  }
  return true;
}

/* Sleeps longer each time. */
static fs_err nap(unsigned *naps) {
  const struct timespec t = {.tv_nsec = FS_LOCK_NAP_NS << FS_MIN(*naps, FS_LOCK_NAPS)};
  ++*naps;
  return (fs_err)FS_SYS2(SYS_nanosleep, &t, NULL);
}

/* Asks once and waits for a while. Returns -EINPROGRESS if the lock is not there yet, and -EINTR if
   a handler has run. */
static fs_err wait_once(const struct fs_call_lock *l, uint32_t flags, struct fs_lock_found *unused, unsigned *naps) {
  static _Atomic uint32_t waiters;
  uint64_t begin = fs_now_ns();
  bool turn = atomic_fetch_add(&waiters, 1) < FS_LOCK_WAITERS;
  fs_err err = call(l, turn ? flags | FS_LOCK_WAIT : flags, unused);
  atomic_fetch_sub(&waiters, 1);
  if (err != -EBUSY && err != -EINPROGRESS) return err;
  /* Another thread of this process waits for the same lock, or this one had no turn, or the home has
     no thread to spare. */
  err = fs_now_ns() - begin < FS_LOCK_SHORT_NS ? nap(naps) : 0;
  return err == -EINTR ? err : -EINPROGRESS;
}

static fs_err wait_for(const struct fs_call_lock *l, uint32_t flags) {
  struct fs_lock_found unused;
  unsigned naps = 0;
  bool restart = handlers_restart(); /* a handler may be gone when it has run (SA_RESETHAND) */
  for (;;) {
    fs_err err = wait_once(l, flags, &unused, &naps);
    if (err == -EINPROGRESS) continue;
    if (err != -EINTR) return err;
    if (restart && handlers_restart()) continue;
    err = call(l, flags | FS_LOCK_LEAVE, &unused);
    return err == -EBUSY || err == -EINPROGRESS ? -EINTR : err; /* EINPROGRESS: another thread waits on */
  }
}

/* ---- locks ---- */

static struct fs_call_lock lock_by(const struct fs_slot *s, uint64_t start, uint64_t end) {
  return (struct fs_call_lock){.id = fs_output_id(s->entry),
                               .owner = FS_LOCK_OWNER(atomic_load(&s->ino), atomic_load(&s->gen)),
                               .start = start,
                               .end = end};
}

static fs_err lost(const struct fs_slot *s) {
  static _Atomic bool told;
  char id[FS_U64_TEXT];
  if (!atomic_exchange(&told, true))
    FS_NOTE("output file ", fs_u64_text(fs_output_id(s->entry), id),
            ": the lock is lost, because the file's node is gone or has taken this node for dead");
  return -EIO;
}

static fs_err to_program(const struct fs_slot *s, fs_err err) {
  switch (err) {
  case -EBUSY:
    return -EAGAIN;
  case -ENOENT: /* the file is gone */
    return -ENOLCK;
  case -ENOTRECOVERABLE:
    return lost(s);
  default:
    return err;
  }
}

static _Atomic bool any; /* this process or its parent has locked a file */

/* Notes who has to end the lock, before the lock is there. */
static bool note(struct fs_slot *s, uint32_t flags) {
  struct fs_output_writing *at = fs_output_writing(s->entry);
  struct fs_output_node *n = fs_output_node(s->entry);
  if (at == NULL || n == NULL) return false;
  if (flags & FS_LOCK_PROCESS)
    atomic_store(&at->locks, 1);
  else
    atomic_fetch_or(&s->locked, FS_SLOT_LOCKED);
  atomic_store(&any, true);
  if (!(flags & FS_LOCK_TEST)) atomic_store(&n->locked, 1);
  return true;
}

fs_err fs_output_lock(struct fs_slot *s, uint32_t flags, uint64_t start, uint64_t end, struct fs_lock_found *found) {
  struct fs_lock_found unused;
  const struct fs_call_lock l = lock_by(s, start, end);
  const uint32_t sets = FS_LOCK_READ | FS_LOCK_WRITE;
  bool test = flags & FS_LOCK_TEST;
  /* A vfork child, or a process without a channel of its own, is no owner that the daemon knows. */
  if (fs_vfork_depth > 0 || fs_link_get() == NULL) return flags & FS_LOCK_NONE ? 0 : -ENOLCK;
  fs_err home = flags & sets ? fs_output_at_home(s->entry) : 0;
  if (home != 0) return home == FS_E_REAL ? -ENOLCK : to_program(s, home);
  if ((flags & sets) && !note(s, flags)) return -ENOLCK;
  fs_err published = test ? 0 : fs_output_flush(s->entry, false);
  if (published != 0 && (flags & sets)) return published;
  bool wait = flags & FS_LOCK_WAIT;
  fs_err err = wait ? wait_for(&l, flags & ~(uint32_t)FS_LOCK_WAIT) : call(&l, flags, test ? found : &unused);
  /* While this thread waited, another may have closed a descriptor of the file, which ended the
     process's locks and the note of them. What others have written is read anew. */
  if (err == 0 && (flags & sets) && !test) {
    (void)note(s, flags);
    fs_output_changed(s->entry);
  }
  return err == 0 ? published : to_program(s, err);
}

void fs_output_lock_closed(struct fs_slot *s) {
  struct fs_output_writing *at = fs_output_writing(s->entry);
  const struct fs_call_lock l = lock_by(s, 0, INT64_MAX);
  struct fs_lock_found unused;
  if (at != NULL && atomic_exchange(&at->locks, 0) != 0) (void)call(&l, FS_LOCK_END | FS_LOCK_PROCESS, &unused);
  if (!fs_slot_locked(s)) return;
  if (atomic_load(&s->shared)) {
    (void)call(&l, FS_LOCK_LOOK, &unused);
  } else if (atomic_load(&s->refs) == 0) {
    atomic_fetch_and(&s->locked, ~FS_SLOT_LOCKED);
    (void)call(&l, FS_LOCK_END, &unused);
  }
}

void fs_output_locks_leave(bool streams) {
  uint32_t high = atomic_load(&any) ? atomic_load(&fs_fdtab_high) : 0;
  const struct fs_node *node = high > 0 && fs_vfork_depth == 0 ? fs_names_node() : NULL;
  uint64_t end = node != NULL ? fs_now_ns() + 2 * node->deadline_ns : 0; /* the daemon does the rest */
  for (uint32_t fd = 0; fd < high && node != NULL && fs_now_ns() < end; fd++) {
    const struct fs_slot *s = fs_fd_entry((int)fd) & FS_FDE_VIRTUAL ? fs_fd_slot((int)fd) : NULL;
    if (s == NULL || atomic_load(&s->kind) != FS_SLOT_FILE || !fs_is_output(s->entry)) continue;
    const struct fs_output_writing *at = fs_output_writing(s->entry);
    bool locked = fs_slot_locked(s) || (at != NULL && atomic_load(&at->locks) != 0);
    if (locked && (streams || !(atomic_load(&s->locked) & FS_SLOT_STREAM))) (void)fs_fd_close((int)fd);
  }
}

void fs_output_unlocking(int fd) {
  if (FS_LIKELY(!fs_output_tracked(fs_fd_entry(fd))) || fs_vfork_depth > 0) return;
  const struct fs_node *node = fs_names_node();
  if (node != NULL && atomic_load(&node->ctl->lock_owners) > 0) (void)fs_output_publish(fd);
}
