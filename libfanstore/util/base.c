/* SPDX-License-Identifier: BSD-3-Clause */
/* The scope cleanups of base.h. Called from everywhere, also inside the preloaded library: the close is the kernel's.
 */
#include "util/base.h"

#include <stdlib.h>

#include "util/sys.h"

void fs_cleanup_close(int *fd) {
  if (*fd >= 0) fs_sys_close(*fd);
}

void fs_cleanup_free(void *p) {
  free(*(void **)p);
}
