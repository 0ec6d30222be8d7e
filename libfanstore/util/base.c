/* SPDX-License-Identifier: BSD-3-Clause */
/* The scope cleanups of base.h. Called from everywhere, also in the preloaded library, so close is
   a raw system call. */
#include "util/base.h"

#include <stdlib.h>

#include "util/sys.h"

void fs_cleanup_close(int *fd) {
  if (*fd >= 0) fs_sys_close(*fd);
}

void fs_cleanup_free(void *p) {
  free(*(void **)p);
}
