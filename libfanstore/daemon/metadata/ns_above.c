/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds records by their ids, and the ancestors of a directory. An id does not say where its record
 * is, and the record may be renamed to another directory. So each rank remembers where it last saw
 * a directory and checks that by asking there. Used for renames of directories, which may not end
 * up below themselves (docs/internals/metadata.md), and by fs_ns_find.
 */
#include <stdlib.h>

#include "daemon/metadata/ns_priv.h"

#define FS_ABOVE_DEPTH 65536u
/* how often a search follows a record to the directory that it has been renamed to */
#define FS_ABOVE_MOVES 16u
/* the first search asks for what ranks remember; a rename may overtake the others, so they
   repeat */
#define FS_ABOVE_SEARCHES 4u

/* ---- where directories were seen last ---- */

static struct fs_above_seen *fs_above_place(struct fs_ns *ns, uint64_t id) {
  return &ns->above[fs_mix64(id) % FS_ABOVE_SEEN];
}

void fs_above_note(struct fs_ns *ns, uint64_t id, uint64_t dir) {
  *fs_above_place(ns, id) = (struct fs_above_seen){.id = id, .dir = dir};
}

uint64_t fs_above_seen(struct fs_ns *ns, uint64_t id) {
  const struct fs_above_seen *s = fs_above_place(ns, id);
  return s->id == id ? s->dir : 0;
}

/* ---- finding a record ---- */

struct fs_above {
  struct fs_ns *ns;
  uint32_t op; /* LOOKUP or ABOVE, which have the same fields */
  uint64_t id, dir;
  uint32_t moves, searches;
  fs_ns_done *done;
  void *ctx;
};

static void fs_above_end(struct fs_above *w, fs_err err, const void *body, size_t n) {
  w->done(w->ctx, err, body, n);
  free(w);
}

static void fs_above_answered(void *ctx, fs_err err, const void *body, size_t n);

static void fs_above_ask(struct fs_above *w) {
  struct fs_names_call c = {.op = w->op, .lookup = {.dir = w->dir, .id = w->id}};
  fs_request_start(w->ns, &c, fs_above_answered, w);
}

static void fs_above_located(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_above *w = ctx;
  w->dir = 0;
  if (err == 0 && n == sizeof(w->dir)) memcpy(&w->dir, body, n);
  if (w->dir != 0 && w->dir >> 63 == 0)
    fs_above_ask(w);
  else
    fs_above_end(w, err < 0 ? err : -EPROTO, NULL, 0);
}

static void fs_above_search(struct fs_above *w) {
  bool seen = w->searches++ == 0;
  if (w->searches > FS_ABOVE_SEARCHES)
    fs_above_end(w, -ENOENT, NULL, 0);
  else
    fs_where_start(w->ns, w->id, seen, fs_above_located, w);
}

/* Files are not remembered: there are many more of them than places in the table. */
static void fs_above_note_dir(const struct fs_above *w, const void *body, size_t n) {
  size_t at = 0;
  const struct fs_record *r = fs_record_next(body, n, &at);
  if (r && S_ISDIR(r->mode)) fs_above_note(w->ns, w->id, w->dir);
}

static void fs_above_answered(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_above *w = ctx;
  if (err == -EREMCHG && n == sizeof(w->dir) && w->moves++ < FS_ABOVE_MOVES) {
    memcpy(&w->dir, body, n);
    if (w->dir != 0 && w->dir >> 63 == 0) {
      fs_above_ask(w);
      return;
    }
    err = -EPROTO;
  }
  if (err == -ENOENT) {
    fs_above_search(w);
    return;
  }
  if (err == 0) fs_above_note_dir(w, body, n);
  fs_above_end(w, err, body, n);
}

static void fs_above_find(struct fs_ns *ns, uint32_t op, uint64_t id, uint64_t dir, fs_ns_done *done, void *ctx) {
  struct fs_above *w = malloc(sizeof(*w));
  if (!w) {
    done(ctx, -ENOMEM, NULL, 0);
    return;
  }
  *w = (struct fs_above){.ns = ns, .op = op, .id = id, .dir = dir, .done = done, .ctx = ctx};
  if (w->dir == 0) w->dir = fs_above_seen(ns, id);
  if (w->dir != 0)
    fs_above_ask(w);
  else
    fs_above_search(w);
}

void fs_ns_find(struct fs_ns *ns, uint64_t now, uint64_t id, uint64_t dir, fs_ns_done *done, void *ctx) {
  ns->now = now;
  fs_above_find(ns, FS_NAMES_LOOKUP, id, dir, done, ctx);
  fs_ns_drain(ns);
}

/* ---- is one below another? ---- */

/*
 * The ancestor check of a rename. The rename locks its directory before it checks the ancestors of
 * the new place, and keeps the lock until the directory is there. No ancestor may be locked when it
 * is checked. So if two renames would each put one of two directories below the other, the one that
 * locks later meets the lock of the other. It fails with -EAGAIN and is tried again, unless its
 * call's id is the lower one: then it waits for the other lock to end.
 */
struct fs_climb {
  struct fs_chain chain; /* link in ns->climbs while it waits */
  struct fs_ns *ns;
  uint64_t at, id, call, until, again;
  uint32_t depth;
  fs_ns_done *done;
  void *ctx;
};

static void fs_climb_end(struct fs_climb *w, fs_err err) {
  w->done(w->ctx, err, NULL, 0);
  free(w);
}

static void fs_climb_step(struct fs_climb *w);

static void fs_climb_answered(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_climb *w = ctx;
  size_t at = 0;
  uint64_t other = 0;
  const struct fs_record *r = err == 0 ? fs_record_next(body, n, &at) : NULL;
  if (err == -EBUSY && n == sizeof(other)) memcpy(&other, body, n);
  if (err == -EBUSY && w->call < other) {
    w->again = w->ns->now + FS_NS_RETRY_NS;
    fs_chain_push(&w->ns->climbs, &w->chain);
  } else if (!r) {
    fs_climb_end(w, err == -ENOENT || err == -ENOMEM ? err : -EAGAIN);
  } else {
    w->at = r->dir;
    fs_climb_step(w);
  }
}

static void fs_climb_step(struct fs_climb *w) {
  if (w->at == w->id)
    fs_climb_end(w, -EINVAL);
  else if (!(w->at & FS_OUTPUT_ID))
    fs_climb_end(w, 0);
  else if (w->ns->now >= w->until || w->depth++ > FS_ABOVE_DEPTH)
    fs_climb_end(w, w->ns->now >= w->until ? -EAGAIN : -ELOOP);
  else
    fs_above_find(w->ns, FS_NAMES_ABOVE, w->at, 0, fs_climb_answered, w);
}

void fs_climb_start(struct fs_ns *ns, uint64_t from, uint64_t id, uint64_t call, uint64_t until, fs_ns_done *done,
                    void *ctx) {
  struct fs_climb *w = malloc(sizeof(*w));
  if (!w) {
    done(ctx, -ENOMEM, NULL, 0);
    return;
  }
  *w = (struct fs_climb){.ns = ns, .at = from, .id = id, .call = call, .until = until, .done = done, .ctx = ctx};
  fs_climb_step(w);
}

void fs_climb_timers(struct fs_ns *ns) {
  struct fs_chain due;
  fs_chain_init(&due);
  for (struct fs_chain *l = ns->climbs.next, *next; l != &ns->climbs; l = next) {
    next = l->next;
    if (ns->now < FS_ITEM(l, struct fs_climb, chain)->again) continue;
    fs_chain_drop(l);
    fs_chain_push(&due, l);
  }
  for (struct fs_chain *l; (l = fs_chain_pop(&due)) != NULL;) fs_climb_step(FS_ITEM(l, struct fs_climb, chain));
}
