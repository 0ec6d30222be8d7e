/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whiteouts (docs/internals/overlay.md): records that say that a dataset's name was removed. A name
 * of a dataset that was taken once has a record from then on, what programs see or a whiteout. So
 * whoever looks such a name up never falls back to the dataset. Called by the parts of ns.h.
 */
#include "daemon/metadata/ns_priv.h"

fs_err fs_whiteout_put(struct fs_ns *ns, struct fs_commit *commit, uint64_t dir, const char *name, size_t len,
                       uint64_t call) {
  struct fs_record w = {.id = fs_id_ok(call) ? call : fs_ns_id(ns),
                        .dir = dir,
                        .mode = FS_WHITEOUT,
                        .home = ns->rank,
                        .flags = FS_RECORD_PUBLISHED | FS_RECORD_TAKEN,
                        .name_len = (uint16_t)len};
  fs_err err = fs_names_put(ns->names, &w, name, NULL, NULL);
  if (err == 0) commit->whiteout = w.id;
  return err;
}

fs_err fs_vacate(struct fs_ns *ns, struct fs_commit *commit, const struct fs_record *r, uint64_t call) {
  char name[FS_RECORD_NAME_MAX];
  uint64_t dir = r->dir, id = r->id;
  size_t len = r->name_len;
  if (r->flags & FS_RECORD_TAKEN) {
    memcpy(name, fs_record_name(r), len);
    fs_err err = fs_whiteout_put(ns, commit, dir, name, len, call);
    if (err < 0) return err;
  } else {
    (void)fs_names_drop(ns->names, dir, id);
  }
  commit->gone = id;
  fs_changed_now(ns, dir);
  return 0;
}

void fs_whiteout_start(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  if (fs_exec_mark_taken(ns, a, c->remove.dir, fs_call_tail(c), c->tail_len, c)) return;
  if (fs_ns_full(ns)) {
    fs_ns_answer(ns, a, -ENOSPC, NULL, 0);
    return;
  }
  struct fs_commit *commit = fs_commit_new(ns, a, c->remove.dir, NULL);
  if (commit && fs_whiteout_put(ns, commit, c->remove.dir, fs_call_tail(c), c->tail_len, c->remove.call) < 0) {
    fs_commit_free(commit);
    commit = NULL;
  }
  if (commit) {
    commit->call = c->remove.call;
    commit->forwarded = true;
    fs_done_note(ns, c->remove.call);
    fs_changed_now(ns, c->remove.dir);
  }
  fs_exec_commit(ns, a, commit);
}
