/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * xxHash, inlined: no library to link, and no symbol that clashes with one of the training process.
 * Private to util/xxh.c and the index, which hashes short paths in its hot path. All others call
 * fs_xxh3.
 */
#ifndef FS_UTIL_XXH_H
#define FS_UTIL_XXH_H

#define XXH_INLINE_ALL
#include <xxhash.h>

#endif
