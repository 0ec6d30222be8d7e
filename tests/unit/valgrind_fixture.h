/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests that valgrind would misunderstand. */
#ifndef FS_TEST_VALGRIND_FIXTURE_H
#define FS_TEST_VALGRIND_FIXTURE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* It reports pointers that are meant to be bad: to the kernel, and to a handler of SIGSEGV. */
static inline bool fix_on_valgrind(void) {
  const char *preload = getenv("LD_PRELOAD");
  return preload && strstr(preload, "vgpreload");
}

#endif
