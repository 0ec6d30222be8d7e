/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The byte shuffle: the first bytes of all elements, then the second bytes, and so on. Arrays of
 * numbers compress better so. Bytes after the last whole element stay where they are. No state.
 */
#ifndef FS_CODEC_SHUFFLE_H
#define FS_CODEC_SHUFFLE_H

#include "util/base.h"

/* Both copy n bytes from src to dst, which do not overlap. `element` is 2, 4 or 8. */
void fs_shuffle(uint8_t *dst, const uint8_t *src, size_t n, size_t element);
void fs_unshuffle(uint8_t *dst, const uint8_t *src, size_t n, size_t element);

#endif
