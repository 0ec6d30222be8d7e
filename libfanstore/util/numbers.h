/* SPDX-License-Identifier: BSD-3-Clause */
/* System calls and flags that the headers of an older system lack (Debian 11: glibc 2.31, Linux
   5.10). The numbers are the same on all processors. Included by sys.h. */
#ifndef FS_UTIL_NUMBERS_H
#define FS_UTIL_NUMBERS_H

#include <sys/syscall.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif

#endif
