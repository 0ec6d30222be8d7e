/* SPDX-License-Identifier: BSD-3-Clause */
/* Copying by AVX2 and by AVX-512. Private to util/copy.c, which asks the processor first. */
#ifndef FS_UTIL_COPY_WIDE_H
#define FS_UTIL_COPY_WIDE_H

#include <stddef.h>
#include <stdint.h>

#define FS_COPY_WIDE_MIN 1024u
/* n >= FS_COPY_WIDE_MIN. */
void fs_copy_wide(void *dst, const void *src, size_t n);
void fs_copy_512(void *dst, const void *src, size_t n);

/* A quarter of n in whole lines, or a little less: so that the distance of streams is no multiple of a page, since
   lines that far apart compete for the same few places in the first cache. n >= 8192. */
#define FS_COPY_APART 256u
static inline size_t fs_copy_quarter(size_t n) {
  size_t q = n / 4 & ~(size_t)63, in_page = q & 4095;
  if (in_page < FS_COPY_APART) return q - in_page - FS_COPY_APART;
  return in_page > 4096 - FS_COPY_APART ? q - (in_page - (4096 - FS_COPY_APART)) : q;
}

#endif
