/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a daemon: its report, the removal of all that it made on this host, and _exit (not
 * MPI_Finalize, which waits for ranks that may be dead). The MPI thread calls it, or the guard if
 * that hangs; the first caller does it.
 */
#include <unistd.h>

#include "daemon/module.h"

_Noreturn void fs_daemon_leave(struct fs_daemon *d, int status) {
  struct fs_control_line l;
  if (atomic_exchange(&d->left, true)) {
    for (;;) pause(); /* the other thread ends the process */
  }
  atomic_store(&d->stop, true);
  /* clients do not wait for this daemon from here on */
  if (d->ctl) atomic_store(&d->ctl->stopping, 1);
  fs_modules_leave(d, status);
  bool left = fs_rundir_leave(d); /* may wait */
  if (fs_say_begin(d, &l, "bye") == 0 && (!left || fs_control_add_u64(&l, "left", 1) == 0)) fs_say_line(&l);
  _exit(status);
}
