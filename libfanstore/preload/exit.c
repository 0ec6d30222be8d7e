/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of the ends of a process that run no destructor. What the process has written to outputs
 * is published first. exit and a return from main come by end() in real.c. This may run in a signal
 * handler: each wait has an end.
 */
#include <stdlib.h>

#include "preload/preload.h"

/* Leaves, unless this is a vfork child, which has nothing of its own. */
static void leave(void) {
  if (fs_mount_count() == 0 || fs_vfork_depth > 0) return;
  fs_output_leave();
  fs_output_locks_leave(true);
  fs_data_leave();
  fs_trace_leave();
}

FS_EXPORT void _exit(int status) {
  leave();
  FS_REAL(_exit)(status);
  __builtin_unreachable();
}
FS_ALIAS(_Exit, _exit);

/* Runs the handlers first, because they may write. */
FS_EXPORT void quick_exit(int status) {
  if (fs_mount_count() > 0) fs_output_at_end();
  leave();
  FS_REAL(quick_exit)(status);
  __builtin_unreachable();
}
