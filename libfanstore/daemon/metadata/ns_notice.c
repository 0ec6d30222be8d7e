/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What other ranks must know before a call is executed: that a directory may have outputs
 * (ns_mark.c), that what they have borrowed has ended, who the members are (ns_lend.c). Calls wait
 * meanwhile. Called by the parts of ns.h.
 */
#include <stdlib.h>

#include "daemon/metadata/ns_priv.h"

struct fs_notice { /* what the ranks are being told */
  struct fs_chain chain, waiting;
  struct fs_ns *ns;
  struct fs_names_call told; /* without its tail */
  void (*then)(struct fs_ns *ns, const struct fs_names_call *told);
};

struct fs_deferred { /* a call that waits for it */
  struct fs_chain chain;
  struct fs_asked a;
  struct fs_names_call call; /* followed by its names */
};

static void fs_noticed(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_notice *m = ctx;
  struct fs_ns *ns = m->ns;
  (void)body, (void)n;
  if (err == 0) m->then(ns, &m->told);
  fs_chain_drop(&m->chain);
  for (struct fs_chain *l; (l = fs_chain_pop(&m->waiting)) != NULL;) {
    struct fs_deferred *w = FS_ITEM(l, struct fs_deferred, chain);
    if (err == 0 && fs_members_keepers(&ns->members, fs_call_dir(&w->call)).primary == ns->rank)
      fs_exec(ns, w->a, &w->call);
    else
      fs_ns_answer(ns, w->a, err < 0 ? err : -EAGAIN, NULL, 0);
    free(w);
  }
  free(m);
}

static struct fs_notice *fs_notice_find(const struct fs_ns *ns, const struct fs_names_call *tell) {
  for (struct fs_chain *l = ns->notices.next; l != &ns->notices; l = l->next) {
    struct fs_notice *m = FS_ITEM(l, struct fs_notice, chain);
    if (m->told.op == tell->op && m->told.flags == tell->flags && m->told.recall.dir == tell->recall.dir) return m;
  }
  return NULL;
}

static struct fs_notice *fs_notice_new(struct fs_ns *ns, const struct fs_names_call *tell,
                                       void (*then)(struct fs_ns *ns, const struct fs_names_call *told)) {
  struct fs_notice *m = malloc(sizeof(*m));
  if (!m) return NULL;
  *m = (struct fs_notice){.ns = ns, .told = *tell, .then = then};
  fs_chain_init(&m->waiting);
  fs_chain_push(&ns->notices, &m->chain);
  return m;
}

void fs_notice_first(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c,
                     const struct fs_names_call *tell, const bool *those,
                     void (*then)(struct fs_ns *ns, const struct fs_names_call *told)) {
  size_t n = fs_call_size(c);
  struct fs_deferred *w = malloc(sizeof(*w) - sizeof(w->call) + n);
  struct fs_notice *m = w ? fs_notice_find(ns, tell) : NULL, *begun = NULL;
  if (w && !m) m = begun = fs_notice_new(ns, tell, then);
  if (!m) {
    free(w);
    fs_ns_answer(ns, a, -ENOMEM, NULL, 0);
    return;
  }
  w->a = a;
  memcpy(&w->call, c, n);
  fs_chain_push(&m->waiting, &w->chain);
  if (begun) fs_ns_ask_those(ns, those, tell, fs_noticed, m);
}
