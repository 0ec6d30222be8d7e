/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bits of the dataset directories that may have outputs (struct fs_ctl). All members know the
 * bit before such a directory gets its first output. Called by the parts of ns.h.
 */
#include "daemon/metadata/ns_priv.h"

static void fs_marked(struct fs_ns *ns, const struct fs_names_call *told) {
  ns->marked[told->mark.bit / 64] |= 1ull << told->mark.bit % 64;
  ns->hooks->mark(ns, told->mark.bit);
}

bool fs_exec_mark(struct fs_ns *ns, struct fs_asked a, uint64_t dir, const struct fs_names_call *c) {
  uint32_t bit = fs_mark_bit(dir);
  struct fs_names_call mark = {.op = FS_NAMES_MARK, .mark.bit = bit};
  if ((dir & FS_OUTPUT_ID) || (ns->marked[bit / 64] >> bit % 64 & 1)) return false;
  fs_notice_first(ns, a, c, &mark, NULL, fs_marked);
  return true;
}

void fs_mark_told(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  ns->hooks->mark(ns, c->mark.bit);
  fs_ns_answer(ns, a, 0, NULL, 0);
}
