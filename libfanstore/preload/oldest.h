/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Included before each file by the compiler's -include (Makefile). Makes the library refer to symbols
 * of glibc 2.17 only, whatever glibc it is built on (tests/lint/symbols.sh). What has no such symbol
 * is looked up at run time (older.c).
 */
#ifndef FS_PRELOAD_OLDEST_H
#define FS_PRELOAD_OLDEST_H

#include <features.h>

/* From glibc 2.38 on, strtol, sscanf and their like are __isoc23_ functions, unless this is 0. */
#undef __GLIBC_USE_C2X_STRTOL
#undef __GLIBC_USE_C23_STRTOL
#define __GLIBC_USE_C2X_STRTOL 0
#define __GLIBC_USE_C23_STRTOL 0

/* These moved from libdl to libc with glibc 2.34. */
#if defined(__x86_64__)
#define FS_OLDEST(name, version) __asm__(".symver " #name ", " #name "@GLIBC_" version)
#else
#define FS_OLDEST(name, version) __asm__(".symver " #name ", " #name "@GLIBC_2.17")
#endif
FS_OLDEST(dlsym, "2.2.5");
FS_OLDEST(dlvsym, "2.2.5");
FS_OLDEST(dlclose, "2.2.5");
FS_OLDEST(dlinfo, "2.3.3");

/* This moved from libpthread to libc, also with glibc 2.34. Before that, the reference has no
   version, and is NULL in programs without libpthread. */
#if __GLIBC_PREREQ(2, 34)
FS_OLDEST(pthread_testcancel, "2.2.5");
#endif

#endif
