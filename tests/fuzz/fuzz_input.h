/* SPDX-License-Identifier: BSD-3-Clause */
/* For the targets whose input is a story: it is taken piece by piece, and zeros when it is at its end. */
#ifndef FS_TEST_FUZZ_INPUT_H
#define FS_TEST_FUZZ_INPUT_H

#include <string.h>

#include "util/util.h"

static struct input {
  const uint8_t *at;
  size_t left;
} in;

static void take(void *to, size_t n) {
  size_t have = FS_MIN(n, in.left);
  if (have > 0) memcpy(to, in.at, have);
  memset((char *)to + have, 0, n - have);
  in.at += have;
  in.left -= have;
}
static uint8_t byte(void) {
  uint8_t b;
  take(&b, 1);
  return b;
}
static inline uint32_t word(void) {
  uint32_t w;
  take(&w, sizeof(w));
  return w;
}

#endif
