/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrappers of setuid and its like, which only forget who the caller was, and of umask. The table in
   symbols.h makes them. */
#include "preload/preload.h"

#define X(ret, name, params, args)                                                                                     \
  FS_EXPORT ret name params {                                                                                          \
    ret fs_r = FS_REAL(name) args;                                                                                     \
    fs_ids_changed();                                                                                                  \
    return fs_r;                                                                                                       \
  }
FS_SYMBOLS_IDS(X)
#undef X

FS_EXPORT mode_t umask(mode_t mask) {
  mode_t before = FS_REAL(umask)(mask);
  fs_umask_changed(mask);
  return before;
}
