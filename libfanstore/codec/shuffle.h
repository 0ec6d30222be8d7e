/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The byte shuffle: the first bytes of all elements, then the second bytes, and so on. Arrays of
 * numbers compress better so. Neighbours that are alike compress better still if each is replaced by
 * its difference to the one before, or by the difference of these differences. Bytes after the last
 * whole element stay where they are. No state.
 */
#ifndef FS_CODEC_SHUFFLE_H
#define FS_CODEC_SHUFFLE_H

#include "util/base.h"

/* Both copy n bytes from src to dst, which do not overlap. `element` is known to fs_element_known, and
   not 1. */
void fs_shuffle(uint8_t *dst, const uint8_t *src, size_t n, uint8_t element);
void fs_unshuffle(uint8_t *dst, const uint8_t *src, size_t n, uint8_t element);

#endif
