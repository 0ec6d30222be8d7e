/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes clients' calls about output files from the call slots of their channels to the name service
 * (ns.h), and the answers back. All runs in the MPI thread. A call is copied out of the channel
 * once, and the copy is checked. If a client goes away, its calls are still made, without an
 * answer.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/metadata/ns_net.h"
#include "daemon/outputs/forwarder.h"
#include "daemon/outputs/left.h"
#include "daemon/outputs/node_segment.h"
#include "daemon/outputs/open_files.h"
#include "daemon/outputs/outpath.h"
#include "daemon/outputs/replicate.h"
#include "ipc/channel.h"
#include "util/sys.h"

struct fs_client_call {
  struct fs_daemon *d;
  struct fs_client *client; /* NULL: it has gone, or has its answer */
  uint32_t number;
  uint64_t id, dir; /* the object of a CREATE, PUBLISH, EXTEND or OPEN */
  uint64_t until;   /* when a removal stops to wait for the unlink: its client gives up */
  bool made;        /* a CREATE of a file whose home is this node */
  bool made_dir;
  fs_err why;                /* why a PUBLISH has no replica */
  struct fs_names_call call; /* copy of a PUBLISH */
};

/* ---- answers ---- */

static void fs_client_call_answer(struct fs_channel *ch, uint32_t i, fs_err err, const void *body, size_t n) {
  struct fs_call_slot *b = &ch->call_slot[i];
  if (n > 0) memcpy(b->body, body, n);
  b->length = (uint32_t)n;
  b->err = err;
  fs_chan_answer(fs_chan_call(ch, i));
}

static void fs_client_call_done(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_client_call *call = ctx;
  if (call->client) {
    call->client->call_slot[call->number] = NULL;
    fs_client_call_answer(call->client->channel, call->number, err, body, n);
  }
  free(call);
}

/* Reports the node's first output. */
static void fs_client_call_wrote(const struct fs_daemon *d) {
  static bool told;
  struct fs_control_line l;
  if (told) return;
  told = true;
  if (fs_say_begin(d, &l, "wrote") == 0) fs_say_line(&l);
}

/* Enters a new file or directory in this node's tables. */
static void fs_client_call_created(void *ctx, fs_err err, const void *body, size_t n) {
  const struct fs_client_call *call = ctx;
  if (err < 0 && call->made) fs_backing_not_created(call->d, call->id);
  if (err == 0 && call->made) fs_backing_created(call->d, call->id);
  if (err == 0) fs_client_call_wrote(call->d);
  if (err == 0) fs_left_record(call->d, body, n);
  if (err == 0 && call->made_dir) fs_path_parent(call->d, call->id, call->dir);
  fs_client_call_done(ctx, err, body, n);
}

static void fs_client_call_published(void *ctx, fs_err err, const void *body, size_t n) {
  const struct fs_client_call *call = ctx;
  if (err == 0) fs_left_record(call->d, body, n);
  if (err < 0) fs_backing_not_published(call->d, call->id);
  fs_client_call_done(ctx, err == 0 ? call->why : err, body, n);
}

static void fs_client_call_owned(void *ctx, fs_err err, const void *body, size_t n) {
  const struct fs_client_call *call = ctx;
  if (err == 0) fs_client_call_wrote(call->d);
  fs_client_call_done(ctx, err, body, n);
}

static void fs_client_call_extended(void *ctx, fs_err err, const void *body, size_t n) {
  const struct fs_client_call *call = ctx;
  if (err == -ENOENT) fs_node_segment_useless(call->d, call->id);
  fs_client_call_done(ctx, err, body, n);
}

/* Ignores an error: then the home did not answer in time. The home also answers at once if it keeps
   the bytes for nodes that have the file open. */
static void fs_client_call_dropped(void *ctx, fs_err err, const void *body, size_t n) {
  (void)err, (void)body, (void)n;
  fs_client_call_done(ctx, 0, NULL, 0);
}

/* Answers a removal or a rename after the home has unlinked the removed file: the client may
   look at st_nlink, or write into the freed space. The name service's answer is the id of the
   removed file, if any, then the record of the renamed one. The client gets the id if it has to
   unlink the backing file itself. */
static void fs_client_call_removed(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_client_call *call = ctx;
  uint64_t id = 0;
  if (err == 0 && n >= sizeof(id)) memcpy(&id, body, sizeof(id));
  if (err == 0 && n > sizeof(id)) fs_left_record(call->d, (const char *)body + sizeof(id), n - sizeof(id));
  bool wait = id != 0 && call->client && call->d->now < call->until;
  if (wait && fs_backing_leaving(call->d, id))
    fs_client_call_done(ctx, 0, &id, sizeof(id));
  else if (wait)
    fs_ns_await_drop(call->d->ns, id, fs_client_call_dropped, call);
  else
    fs_client_call_done(ctx, err, body, err == 0 ? 0 : n);
}

static void fs_client_call_opened(void *ctx, fs_err err, const void *body, size_t n) {
  const struct fs_client_call *call = ctx;
  struct fs_opened held = {0};
  bool silent = err == -EHOSTDOWN || err == -ETIMEDOUT; /* the body names the home */
  if (err == 0 && n == sizeof(held)) memcpy(&held, body, n);
  err = fs_open_files_answered(call->d, call->client, call->id, err, &held);
  if (silent)
    fs_client_call_done(ctx, err, body, n);
  else
    fs_client_call_done(ctx, err, &held, err == 0 ? sizeof(held) : 0);
}

void fs_client_calls_forget(struct fs_daemon *d, struct fs_client *c) {
  (void)d;
  for (uint32_t i = 0; i < FS_CHANNEL_CALLS; i++) {
    if (c->call_slot[i]) c->call_slot[i]->client = NULL;
    c->call_slot[i] = NULL;
  }
}

/* ---- what this node knows of the ids in a call ---- */

/* Returns 0 if a directory with this id can exist. Returns -EROFS if it is a dataset's directory
   and the dataset has this name in it. */
static fs_err fs_client_call_check_dir(const struct fs_daemon *d, uint64_t dir, const char *name, size_t len) {
  uint64_t dataset = (dir >> 32) - 1, entry = dir & UINT32_MAX;
  if (dir & FS_OUTPUT_ID) return 0;
  if (dir >> 32 == 0 || dataset >= d->datasets) return -EINVAL;
  const struct fs_index *ix = &d->data[dataset].stage.index;
  const struct fs_entry *e = fs_index_entry(ix, entry);
  if (!e) return -EINVAL;
  if (!S_ISDIR(e->mode)) return -ENOTDIR;
  return len > 0 && fs_index_child(ix, (uint32_t)entry, name, len) >= 0 ? -EROFS : 0;
}

static fs_err fs_client_call_check_name(const struct fs_daemon *d, const struct fs_names_call *c) {
  return fs_client_call_check_dir(d, fs_call_dir(c), fs_call_tail(c), c->tail_len);
}

static fs_err fs_client_call_check_rename(const struct fs_daemon *d, const struct fs_names_call *c) {
  fs_err err = fs_client_call_check_dir(d, c->rename.dir, fs_call_tail(c), c->tail_len);
  return err < 0 ? err : fs_client_call_check_dir(d, c->rename.to, fs_call_tail2(c), c->tail2_len);
}

/* Returns true if this node was taken for dead: it is no file's home any more. */
static bool fs_client_call_orphaned(const struct fs_daemon *d) {
  return d->replicas && !fs_member(fs_ns_members(d->ns), d->net->rank);
}

static fs_err fs_client_call_check_create(const struct fs_daemon *d, const struct fs_names_call *c) {
  if (c->flags & FS_CREATE_STAGED_IN) return -EINVAL;
  return S_ISREG(c->create.mode) && fs_client_call_orphaned(d) ? -EIO : fs_client_call_check_name(d, c);
}

static fs_err fs_client_call_check_publish(const struct fs_daemon *d, const struct fs_names_call *c) {
  if (fs_client_call_orphaned(d)) return -EIO;
  return fs_backing_mine(d, c->publish.id) ? fs_client_call_check_name(d, c) : -EINVAL;
}

static fs_err fs_client_call_check_file(const struct fs_daemon *d, const struct fs_names_call *c) {
  return FS_OUTPUT_ID_RANK(fs_call_id(c)) < d->net->nodes ? 0 : -EINVAL;
}

static fs_err fs_client_call_check_own(const struct fs_daemon *d, const struct fs_names_call *c) {
  return fs_backing_mine(d, fs_call_id(c)) ? fs_client_call_check_file(d, c) : -EINVAL;
}

static fs_err fs_client_call_check_offer(const struct fs_daemon *d, const struct fs_names_call *c) {
  return c->offer.segment == 0 || fs_backing_mine(d, c->offer.segment) ? fs_client_call_check_file(d, c) : -EINVAL;
}

/* ---- calls ---- */

static void fs_client_call_close(struct fs_client_call *call, const struct fs_names_call *c) {
  fs_client_call_done(call, fs_open_files_release(call->d, call->client, c->close.id, c->close.snapshot), NULL, 0);
}

static void fs_client_call_forwarder(struct fs_client_call *call, const struct fs_names_call *c) {
  fs_client_call_done(call, fs_forwarder_begin(call->d, c), NULL, 0);
}

static void fs_client_call_node_local(struct fs_client_call *call, const struct fs_names_call *c) {
  fs_client_call_done(call, fs_ctl_node_local(call->d, c), NULL, 0);
}

static void fs_client_call_offer(struct fs_client_call *call, const struct fs_names_call *c) {
  uint64_t segment;
  fs_err err = fs_node_segment_offered(call->d, c->offer.file, c->offer.segment, &segment);
  fs_client_call_done(call, err, &segment, err == 0 ? sizeof(segment) : 0);
}

/* A client takes its files' ids from its own range. For any other id, the daemon makes one. */
static fs_err fs_client_call_create(struct fs_client_call *call, struct fs_names_call *c) {
  uint64_t first = call->client->first_id;
  if (first == 0 || c->create.id - first >= FS_OUTPUT_ID_FILES) c->create.id = fs_ns_id(call->d->ns);
  call->id = c->create.id;
  call->dir = c->create.dir;
  call->made_dir = S_ISDIR(c->create.mode);
  call->made = S_ISREG(c->create.mode) && !fs_backing_find(call->d, c->create.id);
  if (call->made) fs_backing_creating(call->d, c->create.id, c->create.dir);
  return 0;
}

static fs_err fs_client_call_open(struct fs_client_call *call, struct fs_names_call *c) {
  call->id = c->open.id;
  return fs_open_files_ask(call->d, call->client, c->open.id);
}

static void fs_client_call_find(struct fs_client_call *call, const struct fs_names_call *c) {
  fs_ns_find(call->d->ns, call->d->now, c->find.id, 0, fs_client_call_done, call);
}

static void fs_client_call_sync(struct fs_client_call *call, const struct fs_names_call *c) {
  fs_forwarder_sync(call->d, c, fs_client_call_done, call);
}

static void fs_client_call_extend(struct fs_client_call *call, const struct fs_names_call *c) {
  call->id = c->extend.id;
  fs_segment_extend(call->d, c, fs_client_call_extended, call);
}

/* Publishes a file that has its replica. */
static void fs_client_call_replicated(void *ctx, fs_err err) {
  struct fs_client_call *call = ctx;
  struct fs_daemon *d = call->d;
  call->why = err;
  (void)fs_backing_publishing(d, &call->call);
  fs_ns_call(d->ns, d->now, &call->call, fs_client_call_published, call);
}

static void fs_client_call_publish(struct fs_client_call *call, const struct fs_names_call *c) {
  call->id = c->publish.id;
  call->call = *c;
  call->call.publish.ctime = 0; /* the home sets it from the backing file */
  call->call.flags &= ~(uint32_t)FS_PUBLISH_DURABLE;
  fs_replicate(call->d, c->publish.id,
               (struct fs_replica_wish){.sync = c->flags & FS_PUBLISH_DURABLE, .end = UINT64_MAX},
               fs_client_call_replicated, call);
}

static const struct fs_client_call_op {
  /* Checks that the call's ids can exist and the client may change them. NULL: no check here. */
  fs_err (*check)(const struct fs_daemon *d, const struct fs_names_call *c);
  /* `prepare` runs before the call is made. `start` makes the call, instead of fs_ns_call. */
  fs_err (*prepare)(struct fs_client_call *call, struct fs_names_call *c);
  void (*start)(struct fs_client_call *call, const struct fs_names_call *c);
  fs_ns_done *done; /* NULL: fs_client_call_done */
} fs_client_call_ops[FS_NAMES_OPS] = {
    [FS_NAMES_LOOKUP] = {.check = fs_client_call_check_name},
    [FS_NAMES_CREATE] = {.check = fs_client_call_check_create,
                         .prepare = fs_client_call_create,
                         .done = fs_client_call_created},
    [FS_NAMES_PUBLISH] = {.check = fs_client_call_check_publish, .start = fs_client_call_publish},
    [FS_NAMES_REMOVE] = {.check = fs_client_call_check_name, .done = fs_client_call_removed},
    [FS_NAMES_RENAME] = {.check = fs_client_call_check_rename, .done = fs_client_call_removed},
    [FS_NAMES_LIST] = {.check = fs_client_call_check_name},
    [FS_NAMES_SETATTR] = {.check = fs_client_call_check_name},
    [FS_NAMES_TIMES] = {.check = fs_client_call_check_name},
    [FS_NAMES_OPEN] = {.prepare = fs_client_call_open, .done = fs_client_call_opened},
    [FS_NAMES_CLOSE] = {.start = fs_client_call_close},
    [FS_NAMES_EXTEND] = {.check = fs_client_call_check_file, .start = fs_client_call_extend},
    [FS_NAMES_EXTENTS] = {.check = fs_client_call_check_file},
    [FS_NAMES_APPEND] = {.check = fs_client_call_check_file},
    [FS_NAMES_OWN] = {.check = fs_client_call_check_file, .done = fs_client_call_owned},
    [FS_NAMES_FORWARD] = {.check = fs_client_call_check_own, .start = fs_client_call_forwarder},
    [FS_NAMES_SYNC] = {.check = fs_client_call_check_own, .start = fs_client_call_sync},
    [FS_NAMES_OFFER] = {.check = fs_client_call_check_offer, .start = fs_client_call_offer},
    [FS_NAMES_FIND] = {.start = fs_client_call_find},
    [FS_NAMES_NODE_LOCAL] = {.check = fs_client_call_check_name, .start = fs_client_call_node_local},
};

static fs_err fs_client_call_check(const struct fs_daemon *d, const struct fs_names_call *c, size_t n) {
  if (!fs_call_ok(c, n) || !fs_call_op(c)->client) return -EINVAL;
  if (d->cfg->read_only && fs_call_op(c)->changes) return -EROFS;
  const struct fs_client_call_op *op = &fs_client_call_ops[c->op];
  return op->check ? op->check(d, c) : 0;
}

static fs_err fs_client_call_start(struct fs_daemon *d, struct fs_client *client, uint32_t i, struct fs_names_call *c) {
  const struct fs_client_call_op *op = &fs_client_call_ops[c->op];
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
