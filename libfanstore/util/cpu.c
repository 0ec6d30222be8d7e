/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asks the processor for its features. libgcc's __builtin_cpu_supports is not used: it runs about
 * twenty CPUID instructions at program start, which in a virtual machine cost more than the rest of
 * this library's start. Racing threads store the same value.
 */
#include "util/cpu.h"

#if FS_WIDE
#include <cpuid.h>

_Atomic int fs_cpu_known = -1;

/* Returns true for Intel processors with VBMI2 (Ice Lake and later). Earlier ones lower their clock
   for 512-bit instructions; other vendors were not measured. */
static bool fs_has_512(void) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(0, &a, &b, &c, &d) || b != signature_INTEL_ebx) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX512F) && (c & bit_AVX512VBMI2);
}

static int fs_cpu_find(void) {
  /* ymm: the system saves the AVX registers; zmm: also those of AVX-512. */
  const unsigned need = bit_OSXSAVE | bit_AVX, ymm = 0x06, zmm = 0xe6;
  unsigned a = 0, b = 0, c = 0, d = 0, enabled, high;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & need) != need) return FS_CPU_PLAIN;
  __asm__("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
  if ((enabled & ymm) != ymm || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2)) return FS_CPU_PLAIN;
  return (enabled & zmm) == zmm && fs_has_512() ? FS_CPU_512 : FS_CPU_WIDE;
}

__attribute__((noinline)) int fs_cpu_ask(void) {
  int level = fs_cpu_find();
  atomic_store_explicit(&fs_cpu_known, level, memory_order_relaxed);
  return level;
}
#endif
