/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of the program that errors.sh runs share: each row is one call, printed with its result and errno.
 * Only rows are compared, so nothing is expected here.
 */
#ifndef FS_TEST_ERRORS_H
#define FS_TEST_ERRORS_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rows.h"

extern const char *base;    /* the read-only tree */
extern const char *outside; /* a directory that may be written */

/* A call and its result as a number. */
#define R SHOW
/* A call that opens something: which number it gets does not matter. */
#define F(x)                                                                                                           \
  do {                                                                                                                 \
    errno = 0;                                                                                                         \
    int r_ = (int)(x);                                                                                                 \
    printf("%s = %s %s\n", #x, r_ >= 0 ? "open" : "-1", r_ < 0 ? strerrorname_np(errno) : "");                         \
    if (r_ >= 0) close(r_);                                                                                            \
  } while (0)
/* A call that returns a pointer. */
#define Q(x)                                                                                                           \
  do {                                                                                                                 \
    errno = 0;                                                                                                         \
    const void *r_ = (const void *)(x);                                                                                \
    bool bad_ = r_ == NULL || r_ == (const void *)-1;                                                                  \
    printf("%s = %s %s\n", #x, bad_ ? "none" : "a pointer", bad_ ? strerrorname_np(errno) : "");                       \
  } while (0)
/* A call that returns the error. */
#define E(x)                                                                                                           \
  do {                                                                                                                 \
    int r_ = (int)(x);                                                                                                 \
    printf("%s = %s\n", #x, r_ == 0 ? "0" : strerrorname_np(r_));                                                      \
  } while (0)

/* What older kernels answer otherwise is left out there. */
bool kernel_is(int major, int minor);
/* Paths below the tree and outside; many are valid at a time. */
const char *P(const char *name);
const char *O(const char *name);
/* A pointer that the compiler knows nothing of. */
void *at_address(intptr_t address);

void rows_of_paths(void);
void rows_of_changes(void);
void rows_of_pairs(void);
void rows_of_descriptors(void);
void rows_of_mappings(void);

#endif
