/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bits of the dataset directories that may have outputs (struct fs_ctl). All members know the
 * bit before such a directory gets its first output. Calls for a directory wait for that; all calls
 * with the same bit wait for the same messages. Called by the parts of ns.h.
 */
#include <stdlib.h>

#include "daemon/metadata/ns_priv.h"

struct fs_marking { /* a bit that the members are being told */
  struct fs_chain chain, waiting;
  struct fs_ns *ns;
  uint32_t bit;
};

struct fs_deferred { /* a call that waits for a bit */
  struct fs_chain chain;
  struct fs_asked a;
  uint64_t dir;
  struct fs_names_call call; /* followed by its names */
};

static void fs_marked(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_marking *m = ctx;
  struct fs_ns *ns = m->ns;
  (void)body, (void)n;
  if (err == 0) ns->marked[m->bit / 64] |= 1ull << m->bit % 64;
  fs_chain_drop(&m->chain);
  for (struct fs_chain *l; (l = fs_chain_pop(&m->waiting)) != NULL;) {
    struct fs_deferred *w = FS_ITEM(l, struct fs_deferred, chain);
    if (err == 0 && fs_members_keepers(&ns->members, w->dir).primary == ns->rank)
      fs_exec(ns, w->a, &w->call);
    else
      fs_ns_answer(ns, w->a, err < 0 ? err : -EAGAIN, NULL, 0);
    free(w);
  }
  free(m);
}

static struct fs_marking *fs_marking_find(const struct fs_ns *ns, uint32_t bit) {
  for (struct fs_chain *l = ns->markings.next; l != &ns->markings; l = l->next) {
    struct fs_marking *m = FS_ITEM(l, struct fs_marking, chain);
    if (m->bit == bit) return m;
  }
  return NULL;
}

static struct fs_marking *fs_marking_new(struct fs_ns *ns, uint32_t bit) {
  struct fs_marking *m = malloc(sizeof(*m));
  if (!m) return NULL;
  m->ns = ns;
  m->bit = bit;
  fs_chain_init(&m->waiting);
  fs_chain_push(&ns->markings, &m->chain);
  return m;
}

bool fs_exec_mark(struct fs_ns *ns, struct fs_asked a, uint64_t dir, const struct fs_names_call *c) {
  size_t n = fs_call_size(c);
  uint32_t bit = fs_mark_bit(dir);
  if ((dir & FS_OUTPUT_ID) || (ns->marked[bit / 64] >> bit % 64 & 1)) return false;
  struct fs_deferred *w = malloc(sizeof(*w) - sizeof(w->call) + n);
  struct fs_marking *m = w ? fs_marking_find(ns, bit) : NULL, *begun = NULL;
  if (w && !m) m = begun = fs_marking_new(ns, bit);
  if (!m) {
    free(w);
    fs_ns_answer(ns, a, -ENOMEM, NULL, 0);
    return true;
  }
  w->a = a;
  w->dir = dir;
  memcpy(&w->call, c, n);
  fs_chain_push(&m->waiting, &w->chain);
  if (!begun) return true;
  struct fs_names_call mark = {.op = FS_NAMES_MARK, .mark.bit = bit};
  ns->hooks->mark(ns, bit);
  fs_ns_ask_all(ns, &mark, fs_marked, m);
  return true;
}

void fs_mark_told(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  ns->hooks->mark(ns, c->mark.bit);
  fs_ns_answer(ns, a, 0, NULL, 0);
}
