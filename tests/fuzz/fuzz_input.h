/* SPDX-License-Identifier: BSD-3-Clause */
/* For the targets whose input is a story: it is taken piece by piece, and zeros when it is at its end. */
#ifndef FS_TEST_FUZZ_INPUT_H
#define FS_TEST_FUZZ_INPUT_H

#include <string.h>

#include "ipc/op.h"
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

/* An operation on names: 0: of a client's; 1: of those between keepers; 2: the others. */
static inline unsigned op_group(uint32_t op) {
  return fs_ops[op].client ? 0 : fs_ops[op].scope == FS_SCOPE_DIRECTORY ? 1 : 2;
}
static inline uint32_t an_op(unsigned group) {
  uint8_t ops[FS_NAMES_OPS], n = 0;
  for (uint8_t op = 1; op < FS_NAMES_OPS; op++)
    if (op_group(op) == group) ops[n++] = op;
  return ops[byte() % n];
}

#endif
