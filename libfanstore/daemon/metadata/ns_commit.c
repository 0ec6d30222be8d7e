/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies changes to the backup of a directory. The backup learns each change before the caller gets
 * its answer, but see ns_private.c. A rank that becomes backup because another one failed gets the
 * whole directory. A message says which records to put and which to drop, so it does no harm if it
 * comes twice. Called by the parts of ns.h.
 */
#include <stdlib.h>

#include "daemon/metadata/ns_priv.h"

/* ---- on the primary's side ---- */

/* Answers the caller. The answer to the removal of a file whose bytes may be there is the file's id,
   with which the caller's daemon waits for the home (fs_ns_await_drop). */
static void fs_commit_say(const struct fs_commit *c, fs_err err) {
  bool removal = c->answer_n == 0 && c->drop != 0 && !c->there;
  size_t n = removal ? sizeof(c->drop) : c->answer_n;
  fs_ns_answer(c->ns, c->asked, err, removal ? (const void *)&c->drop : c->answer, err == 0 ? n : 0);
}

void fs_commit_free(struct fs_commit *c) {
  free(c->answer);
  free(c);
}

static void fs_commit_end(struct fs_commit *c, fs_err err) {
  struct fs_ns *ns = c->ns;
  fs_chain_drop(&c->chain);
  fs_chain_drop(&c->all);
  if (c->early) ns->early--;
  if (err == 0 && c->drop != 0 && !c->here && !c->there) fs_gone_drop(ns, c->drop);
  if (err == 0 && c->here)
    fs_gone_answer(ns, c->asked, c->drop);
  else if (c->then)
    c->then(c, err);
  else if (!c->early && (err < 0 || !c->answered))
    fs_commit_say(c, err);
  fs_commit_free(c);
}

static void fs_commit_later(struct fs_commit *c, uint64_t ns) {
  c->again = c->ns->now + ns;
  fs_chain_push(&c->ns->commits, &c->chain);
}

static void fs_commit_answered(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_commit *c = ctx;
  (void)body, (void)n;
  if (err != 0) c->forwarded = c->answered = c->there = false; /* the next message may contain later changes */
  if (err == -ETIMEDOUT) fs_suspected(c->ns, c->rank);
  if (err == 0)
    fs_commit_end(c, 0);
  else
    fs_commit_later(c, FS_NS_RETRY_NS);
}

/* Returns the flag that says whether the directory takes names. */
static uint32_t fs_commit_shut(const struct fs_ns *ns, uint64_t dir) {
  uint64_t until = fs_names_closed_until(ns->names, dir);
  return until == UINT64_MAX ? FS_BACKUP_REMOVED : until > ns->now ? FS_BACKUP_SHUT : FS_BACKUP_OPENED;
}

/*
 * Builds the message to the backup from the present state of the table. The message may be a
 * repetition that arrives after later changes of the same records.
 */
static const struct fs_names_call *fs_commit_change(const struct fs_commit *c) {
  struct fs_ns *ns = c->ns;
  struct fs_names_call *head = (void *)ns->body;
  const struct fs_record *put = c->put ? fs_names_find_id(ns->names, c->dir, c->put) : NULL;
  const struct fs_record *white = c->whiteout ? fs_names_find_id(ns->names, c->dir, c->whiteout) : NULL;
  const struct fs_record *kept = c->gone ? fs_names_find_id(ns->names, c->dir, c->gone) : NULL;
  const struct fs_hold *h = c->hold ? fs_lock_find(ns, c->dir, c->hold) : NULL;
  size_t at = sizeof(*head);
  struct fs_call_backup *m = &head->backup;
  *head = (struct fs_names_call){.op = FS_NAMES_BACKUP};
  *m = (struct fs_call_backup){
      .dir = c->dir, .id = c->gone, .to = c->to, .call = c->call, .changed = fs_names_changed(ns->names, c->dir)};
  if (c->hold) {
    m->id = c->hold;
    head->flags = h ? FS_BACKUP_HELD : FS_BACKUP_KEEP;
    m->to = h ? h->to : 0;
    m->call = h ? h->call : 0;
  }
  if (c->shut) head->flags = fs_commit_shut(ns, c->dir);
  if (kept) m->id = m->to = 0;
  if (c->there) head->flags = FS_BACKUP_DROP;
  if (c->answered) m->question = c->asked.id, m->asker = c->asked.from;
  if (put) (void)fs_record_put(head, FS_NAMES_BODY, &at, put, fs_record_name(put), fs_record_target(put));
  if (kept) (void)fs_record_put(head, FS_NAMES_BODY, &at, kept, fs_record_name(kept), fs_record_target(kept));
  if (white) (void)fs_record_put(head, FS_NAMES_BODY, &at, white, fs_record_name(white), NULL);
  head->tail_len = (uint16_t)(at - sizeof(*head));
  return head;
}

/* Sends the change to the present backup. If this rank is not the primary any more, the caller
   has to ask the new one. */
static void fs_commit_try(struct fs_commit *c) {
  struct fs_keepers k = fs_members_keepers(&c->ns->members, c->dir);
  if (k.primary != c->ns->rank) {
    fs_commit_end(c, -ESTALE);
  } else if (k.backup == FS_NO_RANK) {
    fs_commit_end(c, 0);
  } else {
    c->rank = k.backup;
    c->answered = c->forwarded && c->asked.from != c->ns->rank;
    c->there = c->forwarded && c->drop != 0 && fs_ns_home(c->ns, c->drop) == c->rank;
    if (c->own && !c->early && c->ns->early < FS_EARLY_MOST && fs_private_may_answer(c->ns, c->asked, c->dir)) {
      c->early = true;
      c->ns->early++;
      fs_commit_say(c, 0);
    }
    fs_ns_ask(c->ns, c->rank, fs_commit_change(c), fs_commit_answered, c);
  }
}

struct fs_commit *fs_commit_new(struct fs_ns *ns, struct fs_asked a, uint64_t dir, const struct fs_record *answer) {
  struct fs_commit *c = calloc(1, sizeof(*c));
  size_t size = answer ? fs_record_size(answer) : 0;
  void *copy = malloc(size + 1);
  if (!c || !copy) {
    free(c);
    free(copy);
    return NULL;
  }
  c->ns = ns;
  c->asked = a;
  c->dir = dir;
  c->answer = copy;
  fs_chain_init(&c->chain);
  fs_chain_init(&c->all);
  if (answer)
    (void)fs_record_put(c->answer, size, &c->answer_n, answer, fs_record_name(answer), fs_record_target(answer));
  return c;
}

void fs_commit_start(struct fs_commit *c) {
  fs_chain_push(&c->ns->committing, &c->all);
  if (c->here) c->ns->hooks->dropped(c->ns, c->drop, true);
  fs_commit_try(c);
}

bool fs_committing(const struct fs_ns *ns, uint64_t call) {
  for (struct fs_chain *l = ns->committing.next; l != &ns->committing; l = l->next) {
    const struct fs_commit *c = FS_ITEM(l, struct fs_commit, all);
    if (c->call == call) return true;
  }
  return false;
}

bool fs_commit_early(const struct fs_ns *ns, uint64_t dir) {
  for (struct fs_chain *l = ns->committing.next; ns->early > 0 && l != &ns->committing; l = l->next) {
    const struct fs_commit *c = FS_ITEM(l, struct fs_commit, all);
    if (c->dir == dir && c->early) return true;
  }
  return false;
}

bool fs_committing_gone(const struct fs_ns *ns, uint64_t dir, uint64_t id) {
  for (struct fs_chain *l = ns->committing.next; l != &ns->committing; l = l->next) {
    const struct fs_commit *c = FS_ITEM(l, struct fs_commit, all);
    if (c->dir == dir && c->gone == id) return true;
  }
  return false;
}

void fs_commit_timers(struct fs_ns *ns, bool all) {
  struct fs_chain due;
  fs_chain_init(&due);
  for (struct fs_chain *l = ns->commits.next, *next; l != &ns->commits; l = next) {
    next = l->next;
    if (!all && ns->now < FS_ITEM(l, struct fs_commit, chain)->again) continue;
    fs_chain_drop(l);
    fs_chain_push(&due, l);
  }
  for (struct fs_chain *l; (l = fs_chain_pop(&due)) != NULL;) fs_commit_try(FS_ITEM(l, struct fs_commit, chain));
}

/* ---- on the backup's side ---- */

static fs_err fs_commit_shut_here(struct fs_ns *ns, const struct fs_names_call *c) {
  if (c->flags & FS_BACKUP_REMOVED) return fs_gone_dir(ns, c->backup.dir);
  if (fs_names_closed_until(ns->names, c->backup.dir) == UINT64_MAX) return 0;
  uint64_t until = c->flags & FS_BACKUP_SHUT ? ns->now + FS_CLOSED_DEADLINES * ns->deadline_ns : 0;
  return fs_names_close(ns->names, c->backup.dir, until);
}

/* Answers the caller in the primary's place, which saves one message delay. The answer is the
   first record if there is one, else the id of the removed file, else nothing. A whiteout is no
   answer. */
static void fs_commit_answer(struct fs_ns *ns, const struct fs_names_call *c, uint64_t removed) {
  struct fs_asked caller = {.from = c->backup.asker, .id = c->backup.question};
  size_t begin = sizeof(*c), end = begin;
  const struct fs_record *first = fs_record_next(c, fs_call_size(c), &end);
  if (first && fs_is_whiteout(first)) end = begin;
  if (caller.from >= ns->members.nodes) return;
  if ((c->flags & FS_BACKUP_DROP) && caller.from != ns->rank)
    fs_gone_answer(ns, caller, c->backup.id);
  else if (begin == end && removed != 0)
    fs_ns_answer(ns, caller, 0, &removed, sizeof(removed));
  else
    fs_ns_answer(ns, caller, 0, (const char *)c + begin, end - begin);
}

/* Makes the primary's change of records here, as one change for readers of the shared table. */
static fs_err fs_commit_records(struct fs_ns *ns, const struct fs_names_call *c) {
  size_t at = sizeof(*c), n = fs_call_size(c);
  fs_err err = 0;
  fs_names_begin(ns->names);
  if (c->backup.id != 0) (void)fs_names_drop(ns->names, c->backup.dir, c->backup.id);
  if (c->backup.id != 0 && c->backup.to != 0) fs_moved_note(ns, c->backup.dir, c->backup.id, c->backup.to);
  while (err == 0 && at < n) {
    const struct fs_record *r = fs_record_next(c, n, &at);
    if (!r || r->dir != c->backup.dir)
      err = -EPROTO;
    else
      err = fs_names_put(ns->names, r, fs_record_name(r), fs_record_target(r), NULL);
    if (err == 0) fs_moved_forget(ns, r->dir, r->id);
  }
  fs_names_end(ns->names);
  return err;
}

void fs_commit_backup(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  fs_err err = fs_names_changed_at(ns->names, c->backup.dir, c->backup.changed);
  if (err == 0 && c->backup.id != 0) err = fs_lock_backup(ns, c);
  if (c->flags & (FS_BACKUP_HELD | FS_BACKUP_KEEP)) {
    fs_ns_answer(ns, a, err, NULL, 0);
    return;
  }
  if (c->flags & FS_BACKUP_SHOW) fs_names_set_stage(ns->names, c->backup.dir, FS_NAMES_SHOWN);
  if (c->flags & (FS_BACKUP_SHUT | FS_BACKUP_OPENED | FS_BACKUP_REMOVED)) err = fs_commit_shut_here(ns, c);
  const struct fs_record *gone = c->backup.id != 0 ? fs_names_find_id(ns->names, c->backup.dir, c->backup.id) : NULL;
  uint64_t removed = gone && c->backup.to == 0 && S_ISREG(gone->mode) ? gone->id : 0;
  if (gone && c->backup.to == 0) fs_gone_note(ns, gone);
  if (err == 0) err = fs_commit_records(ns, c);
  if (err == 0 && c->backup.call != 0) fs_done_note(ns, c->backup.call);
  bool drops = err == 0 && (c->flags & FS_BACKUP_DROP);
  if (drops) ns->hooks->dropped(ns, c->backup.id, false);
  if (err == 0 && c->backup.question != 0) fs_commit_answer(ns, c, removed);
  if (drops && c->backup.question == 0)
    fs_gone_answer(ns, a, c->backup.id);
  else
    fs_ns_answer(ns, a, err, NULL, 0);
}

/* ---- a whole directory ---- */

#define FS_TRANSFERS 32u /* directories under transfer at once */

struct fs_transfer {
  struct fs_chain chain;
  struct fs_ns *ns;
  uint64_t dir, from, seq; /* the message under way has the records after `from` */
  uint32_t rank;
  bool told; /* the backup knows whether it takes names; the first message says so */
  bool show; /* the last message has the backup show it */
};

static void fs_transfer_step(struct fs_transfer *t);

static void fs_transfer_next(struct fs_ns *ns) {
  struct fs_chain *l;
  if (ns->transferring) return; /* a transfer with nothing to send ended inside this loop */
  ns->transferring = true;
  while (ns->transfers < FS_TRANSFERS && (l = fs_chain_pop(&ns->transfers_to_do)) != NULL) {
    ns->transfers++;
    fs_transfer_step(FS_ITEM(l, struct fs_transfer, chain));
  }
  ns->transferring = false;
}

static void fs_transfer_end(struct fs_transfer *t) {
  struct fs_ns *ns = t->ns;
  ns->transfers--;
  free(t);
  fs_transfer_next(ns);
}

static void fs_transfer_answered(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_transfer *t = ctx;
  bool again = err == -ETIMEDOUT || err == -ESTALE || err == -EAGAIN, shown = t->show && t->from == t->seq;
  (void)body, (void)n;
  if (err == -ETIMEDOUT) fs_suspected(t->ns, t->rank);
  if (again) t->seq = t->from;
  t->told = t->told || err == 0;
  if (err == 0 && shown) t->show = false;
  if (err == 0 || again)
    fs_transfer_step(t);
  else
    /* the backup is no member any more; the next backup gets a transfer of its own */
    fs_transfer_end(t);
}

/* Sends as many records as fit into a message. The records after them follow when it has been
   answered. */
static void fs_transfer_step(struct fs_transfer *t) {
  struct fs_ns *ns = t->ns;
  struct fs_names_call *c = (void *)ns->body;
  size_t at = sizeof(*c);
  const struct fs_record *r;
  struct fs_keepers k = fs_members_keepers(&ns->members, t->dir);
  if (k.primary != ns->rank || k.backup != t->rank) {
    fs_transfer_end(t);
    return;
  }
  uint64_t changed = fs_names_changed(ns->names, t->dir);
  *c = (struct fs_names_call){.op = FS_NAMES_BACKUP, .backup = {.dir = t->dir, .changed = changed}};
  if (!t->told && fs_names_closed(ns->names, t->dir, ns->now)) c->flags = fs_commit_shut(ns, t->dir);
  t->from = t->seq;
  while ((r = fs_names_after(ns->names, t->dir, t->seq)) != NULL &&
         fs_record_put(c, FS_NAMES_BODY, &at, r, fs_record_name(r), fs_record_target(r))) {
    t->seq = r->seq;
  }
  c->tail_len = (uint16_t)(at - sizeof(*c));
  if (at == sizeof(*c) && t->show) c->flags |= FS_BACKUP_SHOW;
  if (at == sizeof(*c) && c->flags == 0 && (t->told || changed == 0))
    fs_transfer_end(t);
  else
    fs_ns_ask(ns, t->rank, c, fs_transfer_answered, t);
}

static bool fs_transfer_new(struct fs_ns *ns, uint64_t dir, uint32_t backup, bool show) {
  if (backup == FS_NO_RANK) return true;
  struct fs_transfer *t = malloc(sizeof(*t));
  if (!t) return false;
  *t = (struct fs_transfer){.ns = ns, .dir = dir, .rank = backup, .show = show};
  fs_chain_push(&ns->transfers_to_do, &t->chain);
  return true;
}

struct fs_transfers {
  struct fs_ns *ns;
  const struct fs_members *before;
};

static void fs_transfer_dir(void *ctx, uint64_t dir) {
  struct fs_transfers *all = ctx;
  struct fs_ns *ns = all->ns;
  struct fs_keepers was = fs_members_keepers(all->before, dir), is = fs_members_keepers(&ns->members, dir);
  if (is.primary != ns->rank || is.backup == was.backup || is.backup == was.primary) return;
  (void)fs_transfer_new(ns, dir, is.backup, false);
}

void fs_commit_transfer(struct fs_ns *ns, const struct fs_members *before) {
  struct fs_transfers all = {.ns = ns, .before = before};
  fs_names_each(ns->names, fs_transfer_dir, &all);
  fs_transfer_next(ns);
}

bool fs_commit_show(struct fs_ns *ns, uint64_t dir) {
  bool begun = fs_transfer_new(ns, dir, fs_members_keepers(&ns->members, dir).backup, true);
  fs_transfer_next(ns);
  return begun;
}
