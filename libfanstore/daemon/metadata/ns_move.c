/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that need two keepers: a rename from one directory to another, and the removal or
 * replacement of a directory, which has to be empty. This is the side of the rank that executes the
 * operation. The rank that has the record locks it meanwhile (ns_lock.c). Called by the parts of
 * ns.h.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/metadata/ns_priv.h"

/* ---- a rename, at the keeper of the directory that the name goes to ---- */

struct fs_move {
  struct fs_chain chain;
  struct fs_ns *ns;
  struct fs_asked a;
  /* of the record, once it is in its new place; it stays locked there until the move ends */
  uint64_t id;
  bool backed_up;
  uint64_t closed;   /* an empty directory that it may replace, closed for that; or 0 */
  uint64_t replaced; /* the file that had the name, or 0; part of the answer */
  /* a copy of the record, with its names, that the other directory's primary has locked; or NULL */
  struct fs_record *taken;
  uint64_t until;            /* the record is put by then, or not at all */
  fs_err err;                /* why it has failed */
  struct fs_names_call call; /* followed by its names */
};

/* Returns the move that puts this record into this directory, or replaces it there. */
static const struct fs_move *fs_move_of(const struct fs_ns *ns, uint64_t dir, uint64_t id) {
  for (struct fs_chain *l = ns->moves.next; l != &ns->moves; l = l->next) {
    const struct fs_move *m = FS_ITEM(l, struct fs_move, chain);
    if ((m->id == id || m->closed == id) && m->call.rename.to == dir) return m;
  }
  return NULL;
}

bool fs_moving(const struct fs_ns *ns, uint64_t dir, uint64_t id) {
  const struct fs_move *m = fs_move_of(ns, dir, id);
  return m && !m->backed_up;
}

bool fs_move_begun(const struct fs_ns *ns, uint64_t call) {
  for (struct fs_chain *l = ns->moves.next; l != &ns->moves; l = l->next) {
    const struct fs_move *m = FS_ITEM(l, struct fs_move, chain);
    if (m->call.rename.call == call && m->id == 0) return true;
  }
  return false;
}

uint64_t fs_locked_by(const struct fs_ns *ns, uint64_t dir, uint64_t id) {
  const struct fs_hold *h = fs_lock_find(ns, dir, id);
  const struct fs_move *m = h ? NULL : fs_move_of(ns, dir, id);
  return h ? h->call : m ? m->call.rename.call : 0;
}

bool fs_locked(const struct fs_ns *ns, uint64_t dir, uint64_t id) {
  return fs_lock_find(ns, dir, id) || fs_move_of(ns, dir, id);
}

static void fs_move_free(struct fs_move *m) {
  fs_chain_drop(&m->chain);
  free(m->taken);
  free(m);
}

static void fs_move_kept(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_move *m = ctx;
  (void)err, (void)body, (void)n;
  fs_ns_answer(m->ns, m->a, m->err, NULL, 0);
  fs_move_free(m);
}

static void fs_move_give_back(struct fs_move *m);

static void fs_move_opened(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_move *m = ctx;
  (void)err, (void)body, (void)n;
  m->closed = 0;
  fs_move_give_back(m);
}

static void fs_move_give_back(struct fs_move *m) {
  struct fs_names_call unshut = {.op = FS_NAMES_UNSHUT, .unshut.dir = m->closed};
  struct fs_names_call keep = {
      .op = FS_NAMES_TAKEN, .flags = FS_TAKEN_KEEP, .taken = {.dir = m->call.rename.dir, .call = m->call.rename.call}};
  if (m->taken) keep.taken.id = m->taken->id;
  /* It is here: an earlier rename has moved it, and the other keeper must drop it. If it is locked,
     it is the one here that goes. */
  if (m->taken && fs_names_find_id(m->ns->names, m->call.rename.to, m->taken->id) &&
      !fs_lock_find(m->ns, m->call.rename.to, m->taken->id)) {
    keep.flags = 0;
    keep.taken.to = m->call.rename.to;
  }
  if (m->closed != 0)
    fs_request_start(m->ns, &unshut, fs_move_opened, m);
  else if (m->taken && m->id == 0)
    fs_request_start(m->ns, &keep, fs_move_kept, m);
  else
    fs_move_kept(m, 0, NULL, 0);
}

/* Ends a failed move: opens the closed directory, unlocks the record, then answers. The caller may
   make the call again, which closes and locks them anew. So the answer waits until the other keepers
   have heard UNSHUT and KEEP: they must not hear them again after that. */
static void fs_move_fail(struct fs_move *m, fs_err err) {
  m->err = err;
  fs_move_give_back(m);
}

/* Returns 0 if r may take the place of t, which may be NULL; else the error. */
static fs_err fs_move_check(const struct fs_move *m, const struct fs_record *r, const struct fs_record *t) {
  bool dataset = !t && (m->call.flags & FS_RENAME_TAKES); /* the dataset's file has the name */
  if (dataset && (m->call.flags & FS_RENAME_NOREPLACE)) return -EEXIST;
  if (dataset && S_ISDIR(r->mode)) return -ENOTDIR;
  t = fs_visible(t);
  if (t && m->closed != t->id && fs_locked(m->ns, t->dir, t->id)) return -EAGAIN;
  if (t && (m->call.flags & FS_RENAME_NOREPLACE)) return -EEXIST;
  if (t && S_ISDIR(t->mode) && !S_ISDIR(r->mode)) return -EISDIR;
  if (t && !S_ISDIR(t->mode) && S_ISDIR(r->mode)) return -ENOTDIR;
  return fs_names_closed(m->ns->names, m->call.rename.to, m->ns->now) ? -ENOENT : 0;
}

/* Answers a finished move: the id of the replaced file or 0, then the present record if it is a
   file or directory. */
static void fs_move_end(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_move *m = ctx;
  alignas(8) char answer[sizeof(m->replaced) + sizeof(struct fs_record) + FS_RECORD_NAME_MAX + 8];
  const struct fs_record *r = fs_names_find_id(m->ns->names, m->call.rename.to, m->id);
  size_t at = sizeof(m->replaced);
  (void)err, (void)body, (void)n;
  memcpy(answer, &m->replaced, at);
  if (r && !S_ISLNK(r->mode)) (void)fs_record_put(answer, sizeof(answer), &at, r, fs_record_name(r), NULL);
  fs_ns_answer(m->ns, m->a, 0, answer, at > sizeof(m->replaced) || m->replaced != 0 ? at : 0);
  fs_move_free(m);
}

/* Tells all members that a directory was renamed, then ends the move. */
static void fs_move_tell(struct fs_move *m) {
  struct fs_ns *ns = m->ns;
  const struct fs_record *r = m->taken ? m->taken : fs_names_find_id(ns->names, m->call.rename.to, m->id);
  struct fs_names_call c = {.op = FS_NAMES_TREE};
  if (!r || !S_ISDIR(r->mode)) {
    fs_move_end(m, 0, NULL, 0);
    return;
  }
  ns->hooks->tree(ns);
  fs_ns_ask_all(ns, &c, fs_move_end, m);
}

/* Goes on whatever the result is: if the message was lost, the other keeper asks by itself when
   its lock's time is over. */
static void fs_move_gone(void *ctx, fs_err err, const void *body, size_t n) {
  (void)err, (void)body, (void)n;
  fs_move_tell(ctx);
}

static void fs_move_committed(struct fs_commit *commit, fs_err err) {
  struct fs_move *m = commit->ctx;
  struct fs_ns *ns = m->ns;
  struct fs_names_call c = {
      .op = FS_NAMES_TAKEN,
      .taken = {.dir = m->call.rename.dir, .id = m->id, .to = m->call.rename.to, .call = m->call.rename.call}};
  m->backed_up = true;
  if (err == 0 && m->closed != 0) fs_gone_forget(ns, m->closed);
  if (err < 0) {
    m->closed = 0;
    fs_move_fail(m, err);
  } else if (m->taken) {
    fs_request_start(ns, &c, fs_move_gone, m);
  } else {
    fs_move_tell(m);
  }
}

/* Puts the record under its new name. If it comes from this directory, and the dataset has the old
   name, a whiteout gets that. Returns the commit, or NULL without memory. */
static struct fs_commit *fs_move_put_record(struct fs_move *m, const struct fs_record *r) {
  struct fs_ns *ns = m->ns;
  const struct fs_names_call *c = &m->call;
  struct fs_record now = *r;
  const struct fs_record *made;
  struct fs_commit *commit = NULL;
  bool vacates = !m->taken && (r->flags & FS_RECORD_TAKEN);
  now.dir = c->rename.to;
  now.seq = 0;
  now.name_len = c->tail2_len;
  now.flags &= ~(uint32_t)FS_RECORD_TAKEN;
  if (c->flags & FS_RENAME_TAKES) now.flags |= FS_RECORD_TAKEN;
  fs_names_begin(ns->names);
  if (fs_names_put(ns->names, &now, fs_call_tail2(c), fs_record_target(r), &made) == 0) {
    m->id = now.id;
    fs_changed_now(ns, now.dir);
    commit = fs_commit_new(ns, m->a, now.dir, made);
  }
  if (commit && vacates &&
      fs_whiteout_put(ns, commit, c->rename.dir, fs_call_tail(c), c->tail_len, c->rename.call) < 0) {
    fs_commit_free(commit);
    commit = NULL;
  }
  fs_names_end(ns->names);
  if (commit) commit->put = now.id;
  return commit;
}

/* Puts the record in its new place here, instead of t if there is one. */
static void fs_move_put(struct fs_move *m, const struct fs_record *r, const struct fs_record *t) {
  struct fs_ns *ns = m->ns;
  struct fs_record now = *r, old = fs_visible(t) ? *t : (struct fs_record){0};
  struct fs_commit *commit = fs_move_put_record(m, r);
  now.dir = m->call.rename.to;
  if (!commit) {
    fs_move_fail(m, -ENOMEM);
    return;
  }
  commit->gone = old.id;
  commit->call = m->call.rename.call;
  if (S_ISREG(old.mode)) commit->drop = m->replaced = old.id;
  fs_done_note(ns, m->call.rename.call);
  fs_moved_forget(ns, now.dir, now.id);
  if (S_ISDIR(now.mode)) fs_above_note(ns, now.id, now.dir);
  commit->then = fs_move_committed;
  commit->ctx = m;
  fs_commit_start(commit);
}

static void fs_move_within(struct fs_move *m);
static void fs_move_across(struct fs_move *m);

static void fs_move_target_closed(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_move *m = ctx;
  (void)body, (void)n;
  if (err < 0) m->closed = 0;
  if (err < 0)
    fs_move_fail(m, err);
  else if (m->taken)
    fs_move_across(m);
  else
    fs_move_within(m);
}

/* If t is a directory, has it closed, as the rename may replace it only if it is empty. Returns
   true if so; the rename goes on after that. */
static bool fs_move_close(struct fs_move *m, const struct fs_record *t) {
  struct fs_names_call shut = {.op = FS_NAMES_SHUT};
  if (!t || !S_ISDIR(t->mode) || m->closed == t->id) return false;
  shut.shut.dir = m->closed = t->id;
  fs_request_start(m->ns, &shut, fs_move_target_closed, m);
  return true;
}

static void fs_move_within(struct fs_move *m) {
  struct fs_ns *ns = m->ns;
  const struct fs_names_call *c = &m->call;
  const struct fs_record *r = fs_visible(fs_exec_find(ns, c->rename.dir, c));
  const struct fs_record *t = fs_names_find(ns->names, c->rename.to, fs_call_tail2(c), c->tail2_len);
  fs_err err = !r ? -ENOENT : fs_locked(ns, r->dir, r->id) ? -EAGAIN : 0;
  if (err == 0 && (r != t || (m->call.flags & FS_RENAME_NOREPLACE))) err = fs_move_check(m, r, t);
  if (err != 0) {
    fs_move_fail(m, err);
  } else if (r == t) {
    fs_move_end(m, 0, NULL, 0);
  } else if (!fs_move_close(m, t)) {
    fs_move_put(m, r, t);
  }
}

/* Finishes a rename between two directories, with the record that the other keeper has locked. */
static void fs_move_across(struct fs_move *m) {
  struct fs_ns *ns = m->ns;
  const struct fs_record *t = fs_names_find(ns->names, m->call.rename.to, fs_call_tail2(&m->call), m->call.tail2_len);
  fs_err err = fs_move_check(m, m->taken, t);
  /* The record was here before, and the rename that moved it away has not ended; or it is here already. */
  if (fs_lock_find(ns, m->call.rename.to, m->taken->id) || fs_names_find_id(ns->names, m->call.rename.to, m->taken->id))
    err = -EAGAIN;
  if (ns->now >= m->until || fs_members_keepers(&ns->members, m->call.rename.to).primary != ns->rank) err = -EAGAIN;
  if (err != 0)
    fs_move_fail(m, err);
  else if (!fs_move_close(m, t))
    fs_move_put(m, m->taken, t);
}

static void fs_move_climbed(void *ctx, fs_err err, const void *body, size_t n) {
  (void)body, (void)n;
  if (err < 0)
    fs_move_fail(ctx, err);
  else
    fs_move_across(ctx);
}

/* Takes the copy of the locked record. The other keeper keeps the lock for two deadlines from
   its answer, so half a deadline from now is safe. */
static void fs_move_record(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_move *m = ctx;
  struct fs_ns *ns = m->ns;
  size_t at = 0;
  const struct fs_record *r = err == 0 ? fs_record_next(body, n, &at) : NULL;
  m->taken = r ? malloc(fs_record_size(r)) : NULL;
  m->until = ns->now + ns->deadline_ns / 2;
  if (!m->taken) {
    fs_move_fail(m, err < 0 ? err : r ? -ENOMEM : -EPROTO);
    return;
  }
  memcpy(m->taken, r, fs_record_size(r));
  if (!S_ISDIR(r->mode))
    fs_move_across(m);
  else if ((m->call.flags & FS_RENAME_NOREPLACE) &&
           fs_visible(fs_names_find(ns->names, m->call.rename.to, fs_call_tail2(&m->call), m->call.tail2_len)))
    fs_move_fail(m, -EEXIST);
  else
    fs_climb_start(ns, m->call.rename.to, r->id, m->call.rename.call, m->until, fs_move_climbed, m);
}

/* Returns true if the same call is at work already; its result then answers the later question. */
static bool fs_move_joins(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  for (struct fs_chain *l = ns->moves.next; l != &ns->moves; l = l->next) {
    struct fs_move *m = FS_ITEM(l, struct fs_move, chain);
    if (m->call.rename.call != c->rename.call) continue;
    if (a.id > m->a.id) m->a = a;
    return true;
  }
  return false;
}

void fs_move_start(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  size_t n = fs_call_size(c);
  if (fs_move_joins(ns, a, c)) return;
  int done = fs_done_already(ns, c->rename.call);
  if (done != 0) {
    fs_ns_answer(ns, a, FS_MIN(done, 0), NULL, 0);
    return;
  }
  if (c->rename.to != c->rename.dir && fs_ns_full(ns)) {
    fs_ns_answer(ns, a, -ENOSPC, NULL, 0);
    return;
  }
  bool takes = c->flags & FS_RENAME_TAKES;
  if (takes && fs_exec_mark_taken(ns, a, c->rename.to, fs_call_tail2(c), c->tail2_len, c)) return;
  if (!takes && fs_exec_mark(ns, a, c->rename.to, c)) return;
  struct fs_move *m = malloc(sizeof(*m) - sizeof(m->call) + n);
  if (!m) {
    fs_ns_answer(ns, a, -ENOMEM, NULL, 0);
    return;
  }
  *m = (struct fs_move){.ns = ns, .a = a};
  memcpy(&m->call, c, n);
  fs_chain_push(&ns->moves, &m->chain);
  if (c->rename.to == c->rename.dir) {
    fs_move_within(m);
    return;
  }
  struct fs_names_call *take = (void *)ns->body;
  *take = (struct fs_names_call){.op = FS_NAMES_TAKE,
                                 .take = {.dir = c->rename.dir, .to = c->rename.to, .call = c->rename.call}};
  (void)fs_call_put(take, fs_call_tail(&m->call), m->call.tail_len, NULL, 0);
  fs_request_start(ns, take, fs_move_record, m);
}

/* ---- the removal of a directory ---- */

struct fs_rmdir {
  struct fs_ns *ns;
  struct fs_asked a;
  uint64_t dir, id, call;
};

static void fs_rmdir_end(struct fs_rmdir *w, fs_err err) {
  fs_lock_end(fs_lock_find(w->ns, w->dir, w->id));
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
  fs_ns_ask_all(ns, &c, fs_rmdir_told, w);
}

static void fs_rmdir_closed(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_rmdir *w = ctx;
  struct fs_ns *ns = w->ns;
  const struct fs_record *r = fs_names_find_id(ns->names, w->dir, w->id);
  (void)body, (void)n;
  struct fs_commit *commit = err == 0 && r ? fs_commit_new(ns, w->a, w->dir, NULL) : NULL;
  if (commit && fs_vacate(ns, commit, r, w->call) < 0) {
    fs_commit_free(commit);
    commit = NULL;
  }
  if (!commit) {
    fs_rmdir_end(w, err < 0 ? err : !r ? -ENOENT : -ENOMEM);
    return;
  }
  commit->call = w->call;
  fs_done_note(ns, w->call);
  commit->then = fs_rmdir_committed;
  commit->ctx = w;
  fs_commit_start(commit);
}

void fs_rmdir_start(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  const struct fs_record *r = fs_exec_find(ns, c->remove.dir, c);
  struct fs_rmdir *w = malloc(sizeof(*w));
  struct fs_hold *h = w ? fs_lock_new(ns, r->dir, r->id, 0, c->remove.call) : NULL;
  if (!h) {
    free(w);
    fs_ns_answer(ns, a, -ENOMEM, NULL, 0);
    return;
  }
  h->until = UINT64_MAX; /* no time limit, as fs_rmdir_end is always reached */
  *w = (struct fs_rmdir){.ns = ns, .a = a, .dir = r->dir, .id = r->id, .call = c->remove.call};
  struct fs_names_call shut = {.op = FS_NAMES_SHUT, .shut.dir = r->id};
  fs_request_start(ns, &shut, fs_rmdir_closed, w);
}
