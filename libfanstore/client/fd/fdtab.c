/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of virtual descriptors and the life of a placeholder. All threads use it without locks.
 * The thread that takes an entry out by exchange ends it. Raw system calls only.
 */
#include "client/fd/fdtab.h"

#include <stdio.h>
#include <sys/socket.h>

#include "client/data_priv.h"
#include "client/fd/fdhooks.h"
#include "client/fd/fdpool.h"
#include "client/node/mountlist.h"
#include "util/sys.h"

_Atomic uint64_t fs_fdtab[FS_FD_MAX];
_Atomic uint32_t fs_fdtab_high;

static struct fs_slot *slot_at(uint32_t index) {
  return &atomic_load_explicit(&fs_state, memory_order_acquire)->slot[index];
}

static uint32_t slot_index(const struct fs_slot *s) {
  return (uint32_t)(s - atomic_load_explicit(&fs_state, memory_order_acquire)->slot);
}

void fs_fd_note_high(int fd) {
  uint32_t high = atomic_load_explicit(&fs_fdtab_high, memory_order_relaxed);
  while (high <= (uint32_t)fd && !atomic_compare_exchange_weak(&fs_fdtab_high, &high, (uint32_t)fd + 1)) {
  }
}

static void set_entry(int fd, uint64_t e) {
  fs_fd_note_high(fd);
  atomic_store_explicit(&fs_fdtab[fd], e, memory_order_release);
}

void fs_fd_note_idle(int fd) {
  set_entry(fd, FS_FDE_IDLE);
}

static struct fs_slot *find_inode(struct fs_state *st, uint64_t ino, uint32_t *index) {
  int64_t i = fs_slot_by_ino(st, ino);
  if (i < 0) return NULL;
  *index = (uint32_t)i;
  struct fs_slot *s = &st->slot[i];
  /* A process with other mounts has opened it: nothing here can say what it is. */
  if (s->mount >= fs_mount_count() || fs_mount_list[s->mount].key != s->mount_key) return &fs_slot_closed;
  return atomic_load(&s->kind) == FS_SLOT_IDLE ? &fs_slot_closed : s;
}

static struct fs_slot *find_by_inode(int fd, uint32_t *index) {
  struct fs_state *st = fs_state_attach(false);
  struct stat sb;
  if (st == NULL) return NULL;
  int64_t flags = fs_sys_fcntl(fd, F_GETFL, 0);
  if (flags < 0 || !(flags & O_PATH) || fs_sys_fstat(fd, &sb) != 0 || !S_ISSOCK(sb.st_mode)) return NULL;
  return find_inode(st, sb.st_ino, index);
}

struct fs_slot *fs_slot_of_socket(uint64_t dev, uint64_t ino) {
  struct fs_state *st = fs_state_attach(false);
  uint32_t index;
  struct fs_slot *s = st == NULL || dev != st->sock_dev ? NULL : find_inode(st, ino, &index);
  return s == &fs_slot_closed ? NULL : s;
}

/* Returns the slot of an entry. If the slot has another generation than the entry, the number is
   looked at once more: it may be another file's. */
static struct fs_slot *slot_of(int fd, uint64_t e) {
  for (uint64_t now;; e = now) {
    if (FS_UNLIKELY(e & FS_FDE_IDLE)) return &fs_slot_closed;
    if (!(e & FS_FDE_VIRTUAL)) return NULL;
    struct fs_slot *s = slot_at(FS_FDE_SLOT(e));
    if (FS_LIKELY(atomic_load_explicit(&s->gen, memory_order_relaxed) == FS_FDE_GEN(e))) return s;
    now = fs_fd_entry(fd);
    if (fs_fd_same_file(now, e)) return &fs_slot_closed;
  }
}

struct fs_slot *fs_fd_slot_slow(int fd, uint64_t e) {
  uint32_t index;
  return FS_UNLIKELY(fs_vfork_depth > 0) ? find_by_inode(fd, &index) : slot_of(fd, e);
}

/* A thread that replaces the number looks for the slot in the words of all threads after it has
   taken the entry out. So either it finds the slot there, or this call sees another entry. */
struct fs_slot *fs_fd_use_slow(int fd, uint64_t e, struct fs_use *u) {
  if (FS_UNLIKELY(fs_vfork_depth > 0) || FS_UNLIKELY(!(e & FS_FDE_VIRTUAL))) return fs_fd_slot_slow(fd, e);
  fs_use_begin(u);
  for (uint64_t now;; e = now) {
    fs_use_name(u, FS_FDE_SLOT(e));
    now = fs_fd_entry(fd);
    if (FS_LIKELY(fs_fd_same_file(now, e))) break;
    if (!(now & FS_FDE_VIRTUAL)) {
      fs_use_end(u);
      return now & FS_FDE_IDLE ? &fs_slot_closed : NULL;
    }
  }
  struct fs_slot *s = slot_at(FS_FDE_SLOT(e));
  return FS_LIKELY(atomic_load_explicit(&s->gen, memory_order_relaxed) == FS_FDE_GEN(e)) ? s : &fs_slot_closed;
}

/* Respects what another thread does with the number meanwhile. A known entry stays. A new entry is
   looked at again, since the number may have been closed and may be a real file's by now. */
struct fs_slot *fs_fd_adopt(int fd) {
  uint32_t index, again;
  uint64_t was = fs_fd_entry(fd);
  struct fs_slot *s = (uint32_t)fd < FS_FD_MAX ? find_by_inode(fd, &index) : NULL;
  if (s == NULL || s == &fs_slot_closed || fs_vfork_depth > 0) return s;
  if ((was & FS_FDE_VIRTUAL) && FS_FDE_SLOT(was) == index && FS_FDE_GEN(was) == atomic_load(&s->gen)) return s;
  atomic_store(&s->shared, 1); /* it came from another process */
  int64_t kernel = fs_sys_fcntl(fd, F_GETFD, 0);
  uint64_t flags = kernel > 0 ? FS_FDE_CLOEXEC : FS_FDE_INHERIT;
  uint64_t e = (uint64_t)atomic_load(&s->gen) << 32 | FS_FDE_VIRTUAL | flags | index;
  fs_fd_note_high(fd);
  if (!atomic_compare_exchange_strong(&fs_fdtab[fd], &was, e)) return fs_fd_slot(fd);
  if (FS_LIKELY(find_by_inode(fd, &again) == s)) return s;
  atomic_compare_exchange_strong(&fs_fdtab[fd], &e, 0);
  return fs_fd_slot(fd);
}

struct fs_slot *fs_fd_adopt_use(int fd, struct fs_use *u) {
  struct fs_slot *s = fs_fd_adopt(fd);
  if (s == NULL || s == &fs_slot_closed || fs_vfork_depth > 0) return s;
  struct fs_slot *named = fs_fd_use(fd, u);
  return named != NULL ? named : s;
}

/* Makes an O_PATH descriptor of a fresh anonymous inode, at the lowest free number. */
static fs_fd new_placeholder(uint64_t *ino) {
  char path[32];
  struct stat sb;
  int sock = (int)FS_SYS3(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (sock < 0) return sock;
  snprintf(path, sizeof(path), "/proc/self/fd/%d", sock);
  fs_fd fd = fs_sys_openat(AT_FDCWD, path, O_PATH | O_CLOEXEC, 0);
  if (FS_UNLIKELY(fd == -EMFILE)) fd = fs_own_open_above(path, O_PATH | O_CLOEXEC);
  fs_err err = fd < 0 ? fd : fs_sys_fstat(fd, &sb);
  if (err == 0) err = (fs_err)FS_SYS3(SYS_dup3, fd, sock, O_CLOEXEC);
  if (fd >= 0) fs_sys_close(fd);
  if (err < 0) {
    fs_sys_close(sock);
    return err;
  }
  *ino = sb.st_ino;
  return sock;
}

static fs_fd slot_and_placeholder(struct fs_slot **slot) {
  struct fs_state *st = fs_state_attach(true);
  uint64_t ino = 0;
  if (st == NULL) return -ENFILE;
  int64_t i = fs_slot_alloc(st);
  if (i < 0) return (fs_fd)i;
  fs_fd fd = new_placeholder(&ino);
  if (fd >= 0 && (uint32_t)fd >= FS_FD_MAX) {
    fs_sys_close(fd);
    fd = -EMFILE;
  }
  if (fd < 0) {
    fs_slot_free(st, (uint32_t)i);
    return fd;
  }
  fs_fd_taken(fd);
  *slot = &st->slot[i];
  atomic_fetch_add(&(*slot)->gen, 1);
  atomic_store(&(*slot)->ino, ino);
  return fd;
}

/* Makes a slot with its placeholder. Signals wait: if a handler forked in the middle, the child
   would give its parent's slot a placeholder of its own. */
static fs_fd new_slot(struct fs_slot **slot) {
  uint64_t signals;
  fs_use_reap();
  fs_sys_sigmask(~0ull, &signals);
  fs_fd fd = slot_and_placeholder(slot);
  fs_sys_sigmask(signals, NULL);
  return fd;
}

fs_fd fs_fd_new(struct fs_slot **slot) {
  if (FS_UNLIKELY(fs_vfork_depth > 0)) return -EAGAIN;
  uint32_t index;
  fs_fd fd = fs_pool_take(&index);
  if (FS_UNLIKELY(fd < 0)) {
    fd = fs_pool_unpark(&index);
    if (fd < 0) return new_slot(slot);
    fs_fd_taken(fd);
  }
  *slot = slot_at(index);
  return fd;
}

void fs_fd_publish(int fd, struct fs_slot *slot, bool cloexec) {
  uint64_t gen = atomic_load_explicit(&slot->gen, memory_order_relaxed);
  atomic_store_explicit(&slot->refs, 1, memory_order_relaxed);
  atomic_store_explicit(&slot->replaced, 0, memory_order_relaxed);
  set_entry(fd, gen << 32 | FS_FDE_VIRTUAL | (cloexec ? FS_FDE_CLOEXEC : 0) | slot_index(slot));
}

/* Counts one descriptor less. Returns false if there are more. A shared slot is not counted. If
   threads may copy the descriptor at the same time, `exact` counting lets only one of them find the
   last one. */
static bool is_last(struct fs_slot *s, bool exact) {
  if (atomic_load_explicit(&s->shared, memory_order_relaxed)) return true;
  if (!exact && atomic_load_explicit(&s->refs, memory_order_acquire) == 1) return true;
  return atomic_fetch_sub(&s->refs, 1) == 1;
}

static bool leave_shared(struct fs_slot *s) {
  struct fs_state *st = atomic_load_explicit(&fs_state, memory_order_relaxed);
  if (!atomic_load_explicit(&s->shared, memory_order_relaxed)) return false;
  if (atomic_load_explicit(&s->replaced, memory_order_relaxed)) fs_slot_stays(st, s);
  atomic_fetch_add_explicit(&st->left, 1, memory_order_relaxed);
  return true;
}

/*
 * Gives up one descriptor's hold on its slot. Returns true if it was the last one and the slot can
 * be used anew. If a number gets another file, calls of other threads may still use it, and finish
 * on this file. A closed number should not be in use. The barrier that tells for sure costs more
 * than all else, so only outputs get it.
 */
static bool release(struct fs_slot *s, uint64_t e, bool replaced) {
  fs_pool_check();
  if (atomic_load_explicit(&s->gen, memory_order_relaxed) != FS_FDE_GEN(e)) return false;
  bool output = fs_is_output(s->entry) && atomic_load_explicit(&s->kind, memory_order_relaxed) == FS_SLOT_FILE;
  if (replaced) atomic_store(&s->replaced, 1); /* for the thread that finds the last one */
  bool last = is_last(s, replaced || output);
  bool look = output || (atomic_load_explicit(&s->replaced, memory_order_relaxed) && !atomic_load(&s->shared));
  enum fs_use_end use = last && FS_UNLIKELY(look) ? fs_use_retire(s, e, true, false) : FS_USE_NONE;
  if (use == FS_USE_RETIRED) return false;
  if (FS_UNLIKELY(output)) fs_fd_hooks.closed(s);
  /* A scan frees a shared slot. */
  if (FS_LIKELY(use == FS_USE_NONE)) return last && !leave_shared(s);
  if (!leave_shared(s)) fs_use_leave(s);
  return false;
}

/* Frees the slot, which a scan of holders may have freed already if the placeholder is closed. */
static void free_slot(uint64_t e) {
  fs_slot_free_if(atomic_load(&fs_state), FS_FDE_SLOT(e), FS_FDE_GEN(e));
}

void fs_fd_release(uint64_t e) {
  if ((e & FS_FDE_VIRTUAL) && release(slot_at(FS_FDE_SLOT(e)), e, true)) free_slot(e);
}

/* Closes the placeholder first: the daemon looks whether another process has it, and then ends the
   locks. A shared slot goes to no pool. */
static fs_err close_locked(int fd, struct fs_slot *s, uint64_t e) {
  fs_slot_stays(atomic_load(&fs_state), s);
  fs_err err = fs_sys_close(fd);
  fs_fd_freed(fd);
  release(s, e, false);
  return err;
}

fs_err fs_fd_close(int fd) {
  if (FS_UNLIKELY(fs_vfork_depth > 0)) return fs_sys_close(fd);
  int32_t process = fs_self_process();
  uint64_t e = fs_fd_entry(fd);
  do { /* another thread's spawn may change the flags, its fork make a real file of it */
    if (FS_UNLIKELY(e & FS_FDE_CLAIMED)) e = fs_fd_settled(fd);
    if (FS_UNLIKELY(!(e & FS_FDE_VIRTUAL))) return e & FS_FDE_IDLE ? -EBADF : FS_E_REAL;
  } while (!atomic_compare_exchange_weak(&fs_fdtab[fd], &e, 0));
  struct fs_slot *s = slot_at(FS_FDE_SLOT(e));
  if (fs_slot_locked(s) && atomic_load(&s->shared)) return close_locked(fd, s, e);
  bool last = release(s, e, false);
  if (last && !(e & FS_FDE_INHERIT) && fs_pool_put(fd, e, process)) return 0;
  enum fs_use_end use = last ? fs_use_retire(s, e, false, true) : FS_USE_RETIRED;
  if (use == FS_USE_NONE) free_slot(e);
  if (FS_UNLIKELY(use == FS_USE_SCAN)) fs_use_leave(s);
  fs_err err = fs_sys_close(fd);
  fs_fd_freed(fd);
  return err;
}

void fs_fd_forget(int fd) {
  fs_fd_taken(fd);
  if (fs_fd_entry(fd) == 0 || fs_vfork_depth > 0) return;
  fs_pool_remove(fd);
  fs_fd_release(atomic_exchange(&fs_fdtab[fd], 0));
}

void fs_fd_evict(int fd) {
  uint64_t idle = FS_FDE_IDLE;
  if (fs_fd_entry(fd) != idle || fs_vfork_depth > 0) return;
  if (fs_pool_remove(fd))
    fs_sys_close(fd);
  else
    /* Another thread forks and must not give it back. */
    atomic_compare_exchange_strong(&fs_fdtab[fd], &idle, 0);
}

void fs_fd_mark_ancestor(int fd) {
  if ((uint32_t)fd < FS_FD_MAX && fs_vfork_depth == 0) atomic_store(&fs_fdtab[fd], FS_FDE_ANCESTOR);
}
