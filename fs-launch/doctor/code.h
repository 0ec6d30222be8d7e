/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program's or library's machine code does past libc: system calls of its own that open, look up or read files,
 * and calls of dlopen with RTLD_DEEPBIND. A heuristic: it looks for the instruction with the number loaded shortly
 * before it. Numbers that are computed, or passed in by a caller, are only counted.
 */
#ifndef FS_LAUNCH_DOCTOR_CODE_H
#define FS_LAUNCH_DOCTOR_CODE_H

#include "elfread.h"

enum fs_code_kind { FS_CODE_NAME, FS_CODE_DATA, FS_CODE_URING }; /* takes a path; takes a descriptor; io_uring or AIO */

struct fs_code {
  uint64_t calls;     /* bit i: call i of the table is made */
  unsigned unknown;   /* system calls whose number could not be told */
  bool uring_by_libc; /* syscall(SYS_io_uring_setup, ...) */
  bool deepbind;
};
/* dlopen, libc_syscall: does the file import these? */
void fs_code_scan(const struct fs_elf *e, bool dlopen, bool libc_syscall, struct fs_code *out);
/* The i-th of the table, or NULL. */
const char *fs_code_call(unsigned i, enum fs_code_kind *kind);

#endif
