/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes clients' calls about output files from the call slots of their channels to the rows of the
 * modules (client_calls.h), and the answers back. A call is copied out of the channel once, and the
 * copy is checked. If a client goes away, its calls are still made, without an answer.
 */
#include "daemon/outputs/client_calls.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/outputs/backing.h"
#include "ipc/channel.h"

/* ---- answers ---- */

static void fs_client_call_answer(struct fs_channel *ch, uint32_t i, fs_err err, const void *body, size_t n) {
  struct fs_call_slot *b = &ch->call_slot[i];
  if (n > 0) memcpy(b->body, body, n);
  b->length = (uint32_t)n;
  b->err = err;
  fs_chan_answer(fs_chan_call(ch, i));
}

void fs_client_call_done(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_client_call *call = ctx;
  if (call->client) {
    call->client->call_slot[call->number] = NULL;
    fs_client_call_answer(call->client->channel, call->number, err, body, n);
  }
  free(call);
}

void fs_client_calls_forget(struct fs_daemon *d, struct fs_client *c) {
  (void)d;
  for (uint32_t i = 0; i < FS_CHANNEL_CALLS; i++) {
    if (c->call_slot[i]) c->call_slot[i]->client = NULL;
    c->call_slot[i] = NULL;
  }
}

/* ---- what this node knows of the ids in a call ---- */

fs_err fs_client_call_check_dir(const struct fs_daemon *d, uint64_t dir, const char *name, size_t len) {
  uint64_t dataset = (dir >> 32) - 1, entry = dir & UINT32_MAX;
  if (dir & FS_OUTPUT_ID) return 0;
  if (dir >> 32 == 0 || dataset >= d->datasets) return -EINVAL;
  const struct fs_index *ix = &d->data[dataset].stage.index;
  const struct fs_entry *e = fs_index_entry(ix, entry);
  if (!e) return -EINVAL;
  if (!S_ISDIR(e->mode)) return -ENOTDIR;
  return len > 0 && fs_index_child(ix, (uint32_t)entry, name, len) >= 0 ? -EROFS : 0;
}

fs_err fs_client_call_check_taking(const struct fs_daemon *d, uint64_t dir, const char *name, size_t len, bool takes) {
  fs_err err = fs_client_call_check_dir(d, dir, name, len);
  if (err != -EROFS) return err == 0 && takes ? -EINVAL : err;
  const struct fs_index *ix = &d->data[(dir >> 32) - 1].stage.index;
  const struct fs_entry *e = fs_index_entry(ix, (uint64_t)fs_index_child(ix, (uint32_t)dir, name, len));
  return takes && d->cfg->overlay && e && !S_ISDIR(e->mode) ? 0 : -EROFS;
}

fs_err fs_client_call_check_name(const struct fs_daemon *d, const struct fs_names_call *c) {
  return fs_client_call_check_dir(d, fs_call_dir(c), fs_call_tail(c), c->tail_len);
}

fs_err fs_client_call_check_file(const struct fs_daemon *d, const struct fs_names_call *c) {
  return FS_OUTPUT_ID_RANK(fs_call_id(c)) < d->net->nodes ? 0 : -EINVAL;
}

fs_err fs_client_call_check_own(const struct fs_daemon *d, const struct fs_names_call *c) {
  return fs_backing_mine(d, fs_call_id(c)) ? fs_client_call_check_file(d, c) : -EINVAL;
}

/* ---- the table ---- */

/* An operation without a row is none that clients may ask for. */
static const struct fs_client_call_op *const fs_client_call_ops[FS_NAMES_OPS] = {
    [FS_NAMES_LOOKUP] = &fs_look_up_call,
    [FS_NAMES_CREATE] = &fs_create_call,
    [FS_NAMES_PUBLISH] = &fs_publish_call,
    [FS_NAMES_REMOVE] = &fs_remove_call,
    [FS_NAMES_RENAME] = &fs_rename_call,
    [FS_NAMES_LIST] = &fs_named_call,
    [FS_NAMES_SETATTR] = &fs_named_call,
    [FS_NAMES_TIMES] = &fs_named_call,
    [FS_NAMES_OPEN] = &fs_open_call,
    [FS_NAMES_CLOSE] = &fs_close_call,
    [FS_NAMES_EXTEND] = &fs_extend_call,
    [FS_NAMES_EXTENTS] = &fs_home_call,
    [FS_NAMES_APPEND] = &fs_append_call,
    [FS_NAMES_OWN] = &fs_own_call,
    [FS_NAMES_FORWARD] = &fs_forward_call,
    [FS_NAMES_SYNC] = &fs_sync_call,
    [FS_NAMES_OFFER] = &fs_offer_call,
    [FS_NAMES_FIND] = &fs_find_call,
    [FS_NAMES_NODE_LOCAL] = &fs_node_local_call,
    [FS_NAMES_LOCK] = &fs_lock_call,
};

/* ---- calls ---- */

static fs_err fs_client_call_check(const struct fs_daemon *d, const struct fs_names_call *c, size_t n) {
  if (!fs_call_ok(c, n) || !fs_call_op(c)->client) return -EINVAL;
  if (d->cfg->read_only && fs_call_op(c)->changes) return -EROFS;
  const struct fs_client_call_op *op = fs_client_call_ops[c->op];
  return !op ? -EINVAL : op->check ? op->check(d, c) : 0;
}

static fs_err fs_client_call_start(struct fs_daemon *d, struct fs_client *client, uint32_t i, struct fs_names_call *c) {
  const struct fs_client_call_op *op = fs_client_call_ops[c->op];
  struct fs_client_call *call = malloc(sizeof(*call));
  if (!call) return -ENOMEM;
  *call = (struct fs_client_call){.d = d, .client = client, .number = i, .until = d->now + d->cfg->deadline_ns};
  fs_err err = op->prepare ? op->prepare(call, c) : 0;
  if (err < 0) {
    free(call);
    return err;
  }
  if (fs_call_op(c)->call) *fs_call_at(c, fs_call_op(c)->call) = fs_ns_id(d->ns);
  client->call_slot[i] = call;
  if (op->start)
    op->start(call, c);
  else
    fs_ns_call(d->ns, d->now, c, op->done ? op->done : fs_client_call_done, call);
  return 0;
}

static void fs_client_call_take(struct fs_daemon *d, struct fs_client *client, uint32_t i) {
  alignas(8) char body[FS_NAMES_BODY];
  struct fs_channel *ch = client->channel;
  struct fs_names_call *c = (void *)body;
  if (client->call_slot[i]) return; /* posted twice: only the first counts */
  if (!fs_chan_taken(fs_chan_call(ch, i))) return;
  size_t n = FS_MIN(*(volatile uint32_t *)&ch->call_slot[i].length, FS_NAMES_BODY);
  memcpy(body, ch->call_slot[i].body, n);
  fs_err err = fs_client_call_check(d, c, n);
  if (err == 0) err = fs_client_call_start(d, client, i, c);
  if (err < 0) fs_client_call_answer(ch, i, err, NULL, 0);
}

bool fs_client_calls_posted(const struct fs_client *c) {
  return atomic_load_explicit(&c->channel->calls_posted, memory_order_seq_cst) != 0;
}

int fs_client_calls_take(struct fs_daemon *d, struct fs_client *c) {
  uint64_t posted = fs_chan_take(&c->channel->calls_posted);
  int n = 0;
  for (posted &= (1ull << FS_CHANNEL_CALLS) - 1; posted != 0; posted &= posted - 1, n++)
    fs_client_call_take(d, c, (uint32_t)__builtin_ctzll(posted));
  return n;
}

void fs_client_calls_release(struct fs_client *c) {
  for (uint32_t i = 0; i < FS_CHANNEL_CALLS; i++) {
    if (!c->call_slot[i]) continue;
    c->call_slot[i]->client = NULL;
    c->call_slot[i] = NULL;
    fs_client_call_answer(c->channel, i, -ESHUTDOWN, NULL, 0);
  }
}
