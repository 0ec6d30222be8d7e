/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What takes two keepers: a rename from one directory to another, and what needs a directory to be empty. The rank that
 * has the record holds it while the other one works; should that one die, the hold ends by asking its successor.
 * docs/output-files.md, section 4.
 */
#include <stdlib.h>

#include "daemon/ns_priv.h"

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

/* The newest are first, and the oldest goes when there are many. */
void fs_moved_note(struct fs_ns *ns, uint64_t dir, uint64_t id, uint64_t to) {
  struct fs_moved **chain = fs_moved_chain(ns, dir, id), **at = chain, *m;
  fs_moved_forget(ns, dir, id);
  m = calloc(1, sizeof(*m));
  if (!m) return; /* a publication on its way will find nothing */
  m->next = *chain, *chain = m;
  for (unsigned i = 0; *at && i < FS_MOVED_MOST; i++) at = &(*at)->next;
  if (*at) {
    free(*at); /* the last one: there is never more than one too many */
    *at = NULL;
  }
  m->dir = dir;
  m->id = id;
  m->to = to;
}

/* ---- holds ---- */

struct fs_hold *fs_hold_find(const struct fs_ns *ns, uint64_t dir, uint64_t id) {
  for (struct fs_chain *l = ns->holds.next; l != &ns->holds; l = l->next) {
    struct fs_hold *h = FS_ITEM(l, struct fs_hold, chain);
    if (h->id == id && h->dir == dir) return h;
  }
  return NULL;
}

static struct fs_hold *fs_hold_new(struct fs_ns *ns, uint64_t dir, uint64_t id, uint64_t to, uint64_t call) {
  struct fs_hold *h = malloc(sizeof(*h));
  if (!h) return NULL;
  *h = (struct fs_hold){.id = id, .dir = dir, .to = to, .call = call, .until = ns->now + 2 * ns->deadline_ns};
  fs_chain_push(&ns->holds, &h->chain);
  return h;
}

static void fs_hold_end(struct fs_hold *h) {
  if (!h) return;
  fs_chain_drop(&h->chain);
  free(h);
}

/* The record is another directory's now. */
static struct fs_commit *fs_moved_away(struct fs_ns *ns, struct fs_asked a, const struct fs_record *r, uint64_t to) {
  struct fs_commit *commit = fs_commit_new(ns, a, r->dir, NULL);
  if (!commit) return NULL;
  commit->gone = r->id;
  commit->to = to;
  fs_moved_note(ns, r->dir, r->id, to);
  (void)fs_names_drop(ns->names, r->dir, r->id);
  return commit;
}

/* A record is held, or is no more. */
static struct fs_commit *fs_hold_commit(struct fs_ns *ns, struct fs_asked a, uint64_t dir, uint64_t id,
                                        const struct fs_record *answer) {
  struct fs_commit *commit = fs_commit_new(ns, a, dir, answer);
  if (commit) commit->hold = id;
  return commit;
}

/* The time runs from the answer on: whoever took it puts it when it hears of it, which is before its own deadline, or
 * never. */
static void fs_move_held(struct fs_commit *c, fs_err err) {
  struct fs_hold *h = fs_hold_find(c->ns, c->dir, c->hold);
  if (h && h->call != c->hold_call) h = NULL; /* it has ended, and this is another's */
  if (h && err == 0) h->until = c->ns->now + 2 * c->ns->deadline_ns;
  if (err < 0) fs_hold_end(h);
  if (!h && err == 0) err = -EAGAIN;
  fs_ns_answer(c->ns, c->asked, err, c->answer, err == 0 ? c->answer_n : 0);
}

void fs_move_take(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  const struct fs_record *r = fs_exec_find(ns, c);
  struct fs_hold *h = r ? fs_hold_find(ns, r->dir, r->id) : NULL;
  fs_err err = !r || !fs_exec_visible(r, (uint32_t)c->size) ? -ENOENT
               : S_ISDIR(r->mode)                           ? -EXDEV
               : h && h->call != c->id                      ? -EAGAIN
               : !h && fs_held(ns, r->dir, r->id)           ? -EAGAIN
                                                            : 0;
  if (err == 0 && !h && (h = fs_hold_new(ns, r->dir, r->id, c->to, c->id)) == NULL) err = -ENOMEM;
  struct fs_commit *commit = err == 0 ? fs_hold_commit(ns, a, r->dir, r->id, r) : NULL;
  if (!commit) {
    fs_ns_answer(ns, a, err < 0 ? err : -ENOMEM, NULL, 0);
    return;
  }
  h->until = UINT64_MAX;
  commit->hold_call = h->call;
  commit->then = fs_move_held;
  fs_commit_start(commit);
}

fs_err fs_hold_mirror(struct fs_ns *ns, const struct fs_names_call *c) {
  fs_hold_end(fs_hold_find(ns, c->dir, c->id));
  if (!(c->flags & FS_NAMES_HELD)) return 0;
  return fs_hold_new(ns, c->dir, c->id, c->to, c->size) ? 0 : -ENOMEM;
}

void fs_move_taken(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  const struct fs_record *r = fs_names_find_id(ns->names, c->dir, c->id);
  struct fs_hold *h = fs_hold_find(ns, c->dir, c->id);
  if ((c->flags & FS_NAMES_KEEP) && h && h->call != c->size) { /* another's: that one's has ended long ago */
    fs_ns_answer(ns, a, 0, NULL, 0);
    return;
  }
  fs_hold_end(h);
  if (c->flags & FS_NAMES_KEEP)
    fs_exec_commit(ns, a, fs_hold_commit(ns, a, c->dir, c->id, NULL));
  else if (!r)
    fs_ns_answer(ns, a, 0, NULL, 0);
  else
    fs_exec_commit(ns, a, fs_moved_away(ns, a, r, c->to));
}

static void fs_hold_nobody(struct fs_commit *c, fs_err err) {
  (void)c, (void)err;
}

struct fs_hold_question {
  struct fs_ns *ns;
  uint64_t dir, id;
};

/* Whoever took it has not come back: did it arrive? */
static void fs_hold_asked(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_hold_question q = *(struct fs_hold_question *)ctx;
  struct fs_hold *h = fs_hold_find(q.ns, q.dir, q.id);
  (void)body, (void)n;
  free(ctx);
  if (!h) return;
  const struct fs_record *r = fs_names_find_id(q.ns->names, h->dir, q.id);
  h->asking = false;
  if (q.ns->now < h->until) return; /* taken anew meanwhile */
  h->until = q.ns->now + q.ns->deadline_ns;
  if (err != 0 && err != -ENOENT) return; /* again, later */
  struct fs_asked nobody = {0};
  struct fs_commit *commit =
      err == 0 && r ? fs_moved_away(q.ns, nobody, r, h->to) : fs_hold_commit(q.ns, nobody, h->dir, h->id, NULL);
  if (!commit) return;
  commit->then = fs_hold_nobody;
  fs_hold_end(h);
  fs_commit_start(commit);
}

static void fs_hold_ask(struct fs_ns *ns, struct fs_hold *h) {
  struct fs_hold_question *q = malloc(sizeof(*q));
  struct fs_names_call c = {.op = FS_NAMES_ARRIVED, .dir = h->to, .id = h->id, .size = h->call};
  if (!q) return;
  *q = (struct fs_hold_question){.ns = ns, .dir = h->dir, .id = h->id};
  h->asking = true;
  fs_request_start(ns, &c, sizeof(c), fs_hold_asked, q);
}

void fs_hold_timers(struct fs_ns *ns) {
  for (struct fs_chain *l = ns->holds.next, *next; l != &ns->holds; l = next) {
    struct fs_hold *h = FS_ITEM(l, struct fs_hold, chain);
    next = l->next;
    if (h->asking || ns->now < h->until) continue;
    bool mine = fs_members_keepers(&ns->members, h->dir).owner == ns->rank;
    if (!mine && ns->now < h->until + 8 * ns->deadline_ns) continue; /* the owner's affair */
    if (!mine || h->to == 0)
      fs_hold_end(h);
    else
      fs_hold_ask(ns, h);
  }
}

/* ---- a rename, at the keeper of the directory that the name goes to ---- */

struct fs_move {
  struct fs_chain chain;
  struct fs_ns *ns;
  struct fs_asked a;
  uint64_t id; /* of the record, once it is in its new place; then it is held there until all is done */
  bool mirrored;
  uint64_t closed;           /* of an empty directory that it may replace */
  struct fs_names_call call; /* followed by its names */
};

static const struct fs_move *fs_move_of(const struct fs_ns *ns, uint64_t dir, uint64_t id) {
  for (struct fs_chain *l = ns->moves.next; l != &ns->moves; l = l->next) {
    const struct fs_move *m = FS_ITEM(l, struct fs_move, chain);
    if (m->id == id && m->call.to == dir) return m;
  }
  return NULL;
}

bool fs_moving(const struct fs_ns *ns, uint64_t dir, uint64_t id) {
  const struct fs_move *m = fs_move_of(ns, dir, id);
  return m && !m->mirrored;
}

bool fs_held(const struct fs_ns *ns, uint64_t dir, uint64_t id) {
  return fs_hold_find(ns, dir, id) || fs_move_of(ns, dir, id);
}

static void fs_move_free(struct fs_move *m) {
  fs_chain_drop(&m->chain);
  free(m);
}

static void fs_move_fail(struct fs_move *m, fs_err err) {
  struct fs_names_call open = {.op = FS_NAMES_OPEN, .dir = m->closed};
  fs_ns_answer(m->ns, m->a, err, NULL, 0);
  if (m->closed != 0) fs_request_start(m->ns, &open, sizeof(open), NULL, NULL);
  fs_move_free(m);
}

/* May r take the place of t, which may be NULL? */
static fs_err fs_move_check(const struct fs_move *m, const struct fs_record *r, const struct fs_record *t) {
  if (t && fs_held(m->ns, t->dir, t->id)) return -EAGAIN;
  if (t && (m->call.flags & FS_NAMES_NOREPLACE)) return -EEXIST;
  if (t && S_ISDIR(t->mode) && !S_ISDIR(r->mode)) return -EISDIR;
  if (t && !S_ISDIR(t->mode) && S_ISDIR(r->mode)) return -ENOTDIR;
  return fs_names_closed(m->ns->names, m->call.to, m->ns->now) ? -ENOENT : 0;
}

/* All is done; should the answer of another keeper be lost, that one asks by itself. */
static void fs_move_end(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_move *m = ctx;
  (void)err, (void)body, (void)n;
  fs_ns_answer(m->ns, m->a, 0, NULL, 0);
  fs_move_free(m);
}

static void fs_move_committed(struct fs_commit *commit, fs_err err) {
  struct fs_move *m = commit->ctx;
  struct fs_ns *ns = m->ns;
  const struct fs_record *r = fs_names_find_id(ns->names, m->call.to, m->id);
  struct fs_names_call c = {
      .op = FS_NAMES_TAKEN, .dir = m->call.dir, .id = m->id, .to = m->call.to, .size = m->call.id};
  m->mirrored = true;
  if (err == 0 && m->closed != 0) fs_gone_forget(ns, m->closed);
  if (err < 0) {
    m->closed = 0;
    fs_move_fail(m, err);
  } else if (m->call.dir != m->call.to) {
    fs_request_start(ns, &c, sizeof(c), fs_move_end, m);
  } else if (r && S_ISDIR(r->mode)) {
    c = (struct fs_names_call){.op = FS_NAMES_TREE};
    ns->hooks->tree(ns);
    fs_ns_ask_all(ns, &c, sizeof(c), fs_move_end, m);
  } else {
    fs_move_end(m, 0, NULL, 0);
  }
}

/* The record takes its new place here, and t's, if there is one. */
static void fs_move_put(struct fs_move *m, const struct fs_record *r, const struct fs_record *t) {
  struct fs_ns *ns = m->ns;
  struct fs_record now = *r, old = t ? *t : (struct fs_record){0};
  const struct fs_record *made;
  now.dir = m->call.to;
  now.seq = 0;
  now.name_len = m->call.name2_len;
  if (fs_names_put(ns->names, &now, fs_call_name2(&m->call), fs_record_target(r), &made) < 0) {
    fs_move_fail(m, -ENOMEM);
    return;
  }
  struct fs_commit *commit = fs_commit_new(ns, m->a, now.dir, made);
  if (!commit) {
    fs_move_fail(m, -ENOMEM);
    return;
  }
  commit->put = now.id;
  commit->gone = old.id;
  commit->call = m->call.id;
  if (old.id != 0 && S_ISREG(old.mode)) {
    commit->drop = old.id;
  }
  fs_done_note(ns, m->call.id);
  fs_moved_forget(ns, now.dir, now.id);
  m->id = now.id;
  commit->then = fs_move_committed;
  commit->ctx = m;
  fs_commit_start(commit);
}

static void fs_move_within(struct fs_move *m);

static void fs_move_target_closed(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_move *m = ctx;
  (void)body, (void)n;
  if (err < 0) m->closed = 0;
  if (err < 0)
    fs_move_fail(m, err);
  else
    fs_move_within(m);
}

static void fs_move_within(struct fs_move *m) {
  struct fs_ns *ns = m->ns;
  const struct fs_names_call *c = &m->call;
  const struct fs_record *r = fs_exec_find(ns, c);
  const struct fs_record *t = fs_names_find(ns->names, c->to, fs_call_name2(c), c->name2_len);
  fs_err err = !r || !fs_exec_visible(r, m->a.from) ? -ENOENT : fs_held(ns, r->dir, r->id) ? -EAGAIN : 0;
  if (err == 0 && r != t) err = fs_move_check(m, r, t);
  if (err != 0) {
    fs_move_fail(m, err);
  } else if (r == t) {
    fs_move_end(m, 0, NULL, 0);
  } else if (t && S_ISDIR(t->mode) && m->closed != t->id) {
    struct fs_names_call close = {.op = FS_NAMES_CLOSE, .dir = m->closed = t->id};
    fs_request_start(ns, &close, sizeof(close), fs_move_target_closed, m);
  } else {
    fs_move_put(m, r, t);
  }
}

/* The other keeper holds the record for two deadlines from when it answered, which was after it was asked. */
static void fs_move_record(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_move *m = ctx;
  struct fs_ns *ns = m->ns;
  struct fs_names_call keep = {.op = FS_NAMES_TAKEN, .flags = FS_NAMES_KEEP, .dir = m->call.dir, .size = m->call.id};
  size_t at = 0;
  const struct fs_record *r = err == 0 ? fs_record_next(body, n, &at) : NULL;
  const struct fs_record *t = fs_names_find(ns->names, m->call.to, fs_call_name2(&m->call), m->call.name2_len);
  if (err == 0 && !r) err = -EPROTO;
  if (err == 0) keep.id = r->id;
  const struct fs_hold *h = err == 0 ? fs_hold_find(ns, m->call.to, r->id) : NULL;
  if (err == 0) err = fs_move_check(m, r, t);
  if (h) err = -EAGAIN; /* it was here before, and that rename has not ended */
  if (err == 0 && fs_members_keepers(&ns->members, m->call.to).owner != ns->rank) err = -EAGAIN;
  if (err == 0) {
    fs_move_put(m, r, t);
    return;
  }
  if (keep.id != 0) fs_request_start(ns, &keep, sizeof(keep), NULL, NULL);
  fs_move_fail(m, err);
}

/* The same call again, while the first is at work: that one answers the later question. */
static bool fs_move_joins(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  for (struct fs_chain *l = ns->moves.next; l != &ns->moves; l = l->next) {
    struct fs_move *m = FS_ITEM(l, struct fs_move, chain);
    if (m->call.id != c->id) continue;
    if (a.id > m->a.id) m->a = a;
    return true;
  }
  return false;
}

void fs_move_start(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c, size_t n) {
  if (fs_move_joins(ns, a, c)) return;
  int done = fs_done_already(ns, c->id);
  if (done != 0) {
    fs_ns_answer(ns, a, FS_MIN(done, 0), NULL, 0);
    return;
  }
  if (fs_exec_mark(ns, a, c->to, c, n)) return;
  struct fs_move *m = malloc(sizeof(*m) - sizeof(m->call) + n);
  if (!m) {
    fs_ns_answer(ns, a, -ENOMEM, NULL, 0);
    return;
  }
  *m = (struct fs_move){.ns = ns, .a = a};
  memcpy(&m->call, c, n);
  fs_chain_push(&ns->moves, &m->chain);
  if (c->to == c->dir) {
    fs_move_within(m);
    return;
  }
  struct fs_names_call *take = (void *)ns->body;
  memcpy(take, c, sizeof(*c) + c->name_len);
  take->op = FS_NAMES_TAKE;
  take->size = a.from;
  take->name2_len = 0;
  fs_request_start(ns, take, fs_call_size(take), fs_move_record, m);
}

/* ---- the removal of a directory ---- */

struct fs_rmdir {
  struct fs_ns *ns;
  struct fs_asked a;
  uint64_t dir, id, call;
};

static void fs_rmdir_end(struct fs_rmdir *w, fs_err err) {
  fs_hold_end(fs_hold_find(w->ns, w->dir, w->id));
  fs_ns_answer(w->ns, w->a, err, NULL, 0);
  free(w);
}

static void fs_rmdir_told(void *ctx, fs_err err, const void *body, size_t n) {
  (void)err, (void)body, (void)n;
  fs_rmdir_end(ctx, 0);
}

static void fs_rmdir_committed(struct fs_commit *commit, fs_err err) {
  struct fs_rmdir *w = commit->ctx;
  struct fs_ns *ns = w->ns;
  struct fs_names_call c = {.op = FS_NAMES_TREE};
  if (err < 0) {
    fs_rmdir_end(w, err);
    return;
  }
  fs_gone_forget(ns, w->id);
  ns->hooks->tree(ns);
  fs_ns_ask_all(ns, &c, sizeof(c), fs_rmdir_told, w);
}

static void fs_rmdir_closed(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_rmdir *w = ctx;
  struct fs_ns *ns = w->ns;
  const struct fs_record *r = fs_names_find_id(ns->names, w->dir, w->id);
  (void)body, (void)n;
  struct fs_commit *commit = err == 0 && r ? fs_commit_new(ns, w->a, w->dir, NULL) : NULL;
  if (!commit) {
    fs_rmdir_end(w, err < 0 ? err : !r ? -ENOENT : -ENOMEM);
    return;
  }
  commit->gone = w->id;
  commit->call = w->call;
  fs_done_note(ns, w->call);
  (void)fs_names_drop(ns->names, w->dir, w->id);
  commit->then = fs_rmdir_committed;
  commit->ctx = w;
  fs_commit_start(commit);
}

void fs_rmdir_start(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  const struct fs_record *r = fs_exec_find(ns, c);
  struct fs_rmdir *w = malloc(sizeof(*w));
  struct fs_hold *h = w ? fs_hold_new(ns, r->dir, r->id, 0, c->id) : NULL;
  if (!h) {
    free(w);
    fs_ns_answer(ns, a, -ENOMEM, NULL, 0);
    return;
  }
  h->until = UINT64_MAX; /* until it ends, which it does */
  *w = (struct fs_rmdir){.ns = ns, .a = a, .dir = r->dir, .id = r->id, .call = c->id};
  struct fs_names_call close = {.op = FS_NAMES_CLOSE, .dir = r->id};
  fs_request_start(ns, &close, sizeof(close), fs_rmdir_closed, w);
}
