/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decodes enough of the x86-64 instruction format to walk over code: lengths, and if an instruction
 * changes rax or leaves the straight line. Pure functions over untrusted bytes.
 */
#ifndef FS_LAUNCH_DOCTOR_X86_H
#define FS_LAUNCH_DOCTOR_X86_H

#include "util/base.h"

struct fs_x86 {
  unsigned length; /* 0: cut off, or not emitted by compilers */
  bool sets_rax, sets_rdi, sets_rsi, leaves;
};
void fs_x86_decode(const uint8_t *p, uint64_t n, struct fs_x86 *out);

#endif
