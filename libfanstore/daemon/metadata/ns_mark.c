/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bits of the dataset directories that may have outputs, of those where names of the dataset
 * were taken, and of these names (struct fs_ctl). All members know the bits before such a directory
 * gets its first output, and before the name is taken. Called by the parts of ns.h.
 */
#include "daemon/metadata/ns_priv.h"

static bool fs_bit(const uint64_t *bits, uint32_t bit) {
  return bits[bit / 64] >> bit % 64 & 1;
}

static void fs_bit_set(uint64_t *bits, uint32_t bit) {
  bits[bit / 64] |= 1ull << bit % 64;
}

static void fs_mark_here(struct fs_ns *ns, const struct fs_names_call *c) {
  ns->hooks->mark(ns, c->mark.bit);
  if (c->flags & FS_MARK_TAKEN) ns->hooks->taken(ns, c->mark.bit, c->mark.name);
}

static void fs_marked(struct fs_ns *ns, const struct fs_names_call *told) {
  fs_bit_set(ns->marked, told->mark.bit);
  if (told->flags & FS_MARK_TAKEN) {
    fs_bit_set(ns->taken, told->mark.bit);
    fs_bit_set(ns->taken_names, told->mark.name);
  }
  fs_mark_here(ns, told);
}

bool fs_exec_mark(struct fs_ns *ns, struct fs_asked a, uint64_t dir, const struct fs_names_call *c) {
  uint32_t bit = fs_mark_bit(dir);
  struct fs_names_call mark = {.op = FS_NAMES_MARK, .mark.bit = bit};
  if ((dir & FS_OUTPUT_ID) || fs_bit(ns->marked, bit)) return false;
  fs_notice_first(ns, a, c, &mark, NULL, fs_marked);
  return true;
}

bool fs_exec_mark_taken(struct fs_ns *ns, struct fs_asked a, uint64_t dir, const char *name, size_t len,
                        const struct fs_names_call *c) {
  struct fs_names_call mark = {.op = FS_NAMES_MARK,
                               .flags = FS_MARK_TAKEN,
                               .mark = {.bit = fs_mark_bit(dir), .name = fs_taken_bit(dir, name, len)}};
  if (fs_bit(ns->taken, mark.mark.bit) && fs_bit(ns->taken_names, mark.mark.name)) return false;
  fs_notice_first(ns, a, c, &mark, NULL, fs_marked);
  return true;
}

void fs_mark_told(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  fs_mark_here(ns, c);
  fs_ns_answer(ns, a, 0, NULL, 0);
}
