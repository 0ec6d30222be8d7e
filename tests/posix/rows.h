/* SPDX-License-Identifier: BSD-3-Clause */
/* A row of the programs whose output is compared, with the library and without: a call, what it gives and, where it
   fails, why. */
#ifndef FS_TEST_ROWS_H
#define FS_TEST_ROWS_H

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SHOW(call)                                                                                                     \
  do {                                                                                                                 \
    errno = 0;                                                                                                         \
    long r_ = (long)(call);                                                                                            \
    printf("%s = %ld %s\n", #call, r_, r_ == -1 ? strerrorname_np(errno) : "");                                        \
  } while (0)

#endif
