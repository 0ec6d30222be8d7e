/* SPDX-License-Identifier: BSD-3-Clause */
/* XXH3 by AVX2, with the results of the plain version. Private to util/xxh.c, which checks the
   processor first. */
#ifndef FS_UTIL_XXH_WIDE_H
#define FS_UTIL_XXH_WIDE_H

#include <stddef.h>
#include <stdint.h>

uint64_t fs_xxh3_wide(const void *data, size_t n);
void fs_xxh3_wide_update(void *state, const void *data, size_t n);

#endif
