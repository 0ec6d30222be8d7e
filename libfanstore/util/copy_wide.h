/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies memory by AVX2 and by AVX-512. Private to util/copy.c, which checks the processor
   first. */
#ifndef FS_UTIL_COPY_WIDE_H
#define FS_UTIL_COPY_WIDE_H

#include <stddef.h>
#include <stdint.h>

#define FS_COPY_WIDE_MIN 1024u
/* Copy n bytes; n is at least FS_COPY_WIDE_MIN. */
void fs_copy_wide(void *dst, const void *src, size_t n);
void fs_copy_512(void *dst, const void *src, size_t n);

/* Returns about a quarter of n, in whole cache lines. The copy uses four streams at this distance.
   Lines whose distance is a multiple of a page compete for the same few places in the first-level
   cache, so the result is never close to such a multiple. n is at least 8192. */
#define FS_COPY_APART 256u
static inline size_t fs_copy_quarter(size_t n) {
  size_t q = n / 4 & ~(size_t)63, in_page = q & 4095;
  if (in_page < FS_COPY_APART) return q - in_page - FS_COPY_APART;
  return in_page > 4096 - FS_COPY_APART ? q - (in_page - (4096 - FS_COPY_APART)) : q;
}

#endif
