/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Searches over all names: which directory a record is in, for a node that knows only its id, as
 * for every output directory; and the list of all files, or of all directories and symlinks, of
 * this rank. Called by the MPI thread for searches (ns_above.c) and for the end of the job (finish.c).
 */
#include <stdlib.h>

#include "daemon/metadata/ns_priv.h"

struct fs_where {
  struct fs_ns *ns;
  uint64_t id;
  uint32_t tried;
  bool seen;
  fs_ns_done *done;
  void *ctx;
};

static void fs_where_next(struct fs_where *w);

static void fs_where_answered(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_where *w = ctx;
  if (err != 0 || n != sizeof(uint64_t)) {
    fs_where_next(w);
    return;
  }
  w->done(w->ctx, 0, body, n);
  free(w);
}

static void fs_where_next(struct fs_where *w) {
  struct fs_ns *ns = w->ns;
  struct fs_names_call c = {.op = FS_NAMES_WHERE, .flags = w->seen ? FS_WHERE_SEEN : 0, .where.id = w->id};
  while (w->tried < ns->members.nodes) {
    uint32_t rank = (FS_OUTPUT_ID_RANK(w->id) + w->tried++) % ns->members.nodes;
    if (!fs_member(&ns->members, rank)) continue;
    fs_ns_ask(ns, rank, &c, fs_where_answered, w);
    return;
  }
  w->done(w->ctx, -ENOENT, NULL, 0);
  free(w);
}

void fs_where_start(struct fs_ns *ns, uint64_t id, bool seen, fs_ns_done *done, void *ctx) {
  struct fs_where *w = malloc(sizeof(*w));
  if (!w) {
    done(ctx, -ENOMEM, NULL, 0);
    return;
  }
  *w = (struct fs_where){.ns = ns, .id = id, .seen = seen, .done = done, .ctx = ctx};
  fs_where_next(w);
}

struct fs_where_find {
  const struct fs_names *names;
  uint64_t id, dir;
};

static void fs_where_look(void *ctx, uint64_t dir) {
  struct fs_where_find *f = ctx;
  if (f->dir == 0 && fs_names_find_id(f->names, dir, f->id)) f->dir = dir;
}

/* Looks into the directory where the record was last seen, then into each directory of this
   rank. */
void fs_where_asked(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  struct fs_where_find f = {.names = ns->names, .id = c->where.id};
  uint64_t seen = fs_above_seen(ns, c->where.id);
  if (seen != 0) fs_where_look(&f, seen);
  if (f.dir == 0 && (c->flags & FS_WHERE_SEEN)) f.dir = seen;
  if (f.dir == 0) fs_names_each(ns->names, fs_where_look, &f);
  fs_ns_answer(ns, a, f.dir != 0 ? 0 : -ENOENT, &f.dir, f.dir != 0 ? sizeof(f.dir) : 0);
}

/* ---- all that this rank owns ---- */

struct fs_others {
  const struct fs_ns *ns;
  bool files;
  void (*visit)(void *ctx, const struct fs_record *r);
  void *ctx;
};

static void fs_others_dir(void *ctx, uint64_t dir) {
  const struct fs_others *o = ctx;
  const struct fs_record *r;
  if (fs_members_keepers(&o->ns->members, dir).primary != o->ns->rank) return;
  for (uint64_t seq = 0; (r = fs_names_after(o->ns->names, dir, seq)) != NULL; seq = r->seq) {
    if (fs_visible(r) && S_ISREG(r->mode) == o->files) o->visit(o->ctx, r);
  }
}

void fs_ns_files(const struct fs_ns *ns, void (*visit)(void *ctx, const struct fs_record *r), void *ctx) {
  struct fs_others o = {.ns = ns, .files = true, .visit = visit, .ctx = ctx};
  fs_names_each(ns->names, fs_others_dir, &o);
}

void fs_ns_others(const struct fs_ns *ns, void (*visit)(void *ctx, const struct fs_record *r), void *ctx) {
  struct fs_others o = {.ns = ns, .visit = visit, .ctx = ctx};
  fs_names_each(ns->names, fs_others_dir, &o);
}
