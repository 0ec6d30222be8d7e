/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The set of members and the failure detector. A rank that does not answer is reported as suspected
 * to the arbiter, which is the lowest other member. The arbiter pings it and, without an answer,
 * evicts it and tells all members the new set. If two sets differ, they are intersected, so that
 * all ranks reach the same set. Called by the parts of ns.h.
 */
#include "daemon/metadata/ns_priv.h"

/* ---- the set ---- */

static size_t fs_set_body(const struct fs_ns *ns, void *buf) {
  size_t n = (ns->members.nodes + 63) / 64 * sizeof(uint64_t);
  memcpy(buf, ns->members.bits, n);
  return n;
}

void fs_answer_stale(struct fs_ns *ns, struct fs_asked a) {
  uint64_t bits[FS_ARRAY_LEN(ns->members.bits)];
  fs_ns_answer(ns, a, -ESTALE, bits, fs_set_body(ns, bits));
}

struct fs_set_message {
  struct fs_names_call c;
  uint64_t bits[FS_ARRAY_LEN(((struct fs_members *)0)->bits)];
};

static void fs_set_message(const struct fs_ns *ns, struct fs_set_message *m) {
  m->c = (struct fs_names_call){.op = FS_NAMES_SET, .set.number = ns->members.number};
  m->c.tail_len = (uint16_t)fs_set_body(ns, m->bits);
}

void fs_set_first(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c,
                  void (*then)(struct fs_ns *ns, const struct fs_names_call *told)) {
  struct fs_set_message m;
  fs_set_message(ns, &m);
  fs_notice_first(ns, a, c, &m.c, NULL, then);
}

static void fs_set_tell(struct fs_ns *ns) {
  struct fs_set_message m;
  fs_set_message(ns, &m);
  for (uint32_t i = 0; i < ns->members.nodes; i++) {
    if (i != ns->rank && fs_member(&ns->members, i)) fs_ns_ask(ns, i, &m.c, NULL, NULL);
  }
}

static void fs_set_changed(struct fs_ns *ns, const struct fs_members *before) {
  fs_ns_ask_gone(ns);
  if (ns->borrowed) fs_names_drop_all(ns->borrowed); /* nobody would recall what the evicted rank has lent */
  fs_names_share_again(ns->names);
  ns->hooks->members(ns);
  ns->hooks->tree(ns); /* the evicted rank may have changed a directory without telling everybody */
  fs_commit_timers(ns, true);
  fs_request_timers(ns, true);
  fs_gone_redo(ns, before);
  fs_commit_transfer(ns, before);
}

/* Intersects this rank's set with the received one. If the result is neither of the two, it is a
   new set, and the others are told. */
void fs_set_take(struct fs_ns *ns, uint64_t number, const void *bits, size_t n) {
  struct fs_members before = ns->members, *m = &ns->members;
  size_t words = (m->nodes + 63) / 64;
  uint64_t theirs[FS_ARRAY_LEN(m->bits)];
  bool mine = true, their = true;
  uint32_t count = 0;
  if (n != words * sizeof(uint64_t)) return;
  memcpy(theirs, bits, n);
  for (size_t i = 0; i < words; i++) {
    uint64_t both = m->bits[i] & theirs[i];
    mine = mine && both == m->bits[i];
    their = their && both == theirs[i];
    theirs[i] = both;
    count += (uint32_t)__builtin_popcountll(both);
  }
  if (count == 0 || (mine && number <= m->number)) return;
  memcpy(m->bits, theirs, n);
  m->count = count;
  bool news = !their || (number <= before.number && !mine);
  m->number = news ? FS_MAX(number, before.number) + 1 : number;
  if (news) fs_set_tell(ns);
  fs_set_changed(ns, &before);
}

void fs_set_received(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  fs_set_take(ns, c->set.number, fs_call_tail(c), c->tail_len);
  fs_ns_answer(ns, a, 0, NULL, 0); /* nothing is borrowed any more */
}

static void fs_set_remove(struct fs_ns *ns, uint32_t rank) {
  struct fs_members before = ns->members;
  if (!fs_member(&ns->members, ns->rank)) return; /* an evicted rank evicts nobody */
  fs_members_without(&ns->members, rank);
  if (ns->members.number == before.number) return;
  fs_set_tell(ns);
  fs_set_changed(ns, &before);
}

/* ---- suspicions ---- */

static void fs_pinged(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_suspect *s = ctx;
  struct fs_ns *ns = s->ns;
  (void)body, (void)n;
  s->pinging = false;
  ns->pinging--;
  if (err == -ETIMEDOUT && !s->answered) fs_set_remove(ns, (uint32_t)(s - ns->suspect));
}

static void fs_pinged_again(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_suspect *s = ctx;
  (void)body, (void)n;
  if (err != -ETIMEDOUT) s->answered = true;
}

/* Repeats pings once, as one message may be lost. An answer to either is enough. */
static void fs_ping_timers(struct fs_ns *ns) {
  struct fs_names_call c = {.op = FS_NAMES_PING};
  for (uint32_t i = 0; ns->pinging > 0 && i < ns->members.nodes; i++) {
    struct fs_suspect *s = &ns->suspect[i];
    if (!s->pinging || s->ping_again == 0 || ns->now < s->ping_again) continue;
    s->ping_again = 0;
    fs_ns_ask(ns, i, &c, fs_pinged_again, s);
  }
}

static void fs_ping(struct fs_ns *ns, uint32_t rank) {
  struct fs_names_call c = {.op = FS_NAMES_PING};
  struct fs_suspect *s = &ns->suspect[rank];
  if (s->pinging || rank == ns->rank) return;
  s->pinging = true;
  s->answered = false;
  s->ping_again = ns->now + ns->deadline_ns / 2;
  ns->pinging++;
  fs_ns_ask(ns, rank, &c, fs_pinged, s);
}

/* Returns the lowest member that can be expected to answer, perhaps this rank. */
static uint32_t fs_arbiter(const struct fs_ns *ns, uint32_t suspected) {
  for (uint32_t i = 0; i < ns->members.nodes; i++) {
    if (i != suspected && fs_member(&ns->members, i) && !ns->suspect[i].silent) return i;
  }
  return ns->rank;
}

static void fs_suspicion_heard(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_suspect *s = ctx;
  struct fs_ns *ns = s->ns;
  (void)body, (void)n;
  s->reporting = false;
  if (err == -ETIMEDOUT) fs_suspected(ns, s->arbiter);
}

void fs_suspected(struct fs_ns *ns, uint32_t rank) {
  if (rank == ns->rank || !fs_member(&ns->members, rank)) return;
  uint32_t arbiter = fs_arbiter(ns, rank);
  struct fs_suspect *s = &ns->suspect[rank];
  struct fs_names_call c = {.op = FS_NAMES_SUSPECT, .suspect.rank = rank};
  if (arbiter == ns->rank) {
    fs_ping(ns, rank);
  } else if (!s->reporting) {
    s->reporting = true;
    s->arbiter = arbiter;
    fs_ns_ask(ns, arbiter, &c, fs_suspicion_heard, s);
  }
}

/* ---- the watch ---- */

static void fs_watched(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_suspect *s = ctx;
  (void)body, (void)n;
  s->ns->watching = false;
  if (err == 0) s->ns->watched_at = s->ns->asked_at;
  if (err == -ETIMEDOUT && s->heard) fs_suspected(s->ns, (uint32_t)(s - s->ns->suspect));
}

/* Clears `unsure` if this rank has not been suspended again since the ping was sent. An answer
   to an earlier ping may be from before the suspension. */
static void fs_confirmed(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_ns *ns = ctx;
  (void)body, (void)n;
  ns->confirming = false;
  if ((err == 0 || err == -ESTALE) && ns->before == ns->stood) ns->unsure = false;
}

static void fs_confirm(struct fs_ns *ns, uint32_t rank) {
  struct fs_names_call c = {.op = FS_NAMES_PING};
  if (rank == FS_NO_RANK || !fs_member(&ns->members, ns->rank)) ns->unsure = false;
  if (!ns->unsure || ns->confirming) return;
  ns->confirming = true;
  ns->before = ns->stood;
  fs_ns_ask(ns, rank, &c, fs_confirmed, ns);
}

/* An evicted rank goes on pinging the members: it is asked for its files as long as it is heard
   of. */
static void fs_watch_outside(struct fs_ns *ns) {
  struct fs_names_call c = {.op = FS_NAMES_PING};
  ns->watch_at = ns->now + ns->deadline_ns;
  for (uint32_t i = 0; i < ns->members.nodes; i++) {
    if (fs_member(&ns->members, i)) fs_ns_ask(ns, i, &c, NULL, NULL);
  }
}

/* Each member watches the next one. Otherwise the failure of a rank that nobody asks would be
   found only when it is needed. */
void fs_watch_timers(struct fs_ns *ns) {
  struct fs_names_call c = {.op = FS_NAMES_PING};
  uint32_t rank = fs_members_after(&ns->members, ns->rank);
  fs_ping_timers(ns);
  fs_confirm(ns, rank);
  if (ns->now < ns->watch_at) return;
  if (!fs_member(&ns->members, ns->rank)) {
    fs_watch_outside(ns);
    return;
  }
  if (ns->watching || rank == FS_NO_RANK) return;
  ns->watching = true;
  ns->asked_at = ns->now;
  ns->watch_at = ns->now + ns->deadline_ns;
  fs_ns_ask(ns, rank, &c, fs_watched, &ns->suspect[rank]);
}

/* One of the two sides has an older set: the other side's answer brings the newer one. */
void fs_pinged_by(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  if (a.set > ns->members.number) fs_ns_ask(ns, a.from, c, NULL, NULL);
  if (a.set < ns->members.number)
    fs_answer_stale(ns, a);
  else
    fs_ns_answer(ns, a, 0, NULL, 0);
}

void fs_suspicion_asked(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  uint32_t rank = c->suspect.rank;
  if (a.set < ns->members.number) {
    fs_answer_stale(ns, a);
    return;
  }
  fs_ns_answer(ns, a, 0, NULL, 0);
  if (rank < ns->members.nodes && fs_member(&ns->members, rank)) fs_ping(ns, rank);
}
