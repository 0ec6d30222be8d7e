/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of clone and unshare, which make processes and threads that share memory but not
 * descriptors. The table of descriptors then holds for one side only. The other side acts as a
 * vfork child (fs_vfork_depth): it looks descriptors up by their inodes, writes nothing down, and
 * gets real files from its opens.
 */
#include <sched.h>

#include "preload/preload.h"

/* The thread-local counter is shared with the memory. The parent stands still until the child is
   done with it. */
static int clone_vfork(int (*fn)(void *), void *stack, int flags, void *arg, void *more[3]) {
  if (fs_vfork_depth == 0) fs_state_ahead();
  if (fs_vfork_depth == 0 && fs_state_fd() >= 0) {
    fs_real_follow();
    fs_fd_share();
  }
  fs_vfork_depth++;
  int pid = FS_REAL(clone)(fn, stack, flags, arg, more[0], more[1], more[2]);
  fs_vfork_depth--;
  return pid;
}

FS_EXPORT int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...) {
  va_list ap;
  va_start(ap, arg);
  void *more[3];
  for (int i = 0; i < 3; i++) more[i] = va_arg(ap, void *); /* an absent argument is not used */
  va_end(ap);
  bool files = (flags & CLONE_FILES) == 0 && fs_mount_count() > 0;
  if (files && (flags & (CLONE_VM | CLONE_VFORK | CLONE_SETTLS)) == (CLONE_VM | CLONE_VFORK))
    return clone_vfork(fn, stack, flags, arg, more);
  /* The child notices by itself that it was forked. */
  if (files && fs_state_fd() >= 0) fs_real_follow();
  if (files) fs_fd_share();
  return FS_REAL(clone)(fn, stack, flags, arg, more[0], more[1], more[2]);
}
FS_ALIAS(__clone, clone);

/* Returns whether this is the only thread, which has nobody to unshare from. */
static bool is_alone(void) {
  struct stat st;
  return fs_sys_fstatat(AT_FDCWD, "/proc/self/task", &st, 0) == 0 && st.st_nlink <= 3;
}

FS_EXPORT int unshare(int flags) {
  bool apart = (flags & CLONE_FILES) && fs_mount_count() > 0 && fs_vfork_depth == 0 && !is_alone();
  if (apart) {
    fs_state_ahead();
    fs_fd_pool_drop();
    fs_fd_share();
  }
  int r = FS_REAL(unshare)(flags);
  if (r == 0 && apart) fs_vfork_depth++; /* for as long as this thread lives */
  return r;
}
