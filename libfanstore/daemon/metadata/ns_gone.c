/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The consequences of a removal on other ranks: a file's home drops its bytes, and a directory's
 * keepers take no more names in it. The primary of the removed name informs them once its backup
 * knows of the removal, but see ns_commit.c if one of the two is the home. If the primary dies
 * before that, the backup does it. Both may be repeated without harm. Called by the parts of ns.h.
 */
#include "daemon/metadata/ns_priv.h"

void fs_gone_drop(struct fs_ns *ns, uint64_t id) {
  struct fs_names_call c = {.op = FS_NAMES_DROP, .drop.id = id};
  fs_request_start(ns, &c, NULL, NULL);
}

/* One deadline and no second try suffice: the directory's primary informs home as well, and
   repeats that until it is answered. */
void fs_ns_await_drop(struct fs_ns *ns, uint64_t id, fs_ns_done *done, void *ctx) {
  struct fs_names_call c = {.op = FS_NAMES_DROP, .flags = FS_DROP_AWAIT, .drop.id = id};
  fs_ns_ask(ns, fs_ns_home(ns, id), &c, done, ctx);
}

void fs_gone_answer(struct fs_ns *ns, struct fs_asked a, uint64_t id) {
  if (!ns->hooks->dropping || !ns->hooks->dropping(ns, a, id)) fs_ns_answer(ns, a, 0, NULL, 0);
}

void fs_gone_forget(struct fs_ns *ns, uint64_t dir) {
  struct fs_names_call c = {.op = FS_NAMES_FORGET, .forget.dir = dir};
  fs_request_start(ns, &c, NULL, NULL);
}

void fs_gone_told(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  bool awaits = c->flags & FS_DROP_AWAIT;
  ns->hooks->dropped(ns, c->drop.id, awaits);
  if (awaits)
    fs_gone_answer(ns, a, c->drop.id);
  else
    fs_ns_answer(ns, a, 0, NULL, 0);
}

/* A rank that still knows the removed directory's id must not create names in it, which nobody
   would ever see. So the directory stays closed, until too many others have been removed after
   it. */
fs_err fs_gone_dir(struct fs_ns *ns, uint64_t dir) {
  uint64_t *oldest = &ns->removed[ns->removed_at];
  if (fs_names_closed_until(ns->names, dir) == UINT64_MAX) return 0;
  if (*oldest != 0) fs_names_drop_dir(ns->names, *oldest);
  *oldest = dir;
  ns->removed_at = (ns->removed_at + 1) % FS_REMOVED_DIRS;
  fs_names_drop_dir(ns->names, dir);
  return fs_names_close(ns->names, dir, UINT64_MAX);
}

void fs_gone_note(struct fs_ns *ns, const struct fs_record *r) {
  if (!S_ISREG(r->mode) && !S_ISDIR(r->mode)) return;
  ns->gone[ns->gone_at] = (struct fs_gone){.dir = r->dir, .id = r->id, .directory = S_ISDIR(r->mode)};
  ns->gone_at = (ns->gone_at + 1) % FS_GONE;
}

void fs_gone_redo(struct fs_ns *ns, const struct fs_members *before) {
  for (uint32_t i = 0; i < FS_GONE; i++) {
    struct fs_gone g = ns->gone[i];
    if (g.id == 0 || fs_members_keepers(before, g.dir).primary == ns->rank ||
        fs_members_keepers(&ns->members, g.dir).primary != ns->rank)
      continue;
    ns->gone[i].id = 0;
    if (g.directory)
      fs_gone_forget(ns, g.id);
    else
      fs_gone_drop(ns, g.id);
  }
}
