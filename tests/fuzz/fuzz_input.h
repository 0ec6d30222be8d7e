/* SPDX-License-Identifier: BSD-3-Clause */
/* For the targets whose input is a story: it is taken piece by piece, and zeros when it is at its end. */
#ifndef FS_TEST_FUZZ_INPUT_H
#define FS_TEST_FUZZ_INPUT_H

#include <string.h>

#include "ipc/call.h"
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

/* An operation on names: of a client's, of those between keepers, or to a rank. */
static inline uint32_t an_op(unsigned group) {
  static const uint8_t firsts[] = {FS_NAMES_LOOKUP, FS_NAMES_TAKE, FS_NAMES_MIRROR},
                       lasts[] = {FS_NAMES_CLIENT_OPS - 1, FS_NAMES_ABOVE, FS_NAMES_REPLICA};
  return firsts[group] + byte() % (lasts[group] - firsts[group] + 1u);
}

#endif
