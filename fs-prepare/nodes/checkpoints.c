/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lead's part of checkpoints over nodes: has the owners open their directories, go back to a
 * checkpoint, and make one. The journal (pack/journal.c) is written as with one process.
 * docs/internals/pack-nodes.md has the protocol. Main thread.
 */
#include <string.h>

#include "lead.h"

static struct {
  struct fs_nodes *n;
  bool lacks;
} c;

static fs_err open_nodes(const struct fs_part_state *state) {
  const struct fs_target *t = c.n->target;
  const uint32_t parts = c.n->plan.nparts + c.n->plan.nreplicated;
  char path[2 * PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", strcmp(t->parent, "/") == 0 ? "" : t->parent, t->temp);
  if (strlen(path) >= PATH_MAX) return -ENAMETOOLONG;
  struct fs_msg *m = fs_msg_new(FS_NODES_OPEN);
  fs_msg_text(m, path);
  fs_msg_u32(m, state != NULL ? parts : 0);
  if (state != NULL) fs_msg_put(m, state, parts * sizeof *state);
  c.lacks = false;
  fs_nodes_send_all(c.n, m);
  fs_err err = fs_lead_answers(c.n, FS_NODES_OPENED);
  if (err < 0 || !c.lacks) return err;
  return state != NULL ? -ENODATA : -EPROTO;
}

static fs_err on_opened(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  const char *lacks = fs_in_text(in);
  fs_err err = in->bad ? -EPROTO : fs_lead_answered(n, from, FS_NODES_OPENED);
  if (err < 0) return err;
  if (lacks[0] != '\0' && !c.lacks)
    fs_say("the interrupted pack of %s is not resumed, because %s; this one begins anew", n->target->path, lacks);
  c.lacks |= lacks[0] != '\0';
  return 0;
}

static fs_err sync_nodes(const struct fs_parts *p, struct fs_part_state *state) {
  return fs_lead_ask_states(c.n, FS_NODES_SYNC, p, state);
}

void fs_checkpoints_begin(struct fs_nodes *n, struct fs_pack_nodes *functions) {
  c.n = n;
  functions->open = open_nodes;
  functions->sync = sync_nodes;
  n->handler[FS_NODES_OPENED] = on_opened;
}
