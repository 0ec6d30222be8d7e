/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of names.h, used by the MPI thread alone. It has three hash tables with chains:
 * directories by id, records by directory and id, records by directory and name.
 *
 * A directory keeps its records in an array in order of their sequence numbers. The numbers only
 * grow, so new records go to the end. A removed record leaves a hole, and the array is compacted
 * when many places are holes. Only a new backup hears of old records after newer ones. The old ones
 * come in order among themselves; they go into a second array, which is merged into the first when
 * the order is needed.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/metadata/names_priv.h"

#define FS_PLACES_FIRST 8u

static uint64_t fs_names_hash(uint64_t dir, const char *name, size_t len) {
  uint64_t h = fs_mix64(dir + len);
  for (size_t i = 0; i < len; i++) h = (h ^ (unsigned char)name[i]) * 0x100000001b3ull;
  return h;
}

fs_err fs_names_new(struct fs_names **out) {
  *out = calloc(1, sizeof(**out));
  if (!*out) return -ENOMEM;
  fs_chain_init(&(*out)->lagging);
  return 0;
}

/* ---- finding ---- */

struct fs_names_dir *fs_names_dir_find(const struct fs_names *n, uint64_t id) {
  struct fs_table_link *l = fs_table_find(&n->dirs, id);
  return l ? FS_ITEM(l, struct fs_names_dir, by_id) : NULL;
}

static uint64_t fs_names_hash_id(uint64_t dir, uint64_t id) {
  return id + dir * 0x9e3779b97f4a7c15ull;
}

static struct fs_name *fs_names_by_id(const struct fs_names *n, uint64_t dir, uint64_t id) {
  struct fs_table_link *l = fs_table_find(&n->by_id, fs_names_hash_id(dir, id));
  for (; l; l = fs_table_more(l)) {
    struct fs_name *e = FS_ITEM(l, struct fs_name, by_id);
    if (e->rec.id == id && e->rec.dir == dir) return e;
  }
  return NULL;
}

static struct fs_name *fs_names_by_name(const struct fs_names *n, uint64_t dir, const char *name, size_t len) {
  struct fs_table_link *l = fs_table_find(&n->by_name, fs_names_hash(dir, name, len));
  for (; l; l = fs_table_more(l)) {
    struct fs_name *e = FS_ITEM(l, struct fs_name, by_name);
    if (e->rec.dir == dir && e->rec.name_len == len && memcmp(e->text, name, len) == 0) return e;
  }
  return NULL;
}

const struct fs_record *fs_names_find(const struct fs_names *n, uint64_t dir, const char *name, size_t len) {
  struct fs_name *e = fs_names_by_name(n, dir, name, len);
  return e ? &e->rec : NULL;
}

const struct fs_record *fs_names_find_id(const struct fs_names *n, uint64_t dir, uint64_t id) {
  struct fs_name *e = fs_names_by_id(n, dir, id);
  return e ? &e->rec : NULL;
}

/* Returns the first place whose seq is `seq` or greater. */
static size_t fs_places_search(const struct fs_places *p, uint64_t seq) {
  size_t low = 0, high = p->used;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (p->place[middle].seq < seq)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static struct fs_name *fs_places_find(const struct fs_places *p, uint64_t seq) {
  size_t i = fs_places_search(p, seq);
  return i < p->used && p->place[i].seq == seq ? p->place[i].name : NULL;
}

/* Merges the late places into the others, from the end. No place is in both arrays. */
void fs_dir_merge(struct fs_names_dir *d) {
  struct fs_places *a = &d->all, *b = &d->late;
  size_t i = a->used, k = b->used, to = i + k;
  if (k == 0) return;
  a->used = to;
  a->live += b->live;
  while (k > 0) {
    bool older = i > 0 && a->place[i - 1].seq > b->place[k - 1].seq;
    a->place[--to] = older ? a->place[--i] : b->place[--k];
  }
  b->used = b->live = 0;
}

struct fs_name *fs_dir_after(struct fs_names_dir *d, uint64_t seq) {
  if (seq >= d->seq) return NULL;
  fs_dir_merge(d);
  const struct fs_places *p = &d->all;
  size_t i = fs_places_search(p, seq + 1);
  while (i < p->used && !p->place[i].name) i++;
  return i < p->used ? p->place[i].name : NULL;
}

const struct fs_record *fs_names_after(const struct fs_names *n, uint64_t dir, uint64_t seq) {
  struct fs_names_dir *d = fs_names_dir_find(n, dir);
  struct fs_name *e = d ? fs_dir_after(d, seq) : NULL;
  return e ? &e->rec : NULL;
}

uint64_t fs_names_count(const struct fs_names *n, uint64_t dir) {
  const struct fs_names_dir *d = fs_names_dir_find(n, dir);
  return d ? d->all.live + d->late.live : 0;
}

uint64_t fs_names_subdirs(const struct fs_names *n, uint64_t dir) {
  const struct fs_names_dir *d = fs_names_dir_find(n, dir);
  return d ? d->subdirs : 0;
}

void fs_names_each(const struct fs_names *n, void (*visit)(void *ctx, uint64_t dir), void *ctx) {
  for (struct fs_table_link *l = NULL; (l = fs_table_next(&n->dirs, l)) != NULL;) visit(ctx, l->key);
}

/* ---- growing ---- */

/* Returns about what one record takes: malloc's overhead, two places in hash tables, one and a
   half in its directory. */
static uint64_t fs_name_bytes(const struct fs_name *e) {
  return fs_round_up(sizeof(*e) + e->rec.name_len + e->rec.target_len + 8, 16) + 2 * sizeof(e) +
         sizeof(struct fs_place_of) * 3 / 2;
}
#define FS_NAMES_DIR_BYTES (sizeof(struct fs_names_dir) + FS_PLACES_FIRST * sizeof(struct fs_place_of) + 32)

uint64_t fs_names_bytes(const struct fs_names *n) {
  return n->bytes;
}

struct fs_names_dir *fs_names_dir_make(struct fs_names *n, uint64_t id) {
  struct fs_names_dir *d = fs_names_dir_find(n, id);
  if (d) return d;
  d = calloc(1, sizeof(*d));
  if (!d) return NULL;
  fs_table_add(&n->dirs, &d->by_id, id);
  fs_chain_init(&d->lag);
  n->bytes += FS_NAMES_DIR_BYTES;
  if (n->share.table) d->part = n->share.part(n->share.ctx, id);
  fs_share_dir(n, d);
  return d;
}

static void fs_places_close_up(struct fs_places *p) {
  size_t kept = 0;
  for (size_t i = 0; i < p->used; i++) {
    if (p->place[i].name) p->place[kept++] = p->place[i];
  }
  p->used = kept;
}

/* Makes room for `more` further places. */
static bool fs_places_reserve(struct fs_places *p, size_t more) {
  if (p->used + more <= p->room) return true;
  if (p->live < p->used - p->used / 4) fs_places_close_up(p); /* enough holes to be worth it */
  if (p->used + more <= p->room) return true;
  size_t room = FS_MAX(p->room ? 2 * p->room : FS_PLACES_FIRST, p->used + more);
  struct fs_place_of *place = realloc(p->place, room * sizeof(*place));
  if (!place) return false;
  p->place = place;
  p->room = room;
  return true;
}

/* Makes room for one more record with this seq, which is late if it is below the directory's
   last. */
static bool fs_dir_reserve(struct fs_names_dir *d, uint64_t seq) {
  if (!fs_places_reserve(&d->all, d->late.used + 1)) return false;
  return seq == 0 || seq > d->seq || fs_places_reserve(&d->late, 1);
}

/* ---- changing ---- */

static void fs_dir_leave(struct fs_names_dir *d, const struct fs_name *e) {
  struct fs_places *p = fs_places_find(&d->all, e->rec.seq) == e ? &d->all : &d->late;
  size_t i = fs_places_search(p, e->rec.seq);
  p->place[i].name = NULL;
  p->live--;
  if (i + 1 == p->used) p->used--;
}

/* Gives a record its place; the caller has reserved it. The place is the end of `all`, a hole
   with the record's own seq, or, for a late record, a place in `late`, mostly its end. */
static void fs_dir_enter(struct fs_names_dir *d, struct fs_name *e) {
  struct fs_places *p = &d->all;
  size_t i = e->rec.seq > d->seq ? p->used : fs_places_search(p, e->rec.seq);
  if (e->rec.seq <= d->seq && (i < p->used ? p->place[i].seq != e->rec.seq : d->late.used > 0)) {
    p = &d->late;
    i = fs_places_search(p, e->rec.seq);
  }
  if (i == p->used || p->place[i].seq != e->rec.seq) {
    memmove(p->place + i + 1, p->place + i, (p->used - i) * sizeof(*p->place));
    p->used++;
  }
  p->place[i] = (struct fs_place_of){.seq = e->rec.seq, .name = e};
  d->seq = FS_MAX(d->seq, e->rec.seq);
  p->live++;
}

static void fs_names_remove(struct fs_names *n, struct fs_name *e) {
  fs_unshare(n, &e->slot);
  fs_table_remove(&n->by_id, &e->by_id);
  fs_table_remove(&n->by_name, &e->by_name);
  fs_dir_leave(e->in, e);
  if (S_ISDIR(e->rec.mode)) {
    e->in->subdirs--;
    fs_share_dir(n, e->in);
  }
  n->bytes -= fs_name_bytes(e);
  free(e);
}

static void fs_names_tell(const struct fs_names *n, const struct fs_name *e, bool gone) {
  if (n->watch && !S_ISREG(e->rec.mode) && !fs_is_whiteout(&e->rec)) n->watch(n->watch_ctx, &e->rec, gone);
}

static void fs_names_forget(struct fs_names *n, struct fs_name *e) {
  fs_names_tell(n, e, true);
  fs_names_remove(n, e);
}

bool fs_names_drop(struct fs_names *n, uint64_t dir, uint64_t id) {
  struct fs_name *e = fs_names_by_id(n, dir, id);
  if (!e) return false;
  fs_names_begin(n);
  fs_names_forget(n, e);
  fs_names_end(n);
  return true;
}

void fs_names_watch(struct fs_names *n, void (*watch)(void *ctx, const struct fs_record *r, bool gone), void *ctx) {
  n->watch = watch;
  n->watch_ctx = ctx;
}

static struct fs_name *fs_name_make(const struct fs_record *r, const char *name, const char *target) {
  struct fs_name *e = calloc(1, sizeof(*e) + fs_record_size(r) - sizeof(*r));
  if (!e) return NULL;
  e->rec = *r;
  memcpy(e->text, name, r->name_len);
  if (r->target_len > 0) memcpy(e->text + r->name_len, target, r->target_len);
  return e;
}

static void fs_names_insert(struct fs_names *n, struct fs_names_dir *d, struct fs_name *e) {
  fs_table_add(&n->by_id, &e->by_id, fs_names_hash_id(e->rec.dir, e->rec.id));
  fs_table_add(&n->by_name, &e->by_name, fs_names_hash(e->rec.dir, e->text, e->rec.name_len));
  e->in = d;
  fs_dir_enter(d, e);
  n->bytes += fs_name_bytes(e);
  fs_share(n, e);
  if (S_ISDIR(e->rec.mode)) d->subdirs++;
  if (S_ISDIR(e->rec.mode) || d->missing) fs_share_dir(n, d);
  /* its times are then known, too */
  if (S_ISDIR(e->rec.mode) && n->share.table && n->share.part(n->share.ctx, e->rec.id) == FS_NAMES_ALL)
    (void)fs_names_dir_make(n, e->rec.id);
}

/* Removes the records that a new one replaces: that of its id, that of its name, and that of its
   seq, which only a faulty primary sends twice. */
static void fs_names_clear(struct fs_names *n, const struct fs_names_dir *d, const struct fs_name *e) {
  struct fs_name *old = fs_names_by_id(n, e->rec.dir, e->rec.id);
  if (old) fs_names_remove(n, old);
  old = fs_names_by_name(n, e->rec.dir, e->text, e->rec.name_len);
  if (old) fs_names_forget(n, old);
  old = fs_places_find(&d->all, e->rec.seq);
  if (!old) old = fs_places_find(&d->late, e->rec.seq);
  if (old) fs_names_forget(n, old);
}

fs_err fs_names_put(struct fs_names *n, const struct fs_record *r, const char *name, const char *target,
                    const struct fs_record **now) {
  struct fs_names_dir *d = fs_names_dir_make(n, r->dir);
  if (!d || !fs_dir_reserve(d, r->seq)) return -ENOMEM;
  struct fs_name *e = fs_name_make(r, name, target);
  if (!e) return -ENOMEM;
  if (e->rec.seq == 0) e->rec.seq = d->seq + 1;
  fs_names_begin(n);
  fs_names_clear(n, d, e);
  fs_names_insert(n, d, e);
  fs_names_end(n);
  fs_names_tell(n, e, false);
  if (now) *now = &e->rec;
  return 0;
}

/* ---- directories ---- */

uint64_t fs_names_changed(const struct fs_names *n, uint64_t dir) {
  const struct fs_names_dir *d = fs_names_dir_find(n, dir);
  return d ? d->changed : 0;
}

void fs_names_change(struct fs_names *n, uint64_t dir, uint64_t now) {
  struct fs_names_dir *d = fs_names_dir_find(n, dir);
  if (!d) return;
  d->changed = FS_MAX(d->changed, now) + FS_CHANGED_STEP;
  fs_share_dir(n, d);
}

fs_err fs_names_changed_at(struct fs_names *n, uint64_t dir, uint64_t at) {
  struct fs_names_dir *d = at == 0 ? fs_names_dir_find(n, dir) : fs_names_dir_make(n, dir);
  if (!d) return at == 0 ? 0 : -ENOMEM;
  if (at <= d->changed) return 0;
  d->changed = at;
  fs_share_dir(n, d);
  return 0;
}

fs_err fs_names_close(struct fs_names *n, uint64_t dir, uint64_t until) {
  struct fs_names_dir *d = until == 0 ? fs_names_dir_find(n, dir) : fs_names_dir_make(n, dir);
  if (!d) return until == 0 ? 0 : -ENOMEM;
  d->closed_until = until;
  return 0;
}

uint64_t fs_names_closed_until(const struct fs_names *n, uint64_t dir) {
  const struct fs_names_dir *d = fs_names_dir_find(n, dir);
  return d ? d->closed_until : 0;
}

bool fs_names_closed(const struct fs_names *n, uint64_t dir, uint64_t now) {
  return now < fs_names_closed_until(n, dir);
}

void fs_names_drop_dir(struct fs_names *n, uint64_t dir) {
  struct fs_names_dir *d = fs_names_dir_find(n, dir);
  if (!d) return;
  fs_dir_merge(d);
  fs_unshare(n, &d->slot); /* before its names: none of them is absent then, all are asked for */
  d->part = FS_NAMES_NONE;
  fs_chain_drop(&d->lag);
  while (d->all.used > 0) {
    struct fs_name *e = d->all.place[d->all.used - 1].name;
    if (e)
      fs_names_remove(n, e);
    else
      d->all.used--;
  }
  fs_table_remove(&n->dirs, &d->by_id);
  n->bytes -= FS_NAMES_DIR_BYTES;
  free(d->all.place);
  free(d->late.place);
  free(d);
}

void fs_names_drop_all(struct fs_names *n) {
  FS_TABLE_EACH(&n->dirs, l) fs_names_drop_dir(n, l->key);
}

void fs_names_free(struct fs_names *n) {
  fs_names_drop_all(n);
  free(n->dirs.chain);
  free(n->by_id.chain);
  free(n->by_name.chain);
  free(n);
}
