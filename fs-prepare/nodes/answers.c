/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lead's questions to all nodes: each node answers one with one message. Also what a node says by
 * itself: that it lives, and that it has failed. Main thread of rank 0.
 */
#include "lead.h"

#define TURN_NS (FS_NS_PER_S / 10)

fs_err fs_lead_answers(struct fs_nodes *n, uint32_t kind) {
  struct fs_lead *l = n->lead;
  fs_err err = 0;
  l->asked = kind;
  l->answers = 0;
  for (uint32_t i = 0; i < n->nodes; i++) l->peer[i].answered = false;
  while (l->answers < n->nodes && err == 0) err = fs_nodes_step(n, fs_now_ns() + TURN_NS);
  l->asked = FS_NODES_KINDS;
  return err;
}

fs_err fs_lead_answered(struct fs_nodes *n, uint32_t from, uint32_t kind) {
  struct fs_lead *l = n->lead;
  if (l->asked != kind || l->peer[from].answered) return -EPROTO;
  l->peer[from].answered = true;
  l->answers++;
  return 0;
}

static fs_err on_ready(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  struct fs_peer *p = &n->lead->peer[from];
  p->jobs = fs_in_u32(in);
  snprintf(p->host, sizeof p->host, "%s", fs_in_text(in));
  for (char *c = p->host; *c != '\0'; c++) /* it goes into lines and JSON */
    if (*c < '-' || *c > 'z' || *c == '\\') *c = '?';
  if (in->bad || p->jobs == 0 || p->jobs > 4096) return -EPROTO;
  n->lead->window += 2ull * p->jobs + FS_LEAD_AHEAD;
  return fs_lead_answered(n, from, FS_NODES_READY);
}

static fs_err on_held(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  const struct fs_lead *l = n->lead;
  fs_err err = fs_lead_answered(n, from, FS_NODES_HELD);
  if (err < 0) return err;
  if (fs_in_u32(in) != l->held_parts) return -EPROTO;
  for (uint32_t p = 0; p < l->held_parts; p++) l->held[p] |= fs_in_u32(in) != 0;
  return in->bad ? -EPROTO : 0;
}

static fs_err on_sealed(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  (void)in;
  return fs_lead_answered(n, from, FS_NODES_SEALED);
}

static fs_err on_adopted(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  n->lead->peer[from].staged = fs_in_u64(in);
  return fs_lead_answered(n, from, FS_NODES_ADOPTED);
}

static fs_err on_failed(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  const char *line = fs_in_text(in);
  (void)from;
  return in->bad ? -EPROTO : fs_nodes_fail(n, "%s", line);
}

static fs_err on_alive(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  (void)n, (void)from, (void)in;
  return 0;
}

void fs_answers_begin(struct fs_nodes *n) {
  n->lead->asked = FS_NODES_KINDS;
  n->handler[FS_NODES_HELD] = on_held;
  n->handler[FS_NODES_READY] = on_ready;
  n->handler[FS_NODES_SEALED] = on_sealed;
  n->handler[FS_NODES_ADOPTED] = on_adopted;
  n->handler[FS_NODES_FAILED] = on_failed;
  n->handler[FS_NODES_ALIVE] = on_alive;
}
