/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handlers of the calls that concern one directory, at its keeper. A handler changes the table,
 * then has the backup informed (ns_commit.c), then the caller is answered, in this order. Called
 * for each such message from a rank with the same set of members. The table of all handlers of the
 * name service is at the end.
 */
#include <stdlib.h>
#include <time.h>

#include "daemon/metadata/ns_priv.h"

/* ---- calls are done once, however often they are made ---- */

static uint32_t fs_done_chain(uint64_t id) {
  return (uint32_t)(id * 0x9e3779b97f4a7c15ull >> 48) % FS_DONE_CALLS;
}

static bool fs_done_find(const struct fs_done_calls *d, uint64_t id) {
  uint32_t i = d->chain[fs_done_chain(id)];
  while (i != 0 && d->call[i - 1].id != id) i = d->call[i - 1].next;
  return i != 0;
}

int fs_done_already(const struct fs_ns *ns, uint64_t id) {
  if (id == 0 || !fs_done_find(&ns->done, id)) return 0;
  return fs_committing(ns, id) ? -EAGAIN : 1;
}

void fs_done_note(struct fs_ns *ns, uint64_t id) {
  struct fs_done_calls *d = &ns->done;
  struct fs_done_call *c = &d->call[d->at];
  uint32_t *link = &d->chain[fs_done_chain(c->id)];
  if (id == 0 || fs_done_find(d, id)) return;
  while (*link != 0 && *link != d->at + 1) link = &d->call[*link - 1].next;
  if (*link != 0) *link = c->next; /* the oldest is forgotten */
  link = &d->chain[fs_done_chain(id)];
  *c = (struct fs_done_call){.id = id, .next = *link};
  *link = d->at + 1;
  d->at = (d->at + 1) % FS_DONE_CALLS;
}

const struct fs_record *fs_exec_find(const struct fs_ns *ns, uint64_t dir, const struct fs_names_call *c) {
  return fs_names_find(ns->names, dir, fs_call_tail(c), c->tail_len);
}

bool fs_answer_put(struct fs_ns *ns, size_t *at, const struct fs_record *r) {
  struct fs_record now = *r;
  if (S_ISREG(r->mode)) now.home = fs_record_home(ns, r);
  return fs_record_put(ns->body, sizeof(ns->body), at, &now, fs_record_name(r), fs_record_target(r));
}

static void fs_answer_record(struct fs_ns *ns, struct fs_asked a, fs_err err, const struct fs_record *r) {
  size_t at = 0;
  (void)fs_answer_put(ns, &at, r);
  fs_ns_answer(ns, a, err, ns->body, at);
}

void fs_exec_commit(struct fs_ns *ns, struct fs_asked a, struct fs_commit *commit) {
  if (commit)
    fs_commit_start(commit);
  else
    fs_ns_answer(ns, a, -ENOMEM, NULL, 0);
}

/* Makes the commit for a record that was put. Returns NULL if r is NULL, as it could not be put,
   or without memory. */
static struct fs_commit *fs_exec_put_commit(struct fs_ns *ns, struct fs_asked a, const struct fs_record *r,
                                            uint64_t call) {
  struct fs_commit *commit = r ? fs_commit_new(ns, a, r->dir, r) : NULL;
  if (!commit) return NULL;
  commit->put = r->id;
  commit->call = call;
  commit->forwarded = true;
  return commit;
}

static void fs_exec_put(struct fs_ns *ns, struct fs_asked a, const struct fs_record *r, uint64_t call) {
  fs_exec_commit(ns, a, fs_exec_put_commit(ns, a, r, call));
}

/* Answers that this directory has no record of this id: -EREMCHG with the new directory if that
   is known, else -ENOENT. */
static void fs_exec_absent(struct fs_ns *ns, struct fs_asked a, uint64_t dir, uint64_t id) {
  uint64_t to = fs_moved_to(ns, dir, id);
  fs_ns_answer(ns, a, to != 0 ? -EREMCHG : -ENOENT, &to, sizeof(to));
}

void fs_changed_now(struct fs_ns *ns, uint64_t dir) {
  fs_names_change(ns->names, dir, fs_changed_clock());
}

static void fs_exec_times(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  struct fs_dir_times t = {.changed = fs_names_changed(ns->names, c->times.dir),
                           .subdirs = fs_names_subdirs(ns->names, c->times.dir)};
  bool wait = (c->flags & FS_TIMES_SYNC) && fs_commit_early(ns, c->times.dir);
  fs_ns_answer(ns, a, wait ? -EAGAIN : 0, &t, wait ? 0 : sizeof(t));
}

/* Adds a record to the answer in ns->body. If it is a directory whose own names are kept here, its
   times and its number of subdirectories are added. */
static void fs_exec_found(struct fs_ns *ns, size_t *at, const struct fs_record *r) {
  struct fs_record now = *r;
  if (!S_ISDIR(r->mode) || fs_members_keepers(&ns->members, r->id).primary != ns->rank) {
    (void)fs_answer_put(ns, at, r);
    return;
  }
  fs_record_changed(&now, fs_names_changed(ns->names, r->id));
  now.size = fs_names_subdirs(ns->names, r->id);
  now.flags |= FS_RECORD_TIMED;
  (void)fs_record_put(ns->body, sizeof(ns->body), at, &now, fs_record_name(r), fs_record_target(r));
}

static void fs_exec_lookup(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  const struct fs_record *r =
      c->tail_len > 0 ? fs_exec_find(ns, c->lookup.dir, c) : fs_names_find_id(ns->names, c->lookup.dir, c->lookup.id);
  size_t room = c->flags & FS_LOOKUP_BORROW ? sizeof(struct fs_lent) : 0, at = room;
  if (r) fs_exec_found(ns, &at, r);
  if (room > 0)
    fs_lend_answer(ns, a, c->lookup.dir, at - room, r ? r->seq : 0);
  else if (r)
    fs_ns_answer(ns, a, 0, ns->body, at);
  else if (c->tail_len > 0)
    fs_ns_answer(ns, a, -ENOENT, NULL, 0);
  else
    fs_exec_absent(ns, a, c->lookup.dir, c->lookup.id);
}

/* Handles ABOVE, of a rename into a directory: answers where the directory's record is, or
   -EBUSY with the id of the call that has it locked. */
static void fs_exec_above(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  const struct fs_record *r = fs_names_find_id(ns->names, c->above.dir, c->above.id);
  uint64_t call = fs_locked_by(ns, c->above.dir, c->above.id);
  if (!r)
    fs_exec_absent(ns, a, fs_call_dir(c), fs_call_id(c));
  else if (fs_locked(ns, c->above.dir, c->above.id))
    fs_ns_answer(ns, a, -EBUSY, &call, sizeof(call));
  else
    fs_answer_record(ns, a, 0, r);
}

static void fs_exec_list(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  size_t at = 0;
  uint64_t seq = c->list.after;
  const struct fs_record *r;
  while ((r = fs_names_after(ns->names, c->list.dir, seq)) != NULL) {
    seq = r->seq;
    if (!fs_listed_put(ns->body, c->list.most, &at, r)) break;
  }
  fs_ns_answer(ns, a, 0, ns->body, at);
}

/* ---- making ---- */

/* Returns the record that CREATE makes. */
static struct fs_record fs_exec_made(const struct fs_names_call *c, uint32_t home) {
  bool file = S_ISREG(c->create.mode), staged = c->flags & FS_CREATE_STAGED_IN;
  uint32_t taken = c->flags & FS_CREATE_TAKES ? FS_RECORD_TAKEN : 0;
  return (struct fs_record){.id = c->create.id,
                            .dir = c->create.dir,
                            .size = !file    ? c->tail2_len
                                    : staged ? c->create.size
                                             : 0,
                            .mtime = c->create.mtime,
                            .ctime = c->create.mtime,
                            .mtime_ns = c->create.mtime_ns,
                            .ctime_ns = c->create.mtime_ns,
                            .mode = c->create.mode,
                            .home = home,
                            .flags = taken | (staged ? FS_RECORD_PUBLISHED | FS_RECORD_STAGED_IN
                                              : file ? 0
                                                     : FS_RECORD_PUBLISHED),
                            .name_len = c->tail_len,
                            .target_len = c->tail2_len};
}

/* Answers a repeated CREATE with the record as it was made, whatever has become of it since. */
static void fs_exec_created(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  struct fs_record made = fs_exec_made(c, a.from);
  size_t at = 0;
  (void)fs_record_put(ns->body, sizeof(ns->body), &at, &made, fs_call_tail(c), fs_call_tail2(c));
  fs_ns_answer(ns, a, 0, ns->body, at);
}

/* Makes sure that all members know what they must know before the record is made. Returns true if
   the call has to wait for that. */
static bool fs_exec_marks(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  if (!(c->flags & FS_CREATE_TAKES)) return fs_exec_mark(ns, a, c->create.dir, c);
  return fs_exec_mark_taken(ns, a, c->create.dir, fs_call_tail(c), c->tail_len, c);
}

static void fs_exec_create(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  const struct fs_record *old = fs_exec_find(ns, c->create.dir, c), *r;
  int done = fs_done_already(ns, c->create.id);
  if (done < 0) {
    fs_ns_answer(ns, a, done, NULL, 0);
  } else if (done > 0 || (old && old->id == c->create.id)) {
    fs_exec_created(ns, a, c);
  } else if (old && (!fs_is_whiteout(old) || (c->flags & FS_CREATE_COPY))) {
    fs_answer_record(ns, a, -EEXIST, old);
  } else if (fs_names_closed(ns->names, c->create.dir, ns->now)) {
    fs_ns_answer(ns, a, -ENOENT, NULL, 0);
  } else if (fs_ns_full(ns)) {
    fs_ns_answer(ns, a, -ENOSPC, NULL, 0);
  } else if (!fs_exec_marks(ns, a, c)) {
    struct fs_record made = fs_exec_made(c, a.from);
    fs_err err = fs_names_put(ns->names, &made, fs_call_tail(c), fs_call_tail2(c), &r);
    if (err == 0) fs_done_note(ns, c->create.id);
    /* a staged-in directory keeps the times of its original */
    if (err == 0 && !(c->flags & FS_CREATE_STAGED_IN)) fs_changed_now(ns, c->create.dir);
    if (S_ISDIR(c->create.mode)) fs_above_note(ns, c->create.id, c->create.dir);
    struct fs_commit *commit = fs_exec_put_commit(ns, a, err == 0 ? r : NULL, c->create.id);
    if (commit) commit->own = S_ISREG(c->create.mode);
    fs_exec_commit(ns, a, commit);
  }
}

/* ---- changing ---- */

static void fs_exec_publish(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  const struct fs_record *old = fs_names_find_id(ns->names, c->publish.dir, c->publish.id), *r;
  if (!old) {
    fs_exec_absent(ns, a, fs_call_dir(c), fs_call_id(c));
    return;
  }
  if (ns->replicated &&
      fs_ns_home(ns, c->publish.id) != a.from) { /* it was suspended; its files have another home now */
    fs_ns_answer(ns, a, -EIO, NULL, 0);
    return;
  }
  if (fs_locked(ns, c->publish.dir, c->publish.id) || !S_ISREG(old->mode)) {
    fs_ns_answer(ns, a, S_ISREG(old->mode) ? -EAGAIN : -ENOENT, NULL, 0);
    return;
  }
  struct fs_record now = *old;
  if (c->publish.number != 0 &&
      c->publish.number <= old->version) { /* a newer one is here; commit it again, as the backup may lack it */
    fs_exec_put(ns, a, old, 0);
    return;
  }
  now.flags |= FS_RECORD_PUBLISHED | (c->flags & FS_PUBLISH_SHARED ? FS_RECORD_SHARED : 0);
  if (!(c->flags & FS_PUBLISH_STAGED_IN)) now.flags &= ~(uint32_t)FS_RECORD_STAGED_IN;
  now.version = c->publish.number != 0 ? c->publish.number : old->version + 1;
  now.size = c->publish.size;
  now.mtime = c->publish.mtime;
  now.mtime_ns = c->publish.mtime_ns;
  now.ctime = c->publish.ctime != 0 ? (int64_t)(c->publish.ctime / 1000000000u) : c->publish.mtime;
  now.ctime_ns = c->publish.ctime != 0 ? (uint32_t)(c->publish.ctime % 1000000000u) : c->publish.mtime_ns;
  now.mode = S_IFREG | (c->publish.mode & 07777);
  fs_err err = fs_names_put(ns->names, &now, fs_record_name(old), NULL, &r);
  if (err == 0 && !(c->flags & FS_PUBLISH_DURABLE) && fs_private_may_answer(ns, a, r->dir)) {
    fs_answer_record(ns, a, 0, r);
    fs_private_published(ns, r);
  } else {
    fs_exec_put(ns, a, err == 0 ? r : NULL, 0);
  }
}

static struct fs_record fs_exec_set(const struct fs_record *old, const struct fs_names_call *c) {
  struct fs_record now = *old;
  bool dir_times = (c->flags & FS_SET_TIMES) && S_ISDIR(old->mode);
  uint64_t ctime = FS_MAX(fs_changed_clock(), dir_times ? c->setattr.changed + FS_CHANGED_STEP / 2 : 0);
  fs_stamp(ctime, &now.ctime, &now.ctime_ns);
  if (c->flags & FS_SET_MODE) now.mode = (old->mode & S_IFMT) | (c->setattr.mode & 07777);
  if (c->flags & FS_SET_TIMES) now.mtime = c->setattr.mtime, now.mtime_ns = c->setattr.mtime_ns;
  if (dir_times) now.version = c->setattr.changed;
  return now;
}

/* A change of a directory's permissions. Clients cache what they know of directories, so all
   members hear of the change before the caller is answered. */
struct fs_exec_modes {
  struct fs_ns *ns;
  struct fs_asked a;
  uint64_t dir, id;
};

static void fs_exec_modes_told(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_exec_modes *m = ctx;
  const struct fs_record *r = fs_names_find_id(m->ns->names, m->dir, m->id);
  (void)err, (void)body, (void)n;
  if (r)
    fs_answer_record(m->ns, m->a, 0, r);
  else
    /* the directory was changed, and has been removed since */
    fs_ns_answer(m->ns, m->a, 0, NULL, 0);
  free(m);
}

static void fs_exec_modes_committed(struct fs_commit *commit, fs_err err) {
  struct fs_exec_modes *m = commit->ctx;
  struct fs_names_call c = {.op = FS_NAMES_TREE};
  if (err < 0) {
    fs_ns_answer(m->ns, m->a, err, NULL, 0);
    free(m);
    return;
  }
  m->ns->hooks->tree(m->ns);
  fs_ns_ask_all(m->ns, &c, fs_exec_modes_told, m);
}

static void fs_exec_set_modes(struct fs_ns *ns, struct fs_asked a, const struct fs_record *r, uint64_t call) {
  struct fs_exec_modes *m = malloc(sizeof(*m));
  struct fs_commit *commit = m ? fs_exec_put_commit(ns, a, r, call) : NULL;
  if (commit) {
    *m = (struct fs_exec_modes){.ns = ns, .a = a, .dir = r->dir, .id = r->id};
    commit->forwarded = false;
    commit->then = fs_exec_modes_committed;
    commit->ctx = m;
  } else {
    free(m);
  }
  fs_exec_commit(ns, a, commit);
}

/* Handles SETATTR of a directory or symlink. The call's id stays the same when the call is
   repeated. */
static void fs_exec_setattr(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  const struct fs_record *old = fs_names_find_id(ns->names, c->setattr.dir, c->setattr.id), *r;
  int done = fs_done_already(ns, c->setattr.call);
  if (!old) {
    fs_exec_absent(ns, a, fs_call_dir(c), fs_call_id(c));
  } else if ((old->mode & S_IFMT) != (c->setattr.mode & S_IFMT)) {
    fs_ns_answer(ns, a, -EINVAL, NULL, 0);
  } else if (done < 0 || fs_locked(ns, c->setattr.dir, c->setattr.id)) {
    fs_ns_answer(ns, a, -EAGAIN, NULL, 0);
  } else if (done > 0) {
    fs_answer_record(ns, a, 0, old);
  } else {
    struct fs_record now = fs_exec_set(old, c);
    bool permits = S_ISDIR(old->mode) && ((old->mode ^ now.mode) & S_IRWXU);
    fs_err err = fs_names_put(ns->names, &now, fs_record_name(old), fs_record_target(old), &r);
    if (err == 0) fs_done_note(ns, c->setattr.call);
    if (err == 0 && permits)
      fs_exec_set_modes(ns, a, r, c->setattr.call);
    else
      fs_exec_put(ns, a, err == 0 ? r : NULL, c->setattr.call);
  }
}

/* Removes a record; if it is a file, its home hears of that after the commit. Returns NULL
   without memory, with nothing changed. */
static struct fs_commit *fs_exec_drop(struct fs_ns *ns, struct fs_asked a, const struct fs_record *r, uint64_t call) {
  struct fs_commit *commit = fs_commit_new(ns, a, r->dir, NULL);
  if (!commit) return NULL;
  commit->call = call;
  commit->forwarded = true;
  if (S_ISREG(r->mode)) commit->drop = r->id;
  if (fs_vacate(ns, commit, r, call) < 0) {
    fs_commit_free(commit);
    return NULL;
  }
  fs_done_note(ns, call);
  return commit;
}

/* If this node has the bytes of a file that another node's program removes, it drops them while the
   backup hears of it: then the caller need not ask for that. */
static void fs_exec_unlink(struct fs_ns *ns, struct fs_asked a, const struct fs_record *r, uint64_t call) {
  bool here = S_ISREG(r->mode) && fs_ns_home(ns, r->id) == ns->rank, mine = a.from == ns->rank;
  struct fs_commit *commit = fs_exec_drop(ns, a, r, call);
  if (commit) commit->own = here && mine;
  if (commit && here && !mine) commit->here = true, commit->forwarded = false;
  fs_exec_commit(ns, a, commit);
}

static void fs_exec_remove(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  const struct fs_record *named = fs_exec_find(ns, c->remove.dir, c), *r = fs_visible(named);
  bool directory = c->flags & FS_REMOVE_DIRECTORY, first = !named && (c->flags & FS_REMOVE_TAKES);
  int done = fs_done_already(ns, c->remove.call);
  fs_err err = done != 0                        ? done
               : first                          ? (directory ? -ENOTDIR : 0)
               : !r                             ? -ENOENT
               : fs_locked(ns, r->dir, r->id)   ? -EAGAIN
               : directory && !S_ISDIR(r->mode) ? -ENOTDIR
               : !directory && S_ISDIR(r->mode) ? -EISDIR
                                                : 0;
  if (err != 0)
    fs_ns_answer(ns, a, FS_MIN(err, 0), NULL, 0);
  else if (first)
    fs_whiteout_start(ns, a, c);
  else if (directory)
    fs_rmdir_start(ns, a, c);
  else
    fs_exec_unlink(ns, a, r, c->remove.call);
}

/* Answers a call that opened or closed a directory, after the backup has heard of it. */
static void fs_exec_shut(struct fs_ns *ns, struct fs_asked a, uint64_t dir, fs_err err) {
  struct fs_commit *commit = err == 0 ? fs_commit_new(ns, a, dir, NULL) : NULL;
  if (commit) commit->shut = true;
  if (err < 0)
    fs_ns_answer(ns, a, err, NULL, 0);
  else
    fs_exec_commit(ns, a, commit);
}

static bool fs_exec_is_removed(const struct fs_ns *ns, uint64_t dir) {
  return fs_names_closed_until(ns->names, dir) == UINT64_MAX;
}

static void fs_exec_shut_asked(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  fs_err err = 0;
  if (!fs_exec_is_removed(ns, c->shut.dir) && fs_names_count(ns->names, c->shut.dir) > 0)
    err = -ENOTEMPTY;
  else if (!fs_exec_is_removed(ns, c->shut.dir))
    err = fs_names_close(ns->names, c->shut.dir, ns->now + FS_CLOSED_DEADLINES * ns->deadline_ns);
  fs_exec_shut(ns, a, c->shut.dir, err);
}

static void fs_exec_unshut_asked(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  fs_exec_shut(ns, a, c->unshut.dir,
               fs_exec_is_removed(ns, c->unshut.dir) ? 0 : fs_names_close(ns->names, c->unshut.dir, 0));
}

static void fs_exec_forget(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  fs_exec_shut(ns, a, c->forget.dir, fs_gone_dir(ns, c->forget.dir));
}

/* ---- which is which ---- */

/* A record that is here and locked may be the older one of the two: another rename is moving it to
   where the caller is. That one has to end first. */
static void fs_exec_arrived(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  int done = fs_done_already(ns, c->arrived.call);
  bool locked = fs_lock_find(ns, c->arrived.dir, c->arrived.id);
  bool here = done == 1 || fs_names_find_id(ns->names, c->arrived.dir, c->arrived.id);
  bool wait = done < 0 || (locked && done == 0) || fs_moving(ns, c->arrived.dir, c->arrived.id) ||
              fs_move_begun(ns, c->arrived.call);
  fs_ns_answer(ns, a, wait ? -EAGAIN : here ? 0 : -ENOENT, NULL, 0);
}

/* ---- what all members are told ---- */

static void fs_exec_tree(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  (void)c;
  ns->hooks->tree(ns);
  fs_ns_answer(ns, a, 0, NULL, 0);
}

static void fs_exec_lists(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  (void)c;
  ns->hooks->lists(ns);
  fs_ns_answer(ns, a, 0, NULL, 0);
}

/* ---- the handlers ---- */

/* Handlers for the home of a file are in outputs/backing.c, those for the client's own daemon are
   rows of outputs/client_calls.h. */
static void (*const fs_handlers[FS_NAMES_OPS])(struct fs_ns *, struct fs_asked, const struct fs_names_call *) = {
    [FS_NAMES_LOOKUP] = fs_exec_lookup,       [FS_NAMES_CREATE] = fs_exec_create,
    [FS_NAMES_PUBLISH] = fs_exec_publish,     [FS_NAMES_REMOVE] = fs_exec_remove,
    [FS_NAMES_RENAME] = fs_move_start,        [FS_NAMES_LIST] = fs_exec_list,
    [FS_NAMES_SETATTR] = fs_exec_setattr,     [FS_NAMES_TIMES] = fs_exec_times,
    [FS_NAMES_TAKE] = fs_move_take,           [FS_NAMES_TAKEN] = fs_move_taken,
    [FS_NAMES_ARRIVED] = fs_exec_arrived,     [FS_NAMES_SHUT] = fs_exec_shut_asked,
    [FS_NAMES_UNSHUT] = fs_exec_unshut_asked, [FS_NAMES_FORGET] = fs_exec_forget,
    [FS_NAMES_ABOVE] = fs_exec_above,         [FS_NAMES_BACKUP] = fs_commit_backup,
    [FS_NAMES_MARK] = fs_mark_told,           [FS_NAMES_TREE] = fs_exec_tree,
    [FS_NAMES_MAPS] = fs_exec_lists,          [FS_NAMES_DROP] = fs_gone_told,
    [FS_NAMES_PING] = fs_pinged_by,           [FS_NAMES_SUSPECT] = fs_suspicion_asked,
    [FS_NAMES_SET] = fs_set_received,         [FS_NAMES_WHERE] = fs_where_asked,
    [FS_NAMES_RECALL] = fs_borrow_recalled,
};

void fs_exec(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  if (fs_private_end(ns, a, c)) return;
  if (fs_call_op(c)->changes && fs_lend_back(ns, a, c)) return;
  if (fs_handlers[c->op])
    fs_handlers[c->op](ns, a, c);
  else
    ns->dropped_messages++;
}
