/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients' calls about names of output files: from the boxes of their channels to the name service (ns.h), and the
 * answers back. All of it is the MPI thread's. A call is copied out of the channel once, and checked; a client that is
 * gone has no answer, but its call is made all the same.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/metadata/ns_net.h"
#include "daemon/outputs/hold.h"
#include "daemon/outputs/left.h"
#include "daemon/outputs/node_part.h"
#include "daemon/outputs/outpath.h"
#include "daemon/outputs/relay.h"
#include "daemon/replicas/replicas.h"
#include "util/sys.h"

#define FS_BOXES_EARLY 256u /* publications that the mirror has yet to hear of, and the client does not wait for */

static uint32_t fs_boxes_early; /* so many there are */

struct fs_box_call {
  struct fs_daemon *d;
  struct fs_client *client; /* NULL: gone */
  uint32_t number;
  uint32_t op;
  uint64_t id, dir;
  uint64_t until; /* a removal that is answered later waits for nothing more: its client's patience ends */
  bool made;      /* a CREATE of a file of this node's */
  bool made_dir;
  bool early;                /* the client has its answer already */
  fs_err why;                /* a PUBLISH has no replica */
  struct fs_names_call call; /* a PUBLISH */
};

/* ---- answers ---- */

static void fs_box_free(struct fs_channel *ch, uint32_t i) {
  atomic_store_explicit(&ch->box[i].state, FS_REQ_FREE, memory_order_release);
  atomic_fetch_and_explicit(&ch->boxes_claimed, ~(1u << i), memory_order_release);
}

static void fs_box_answer(struct fs_channel *ch, uint32_t i, fs_err err, const void *body, size_t n) {
  struct fs_box *b = &ch->box[i];
  if (n > 0) memcpy(b->body, body, n);
  b->length = (uint32_t)n;
  b->err = err;
  uint32_t was = atomic_exchange_explicit(&b->state, FS_REQ_DONE, memory_order_acq_rel);
  if (was == FS_REQ_ASLEEP) fs_futex_wake(&b->state, 1);
  if (was == FS_REQ_ABANDONED) fs_box_free(ch, i);
}

static void fs_box_done(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_box_call *call = ctx;
  if (call->client) {
    call->client->box[call->number] = NULL;
    fs_box_answer(call->client->channel, call->number, err, body, n);
  }
  free(call);
}

/* It was done, but should the mirror not hear of it (this rank is taken for dead, say), it is said again. */
static void fs_box_early_called(const struct fs_box_call *call, fs_err err) {
  struct fs_spill_file *f = err < 0 ? fs_spill_find(call->d, call->id) : NULL;
  fs_boxes_early--;
  if (f) fs_spill_again(call->d, f);
}

/* Reports the node's first output. */
static void fs_box_wrote(const struct fs_daemon *d) {
  static bool told;
  struct fs_control_line l;
  if (told) return;
  told = true;
  if (fs_say_begin(d, &l, "wrote") == 0) fs_say_line(&l);
}

/* What this node's own tables are to know of it. */
static void fs_box_called(void *ctx, fs_err err, const void *body, size_t n) {
  const struct fs_box_call *call = ctx;
  if (call->early) fs_box_early_called(call, err);
  if (err < 0 && call->made) fs_spill_not_created(call->d, call->id);
  if (err == 0 && call->made) fs_spill_created(call->d, call->id);
  if (err == 0 && (call->op == FS_NAMES_CREATE || call->op == FS_NAMES_OWN)) fs_box_wrote(call->d);
  bool names = call->op == FS_NAMES_CREATE || call->op == FS_NAMES_PUBLISH;
  if (err == 0 && names) fs_left_record(call->d, body, n);
  if (err == 0 && call->made_dir) fs_path_parent(call->d, call->id, call->dir);
  if (err == -ENOENT && call->op == FS_NAMES_EXTEND) fs_node_part_useless(call->d, call->id);
  if (err < 0 && call->op == FS_NAMES_PUBLISH) fs_spill_not_published(call->d, call->id);
  if (err == 0) err = call->why;
  fs_box_done(ctx, err, body, n);
}

/* The file had no other end to wait for: home could not say so in time, or keeps the bytes for who holds it. */
static void fs_box_dropped(void *ctx, fs_err err, const void *body, size_t n) {
  (void)err, (void)body, (void)n;
  fs_box_done(ctx, 0, NULL, 0);
}

/* What was removed or replaced is gone at its home, too, before the client goes on: it may look at st_nlink, or write
   where the file's bytes were. The answer is the file's id, if it was a file; the client has it if it is to unlink the
   backing file itself. The record of what was renamed follows. */
static void fs_box_removed(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_box_call *call = ctx;
  uint64_t id = 0;
  if (err == 0 && n >= sizeof(id)) memcpy(&id, body, sizeof(id));
  if (err == 0 && n > sizeof(id)) fs_left_record(call->d, (const char *)body + sizeof(id), n - sizeof(id));
  bool wait = id != 0 && call->client && call->d->now < call->until;
  if (wait && fs_spill_leaving(call->d, id))
    fs_box_done(ctx, 0, &id, sizeof(id));
  else if (wait)
    fs_ns_await_drop(call->d->ns, id, fs_box_dropped, call);
  else
    fs_box_done(ctx, err, body, err == 0 ? 0 : n);
}

static void fs_box_held(void *ctx, fs_err err, const void *body, size_t n) {
  const struct fs_box_call *call = ctx;
  struct fs_held held = {0};
  bool silent = err == -EHOSTDOWN || err == -ETIMEDOUT; /* the body says whose home */
  if (err == 0 && n == sizeof(held)) memcpy(&held, body, n);
  err = fs_holds_answered(call->d, call->client, call->id, err, &held);
  if (silent)
    fs_box_done(ctx, err, body, n);
  else
    fs_box_done(ctx, err, &held, err == 0 ? sizeof(held) : 0);
}

void fs_boxes_forget(struct fs_daemon *d, struct fs_client *c) {
  (void)d;
  for (uint32_t i = 0; i < FS_CHANNEL_BOXES; i++) {
    if (c->box[i]) c->box[i]->client = NULL;
    c->box[i] = NULL;
  }
}

/* ---- calls ---- */

static bool fs_box_changes(const struct fs_names_call *c) {
  return c->op != FS_NAMES_LOOKUP && c->op != FS_NAMES_LIST && c->op < FS_NAMES_HOLD;
}

/* Is this the id of a directory that there can be; and is the name, in a dataset's directory, not the dataset's? */
static fs_err fs_box_check_dir(const struct fs_daemon *d, uint64_t dir, const char *name, size_t len) {
  uint64_t dataset = (dir >> 32) - 1, entry = dir & UINT32_MAX;
  if (dir & FS_OUT_ID) return 0;
  if (dir >> 32 == 0 || dataset >= d->datasets) return -EINVAL;
  const struct fs_index *ix = &d->data[dataset].stage.index;
  const struct fs_entry *e = fs_index_entry(ix, entry);
  if (!e) return -EINVAL;
  if (!S_ISDIR(e->mode)) return -ENOTDIR;
  return len > 0 && fs_index_child(ix, (uint32_t)entry, name, len) >= 0 ? -EROFS : 0;
}

static fs_err fs_box_check(const struct fs_daemon *d, const struct fs_names_call *c, size_t n) {
  if (!fs_call_ok(c, n) || c->op >= FS_NAMES_CLIENT_OPS) return -EINVAL;
  if (c->op == FS_NAMES_CREATE && (c->flags & FS_NAMES_STAGED)) return -EINVAL;
  if (c->op == FS_NAMES_HOLD || c->op == FS_NAMES_RELEASE || c->op == FS_NAMES_FIND) return 0;
  if (d->cfg->read_only && (fs_box_changes(c) || c->op == FS_NAMES_NODE_LOCAL)) return -EROFS;
  bool own = c->op == FS_NAMES_RELAY || c->op == FS_NAMES_SYNC;
  if (own && !fs_spill_mine(d, c->id)) return -EINVAL;
  if (c->op == FS_NAMES_OFFER && c->to != 0 && !fs_spill_mine(d, c->to)) return -EINVAL;
  if (fs_call_of_file(c)) return FS_OUT_ID_RANK(c->id) < d->net->nodes ? 0 : -EINVAL;
  /* A node that was taken for dead is the home of nothing any more. */
  bool gone = d->replicas && !fs_member(fs_ns_members(d->ns), d->net->rank);
  if (gone && (c->op == FS_NAMES_PUBLISH || (c->op == FS_NAMES_CREATE && S_ISREG(c->mode)))) return -EIO;
  if (c->op == FS_NAMES_PUBLISH && !fs_spill_mine(d, c->id)) return -EINVAL;
  fs_err err = fs_box_check_dir(d, c->dir, fs_call_name(c), c->name_len);
  if (err == 0 && c->op == FS_NAMES_RENAME) err = fs_box_check_dir(d, c->to, fs_call_name2(c), c->name2_len);
  return err;
}

/* The call's own id, by which it is done once, where id does not say which record it is about; and what this node knows
 * better. */
static void fs_box_prepare(struct fs_daemon *d, const struct fs_client *client, struct fs_names_call *c) {
  bool own_id = c->op == FS_NAMES_CREATE && client->first_id != 0 && c->id - client->first_id < FS_OUT_ID_FILES;
  switch (c->op) {
  case FS_NAMES_PUBLISH:
    c->to = 0; /* home's word, with what else its spill is */
    break;
  case FS_NAMES_HOLD:
  case FS_NAMES_FIND:
  case FS_NAMES_TIMES:
  case FS_NAMES_EXTEND:
  case FS_NAMES_EXTENTS:
  case FS_NAMES_OWN:
  case FS_NAMES_SYNC:
    break;
  case FS_NAMES_APPEND:
  case FS_NAMES_SETATTR:
    c->to = fs_ns_id(d->ns);
    break;
  default:
    if (!own_id && (c->op != FS_NAMES_LOOKUP || c->name_len > 0)) c->id = fs_ns_id(d->ns);
  }
}

/* A publication that is done here is known to all who ask; the mirror may hear of it when the client has gone on. */
static void fs_box_replicated(void *ctx, fs_err err) {
  struct fs_box_call *call = ctx;
  struct fs_daemon *d = call->d;
  struct fs_client *client = call->client;
  uint32_t number = call->number;
  bool early = client && err == 0 && !d->replicas && fs_boxes_early < FS_BOXES_EARLY;
  call->why = err;
  (void)fs_spill_publishing(d, &call->call);
  if (early) call->call.flags |= FS_NAMES_LATER;
  struct fs_names_call c = call->call;
  fs_ns_call(d->ns, d->now, &call->call, sizeof(call->call), fs_box_called, call);
  bool waits = client && client->box[number] == call; /* else it may be no more */
  const struct fs_record *r = waits && early ? fs_ns_published(d->ns, &c) : NULL;
  if (!r) return;
  alignas(8) char body[sizeof(*r) + FS_RECORD_NAME_MAX + 1];
  size_t n = 0;
  if (!fs_record_put(body, sizeof(body), &n, r, fs_record_name(r), fs_record_target(r))) return;
  fs_boxes_early++;
  call->early = true;
  call->client = NULL;
  client->box[number] = NULL;
  fs_box_answer(client->channel, number, 0, body, n);
}

static void fs_box_publish(struct fs_box_call *call, const struct fs_names_call *c) {
  call->call = *c;
  call->call.flags &= ~(uint32_t)(FS_NAMES_DURABLE | FS_NAMES_LATER);
  fs_replicate(call->d, c->id, (struct fs_replica_wish){.sync = c->flags & FS_NAMES_DURABLE, .end = UINT64_MAX},
               fs_box_replicated, call);
}

/* What needs nobody else. False: it does. */
static bool fs_box_at_once(struct fs_daemon *d, struct fs_client *client, uint32_t i, const struct fs_names_call *c) {
  uint64_t part;
  fs_err err = 0;
  bool offer = c->op == FS_NAMES_OFFER;
  if (c->op == FS_NAMES_RELEASE)
    err = fs_holds_release(d, client, c->id, c->seq);
  else if (c->op == FS_NAMES_RELAY)
    err = fs_relay_begin(d, c);
  else if (c->op == FS_NAMES_NODE_LOCAL)
    err = fs_ctl_node_local(d, c);
  else if (offer)
    err = fs_node_part_offered(d, c->id, c->to, &part);
  else
    return false;
  fs_box_answer(client->channel, i, err, &part, err == 0 && offer ? sizeof(part) : 0);
  return true;
}

static fs_ns_done *fs_box_answered_by(uint32_t op) {
  bool removes = op == FS_NAMES_REMOVE || op == FS_NAMES_RENAME;
  return op == FS_NAMES_HOLD ? fs_box_held : removes ? fs_box_removed : fs_box_called;
}

static void fs_box_take(struct fs_daemon *d, struct fs_client *client, uint32_t i) {
  alignas(8) char body[FS_NAMES_BODY];
  struct fs_channel *ch = client->channel;
  struct fs_names_call *c = (void *)body;
  uint32_t state = atomic_load_explicit(&ch->box[i].state, memory_order_acquire);
  if (client->box[i]) return; /* posted twice: the first still counts */
  if (state == FS_REQ_ABANDONED) fs_box_free(ch, i);
  if (state != FS_REQ_POSTED && state != FS_REQ_ASLEEP) return;
  size_t n = FS_MIN(*(volatile uint32_t *)&ch->box[i].length, FS_NAMES_BODY);
  memcpy(body, ch->box[i].body, n);
  fs_err err = fs_box_check(d, c, n);
  if (err == 0 && fs_box_at_once(d, client, i, c)) return;
  struct fs_box_call *call = err == 0 ? malloc(sizeof(*call)) : NULL;
  if (err == 0 && !call)
    err = -ENOMEM;
  else if (err == 0 && c->op == FS_NAMES_HOLD)
    err = fs_holds_ask(d, client, c->id);
  if (!call || err < 0) {
    free(call);
    fs_box_answer(ch, i, err, NULL, 0);
    return;
  }
  fs_box_prepare(d, client, c);
  *call = (struct fs_box_call){.d = d, .client = client, .number = i, .op = c->op, .id = c->id, .dir = c->dir};
  call->until = d->now + d->cfg->deadline_ns;
  call->made_dir = c->op == FS_NAMES_CREATE && S_ISDIR(c->mode);
  call->made = c->op == FS_NAMES_CREATE && S_ISREG(c->mode) && !fs_spill_find(d, c->id);
  if (call->made) fs_spill_creating(d, c->id, c->dir);
  client->box[i] = call;
  if (c->op == FS_NAMES_FIND)
    fs_ns_find(d->ns, d->now, c->id, fs_box_called, call);
  else if (c->op == FS_NAMES_SYNC)
    fs_relay_sync(d, c, fs_box_called, call);
  else if (c->op == FS_NAMES_PUBLISH)
    fs_box_publish(call, c);
  else if (c->op == FS_NAMES_EXTEND)
    fs_part_extend(d, c, fs_box_called, call);
  else
    fs_ns_call(d->ns, d->now, c, n, fs_box_answered_by(c->op), call);
}

bool fs_boxes_posted(const struct fs_client *c) {
  return atomic_load_explicit(&c->channel->boxes_posted, memory_order_seq_cst) != 0;
}

int fs_boxes_take(struct fs_daemon *d, struct fs_client *c) {
  uint32_t posted = atomic_exchange_explicit(&c->channel->boxes_posted, 0, memory_order_acq_rel);
  int n = 0;
  for (posted &= (1u << FS_CHANNEL_BOXES) - 1; posted != 0; posted &= posted - 1, n++)
    fs_box_take(d, c, (uint32_t)__builtin_ctz(posted));
  return n;
}

void fs_boxes_release(struct fs_client *c) {
  for (uint32_t i = 0; i < FS_CHANNEL_BOXES; i++) {
    if (!c->box[i]) continue;
    c->box[i]->client = NULL;
    c->box[i] = NULL;
    fs_box_answer(c->channel, i, -ESHUTDOWN, NULL, 0);
  }
}
