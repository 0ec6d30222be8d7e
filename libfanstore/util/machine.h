/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The processors that FanStore is written for: x86-64, aarch64, and ppc64le. Code that depends on
 * the processor asks for the compiler's macro: __x86_64__, __aarch64__, __powerpc64__. System calls are in util/sys.h,
 * entry points in assembly in preload, registers and code in fs-launch/static and fs-launch/doctor.
 */
#ifndef FS_UTIL_MACHINE_H
#define FS_UTIL_MACHINE_H

#include <elf.h>

/* FS_ELF_MACHINE: the processor in ELF files. FS_LINKER: where glibc's dynamic linker is.
   FS_O_LARGEFILE: the kernel's value, which glibc hides on 64-bit machines. */
#if defined(__x86_64__)
#define FS_ELF_MACHINE EM_X86_64
#define FS_LINKER "/lib64/ld-linux-x86-64.so.2"
#define FS_O_LARGEFILE 0100000
#elif defined(__aarch64__)
#define FS_ELF_MACHINE EM_AARCH64
#define FS_LINKER "/lib/ld-linux-aarch64.so.1"
#define FS_O_LARGEFILE 0400000
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
#define FS_ELF_MACHINE EM_PPC64
#define FS_LINKER "/lib64/ld64.so.2"
#define FS_O_LARGEFILE 0200000
#else
#error "FanStore knows the processors x86-64, aarch64 and ppc64le only"
#endif

#endif
