/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds what the machine code of a program or library does without libc: its own system calls that
 * open, look up or read files, and calls of dlopen with RTLD_DEEPBIND. This is a heuristic: it
 * looks for the instruction with the number loaded shortly before. Numbers that are computed or
 * passed in by a caller are only counted. Single-threaded.
 */
#ifndef FS_LAUNCH_DOCTOR_CODE_H
#define FS_LAUNCH_DOCTOR_CODE_H

#include "elfread.h"

/* The calls that take a path, those that take a descriptor, and io_uring or AIO. */
enum fs_code_kind { FS_CODE_NAME, FS_CODE_DATA, FS_CODE_URING };

struct fs_code {
  uint64_t calls;     /* bit i: call i of the table is made */
  unsigned unknown;   /* system calls with an unknown number */
  bool uring_by_libc; /* syscall(SYS_io_uring_setup, ...) */
  bool deepbind;
};
/* Scans the code of a file. dlopen and libc_syscall say whether the file imports these functions.
   Returns 0, or -ELIBACC if Zydis is needed and cannot be loaded. */
fs_err fs_code_scan(const struct fs_elf *e, bool dlopen, bool libc_syscall, struct fs_code *out);
/* Returns the name and the kind of call i of the table, or NULL. */
const char *fs_code_call(unsigned i, enum fs_code_kind *kind);

#endif
