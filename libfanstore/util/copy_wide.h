/* SPDX-License-Identifier: BSD-3-Clause */
/* Copying by AVX2. Private to util/copy.c, which asks the processor first. */
#ifndef FS_UTIL_COPY_WIDE_H
#define FS_UTIL_COPY_WIDE_H

#include <stddef.h>

#define FS_COPY_WIDE_MIN 1024u
/* n >= FS_COPY_WIDE_MIN. */
void fs_copy_wide(void *dst, const void *src, size_t n);

#endif
