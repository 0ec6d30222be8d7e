/* SPDX-License-Identifier: BSD-3-Clause */
/* Arrays that double when they are full. For code that may allocate. */
#ifndef FS_UTIL_GROW_H
#define FS_UTIL_GROW_H

#include <errno.h>
#include <stdlib.h>

#include "util/base.h"

/* Makes room for one more record in the array of malloc at *(void **)array, which has `used` records
   and *room places. Returns 0, or -ENOMEM and the array as it was. */
static inline fs_err fs_grow(void *array, size_t *room, size_t used, size_t record) {
  void **at = array;
  size_t more = *room != 0 ? *room * 2 : 64, bytes;
  if (used < *room) return 0;
  void *grown = __builtin_mul_overflow(more, record, &bytes) ? NULL : realloc(*at, bytes);
  if (grown == NULL) return -ENOMEM;
  *at = grown;
  *room = more;
  return 0;
}

#endif
