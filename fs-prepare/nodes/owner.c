/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node's owner: writes the partitions of this node into a directory of its own below the local
 * directory (partial.c), and those that it has first on shared storage too. Chunks come from all
 * nodes in any order and are appended in the lead's order. At the end the files become staged
 * copies, as the daemon makes them. Main thread.
 */
#include "owner.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adopt.h"

fs_err fs_owner_failed(struct fs_nodes *n, bool shared, fs_err err) {
  const bool full = err == -ENOSPC || err == -EDQUOT, process = err == -ENOMEM || err == -EMFILE || err == -ENFILE;
  const char *advice = shared ? "; name a DATASET on storage that all nodes share" : "; choose another --local-dir";
  if (full && shared) advice = "; free some there, or name a DATASET on another file system";
  if (full && !shared) advice = "; free some there, or pack on more nodes";
  return fs_nodes_fail(n, "node %u (%s): %s: cannot be written: %s%s", n->rank, n->host,
                       shared ? n->shared : n->owner->top, strerror(-err), process ? "" : advice);
}

fs_err fs_owner_start(struct fs_nodes *n) {
  struct fs_owner *o = n->owner = calloc(1, sizeof *o);
  if (o == NULL) return -ENOMEM;
  o->top_fd = o->dir_fd = o->shared_fd = -1;
  o->plan = &n->plan;
  o->parts = n->plan.nparts + n->plan.nreplicated;
  o->part = calloc(o->parts + 1u, sizeof *o->part);
  o->here = calloc(o->parts + 1u, sizeof *o->here);
  o->first = calloc(o->parts + 1u, sizeof *o->first);
  if (o->part == NULL || o->here == NULL || o->first == NULL) return -ENOMEM;
  for (uint32_t p = 0; p < o->parts; p++) {
    o->here[p] = fs_nodes_owns(&n->plan, n->nodes, n->rank, p);
    o->first[p] = fs_nodes_owner(&n->plan, n->nodes, p) == n->rank;
  }
  snprintf(o->top, sizeof o->top, n->emulated >= 0 ? "%.4000s/fanstore-node%d" : "%.4000s/fanstore", n->local,
           n->emulated);
  return 0;
}

/* Appends a piece whose turn it is. */
static fs_err append(struct fs_nodes *n, uint32_t part, const struct piece *c) {
  struct fs_owner *o = n->owner;
  o->part[part].seq++;
  fs_err err = fs_parts_put(&o->local, fs_parts_new(o->plan, part), c->offset, c->data, c->len);
  if (err == -EINTR || err == -EPROTO) return err;
  if (err < 0) return fs_owner_failed(n, false, err);
  if (o->shared_fd < 0 || !o->first[part]) return 0;
  err = fs_parts_put(&o->shared, fs_parts_new(o->plan, part), c->offset, c->data, c->len);
  return err < 0 && err != -EINTR ? fs_owner_failed(n, true, err) : err;
}

static void kept(struct fs_nodes *n, struct message *m) {
  if (--m->left != 0) return;
  struct fs_msg *answer = fs_msg_new(FS_NODES_KEPT);
  fs_msg_u64(answer, m->batch);
  fs_nodes_send(n, 0, answer);
  free(m);
}

/* Appends what waited for the piece before it. */
static fs_err append_waiting(struct fs_nodes *n, uint32_t part) {
  struct fs_owner *o = n->owner;
  for (struct piece *c; (c = o->part[part].waiting) != NULL && c->seq == o->part[part].seq;) {
    fs_err err = append(n, part, c);
    if (err < 0) return err;
    o->part[part].waiting = c->next;
    kept(n, c->of);
    free((void *)c->data);
    free(c);
  }
  return 0;
}

static fs_err let_wait(struct fs_owner *o, uint32_t part, const struct piece *c) {
  struct piece **at = &o->part[part].waiting;
  while (*at != NULL && (*at)->seq < c->seq) at = &(*at)->next;
  if (*at != NULL && (*at)->seq == c->seq) return -EPROTO;
  struct piece *copy = malloc(sizeof *copy);
  uint8_t *data = malloc(c->len);
  if (copy == NULL || data == NULL) {
    free(copy);
    free(data);
    return -ENOMEM;
  }
  memcpy(data, c->data, c->len);
  *copy = *c;
  copy->data = data;
  copy->next = *at;
  *at = copy;
  return 0;
}

static fs_err take_piece(struct fs_nodes *n, struct message *m, struct fs_in *in) {
  struct fs_owner *o = n->owner;
  uint32_t part = fs_in_u32(in);
  struct piece c = {.of = m};
  c.seq = fs_in_u64(in);
  c.offset = fs_in_u64(in);
  c.len = fs_in_u64(in);
  c.data = fs_in_get(in, c.len);
  if (in->bad || part >= o->parts || !o->here[part] || c.seq < o->part[part].seq) return -EPROTO;
  if (c.seq != o->part[part].seq) return let_wait(o, part, &c);
  fs_err err = append(n, part, &c);
  if (err < 0) return err;
  kept(n, m);
  return append_waiting(n, part);
}

static fs_err on_bytes(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  (void)from;
  if (n->owner == NULL || n->owner->state != FS_OWNER_OPEN) return -EPROTO;
  struct message *m = calloc(1, sizeof *m);
  if (m == NULL) return -ENOMEM;
  m->batch = fs_in_u64(in);
  uint32_t count = fs_in_u32(in);
  fs_err err = count == 0 || count > FS_BATCH_CHUNKS ? -EPROTO : 0;
  m->left = count + 1; /* it lives until all pieces are looked at */
  for (uint32_t i = 0; i < count && err == 0; i++) err = take_piece(n, m, in);
  if (err == 0) kept(n, m);
  return err;
}

/* What an owner does when the lead asks for the states of its partitions. */
struct asked {
  struct fs_nodes *n;
  struct fs_part_state *local, *shared; /* [new partition] */
  bool in_shared;                       /* of an error: it was there */
};

static fs_err finish(void *ctx) {
  struct asked *a = ctx;
  struct fs_owner *o = a->n->owner;
  fs_err err = fs_parts_finish(&o->local);
  a->in_shared = err == 0;
  if (err == 0 && o->shared_fd >= 0) err = fs_parts_finish(&o->shared);
  for (uint32_t k = 0; k < o->parts; k++) {
    const struct fs_part_rec *rec = &o->local.out[fs_parts_new(o->plan, k)].rec;
    a->local[k] = (struct fs_part_state){rec->size, rec->xxh3};
  }
  return err;
}

static fs_err sync_all(void *ctx) {
  struct asked *a = ctx;
  struct fs_owner *o = a->n->owner;
  fs_err err = fs_parts_sync(&o->local, o->plan, a->local);
  a->in_shared = err == 0 && o->shared_fd >= 0;
  if (err == 0 && o->shared_fd >= 0) err = fs_parts_sync(&o->shared, o->plan, a->shared);
  if (err < 0) return err;
  a->in_shared = false;
  return fs_partial_sync(o);
}

static fs_err grow(struct asked *a, struct fs_in *in) {
  struct fs_owner *o = a->n->owner;
  if (fs_in_u32(in) != o->parts) return -EPROTO;
  for (uint32_t p = 0; p < o->parts; p++) {
    uint64_t size = fs_in_u64(in);
    if (in->bad || o->part[p].waiting != NULL) return -EPROTO;
    const uint32_t number = fs_parts_new(o->plan, p);
    fs_err err = o->here[p] ? fs_parts_put(&o->local, number, size, NULL, 0) : 0;
    a->in_shared = err == 0;
    if (err == 0 && o->shared_fd >= 0 && o->first[p]) err = fs_parts_put(&o->shared, number, size, NULL, 0);
    if (err < 0) return err;
  }
  return 0;
}

/* All that is placed is in the partitions. */
static fs_err answer_states(struct fs_nodes *n, uint32_t from, struct fs_in *in, fs_err (*act)(void *)) {
  struct fs_owner *o = n->owner;
  if (from != 0 || o == NULL || o->state != FS_OWNER_OPEN) return -EPROTO;
  FS_AUTO_FREE struct fs_part_state *state = calloc(2ul * o->parts + 1, sizeof *state);
  if (state == NULL) return -ENOMEM;
  struct asked a = {.n = n, .local = state, .shared = state + o->parts};
  fs_err err = grow(&a, in);
  if (err == 0) a.in_shared = false;
  if (err == 0) err = fs_nodes_aside(n, act, &a);
  if (err == -EINTR || err == -EPROTO) return err;
  if (err < 0) return fs_owner_failed(n, a.in_shared, err);
  struct fs_msg *m = fs_msg_new(FS_NODES_STATES);
  for (uint32_t k = 0; k < o->parts; k++) {
    if (!o->here[k]) continue;
    fs_msg_u32(m, k);
    fs_msg_u64(m, state[k].size);
    fs_msg_u64(m, state[k].xxh3);
  }
  fs_msg_u32(m, UINT32_MAX);
  fs_nodes_send(n, 0, m);
  return 0;
}

static fs_err on_finish(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  fs_err err = answer_states(n, from, in, finish);
  if (err == 0) n->owner->state = FS_OWNER_FINISHED;
  return err;
}

static fs_err on_sync(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  return answer_states(n, from, in, sync_all);
}

struct seal {
  struct fs_owner *o;
  uint8_t id[16];
  bool in_shared; /* of an error: it was there */
};

static fs_err seal(void *ctx) {
  struct seal *s = ctx;
  fs_err err = fs_parts_seal(&s->o->local, s->id);
  s->in_shared = err == 0;
  return err == 0 && s->o->shared_fd >= 0 ? fs_parts_seal(&s->o->shared, s->id) : err;
}

static fs_err on_seal(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  struct seal s = {.o = n->owner};
  const void *id = fs_in_get(in, sizeof s.id);
  if (from != 0 || n->owner == NULL || n->owner->state != FS_OWNER_FINISHED || id == NULL) return -EPROTO;
  memcpy(s.id, id, sizeof s.id);
  fs_err err = fs_nodes_aside(n, seal, &s);
  if (err == -EINTR) return err;
  if (err < 0) return fs_owner_failed(n, s.in_shared, err);
  n->owner->state = FS_OWNER_SEALED;
  fs_parts_close(&n->owner->local);
  if (n->owner->shared_fd >= 0) fs_parts_close(&n->owner->shared);
  fs_nodes_send(n, 0, fs_msg_new(FS_NODES_SEALED));
  return 0;
}

struct hold {
  struct fs_nodes *n;
  const char *dataset, *local;
  const uint8_t *id;
  char why[512];
};

static fs_err hold(void *ctx) {
  struct hold *h = ctx;
  return fs_held_find(&h->n->held, h->dataset, h->id, h->local, h->n->emulated, h->why, sizeof h->why);
}

static fs_err on_hold(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  struct hold h = {.n = n, .dataset = fs_in_text(in)};
  h.local = fs_in_text(in);
  h.id = fs_in_get(in, 16);
  if (from != 0 || in->bad || n->held != NULL || n->owner != NULL || n->node_walk != NULL) return -EPROTO;
  fs_err err = fs_nodes_aside(n, hold, &h);
  if (err == -EINTR) return err;
  if (err < 0)
    return fs_nodes_fail(n, "node %u (%s): its partitions cannot be told: %s", n->rank, n->host,
                         h.why[0] != '\0' ? h.why : strerror(-err));
  struct fs_msg *m = fs_msg_new(FS_NODES_HELD);
  const uint32_t parts = fs_held_parts(n->held);
  fs_msg_u32(m, parts);
  for (uint32_t p = 0; p < parts; p++) fs_msg_u32(m, fs_held_has(n->held, p));
  fs_nodes_send(n, 0, m);
  return 0;
}

static fs_err adopt(void *ctx) {
  return fs_adopt(ctx);
}

static fs_err on_adopt(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  const struct fs_owner *o = n->owner;
  const char *path = fs_in_text(in);
  if (from != 0 || o == NULL || o->state != FS_OWNER_SEALED || in->bad) return -EPROTO;
  struct fs_adopt a = {.dataset = path,
                       .local = n->local,
                       .emulated = n->emulated,
                       .from = o->dir_fd,
                       .here = o->here,
                       .number = n->numbers.number,
                       .held = n->held,
                       .parts = o->parts,
                       .total = n->numbers.total};
  fs_err err = fs_nodes_aside(n, adopt, &a);
  if (err < 0)
    return fs_nodes_fail(n, "node %u (%s): its partitions cannot be placed: %s", n->rank, n->host,
                         a.why[0] != '\0' ? a.why : strerror(-err));
  struct fs_msg *m = fs_msg_new(FS_NODES_ADOPTED);
  fs_msg_u64(m, a.bytes);
  fs_nodes_send(n, 0, m);
  return 0;
}

void fs_owner_begin(struct fs_nodes *n) {
  fs_partial_begin(n);
  n->handler[FS_NODES_HOLD] = on_hold;
  n->handler[FS_NODES_SYNC] = on_sync;
  n->handler[FS_NODES_BYTES] = on_bytes;
  n->handler[FS_NODES_FINISH] = on_finish;
  n->handler[FS_NODES_SEAL] = on_seal;
  n->handler[FS_NODES_ADOPT] = on_adopt;
}

void fs_owner_stop(struct fs_nodes *n) {
  n->leaving = true;
  if (n->owner != NULL) fs_partial_close(n->owner, n->discard);
}

void fs_owner_abandon(const struct fs_nodes *n) {
  if (n->owner != NULL) fs_partial_remove(n->owner, n->discard);
  fs_nodes_let_lead_tell();
  _exit(FS_EXIT_FAILED);
}
