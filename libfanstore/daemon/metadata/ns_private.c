/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An output directory is private to the rank that made it until another rank asks for its names. Of
 * a private directory the backup has all names, but not in its shared table. So only this rank's
 * programs can see a change before the backup has it, and they need not wait for that. After the
 * first question of another rank the directory is like all others; it is answered when the backup
 * has all changes. Called by the parts of ns.h.
 */
#include "daemon/metadata/ns_priv.h"

#define FS_UNSENT_NS 20000000ull

static enum fs_names_stage fs_private_stage(const struct fs_ns *ns, uint64_t dir) {
  bool may = (dir & FS_OUTPUT_ID) && !ns->replicated && fs_member(&ns->members, FS_OUTPUT_ID_RANK(dir));
  return may ? fs_names_stage(ns->names, dir) : FS_NAMES_SHOWN;
}

bool fs_private(const struct fs_ns *ns, uint64_t dir) {
  return fs_private_stage(ns, dir) != FS_NAMES_SHOWN;
}

bool fs_private_may_answer(const struct fs_ns *ns, struct fs_asked a, uint64_t dir) {
  return a.from == ns->rank && fs_private_stage(ns, dir) == FS_NAMES_PRIVATE && fs_ns_certain_until(ns) > ns->now;
}

/* Takes the records of one directory, as many as fit into a message, off the list. Returns their
   directory. */
static uint64_t fs_unsent_take(struct fs_ns *ns, struct fs_names_call *c) {
  size_t at = sizeof(*c);
  uint64_t dir = ns->unsent[0].dir;
  uint32_t left = 0;
  for (uint32_t i = 0; i < ns->unsent_n; i++) {
    const struct fs_unsent u = ns->unsent[i];
    const struct fs_record *r = u.dir == dir ? fs_names_find_id(ns->names, dir, u.id) : NULL;
    bool room = !r || fs_record_put(c, FS_NAMES_BODY, &at, r, fs_record_name(r), fs_record_target(r));
    if (u.dir != dir || !room) ns->unsent[left++] = u;
  }
  ns->unsent_n = left;
  c->tail_len = (uint16_t)(at - sizeof(*c));
  return dir;
}

static void fs_unsent_send(struct fs_ns *ns) {
  while (ns->unsent_n > 0) {
    struct fs_names_call *c = (void *)ns->body;
    *c = (struct fs_names_call){.op = FS_NAMES_BACKUP};
    c->backup.dir = fs_unsent_take(ns, c);
    c->backup.changed = fs_names_changed(ns->names, c->backup.dir);
    struct fs_keepers k = fs_members_keepers(&ns->members, c->backup.dir);
    if (c->tail_len > 0 && k.primary == ns->rank && k.backup != FS_NO_RANK) fs_ns_ask(ns, k.backup, c, NULL, NULL);
  }
}

void fs_private_published(struct fs_ns *ns, const struct fs_record *r) {
  if (ns->unsent_n == FS_UNSENT_MOST) fs_unsent_send(ns);
  if (ns->unsent_n == 0) ns->unsent_since = ns->now;
  ns->unsent[ns->unsent_n++] = (struct fs_unsent){.dir = r->dir, .id = r->id};
}

void fs_private_timers(struct fs_ns *ns) {
  if (ns->unsent_n > 0 && ns->now >= ns->unsent_since + FS_UNSENT_NS) fs_unsent_send(ns);
}

bool fs_private_end(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  uint64_t dir = fs_call_dir(c);
  bool mine = (dir & FS_OUTPUT_ID) && FS_OUTPUT_ID_RANK(dir) == ns->rank;
  bool here = a.from == ns->rank && fs_call_op(c)->client;    /* else a program of any rank may learn the answer */
  if (!mine || here || c->op == FS_NAMES_TIMES) return false; /* times tell no names */
  if (!fs_private(ns, dir)) return false;
  fs_names_set_stage(ns->names, dir, FS_NAMES_ENDING);
  fs_unsent_send(ns); /* what the caller will know the backup has, or has on its way */
  if (fs_commit_early(ns, dir)) {
    fs_ns_answer(ns, a, -EAGAIN, NULL, 0);
    return true;
  }
  if (fs_commit_show(ns, dir)) fs_names_set_stage(ns->names, dir, FS_NAMES_SHOWN);
  return false;
}
