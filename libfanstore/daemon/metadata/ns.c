/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of ns.h that its user calls: for clients' calls, other ranks' messages, and
   time. The MPI thread's. */
#include "daemon/metadata/ns.h"

#include <stdlib.h>

#include "daemon/metadata/ns_priv.h"

static void fs_ns_other(void *ctx, const struct fs_record *r, bool gone) {
  struct fs_ns *ns = ctx;
  ns->hooks->other(ns, r, gone);
}

fs_err fs_ns_new(struct fs_ns **out, uint32_t rank, uint32_t nodes, uint64_t deadline_ns,
                 const struct fs_ns_hooks *hooks, void *user) {
  struct fs_ns *ns = calloc(1, sizeof(*ns));
  if (!ns) return -ENOMEM;
  ns->rank = rank;
  ns->hooks = hooks;
  ns->user = user;
  ns->deadline_ns = deadline_ns;
  fs_members_all(&ns->members, nodes);
  ns->first = ns->members;
  struct fs_chain *lists[] = {&ns->asks,  &ns->requests, &ns->commits, &ns->committing,      &ns->holds,
                              &ns->moves, &ns->climbs,   &ns->local,   &ns->transfers_to_do, &ns->notices};
  for (size_t i = 0; i < FS_ARRAY_LEN(lists); i++) fs_chain_init(lists[i]);
  for (size_t i = 0; i < FS_ASK_CHAINS; i++) fs_chain_init(&ns->ask_hash[i]);
  ns->known_set = ns->members.number;
  ns->suspect = calloc(nodes, sizeof(*ns->suspect));
  *out = ns;
  if (ns->suspect && fs_names_new(&ns->names) == 0) {
    for (uint32_t i = 0; i < nodes; i++) ns->suspect[i].ns = ns;
    if (hooks->other) fs_names_watch(ns->names, fs_ns_other, ns);
    return 0;
  }
  free(ns->suspect);
  free(ns);
  return -ENOMEM;
}

void *fs_ns_user(const struct fs_ns *ns) {
  return ns->user;
}
uint64_t fs_ns_dropped(const struct fs_ns *ns) {
  return ns->dropped_messages;
}
const struct fs_members *fs_ns_members(const struct fs_ns *ns) {
  return &ns->members;
}
void fs_ns_limit(struct fs_ns *ns, uint64_t bytes) {
  ns->most_bytes = bytes;
}
bool fs_ns_full(const struct fs_ns *ns) {
  return ns->most_bytes > 0 && fs_names_bytes(ns->names) >= ns->most_bytes;
}
void fs_ns_replicate(struct fs_ns *ns) {
  ns->replicated = true;
}
uint32_t fs_ns_home(const struct fs_ns *ns, uint64_t id) {
  uint32_t rank = FS_OUTPUT_ID_RANK(id);
  return !ns->replicated || fs_member(&ns->members, rank) ? rank : fs_members_after(&ns->members, rank);
}
bool fs_ns_certain(const struct fs_ns *ns, uint64_t dir) {
  struct fs_keepers now = fs_members_keepers(&ns->members, dir), first;
  if (now.primary == ns->rank || now.backup != ns->rank) return now.primary == ns->rank;
  first = fs_members_keepers(&ns->first, dir);
  return first.primary == ns->rank || first.backup == ns->rank;
}
uint32_t fs_record_home(const struct fs_ns *ns, const struct fs_record *r) {
  return fs_member(&ns->members, r->home) ? r->home : fs_ns_home(ns, r->id);
}
static enum fs_names_part fs_ns_part(void *ctx, uint64_t dir) {
  const struct fs_ns *ns = ctx;
  bool keeps = FS_OUTPUT_ID_RANK(dir) == ns->rank || !fs_private(ns, dir);
  return keeps && fs_ns_certain(ns, dir) ? FS_NAMES_ALL : FS_NAMES_NONE;
}
static uint32_t fs_ns_home_of(void *ctx, const struct fs_record *r) {
  return fs_record_home(ctx, r);
}
void fs_ns_share(struct fs_ns *ns, struct fs_shared_names *table) {
  const struct fs_names_sharing s = {.table = table, .part = fs_ns_part, .home = fs_ns_home_of, .ctx = ns};
  fs_names_share(ns->names, &s);
  fs_borrow_share(ns, &s);
}
/* A rank is evicted when it has left a question and then a ping unanswered: two deadlines. */
uint64_t fs_ns_certain_until(const struct fs_ns *ns) {
  if (!fs_ns_sure(ns) || !fs_member(&ns->members, ns->rank)) return 0;
  uint64_t until = ns->now + ns->deadline_ns / 2;
  return ns->members.count == 1 ? until : FS_MIN(until, ns->watched_at + 2 * ns->deadline_ns);
}
bool fs_ns_sure(const struct fs_ns *ns) {
  return !ns->unsure;
}
uint64_t fs_ns_id(struct fs_ns *ns) {
  return FS_OUTPUT_ID_MAKE(ns->rank, ++ns->next_id);
}
bool fs_ns_done_before(const struct fs_ns *ns, uint64_t call) {
  return fs_done_already(ns, call) == 1;
}
void fs_ns_done_now(struct fs_ns *ns, uint64_t call) {
  fs_done_note(ns, call);
}
bool fs_ns_busy(const struct fs_ns *ns) {
  return ns->transfers > 0 || !fs_chain_empty(&ns->transfers_to_do) || !fs_chain_empty(&ns->moves) ||
         !fs_chain_empty(&ns->committing) || !fs_chain_empty(&ns->requests) || ns->unsent_n > 0;
}

void fs_ns_call(struct fs_ns *ns, uint64_t now, const struct fs_names_call *c, fs_ns_done *done, void *ctx) {
  ns->now = now;
  if (!fs_borrow_start(ns, c, done, ctx)) fs_request_start(ns, c, done, ctx);
  fs_ns_drain(ns);
}

void fs_ns_run_local(struct fs_ns *ns, uint64_t now) {
  ns->now = now;
  fs_ns_drain(ns);
}

/* Handles a question to a keeper of a directory. Both sides must agree on the set of members, so
   that they agree on the keepers. */
static void fs_ns_keeper(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c, bool backup) {
  struct fs_keepers k = fs_members_keepers(&ns->members, fs_call_dir(c));
  bool may = fs_member(&ns->members, a.from) || !fs_call_op(c)->members;
  if (a.set > ns->members.number)
    fs_ns_answer(ns, a, -EAGAIN, NULL, 0); /* the set is on its way */
  else if (a.set < ns->members.number || !may || (backup ? k.backup : k.primary) != ns->rank ||
           (backup && k.primary != a.from))
    fs_answer_stale(ns, a);
  else
    fs_exec(ns, a, c);
}

/* Handles a question from a file's home to its partner. Both sides must agree on the set of
   members. */
static void fs_ns_replica(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  if (a.set > ns->members.number)
    fs_ns_answer(ns, a, -EAGAIN, NULL, 0);
  else if (a.set < ns->members.number || fs_ns_home(ns, fs_call_id(c)) != a.from ||
           fs_members_after(&ns->members, a.from) != ns->rank)
    fs_answer_stale(ns, a);
  else
    ns->hooks->home(ns, a, c);
}

static void fs_ns_asked(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  switch (fs_call_scope(c)) {
  case FS_SCOPE_DIRECTORY:
    fs_ns_keeper(ns, a, c, false);
    return;
  case FS_SCOPE_BACKUP:
    fs_ns_keeper(ns, a, c, true);
    return;
  case FS_SCOPE_FILE: /* This rank may be the new home, and the set that says so is on its way. */
    if (ns->replicated && a.set > ns->members.number && !fs_call_op(c)->not_later)
      fs_ns_answer(ns, a, -EAGAIN, NULL, 0);
    else
      ns->hooks->home(ns, a, c);
    return;
  case FS_SCOPE_PARTNER:
    fs_ns_replica(ns, a, c);
    return;
  case FS_SCOPE_BYTES:
  case FS_SCOPE_RANK:
    fs_exec(ns, a, c);
    return;
  default: /* between a client and its own daemon */
    ns->dropped_messages++;
  }
}

void fs_ns_receive(struct fs_ns *ns, uint64_t now, uint32_t from, const struct fs_ns_message *head, const void *body,
                   size_t n) {
  bool sane = from < ns->members.nodes && n <= FS_NAMES_BODY && (head->answer || fs_call_ok(body, n));
  ns->now = now;
  if (from < ns->members.nodes) ns->suspect[from].heard = true, ns->suspect[from].silent = false;
  if (!sane)
    ns->dropped_messages++;
  else if (head->answer)
    fs_ns_answered(ns, from, head, body, n);
  else
    fs_ns_asked(ns, (struct fs_asked){.from = from, .id = head->id, .set = head->set}, body);
  fs_ns_drain(ns);
}

/* Extends all deadlines by the time for which this rank was suspended: the others had no chance
   to answer in it. */
static void fs_ns_gap(struct fs_ns *ns, uint64_t gap) {
  for (struct fs_chain *l = ns->asks.next; l != &ns->asks; l = l->next) {
    struct fs_ask *a = FS_ITEM(l, struct fs_ask, chain);
    if (a->deadline != 0) a->deadline += gap;
  }
  for (struct fs_chain *l = ns->holds.next; l != &ns->holds; l = l->next) {
    struct fs_hold *h = FS_ITEM(l, struct fs_hold, chain);
    if (h->until != UINT64_MAX) h->until += gap;
  }
  for (struct fs_chain *l = ns->requests.next; l != &ns->requests; l = l->next)
    FS_ITEM(l, struct fs_request, chain)->end += gap;
  ns->watch_at += gap;
  ns->unsure = true;
  ns->stood++;
}

void fs_ns_timers(struct fs_ns *ns, uint64_t now) {
  uint64_t gap = ns->timers_at != 0 && now > ns->timers_at ? now - ns->timers_at : 0;
  ns->now = ns->timers_at = now;
  if (gap > ns->deadline_ns / 4) fs_ns_gap(ns, gap);
  fs_ns_ask_timers(ns);
  fs_watch_timers(ns);
  fs_lock_timers(ns);
  fs_climb_timers(ns);
  fs_commit_timers(ns, false);
  fs_private_timers(ns);
  fs_names_share_more(ns->names, FS_SHARE_MOST);
  fs_request_timers(ns, false);
  fs_ns_drain(ns);
}
