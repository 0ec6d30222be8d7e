/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Questions and answers of the name service. Messages to other ranks go through the user's `send`
 * hook. Messages to this rank go through a queue, so that nothing runs inside the call-back that
 * started it. Called by the parts of ns.h.
 */
#include <stdlib.h>

#include "daemon/metadata/ns_priv.h"

static void fs_ns_local(struct fs_ns *ns, const struct fs_ns_message *head, const void *body, size_t n) {
  struct fs_local *l = malloc(sizeof(*l) + n);
  if (!l) return; /* without memory the message is lost */
  l->head = *head;
  l->n = n;
  if (n > 0) memcpy(l->body, body, n);
  fs_chain_push(&ns->local, &l->chain);
}

static void fs_ns_send(struct fs_ns *ns, uint32_t rank, const struct fs_ns_message *head, const void *body, size_t n) {
  if (rank == ns->rank)
    fs_ns_local(ns, head, body, n);
  else
    ns->hooks->send(ns, rank, head, body, n);
}

static struct fs_ask *fs_ask_new(struct fs_ns *ns, struct fs_keepers k, fs_ns_done *done, void *ctx) {
  struct fs_ask *a = malloc(sizeof(*a));
  if (!a) return NULL;
  *a = (struct fs_ask){.id = ++ns->next_ask,
                       .deadline = ns->now + ns->deadline_ns,
                       .rank = k.primary,
                       .deputy = k.backup,
                       .done = done,
                       .ctx = ctx};
  fs_chain_push(&ns->asks, &a->chain);
  fs_chain_push(&ns->ask_hash[a->id % FS_ASK_CHAINS], &a->hash);
  return a;
}

static void fs_ask_end(struct fs_ask *a, fs_err err, const void *body, size_t n) {
  fs_chain_drop(&a->chain);
  fs_chain_drop(&a->hash);
  if (a->done) a->done(a->ctx, err, body, n);
  free(a);
}

/* Returns true if a question to this rank cannot be answered. An evicted rank that was only
   suspended still serves its files, which have no other home without replicas; so it is asked
   for them while it is heard of. */
static bool fs_ask_in_vain(const struct fs_ns *ns, uint32_t rank, const struct fs_names_call *c) {
  if (rank >= ns->members.nodes) return true; /* no rank, or a number that a client made up */
  if (fs_member(&ns->members, rank)) return false;
  return ns->replicated || ns->suspect[rank].silent || !fs_call_to_home(c);
}

void fs_ns_ask_keepers(struct fs_ns *ns, struct fs_keepers k, const struct fs_names_call *c, fs_ns_done *done,
                       void *ctx) {
  struct fs_ask *a = fs_ask_new(ns, k, done, ctx);
  if (!a) {
    if (done) done(ctx, -ENOMEM, NULL, 0);
    return;
  }
  struct fs_ns_message head = {.id = a->id, .set = ns->members.number};
  /* it fails with the next timers, not inside this call */
  if (fs_ask_in_vain(ns, k.primary, c)) a->deadline = 0;
  if (a->deadline != 0) fs_ns_send(ns, k.primary, &head, c, fs_call_size(c));
}

void fs_ns_ask(struct fs_ns *ns, uint32_t rank, const struct fs_names_call *c, fs_ns_done *done, void *ctx) {
  fs_ns_ask_keepers(ns, (struct fs_keepers){.primary = rank, .backup = FS_NO_RANK}, c, done, ctx);
}

void fs_ns_answer(struct fs_ns *ns, struct fs_asked a, fs_err err, const void *body, size_t n) {
  struct fs_ns_message head = {.id = a.id, .set = ns->members.number, .err = err, .answer = 1};
  fs_ns_send(ns, a.from, &head, body, n);
}

void fs_ns_answered(struct fs_ns *ns, uint32_t from, const struct fs_ns_message *head, const void *body, size_t n) {
  struct fs_chain *chain = &ns->ask_hash[head->id % FS_ASK_CHAINS];
  for (struct fs_chain *l = chain->next; l != chain; l = l->next) {
    struct fs_ask *a = FS_ITEM(l, struct fs_ask, hash);
    if (a->id != head->id || (a->rank != from && a->deputy != from)) continue;
    if (head->err == -ESTALE) fs_set_take(ns, head->set, body, n);
    fs_ask_end(a, head->err > 0 || head->err < -4095 ? -EPROTO : head->err, body, n);
    return;
  }
  ns->dropped_messages++; /* a late answer, or one without a question */
}

void fs_ns_drain(struct fs_ns *ns) {
  struct fs_chain *l;
  if (ns->draining) return;
  ns->draining = true;
  while ((l = fs_chain_pop(&ns->local)) != NULL) {
    struct fs_local *m = FS_ITEM(l, struct fs_local, chain);
    fs_ns_receive(ns, ns->now, ns->rank, &m->head, m->body, m->n);
    free(m);
  }
  ns->draining = false;
}

/* Ends the questions whose deadline has passed. All are examined: those that have to fail at
   once have no deadline and may be anywhere in the list. */
void fs_ns_ask_timers(struct fs_ns *ns) {
  struct fs_chain late;
  fs_chain_init(&late);
  for (struct fs_chain *l = ns->asks.next, *next; l != &ns->asks; l = next) {
    struct fs_ask *a = FS_ITEM(l, struct fs_ask, chain);
    next = l->next;
    if (ns->now < a->deadline) continue;
    fs_chain_drop(l);
    fs_chain_push(&late, l);
  }
  for (struct fs_chain *l; (l = fs_chain_pop(&late)) != NULL;) {
    struct fs_ask *a = FS_ITEM(l, struct fs_ask, chain);
    if (a->deadline != 0) ns->suspect[a->rank].silent = true;
    fs_ask_end(a, a->deadline == 0 ? -EHOSTDOWN : -ETIMEDOUT, NULL, 0);
  }
}

void fs_ns_ask_gone(struct fs_ns *ns) {
  for (struct fs_chain *l = ns->asks.next; l != &ns->asks; l = l->next) {
    struct fs_ask *a = FS_ITEM(l, struct fs_ask, chain);
    if (!fs_member(&ns->members, a->rank)) a->deadline = 0;
  }
}

/* ---- all members ---- */

struct fs_ask_all {
  struct fs_ns *ns;
  uint32_t left;
  fs_ns_done *done;
  void *ctx;
  struct fs_names_call *call;
  struct fs_one {
    struct fs_ask_all *all;
    uint32_t rank;
  } one[];
};

static void fs_all_end(struct fs_ask_all *all) {
  if (--all->left > 0) return;
  all->done(all->ctx, 0, NULL, 0);
  free(all->call);
  free(all);
}

/* Counts an answer. A rank that does not answer is suspected and asked again, until it answers
   or is no member. */
static void fs_all_answered(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_one *one = ctx;
  struct fs_ask_all *all = one->all;
  (void)body, (void)n;
  if (err == -ETIMEDOUT) {
    fs_suspected(all->ns, one->rank);
    fs_ns_ask(all->ns, one->rank, all->call, fs_all_answered, one);
    return;
  }
  fs_all_end(all);
}

void fs_ns_ask_those(struct fs_ns *ns, const bool *those, const struct fs_names_call *c, fs_ns_done *done, void *ctx) {
  struct fs_ask_all *all = malloc(sizeof(*all) + ns->members.nodes * sizeof(all->one[0]));
  struct fs_names_call *copy = malloc(fs_call_size(c));
  if (!all || !copy) {
    free(all);
    free(copy);
    done(ctx, -ENOMEM, NULL, 0);
    return;
  }
  memcpy(copy, c, fs_call_size(c));
  *all = (struct fs_ask_all){.ns = ns, .left = 1, .done = done, .ctx = ctx, .call = copy};
  for (uint32_t i = 0; i < ns->members.nodes; i++) {
    if (i == ns->rank || !fs_member(&ns->members, i) || (those && !those[i])) continue;
    all->one[i] = (struct fs_one){.all = all, .rank = i};
    all->left++;
    fs_ns_ask(ns, i, copy, fs_all_answered, &all->one[i]);
  }
  fs_all_end(all);
}

void fs_ns_ask_all(struct fs_ns *ns, const struct fs_names_call *c, fs_ns_done *done, void *ctx) {
  fs_ns_ask_those(ns, NULL, c, done, ctx);
}

void fs_ns_all(struct fs_ns *ns, uint64_t now, fs_ns_done *done, void *ctx) {
  struct fs_names_call c = {.op = FS_NAMES_PING};
  ns->now = now;
  fs_ns_ask_all(ns, &c, done, ctx);
  fs_ns_drain(ns);
}
