/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * xxHash, inlined: no library to link, no symbol to clash with one that the training process brings. Private to
 * util/xxh.c and to the index, which hashes short paths in its hot path; all others call fs_xxh3.
 */
#ifndef FS_UTIL_XXH_H
#define FS_UTIL_XXH_H

#define XXH_INLINE_ALL
#include <xxhash.h>

#endif
