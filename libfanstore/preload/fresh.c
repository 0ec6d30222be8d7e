/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of the calls that only make new descriptors. Two things are ours: when the numbers have run out, idle
 * placeholders are given up and the call is made again; and what the table knew of the number is forgotten. All made
 * from the tables in symbols.h.
 */
#include <mqueue.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>

#include "preload/preload.h"

#define X(ret, name, params, args)                                                                                     \
  FS_EXPORT ret name params {                                                                                          \
    return FS_FRESH(FS_REAL(name) args);                                                                               \
  }
FS_SYMBOLS_FRESH(X)
#undef X

/* Made below a mount it would be a file of the real file system: libc opens it without us. */
#define X(ret, name, params, args)                                                                                     \
  FS_EXPORT ret name params {                                                                                          \
    return fs_path_out(AT_FDCWD, t) ? FS_FRESH(FS_REAL(name) args) : fs_ret_int(-EROFS);                               \
  }
FS_SYMBOLS_TEMP(X)
#undef X
FS_ALIAS(mkstemp64, mkstemp);
FS_ALIAS(mkostemp64, mkostemp);
FS_ALIAS(mkstemps64, mkstemps);
FS_ALIAS(mkostemps64, mkostemps);

static int after_pair(int r, const int fds[2]) {
  if (r == 0) fs_fd_forget(fds[0]);
  if (r == 0) fs_fd_forget(fds[1]);
  return r;
}

#define X(ret, name, params, args)                                                                                     \
  FS_EXPORT ret name params {                                                                                          \
    int r = FS_REAL(name) args;                                                                                        \
    if (FS_UNLIKELY(r < 0 && errno == EMFILE && fs_fd_pool_drop())) r = FS_REAL(name) args;                            \
    return after_pair(r, fds);                                                                                         \
  }
FS_SYMBOLS_PAIR(X)
#undef X
