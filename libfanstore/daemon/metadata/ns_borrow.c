/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Borrows records of directories that other ranks keep (ns_lend.c), for the table in shared memory.
 * They are forgotten when the lender recalls them, when the members change, or when they take too
 * much memory. Called by the parts of ns.h.
 */
#include <stdlib.h>

#include "daemon/metadata/ns_priv.h"

#define FS_BORROW_PART 4u /* of the memory for names */

struct fs_borrow { /* a look-up that borrows */
  struct fs_ns *ns;
  uint64_t dir;
  fs_ns_done *done;
  void *ctx;
};

static enum fs_names_part fs_borrow_part(void *ctx, uint64_t dir) {
  (void)ctx, (void)dir;
  return FS_NAMES_SOME;
}

/* With two ranks, each is a keeper of every directory. */
void fs_borrow_share(struct fs_ns *ns, const struct fs_names_sharing *s) {
  struct fs_names_sharing mine = *s;
  if (ns->members.nodes <= 2 || fs_names_new(&ns->borrowed) < 0) return;
  mine.part = fs_borrow_part;
  fs_names_share(ns->borrowed, &mine);
}

static void fs_borrow_enter(struct fs_ns *ns, uint64_t dir, const struct fs_lent *head, const void *body, size_t n,
                            size_t at) {
  const struct fs_record *r;
  fs_err err = 0;
  if (ns->most_bytes > 0 && fs_names_bytes(ns->borrowed) > ns->most_bytes / FS_BORROW_PART)
    fs_names_drop_all(ns->borrowed);
  while (err == 0 && at < n) {
    r = fs_record_next(body, n, &at);
    err = !r || r->dir != dir || r->seq == 0
              ? -EPROTO
              : fs_names_put(ns->borrowed, r, fs_record_name(r), fs_record_target(r), NULL);
  }
  if (err == 0 && head->lent == FS_LENT_ALL) (void)fs_names_complete(ns->borrowed, dir, head->changed);
}

/* Takes what is lent, and passes the rest on as the answer to the look-up. What a former primary
   has lent, or this one before it knew the present members, nobody would recall. */
static void fs_borrow_answered(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_borrow b = *(struct fs_borrow *)ctx;
  struct fs_lent head;
  size_t begin = sizeof(head), at = begin;
  free(ctx);
  if ((err != 0 && err != -ENOENT) || n < sizeof(head)) {
    b.done(b.ctx, err == 0 ? -EPROTO : err, body, err == 0 ? 0 : n);
    return;
  }
  memcpy(&head, body, sizeof(head));
  if (err == 0 && !fs_record_next(body, n, &at)) err = -EPROTO;
  bool valid = head.set == b.ns->members.number && head.changed <= INT64_MAX / 2 &&
               head.lender == fs_members_keepers(&b.ns->members, b.dir).primary;
  if (err != -EPROTO && head.lent != FS_LENT_NONE && valid && !fs_ns_certain(b.ns, b.dir))
    fs_borrow_enter(b.ns, b.dir, &head, body, n, at);
  b.done(b.ctx, err, (const char *)body + begin, err == 0 ? at - begin : 0);
}

bool fs_borrow_start(struct fs_ns *ns, const struct fs_names_call *c, fs_ns_done *done, void *ctx) {
  alignas(8) char copy[sizeof(*c) + FS_RECORD_NAME_MAX + 8];
  struct fs_names_call *asked = (void *)copy;
  if (c->op != FS_NAMES_LOOKUP || c->tail_len == 0 || !ns->borrowed || fs_ns_certain(ns, c->lookup.dir)) return false;
  struct fs_borrow *b = malloc(sizeof(*b));
  if (!b) return false;
  *b = (struct fs_borrow){.ns = ns, .dir = c->lookup.dir, .done = done, .ctx = ctx};
  memcpy(copy, c, FS_MIN(fs_call_size(c), sizeof(copy)));
  asked->flags |= FS_LOOKUP_BORROW;
  fs_request_start(ns, asked, fs_borrow_answered, b);
  return true;
}

void fs_borrow_recalled(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  if (ns->borrowed) fs_names_drop_dir(ns->borrowed, c->recall.dir);
  fs_ns_answer(ns, a, 0, NULL, 0);
}
