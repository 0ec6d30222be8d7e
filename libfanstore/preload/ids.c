/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrappers of setuid and its like: only to forget who the caller was. Made from the table in symbols.h. */
#include "preload/preload.h"

#define X(ret, name, params, args)                                                                                     \
  FS_EXPORT ret name params {                                                                                          \
    ret fs_r = FS_REAL(name) args;                                                                                     \
    fs_ids_changed();                                                                                                  \
    return fs_r;                                                                                                       \
  }
FS_SYMBOLS_IDS(X)
#undef X
