/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The locks on records that are moving to another directory, at the rank that has the record
 * (docs/internals/metadata.md). The record is locked while the other directory's keeper works,
 * and its new directory is remembered for a while after it has moved. If that keeper dies, this
 * rank asks its successor how the move ended. Called by the parts of ns.h.
 */
#include <stdlib.h>

#include "daemon/metadata/ns_priv.h"

/* ---- where a file went ---- */

static struct fs_moved **fs_moved_chain(const struct fs_ns *ns, uint64_t dir, uint64_t id) {
  return (struct fs_moved **)&ns->moved[((id ^ dir * 3) * 0x9e3779b97f4a7c15ull >> 32) % FS_MOVED_CHAINS];
}

static struct fs_moved *fs_moved_find(const struct fs_ns *ns, uint64_t dir, uint64_t id) {
  struct fs_moved *m = *fs_moved_chain(ns, dir, id);
  while (m && (m->id != id || m->dir != dir)) m = m->next;
  return m;
}

uint64_t fs_moved_to(const struct fs_ns *ns, uint64_t dir, uint64_t id) {
  const struct fs_moved *m = fs_moved_find(ns, dir, id);
  return m ? m->to : 0;
}

void fs_moved_forget(struct fs_ns *ns, uint64_t dir, uint64_t id) {
  struct fs_moved **at = fs_moved_chain(ns, dir, id), *m = fs_moved_find(ns, dir, id);
  if (!m) return;
  while (*at != m) at = &(*at)->next;
  *at = m->next;
  free(m);
}

/* The newest entries of a chain are first. The oldest is removed if there are too many. */
void fs_moved_note(struct fs_ns *ns, uint64_t dir, uint64_t id, uint64_t to) {
  struct fs_moved **chain = fs_moved_chain(ns, dir, id), **at = chain, *m;
  fs_moved_forget(ns, dir, id);
  m = calloc(1, sizeof(*m));
  if (!m) return; /* without memory, a publication under way will not find the file */
  m->next = *chain, *chain = m;
  for (unsigned i = 0; *at && i < FS_MOVED_MOST; i++) at = &(*at)->next;
  if (*at) {
    free(*at); /* the last one: a chain is never longer than the limit by more than one */
    *at = NULL;
  }
  m->dir = dir;
  m->id = id;
  m->to = to;
}

/* ---- holds ---- */

struct fs_hold *fs_lock_find(const struct fs_ns *ns, uint64_t dir, uint64_t id) {
  for (struct fs_chain *l = ns->holds.next; l != &ns->holds; l = l->next) {
    struct fs_hold *h = FS_ITEM(l, struct fs_hold, chain);
    if (h->id == id && h->dir == dir) return h;
  }
  return NULL;
}

struct fs_hold *fs_lock_new(struct fs_ns *ns, uint64_t dir, uint64_t id, uint64_t to, uint64_t call) {
  struct fs_hold *h = malloc(sizeof(*h));
  if (!h) return NULL;
  *h = (struct fs_hold){.id = id, .dir = dir, .to = to, .call = call, .until = ns->now + 2 * ns->deadline_ns};
  fs_chain_push(&ns->holds, &h->chain);
  return h;
}

void fs_lock_end(struct fs_hold *h) {
  if (!h) return;
  fs_chain_drop(&h->chain);
  free(h);
}

/* Removes a record that the rename `call` has moved to the directory `to`, and makes the commit for
   that. */
static struct fs_commit *fs_moved_away(struct fs_ns *ns, struct fs_asked a, const struct fs_record *r, uint64_t to,
                                       uint64_t call) {
  struct fs_commit *commit = fs_commit_new(ns, a, r->dir, NULL);
  uint64_t dir = r->dir, id = r->id;
  if (!commit) return NULL;
  if (fs_vacate(ns, commit, r, call) < 0) {
    fs_commit_free(commit);
    return NULL;
  }
  commit->to = to;
  fs_moved_note(ns, dir, id, to);
  return commit;
}

/* Makes the commit that tells the backup that a record has been locked or unlocked. */
static struct fs_commit *fs_lock_commit(struct fs_ns *ns, struct fs_asked a, uint64_t dir, uint64_t id,
                                        const struct fs_record *answer) {
  struct fs_commit *commit = fs_commit_new(ns, a, dir, answer);
  if (commit) commit->hold = id;
  return commit;
}

/* Starts the lock's time and answers the keeper that took it. The time runs from the answer on:
   the keeper puts the record when it hears of the lock, which is before its own deadline, or
   never. */
static void fs_move_held(struct fs_commit *c, fs_err err) {
  struct fs_hold *h = fs_lock_find(c->ns, c->dir, c->hold);
  /* that lock has ended, and this one is another call's */
  if (h && h->call != c->hold_call) h = NULL;
  if (h && err == 0) h->until = c->ns->now + 2 * c->ns->deadline_ns;
  if (err < 0) fs_lock_end(h);
  if (!h && err == 0) err = -EAGAIN;
  fs_ns_answer(c->ns, c->asked, err, c->answer, err == 0 ? c->answer_n : 0);
}

void fs_move_take(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  const struct fs_record *r = fs_visible(fs_exec_find(ns, c->take.dir, c));
  struct fs_hold *h = r ? fs_lock_find(ns, r->dir, r->id) : NULL;
  fs_err err = !r ? -ENOENT : h && h->call != c->take.call ? -EAGAIN : !h && fs_locked(ns, r->dir, r->id) ? -EAGAIN : 0;
  if (err == 0 && !h && (h = fs_lock_new(ns, r->dir, r->id, c->take.to, c->take.call)) == NULL) err = -ENOMEM;
  struct fs_commit *commit = err == 0 ? fs_lock_commit(ns, a, r->dir, r->id, r) : NULL;
  if (!commit) {
    fs_ns_answer(ns, a, err < 0 ? err : -ENOMEM, NULL, 0);
    return;
  }
  h->until = UINT64_MAX;
  commit->hold_call = h->call;
  commit->then = fs_move_held;
  fs_commit_start(commit);
}

fs_err fs_lock_backup(struct fs_ns *ns, const struct fs_names_call *c) {
  fs_lock_end(fs_lock_find(ns, c->backup.dir, c->backup.id));
  if (!(c->flags & FS_BACKUP_HELD)) return 0;
  return fs_lock_new(ns, c->backup.dir, c->backup.id, c->backup.to, c->backup.call) ? 0 : -ENOMEM;
}

void fs_move_taken(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  const struct fs_record *r = fs_names_find_id(ns->names, c->taken.dir, c->taken.id);
  struct fs_hold *h = fs_lock_find(ns, c->taken.dir, c->taken.id);
  if (h &&
      h->call != c->taken.call) { /* another call's lock: this call's lock has ended long ago; the record is here */
    fs_ns_answer(ns, a, 0, NULL, 0);
    return;
  }
  fs_lock_end(h);
  if (c->flags & FS_TAKEN_KEEP)
    fs_exec_commit(ns, a, fs_lock_commit(ns, a, c->taken.dir, c->taken.id, NULL));
  else if (!r)
    fs_ns_answer(ns, a, fs_committing_gone(ns, c->taken.dir, c->taken.id) ? -EAGAIN : 0, NULL, 0);
  else
    fs_exec_commit(ns, a, fs_moved_away(ns, a, r, c->taken.to, c->taken.call));
}

static void fs_lock_nobody(struct fs_commit *c, fs_err err) {
  (void)c, (void)err;
}

struct fs_lock_question {
  struct fs_ns *ns;
  uint64_t dir, id, call;
};

/* Ends a lock whose owner has not reported, by the answer to the question whether the record has
   arrived. */
static void fs_lock_asked(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_lock_question q = *(struct fs_lock_question *)ctx;
  struct fs_hold *h = fs_lock_find(q.ns, q.dir, q.id);
  (void)body, (void)n;
  free(ctx);
  if (!h || h->call != q.call) return; /* it has ended, and another call may have locked the record */
  const struct fs_record *r = fs_names_find_id(q.ns->names, h->dir, q.id);
  h->asking = false;
  if (q.ns->now < h->until) return; /* the record was locked anew meanwhile */
  h->until = q.ns->now + q.ns->deadline_ns;
  if (err != 0 && err != -ENOENT) return; /* the timers ask again */
  struct fs_asked nobody = {0};
  struct fs_commit *commit = err == 0 && r ? fs_moved_away(q.ns, nobody, r, h->to, h->call)
                                           : fs_lock_commit(q.ns, nobody, h->dir, h->id, NULL);
  if (!commit) return;
  commit->then = fs_lock_nobody;
  fs_lock_end(h);
  fs_commit_start(commit);
}

static void fs_lock_ask(struct fs_ns *ns, struct fs_hold *h) {
  struct fs_lock_question *q = malloc(sizeof(*q));
  struct fs_names_call c = {.op = FS_NAMES_ARRIVED, .arrived = {.dir = h->to, .id = h->id, .call = h->call}};
  if (!q) return;
  *q = (struct fs_lock_question){.ns = ns, .dir = h->dir, .id = h->id, .call = h->call};
  h->asking = true;
  fs_request_start(ns, &c, fs_lock_asked, q);
}

void fs_lock_timers(struct fs_ns *ns) {
  for (struct fs_chain *l = ns->holds.next, *next; l != &ns->holds; l = next) {
    struct fs_hold *h = FS_ITEM(l, struct fs_hold, chain);
    next = l->next;
    if (h->asking || ns->now < h->until) continue;
    bool mine = fs_members_keepers(&ns->members, h->dir).primary == ns->rank;
    /* the primary ends it; a backup ends it only if it hears nothing for long */
    if (!mine && ns->now < h->until + 8 * ns->deadline_ns) continue;
    if (!mine || h->to == 0)
      fs_lock_end(h);
    else
      fs_lock_ask(ns, h);
  }
}
