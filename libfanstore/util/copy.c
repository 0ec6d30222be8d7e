/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies a block's bytes to the caller: memcpy, or copy_wide.c and copy_512.c where these are
   faster. Thread-safe; no state. */
#include <string.h>

#include "util/copy_wide.h"
#include "util/cpu.h"
#include "util/util.h"

void fs_copy(void *dst, const void *src, size_t n) {
#if FS_WIDE
  if (FS_LIKELY(n >= FS_COPY_WIDE_MIN && fs_cpu_wide())) {
    fs_cpu_512() ? fs_copy_512(dst, src, n) : fs_copy_wide(dst, src, n);
    return;
  }
#endif
  memcpy(dst, src, n);
}
