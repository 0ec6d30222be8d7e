/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asks the processor itself: libgcc's __builtin_cpu_supports runs some twenty CPUID instructions when a program starts,
 * which in a virtual machine cost more than all else that this library does then. Threads that race store the same.
 */
#include "util/cpu.h"

#if FS_WIDE
#include <cpuid.h>

_Atomic int fs_cpu_known = -1;

static bool fs_has_wide(void) {
  const unsigned need = bit_OSXSAVE | bit_AVX, ymm = 6; /* the system saves the lower and upper halves */
  unsigned a = 0, b = 0, c = 0, d = 0, enabled, high;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & need) != need) return false;
  __asm__("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
  return (enabled & ymm) == ymm && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2) != 0;
}

__attribute__((noinline)) int fs_cpu_ask(void) {
  int wide = fs_has_wide();
  atomic_store_explicit(&fs_cpu_known, wide, memory_order_relaxed);
  return wide;
}
#endif
