/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lends records to ranks that do not keep them, so that their programs find them in shared memory.
 * A directory's primary lends records with the answer to a look-up, and recalls all that it has
 * lent of a directory before it changes something there. Called by the parts of ns.h.
 */
#include <stdlib.h>

#include "daemon/metadata/ns_priv.h"

#define FS_LEND_QUIET_PART 256u /* of a deadline: a directory that has changed since is not lent */
#define FS_LEND_MOST 65536u     /* directories of which something is lent */
#define FS_LEND_WHOLE 256u      /* records of a directory that may fit into one answer */

struct fs_lent_dir {
  struct fs_table_link by_id;
  bool to[]; /* by rank */
};

static struct fs_lent_dir *fs_lent_find(const struct fs_ns *ns, uint64_t dir) {
  struct fs_table_link *l = fs_table_find(&ns->lent, dir);
  return l ? FS_ITEM(l, struct fs_lent_dir, by_id) : NULL;
}

static void fs_lent_end(struct fs_ns *ns, struct fs_lent_dir *d) {
  fs_table_remove(&ns->lent, &d->by_id);
  free(d);
}

static uint64_t *fs_lend_changed_at(struct fs_ns *ns, uint64_t dir) {
  return &ns->changed_at[fs_mix64(dir) % FS_LEND_TIMES];
}

/* ---- recall ---- */

static void fs_lend_recalled(struct fs_ns *ns, const struct fs_names_call *told) {
  struct fs_lent_dir *d = fs_lent_find(ns, told->recall.dir);
  if (d) fs_lent_end(ns, d);
}

/* A rank that takes a new set forgets all that it has borrowed. */
static void fs_lend_set_known(struct fs_ns *ns, const struct fs_names_call *told) {
  ns->known_set = told->set.number;
  FS_TABLE_EACH(&ns->lent, l) fs_lent_end(ns, FS_ITEM(l, struct fs_lent_dir, by_id));
}

/*
 * An evicted primary may have lent records of directories that are this rank's now, to ranks that
 * have not heard of the eviction. So after a change of members all of them must know the new set
 * before anything changes.
 */
bool fs_lend_back(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  uint64_t dir = fs_call_dir(c);
  struct fs_names_call recall = {.op = FS_NAMES_RECALL, .recall.dir = dir};
  if (!ns->borrowed) return false;
  *fs_lend_changed_at(ns, dir) = ns->now;
  const struct fs_lent_dir *d = fs_lent_find(ns, dir);
  if (ns->known_set != ns->members.number)
    fs_set_first(ns, a, c, fs_lend_set_known);
  else if (d)
    fs_notice_first(ns, a, c, &recall, d->to, fs_lend_recalled);
  else
    return false;
  return true;
}

/* ---- lend ---- */

/* Changes that are under way would come after the recall, so nothing is lent meanwhile. */
static bool fs_lend_may(struct fs_ns *ns, struct fs_asked a, uint64_t dir) {
  bool still = fs_chain_empty(&ns->holds) && fs_chain_empty(&ns->moves) && fs_chain_empty(&ns->notices);
  return still && ns->borrowed && a.from != ns->rank && ns->known_set == ns->members.number &&
         ns->now >= *fs_lend_changed_at(ns, dir) + ns->deadline_ns / FS_LEND_QUIET_PART;
}

/* Returns true if the rank has had records of the directory, so that more of them would not help it
   to know that a name is missing. */
static bool fs_lend_had(const struct fs_ns *ns, uint64_t dir, uint32_t rank) {
  const struct fs_lent_dir *d = fs_lent_find(ns, dir);
  return d && d->to[rank];
}

static bool fs_lend_enter(struct fs_ns *ns, uint64_t dir, uint32_t rank) {
  struct fs_lent_dir *d = fs_lent_find(ns, dir);
  if (!d && ns->lent.count < FS_LEND_MOST && (d = calloc(1, sizeof(*d) + ns->members.nodes)) != NULL)
    (void)fs_table_add(&ns->lent, &d->by_id, dir);
  if (d) d->to[rank] = true;
  return d != NULL;
}

/* Adds records: all of a small directory, else those from `seq` on. */
static uint32_t fs_lend_records(struct fs_ns *ns, size_t *at, uint64_t dir, uint64_t seq) {
  const struct fs_record *r;
  uint64_t after = fs_names_count(ns->names, dir) <= FS_LEND_WHOLE || seq == 0 ? 0 : seq - 1;
  bool whole = after == 0;
  while ((r = fs_names_after(ns->names, dir, after)) != NULL) {
    if (!fs_answer_put(ns, at, r)) return FS_LENT_SOME;
    after = r->seq;
  }
  return whole ? FS_LENT_ALL : FS_LENT_SOME;
}

void fs_lend_answer(struct fs_ns *ns, struct fs_asked a, uint64_t dir, size_t n, uint64_t seq) {
  struct fs_lent head = {
      .set = ns->members.number, .changed = fs_names_changed(ns->names, dir), .lender = ns->rank, .lent = FS_LENT_NONE};
  size_t at = sizeof(head) + n;
  bool vain = n == 0 && fs_lend_had(ns, dir, a.from);
  if (!vain && fs_lend_may(ns, a, dir) && fs_lend_enter(ns, dir, a.from))
    head.lent = fs_lend_records(ns, &at, dir, seq);
  memcpy(ns->body, &head, sizeof(head));
  fs_ns_answer(ns, a, n > 0 ? 0 : -ENOENT, ns->body, at);
}
