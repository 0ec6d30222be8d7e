/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of virtual descriptors, their close-on-exec flags, and what fork and exec need to know.
 * The kernel's close-on-exec flag of a placeholder stays set. The program's own wish is a bit in
 * the table, which is carried out just before a child could see it.
 */
#include "client/data_priv.h"
#include "client/fd/fdhooks.h"
#include "client/fd/fdpool.h"
#include "client/fd/fdtab.h"
#include "util/sys.h"

#define FS_KEPT_FROM 1000 /* least number of a placeholder that is kept for a lock */

static struct fs_slot *live(uint64_t e) {
  if (!(e & FS_FDE_VIRTUAL)) return NULL;
  struct fs_slot *s = &atomic_load(&fs_state)->slot[FS_FDE_SLOT(e)];
  return atomic_load(&s->gen) == FS_FDE_GEN(e) ? s : NULL;
}

/* Returns the error for an entry without a live slot. Another thread's fork or exec may have made a
   real file of it since the wrapper looked. */
static fs_err not_live(uint64_t e) {
  return e & (FS_FDE_VIRTUAL | FS_FDE_IDLE) ? -EBADF : FS_E_REAL;
}

/* Counts one descriptor more. Returns false if the last one is gone by now. */
static bool hold(struct fs_slot *s) {
  uint32_t refs = atomic_load(&s->refs);
  bool shared = atomic_load(&s->shared); /* a shared slot is not counted */
  while ((shared || refs > 0) && !atomic_compare_exchange_weak(&s->refs, &refs, refs + 1)) {
  }
  if (!shared && refs == 0) return false;
  fs_slot_moved(atomic_load(&fs_state), s);
  if (fs_is_output(s->entry)) fs_fd_hooks.copied(s);
  return true;
}

static uint64_t copy_entry(uint64_t e, bool cloexec) {
  e &= ~(uint64_t)(FS_FDE_CLOEXEC | FS_FDE_INHERIT | FS_FDE_NAMED | FS_FDE_CLAIMED);
  return e | (cloexec ? FS_FDE_CLOEXEC : 0);
}

/* Returns the open file of fd, held once more, or NULL with the reason in *err. */
static struct fs_slot *hold_file(int fd, uint64_t *e, fs_err *err) {
  for (;;) {
    FS_USE(u);
    *e = fs_fd_settled(fd);
    if (*e & FS_FDE_VIRTUAL) fs_fd_use_slow(fd, *e, &u);
    uint64_t now = fs_fd_settled(fd);
    if (!fs_fd_same_file(now, *e)) continue;
    struct fs_slot *s = live(*e);
    *err = s == NULL ? not_live(*e) : 0;
    if (s == NULL || hold(s)) return s;
    if (fs_fd_same_file(fs_fd_entry(fd), *e)) return *err = -EBADF, NULL; /* closed unseen */
  }
}

/* Returns a kernel descriptor of the same placeholder. dup takes the lowest number, which may be an
   idle placeholder's. */
static int64_t copy_placeholder(int fd, int min) {
  uint32_t slot;
  int32_t process = fs_self_process();
  fs_fd idle = min == 0 ? fs_pool_take(&slot) : -ENOENT;
  if (idle >= 0) {
    if (fs_self_process() == process) fs_use_free_idle(slot); /* else a handler forked */
    int64_t r = FS_SYS3(SYS_dup3, fd, idle, O_CLOEXEC);
    if (r < 0) fs_sys_close(idle);
    atomic_store(&fs_fdtab[idle], 0);
    return r;
  }
  int64_t newfd = fs_sys_fcntl(fd, F_DUPFD_CLOEXEC, min);
  if (newfd == -EMFILE && fs_fd_pool_drop()) newfd = fs_sys_fcntl(fd, F_DUPFD_CLOEXEC, min);
  return newfd;
}

/* Closes a copy that may be of another file than its entry says, so that its number is not used
   again with that slot. */
static void undo_copy(int newfd, uint64_t e) {
  uint64_t now = fs_fd_settled(newfd);
  while ((now & FS_FDE_VIRTUAL) && fs_fd_same_file(now, e)) {
    if (!atomic_compare_exchange_weak(&fs_fdtab[newfd], &now, 0)) continue;
    fs_fd_release(now);
    now = 0;
  }
  if (now & FS_FDE_VIRTUAL) return; /* another thread's by now, by dup2 */
  fs_sys_close(newfd);
  fs_fd_freed(newfd);
}

fs_fd fs_fd_dup(int fd, int min, bool cloexec) {
  if (fs_vfork_depth > 0) return (fs_fd)fs_sys_fcntl(fd, cloexec ? F_DUPFD_CLOEXEC : F_DUPFD, min);
  for (;;) {
    uint64_t e;
    fs_err err;
    if (hold_file(fd, &e, &err) == NULL) return err;
    int64_t newfd = copy_placeholder(fd, min);
    if (newfd >= (int64_t)FS_FD_MAX) {
      fs_sys_close((int)newfd);
      newfd = -EMFILE;
    }
    if (newfd < 0) {
      fs_fd_release(e);
      return (fs_fd)newfd;
    }
    fs_fd_note_high((int)newfd);
    atomic_store(&fs_fdtab[newfd], copy_entry(e, cloexec));
    if (FS_LIKELY(fs_fd_same_file(fs_fd_settled(fd), e))) return (fs_fd)newfd;
    /* The descriptor became a real file meanwhile, and this may be a copy of either. */
    undo_copy((int)newfd, e);
  }
}

fs_fd fs_fd_dup_to(int fd, int newfd, bool cloexec) {
  if (fs_vfork_depth > 0) return (fs_fd)FS_SYS3(SYS_dup3, fd, newfd, cloexec ? O_CLOEXEC : 0);
  uint64_t e;
  fs_err err;
  if ((uint32_t)newfd >= FS_FD_MAX) return live(fs_fd_settled(fd)) == NULL ? not_live(fs_fd_settled(fd)) : -EBADF;
  if (hold_file(fd, &e, &err) == NULL) return err;
  struct fs_fd_claim c;
  fs_fd_over_begin(newfd, &c);
  fs_fd r = (fs_fd)FS_SYS3(SYS_dup3, fd, newfd, O_CLOEXEC);
  if (r < 0) {
    fs_fd_over_end(newfd, &c, false);
    fs_fd_release(e);
    return r;
  }
  fs_fd_over_put(newfd, &c, copy_entry(e, cloexec));
  if (FS_LIKELY(fs_fd_same_file(fs_fd_settled(fd), e))) return newfd;
  fs_fd_settled(newfd);
  fs_fd_forget(newfd); /* fd became real meanwhile */
  return FS_E_REAL;
}

fs_err fs_fd_get_cloexec(int fd) {
  uint64_t e = fs_fd_entry(fd);
  if (fs_vfork_depth > 0) return (fs_err)fs_sys_fcntl(fd, F_GETFD, 0);
  return live(e) == NULL ? not_live(e) : e & FS_FDE_CLOEXEC ? FD_CLOEXEC : 0;
}

/* Sets or clears a flag. Returns the flags before, or an error. */
static int64_t set_flag(int fd, uint64_t flag, bool on) {
  uint64_t e;
  do {
    e = fs_fd_settled(fd);
    if (live(e) == NULL) return not_live(e);
  } while (!atomic_compare_exchange_weak(&fs_fdtab[fd], &e, on ? e | flag : e & ~flag));
  return (int64_t)(e & UINT32_MAX);
}

/* Sets the table's bit first, because let_inherit, which carries out the wish in the kernel, reads
   the bit once it has the claim. */
fs_err fs_fd_set_cloexec(int fd, bool on) {
  if (fs_vfork_depth > 0) return (fs_err)fs_sys_fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0);
  int64_t was = set_flag(fd, FS_FDE_CLOEXEC, on);
  if (was < 0) return (fs_err)was;
  if (on && (was & FS_FDE_INHERIT)) fs_sys_fcntl(fd, F_SETFD, FD_CLOEXEC);
  return 0;
}

void fs_fd_name(int fd) {
  if (fs_vfork_depth == 0) set_flag(fd, FS_FDE_NAMED, true);
}

_Atomic uint32_t fs_fd_shares;

void fs_fd_share_slot(struct fs_slot *s) {
  if (!atomic_load_explicit(&s->shared, memory_order_relaxed)) atomic_store(&s->shared, 1);
  fs_slot_moved(atomic_load(&fs_state), s);
}

void fs_fd_share(void) {
  atomic_fetch_add(&fs_fd_shares, 1); /* first */
  fs_fd_share_known();
}

void fs_fd_share_known(void) {
  uint32_t high = atomic_load(&fs_fdtab_high);
  for (uint32_t fd = 0; fd < high; fd++) {
    struct fs_slot *s = live(atomic_load_explicit(&fs_fdtab[fd], memory_order_relaxed));
    if (s != NULL) fs_fd_share_slot(s);
  }
}

/* Returns whether fd is still the slot's placeholder. In a vfork child the number may mean another
   file by now, which is to be inherited as it is. */
static bool still_there(int fd, const struct fs_slot *s) {
  struct stat sb;
  return fs_sys_fstat(fd, &sb) == 0 && sb.st_ino == atomic_load(&s->ino);
}

/* Lets a child inherit fd, unless another thread has closed or replaced it. The INHERIT flag stops
   close from keeping the placeholder in the pool. */
static void let_inherit(int fd, uint64_t e) {
  struct fs_fd_claim c;
  if (!fs_fd_claim(fd, e, FS_FDE_INHERIT, &c)) return;
  if (!(c.entry & FS_FDE_CLOEXEC)) fs_sys_fcntl(fd, F_SETFD, 0);
  fs_fd_unclaim(fd, &c, false);
}

void fs_fd_prepare_exec(void) {
  fs_fd_share();
  uint32_t high = atomic_load(&fs_fdtab_high);
  for (uint32_t fd = 0; fd < high; fd++) {
    uint64_t e = atomic_load_explicit(&fs_fdtab[fd], memory_order_relaxed);
    const struct fs_slot *s = live(e);
    if (s == NULL || (e & FS_FDE_CLOEXEC)) continue;
    /* The entry may say INHERIT while the kernel's flag is still set, because another thread is
       about to clear it, or cleared it after this process was forked off. So the flag is cleared
       each time. */
    if (fs_vfork_depth == 0)
      let_inherit((int)fd, e);
    else if (still_there((int)fd, s))
      fs_sys_fcntl((int)fd, F_SETFD, 0);
  }
}

/* Replaces a placeholder by `real`. If the placeholder is gone, because no wrapper saw its close or
   it became real before this process was forked off, only the entry is left to remove. */
static bool replace(int fd, uint64_t e, const struct fs_slot *s, int real) {
  struct fs_fd_claim c;
  if (!fs_fd_claim(fd, e, 0, &c)) return false;
  int flags = c.entry & FS_FDE_CLOEXEC ? O_CLOEXEC : 0;
  bool gone = !still_there(fd, s) || FS_SYS3(SYS_dup3, real, fd, flags) >= 0;
  fs_fd_unclaim(fd, &c, gone);
  return gone;
}

/* Replaces all placeholders of a slot and returns how many. After the last one the slot may be
   another file's; its generation tells. */
static uint32_t replace_all(const struct fs_slot *s, uint32_t gen, int real, bool output) {
  uint32_t high = atomic_load(&fs_fdtab_high), count = 0;
  for (uint32_t fd = 0; fd < high; fd++) {
    uint64_t e = atomic_load_explicit(&fs_fdtab[fd], memory_order_relaxed);
    if (live(e) != s || FS_FDE_GEN(e) != gen || !replace((int)fd, e, s, real)) continue;
    count++;
    if (output) fs_fd_hooks.real((int)fd);
  }
  return count;
}

/* A lock of an open file description lasts until no process has its placeholder. So the process keeps
   one to its end: the lock may last too long, but ends for no one who has the real file. */
static void keep_locked(const struct fs_slot *s, uint32_t gen) {
  uint32_t high = atomic_load(&fs_fdtab_high);
  for (uint32_t fd = 0; fd < high; fd++) {
    uint64_t e = atomic_load_explicit(&fs_fdtab[fd], memory_order_relaxed);
    if (live(e) != s || FS_FDE_GEN(e) != gen || !still_there((int)fd, s)) continue;
    (void)fs_sys_fcntl((int)fd, F_DUPFD, FS_KEPT_FROM);
    return;
  }
}

/* Repeats until none is left: another thread may copy a descriptor to a number that was passed
   already. */
void fs_fd_become_real(const struct fs_slot *s, uint32_t gen, int real, bool output) {
  if (fs_vfork_depth == 0 && fs_slot_locked(s)) keep_locked(s, gen);
  while (fs_vfork_depth == 0 && replace_all(s, gen, real, output) > 0) {
  }
}
