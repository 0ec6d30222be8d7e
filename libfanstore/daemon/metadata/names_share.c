/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which records of names.h are in the shared table. A directory that comes to the table with all its
 * records does so bit by bit, since a million of them take seconds. Meanwhile its other names are
 * asked for.
 */
#include <sys/stat.h>

#include "daemon/metadata/names_priv.h"

void fs_unshare(const struct fs_names *n, uint32_t *slot) {
  if (*slot != 0) fs_shared_names_drop(n->share.table, *slot);
  *slot = 0;
}

void fs_share_dir(const struct fs_names *n, struct fs_names_dir *d) {
  struct fs_record r = {.dir = d->by_id.key, .version = d->changed, .size = d->subdirs, .seq = !d->missing};
  if (d->part != FS_NAMES_ALL)
    fs_unshare(n, &d->slot);
  else if (d->slot != 0)
    fs_shared_names_set(n->share.table, d->slot, &r, "", NULL);
  else
    d->slot = fs_shared_names_put(n->share.table, &r, "", NULL);
}

void fs_share(const struct fs_names *n, struct fs_name *e) {
  struct fs_record r = e->rec;
  if (e->in->part == FS_NAMES_NONE) {
    fs_unshare(n, &e->slot);
    return;
  }
  if (S_ISREG(r.mode)) r.home = n->share.home(n->share.ctx, &e->rec);
  if (e->slot != 0)
    fs_shared_names_set(n->share.table, e->slot, &r, e->text, e->text + r.name_len);
  else
    e->slot = fs_shared_names_put(n->share.table, &r, e->text, e->text + r.name_len);
  if (e->slot == 0 && r.name_len <= FS_RECORD_TEXT) e->in->missing = true;
}

void fs_names_begin(const struct fs_names *n) {
  if (n->share.table) fs_shared_names_begin(n->share.table);
}

void fs_names_end(const struct fs_names *n) {
  if (n->share.table) fs_shared_names_end(n->share.table);
}

void fs_names_share(struct fs_names *n, const struct fs_names_sharing *s) {
  n->share = *s;
}

/* ---- all records of a directory ---- */

/* From now on new records are shared at once, and old ones by fs_names_share_more. */
static void fs_share_later(struct fs_names *n, struct fs_names_dir *d) {
  d->part = FS_NAMES_SOME;
  d->shared_upto = 0;
  if (fs_chain_empty(&d->lag)) fs_chain_push(&n->lagging, &d->lag);
}

static void fs_share_dir_again(struct fs_names *n, struct fs_names_dir *d) {
  enum fs_names_part part = n->share.part(n->share.ctx, d->by_id.key);
  bool later = part == FS_NAMES_ALL && d->part != FS_NAMES_ALL;
  d->part = part;
  d->missing = false;
  if (later)
    fs_share_later(n, d);
  else
    fs_chain_drop(&d->lag);
  if (part == FS_NAMES_NONE) fs_share_dir(n, d); /* before its names: none of them is absent then */
  fs_dir_merge(d);
  for (size_t i = 0; i < d->all.used; i++) {
    struct fs_name *e = d->all.place[i].name;
    if (e && (!later || e->slot != 0)) fs_share(n, e);
  }
  fs_share_dir(n, d);
}

void fs_names_share_again(struct fs_names *n) {
  for (struct fs_table_link *l = NULL; n->share.table && (l = fs_table_next(&n->dirs, l)) != NULL;)
    fs_share_dir_again(n, FS_ITEM(l, struct fs_names_dir, by_id));
}

void fs_names_share_more(struct fs_names *n, uint32_t most) {
  while (most > 0 && !fs_chain_empty(&n->lagging)) {
    struct fs_names_dir *d = FS_ITEM(n->lagging.next, struct fs_names_dir, lag);
    struct fs_name *e = fs_dir_after(d, d->shared_upto);
    if (e) {
      d->shared_upto = e->rec.seq;
      if (e->slot == 0) fs_share(n, e);
      most--;
    } else {
      fs_chain_drop(&d->lag);
      d->part = FS_NAMES_ALL;
      fs_share_dir(n, d);
    }
  }
}

fs_err fs_names_complete(struct fs_names *n, uint64_t dir, uint64_t changed) {
  struct fs_names_dir *d = fs_names_dir_make(n, dir);
  if (!d) return -ENOMEM;
  d->part = FS_NAMES_ALL;
  d->changed = changed;
  fs_share_dir(n, d);
  return 0;
}

/* ---- private directories ---- */

enum fs_names_stage fs_names_stage(const struct fs_names *n, uint64_t dir) {
  const struct fs_names_dir *d = fs_names_dir_find(n, dir);
  return d ? d->stage : FS_NAMES_SHOWN;
}

void fs_names_set_stage(struct fs_names *n, uint64_t dir, enum fs_names_stage stage) {
  struct fs_names_dir *d = fs_names_dir_find(n, dir);
  if (!d) return;
  d->stage = stage;
  if (n->share.table && d->part != FS_NAMES_ALL && n->share.part(n->share.ctx, dir) == FS_NAMES_ALL)
    fs_share_later(n, d);
}
