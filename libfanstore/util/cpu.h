/* SPDX-License-Identifier: BSD-3-Clause */
/* Detects AVX2 and AVX-512. Thread-safe; the answer is kept. */
#ifndef FS_UTIL_CPU_H
#define FS_UTIL_CPU_H

#include "util/base.h"

/* FS_WIDE is 1 if this library has functions for AVX2 and AVX-512. Only gcc builds them: with clang
   a header does not see the target that a pragma sets. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FS_WIDE 1
enum { FS_CPU_PLAIN, FS_CPU_WIDE, FS_CPU_512 };
extern FS_INTERNAL _Atomic int fs_cpu_known; /* -1: not asked yet */
int fs_cpu_ask(void);
static inline int fs_cpu_level(void) {
  int known = atomic_load_explicit(&fs_cpu_known, memory_order_relaxed);
  return FS_LIKELY(known >= 0) ? known : fs_cpu_ask();
}
/* Returns true if the processor has AVX2 and the system saves its registers. */
static inline bool fs_cpu_wide(void) {
  return fs_cpu_level() >= FS_CPU_WIDE;
}
/* Returns true if the processor has AVX-512 and copying by it is known to be faster without
   lowering the processor's clock. */
static inline bool fs_cpu_512(void) {
  return fs_cpu_level() >= FS_CPU_512;
}
#else
#define FS_WIDE 0
#endif

#endif
