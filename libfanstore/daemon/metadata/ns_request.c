/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that find their keeper, also if it changes meanwhile. A call is repeated with the same id
 * to whichever rank is the keeper then, for six deadlines at most. Called by ns.c for clients and
 * by other parts of ns.h for keepers.
 */
#include <stdlib.h>

#include "daemon/metadata/ns_priv.h"

static void fs_request_end(struct fs_request *r, fs_err err, const void *body, size_t n) {
  fs_chain_drop(&r->chain);
  if (r->done) r->done(r->ctx, err, body, n);
  free(r);
}

/* Ends a call without an answer. The body names the rank that has not answered. */
static void fs_request_silent(struct fs_request *r, fs_err err) {
  uint32_t rank = r->rank;
  fs_request_end(r, err, &rank, rank == FS_NO_RANK ? 0 : sizeof(rank));
}

static void fs_request_later(struct fs_request *r, uint64_t ns) {
  r->again = r->ns->now + ns;
  fs_chain_push(&r->ns->requests, &r->chain);
}

/* A call that waits for long is repeated less often. */
#define FS_REQUEST_PAUSE_MAX_NS (4 * FS_NS_RETRY_NS)

static uint64_t fs_request_pause(const struct fs_request *r) {
  uint64_t waited = r->ns->now + FS_REQUEST_DEADLINES * r->ns->deadline_ns - r->end;
  return FS_MIN(FS_MAX(waited / 8, FS_NS_RETRY_NS), FS_REQUEST_PAUSE_MAX_NS);
}

static void fs_request_created(struct fs_ns *ns, const struct fs_names_call *c) {
  if (S_ISDIR(c->create.mode)) fs_above_note(ns, c->create.id, c->create.dir);
}

/* Functions that remember this rank's own successful calls, by operation. */
static void (*const fs_request_done[FS_NAMES_OPS])(struct fs_ns *ns, const struct fs_names_call *c) = {
    [FS_NAMES_CREATE] = fs_request_created,
};

static void fs_request_answered(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_request *r = ctx;
  struct fs_ns *ns = r->ns;
  switch (err) {
  case -ETIMEDOUT:
    fs_suspected(ns, r->rank);
    if (fs_call_op(&r->call)->not_later) {
      fs_request_silent(r, err);
      return;
    }
    fs_request_later(r, FS_NS_RETRY_NS);
    return;
  case -EHOSTDOWN:
    if (fs_call_to_home(&r->call) && fs_ns_home(ns, fs_call_id(&r->call)) == r->rank) {
      fs_request_silent(r, err);
      return;
    }
    fs_request_later(r, FS_NS_RETRY_NS);
    return;
  case -ESTALE: /* the two sides had different sets of members */
  case -EAGAIN:
    r->rank = FS_NO_RANK; /* this rank does answer, so it is not to be named as silent */
    fs_request_later(r, fs_request_pause(r));
    return;
  default:
    if (err == 0 && fs_request_done[r->call.op]) fs_request_done[r->call.op](ns, &r->call);
    fs_request_end(r, err, body, n);
  }
}

static void fs_request_try(struct fs_request *r) {
  struct fs_keepers k = {.primary = FS_NO_RANK, .backup = FS_NO_RANK};
  if (fs_call_to_home(&r->call))
    k.primary = fs_ns_home(r->ns, fs_call_id(&r->call));
  else
    k = fs_members_keepers(&r->ns->members, fs_call_dir(&r->call));
  r->rank = k.primary;
  fs_ns_ask_keepers(r->ns, k, &r->call, fs_request_answered, r);
}

void fs_request_start(struct fs_ns *ns, const struct fs_names_call *c, fs_ns_done *done, void *ctx) {
  size_t n = fs_call_size(c);
  struct fs_request *r = malloc(sizeof(*r) - sizeof(r->call) + n);
  if (!r) {
    if (done) done(ctx, -ENOMEM, NULL, 0);
    return;
  }
  r->ns = ns;
  r->end = ns->now + FS_REQUEST_DEADLINES * ns->deadline_ns;
  r->done = done;
  r->ctx = ctx;
  memcpy(&r->call, c, n);
  fs_chain_init(&r->chain);
  fs_request_try(r);
}

void fs_request_timers(struct fs_ns *ns, bool all) {
  struct fs_chain due;
  fs_chain_init(&due);
  for (struct fs_chain *l = ns->requests.next, *next; l != &ns->requests; l = next) {
    struct fs_request *r = FS_ITEM(l, struct fs_request, chain);
    next = l->next;
    if (!all && ns->now < r->again) continue;
    fs_chain_drop(l);
    fs_chain_push(&due, l);
  }
  for (struct fs_chain *l; (l = fs_chain_pop(&due)) != NULL;) {
    struct fs_request *r = FS_ITEM(l, struct fs_request, chain);
    if (ns->now >= r->end)
      fs_request_silent(r, -ETIMEDOUT);
    else
      fs_request_try(r);
  }
}
