/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Claims on virtual descriptors. A thread that forks or executes a program may put a real file at
 * another thread's descriptor, or change its close-on-exec flag. The descriptor's user may close it
 * at that moment, and the number may then be another file's. So the thread first claims the table's
 * entry. A thread that wants to close or copy the number, or put a file there, waits for the
 * claim's end. That takes a few system calls of a thread that takes no signal meanwhile, and at
 * most FS_CLAIM_WAIT_NS. fork ends all claims in the child (fs_fd_child).
 */
#include "client/fd/fdpool.h"
#include "client/fd/fdtab.h"
#include "util/sys.h"

/* A thread that holds a claim may have to wait for a processor, but for nothing else. */
#define FS_CLAIM_WAIT_NS 2000000000ull

uint64_t fs_fd_settled(int fd) {
  uint64_t e = fs_fd_entry(fd);
  if (FS_LIKELY(!(e & FS_FDE_CLAIMED))) return e;
  uint64_t begin = fs_now_ns();
  for (unsigned i = 0; ((e = fs_fd_entry(fd)) & FS_FDE_CLAIMED) && i < FS_YIELDS_MOST; i++) {
    if (fs_now_ns() - begin >= FS_CLAIM_WAIT_NS) break;
    FS_SYS1(SYS_sched_yield, 0);
  }
  /* The claim's thread has ended in another process, by a fork that no wrapper saw. */
  if (e & FS_FDE_CLAIMED) e = atomic_fetch_and(&fs_fdtab[fd], ~(uint64_t)FS_FDE_CLAIMED) & ~(uint64_t)FS_FDE_CLAIMED;
  return e;
}

bool fs_fd_claim(int fd, uint64_t like, uint64_t flags, struct fs_fd_claim *c) {
  uint64_t e = fs_fd_entry(fd);
  c->entry = 0;
  if (!(e & FS_FDE_VIRTUAL) || fs_vfork_depth > 0) return false;
  fs_sys_sigmask(~0ull, &c->signals);
  do {
    if (e & FS_FDE_CLAIMED) e = fs_fd_settled(fd);
    if (!(e & FS_FDE_VIRTUAL) || !fs_fd_same_file(e, like)) {
      fs_sys_sigmask(c->signals, NULL);
      return false;
    }
  } while (!atomic_compare_exchange_weak(&fs_fdtab[fd], &e, e | flags | FS_FDE_CLAIMED));
  c->entry = e | flags | FS_FDE_CLAIMED;
  return true;
}

/* Ends a claim. Returns false if somebody has waited too long, so that the entry is not this
   claim's any more. */
static bool end_claim(int fd, const struct fs_fd_claim *c, bool gone, uint64_t put) {
  uint64_t e = fs_fd_entry(fd);
  bool mine;
  do {
    mine = fs_fd_same_file(e, c->entry);
  } while (mine && !atomic_compare_exchange_weak(&fs_fdtab[fd], &e, gone ? put : e & ~FS_FDE_CLAIMED));
  if (gone && mine) fs_fd_release(e);
  fs_sys_sigmask(c->signals, NULL);
  return mine;
}

void fs_fd_unclaim(int fd, const struct fs_fd_claim *c, bool gone) {
  end_claim(fd, c, gone, 0);
}

void fs_fd_over_begin(int fd, struct fs_fd_claim *c) {
  fs_fd_evict(fd);
  fs_fd_claim(fd, fs_fd_entry(fd), 0, c);
}

void fs_fd_over_end(int fd, const struct fs_fd_claim *c, bool replaced) {
  if (c->entry != 0)
    fs_fd_unclaim(fd, c, replaced);
  else if (replaced)
    fs_fd_forget(fd);
}

void fs_fd_over_put(int fd, const struct fs_fd_claim *c, uint64_t entry) {
  fs_fd_note_high(fd);
  fs_fd_taken(fd);
  if (c->entry != 0 && end_claim(fd, c, true, entry)) return;
  if (fs_fd_entry(fd) & FS_FDE_IDLE) fs_pool_remove(fd);
  fs_fd_release(atomic_exchange(&fs_fdtab[fd], entry));
}
