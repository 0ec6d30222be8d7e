/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests that run under valgrind or ThreadSanitizer. */
#ifndef FS_TEST_TOOLS_FIXTURE_H
#define FS_TEST_TOOLS_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* It reports pointers that are meant to be bad: to the kernel, and to a handler of SIGSEGV. */
static inline bool fix_on_valgrind(void) {
  const char *preload = getenv("LD_PRELOAD");
  return preload && strstr(preload, "vgpreload");
}

/* How many times as long as usual a test may take: what takes long does that much less, what has a deadline waits that
   much longer. */
static inline uint64_t fix_slowness(void) {
#ifdef __SANITIZE_THREAD__
  return 10;
#else
  return fix_on_valgrind() ? 10 : 1;
#endif
}

#endif
