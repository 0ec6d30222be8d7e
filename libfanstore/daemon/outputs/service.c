/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connects the name service (metadata/ns.h) to this daemon: starts it, runs its timers, carries its
 * messages to and from the network, and passes its events to clients and backing files. Has the rows
 * of clients' calls about names (client_calls.h). All runs in the MPI thread.
 */
#include "daemon/outputs/service.h"

#include <string.h>
#include <sys/stat.h>

#include "daemon/metadata/ns_net.h"
#include "daemon/metadata/shared_names.h"
#include "daemon/module.h"
#include "daemon/outputs/backing.h"
#include "daemon/outputs/client_calls.h"
#include "daemon/outputs/left.h"
#include "daemon/outputs/outpath.h"

/* ---- the name service's hooks ---- */

static void fs_service_send(struct fs_ns *ns, uint32_t rank, const struct fs_ns_message *head, const void *body,
                            size_t n) {
  const struct fs_daemon *d = fs_ns_user(ns);
  fs_ns_net_send(d->ns_net, rank, head, body, n);
}

static void fs_service_receive(void *ctx, uint32_t from, const struct fs_ns_message *head, const void *body, size_t n) {
  struct fs_daemon *d = ctx;
  fs_ns_receive(d->ns, d->now, from, head, body, n);
}

static void fs_service_mark(struct fs_ns *ns, uint32_t bit) {
  fs_ctl_mark(fs_ns_user(ns), bit);
}

static void fs_service_taken(struct fs_ns *ns, uint32_t bit, uint32_t name) {
  fs_ctl_taken(fs_ns_user(ns), bit, name);
}

static void fs_service_tree(struct fs_ns *ns) {
  struct fs_daemon *d = fs_ns_user(ns);
  atomic_fetch_add(&d->ctl->tree, 1);
}

static void fs_service_lists(struct fs_ns *ns) {
  fs_maps_changed(fs_ns_user(ns));
}

static void fs_service_dropped(struct fs_ns *ns, uint64_t id, bool now) {
  if (now)
    fs_backing_dropped(fs_ns_user(ns), id);
  else
    fs_backing_dropped_soon(fs_ns_user(ns), id);
}

static bool fs_service_dropping(struct fs_ns *ns, struct fs_asked a, uint64_t id) {
  return fs_backing_dropping(fs_ns_user(ns), a, id);
}

static void fs_service_home(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c) {
  fs_backing_home(fs_ns_user(ns), a, c);
}

static void fs_service_members_changed(struct fs_ns *ns) {
  fs_modules_members(fs_ns_user(ns));
}

static void fs_service_other(struct fs_ns *ns, const struct fs_record *r, bool gone) {
  fs_left_other(fs_ns_user(ns), r, gone);
}

static const struct fs_ns_hooks fs_service_hooks = {.send = fs_service_send,
                                                    .mark = fs_service_mark,
                                                    .taken = fs_service_taken,
                                                    .tree = fs_service_tree,
                                                    .lists = fs_service_lists,
                                                    .dropped = fs_service_dropped,
                                                    .dropping = fs_service_dropping,
                                                    .home = fs_service_home,
                                                    .members = fs_service_members_changed,
                                                    .other = fs_service_other};

/* ---- called by the daemon's loop ---- */

#define FS_SHARED_PART 2u /* of the memory for names, what clients read takes at most this part more */

/* A call takes at most seven deadlines of the name service: less than two of the job's. */
fs_err fs_service_start(struct fs_daemon *d) {
  uint64_t deadline = d->cfg->deadline_ns / 4;
  fs_err err = fs_ns_new(&d->ns, d->net->rank, d->net->nodes, deadline, &fs_service_hooks, d);
  if (err == 0) err = fs_ns_net_new(&d->ns_net, d->net, deadline, fs_service_receive, d);
  if (err == 0) err = fs_shared_names_new(&d->shared_names, fs_memory_names(d) / FS_SHARED_PART);
  if (err < 0) return err;
  d->records_fd = fs_shared_names_fd(d->shared_names, &d->records_size);
  fs_ns_limit(d->ns, fs_memory_names(d));
  fs_ns_share(d->ns, d->shared_names);
  return err;
}

static void fs_service_full(struct fs_daemon *d) {
  static bool told;
  if (told || !fs_ns_full(d->ns)) return;
  told = true;
  fs_say_text(d, "warn", "the names of outputs take all the memory that they may: no more are made in its directories");
}

void fs_service_timers(struct fs_daemon *d) {
  fs_ns_net_timers(d->ns_net, d->now);
  fs_ns_timers(d->ns, d->now);
  fs_shared_names_until(d->shared_names, fs_ns_certain_until(d->ns));
  fs_service_full(d);
}

void fs_service_flush(struct fs_daemon *d) {
  fs_ns_net_flush(d->ns_net);
}

bool fs_service_busy(const struct fs_daemon *d) {
  return fs_ns_busy(d->ns);
}

void fs_service_members(struct fs_daemon *d) {
  if (d->cfg->verbose) fs_say_text(d, "warn", "names: %u members", fs_ns_members(d->ns)->count);
  if (fs_member(fs_ns_members(d->ns), d->net->rank)) return;
  fs_shared_names_until(d->shared_names, 0);
  fs_ctl_mark_all(d);
  atomic_fetch_or(&d->ctl->tree, FS_TREE_UNKNOWN);
}

bool fs_service_member(const struct fs_daemon *d, uint32_t rank) {
  return fs_member(fs_ns_members(d->ns), rank);
}

uint64_t fs_service_lost(const struct fs_daemon *d) {
  return (d->ns ? fs_ns_dropped(d->ns) : 0) + (d->ns_net ? fs_ns_net_dropped(d->ns_net) : 0);
}

bool fs_service_evicted(const struct fs_daemon *d) {
  return d->replicas && !fs_service_member(d, d->net->rank);
}

/* ---- clients' calls ---- */

void fs_service_wrote(const struct fs_daemon *d) {
  static bool told;
  struct fs_control_line l;
  if (told) return;
  told = true;
  if (fs_say_begin(d, &l, "wrote") == 0) fs_say_line(&l);
}

static fs_err fs_service_check_look_up(const struct fs_daemon *d, const struct fs_names_call *c) {
  if (c->flags & FS_LOOKUP_BORROW) return -EINVAL;
  return d->cfg->overlay ? fs_client_call_check_dir(d, c->lookup.dir, "", 0) : fs_client_call_check_name(d, c);
}

const struct fs_client_call_op fs_look_up_call = {.check = fs_service_check_look_up};
const struct fs_client_call_op fs_named_call = {.check = fs_client_call_check_name};

static fs_err fs_service_check_create(const struct fs_daemon *d, const struct fs_names_call *c) {
  if (c->flags & FS_CREATE_STAGED_IN) return -EINVAL;
  if (S_ISREG(c->create.mode) && fs_service_evicted(d)) return -EIO;
  return fs_client_call_check_taking(d, c->create.dir, fs_call_tail(c), c->tail_len, c->flags & FS_CREATE_TAKES);
}

/* A client takes its files' ids from its own range. For any other id, the daemon makes one. */
static fs_err fs_service_creates(struct fs_client_call *call, struct fs_names_call *c) {
  uint64_t first = call->client->first_id;
  if (first == 0 || c->create.id - first >= FS_OUTPUT_ID_FILES) c->create.id = fs_ns_id(call->d->ns);
  call->create.id = c->create.id;
  call->create.dir = c->create.dir;
  call->create.directory = S_ISDIR(c->create.mode);
  call->create.file = S_ISREG(c->create.mode) && !fs_backing_find(call->d, c->create.id);
  if (call->create.file) fs_backing_creating(call->d, c->create.id, c->create.dir);
  return 0;
}

/* Enters a new file or directory in this node's tables. */
static void fs_service_created(void *ctx, fs_err err, const void *body, size_t n) {
  const struct fs_client_call *call = ctx;
  if (err < 0 && call->create.file) fs_backing_not_created(call->d, call->create.id);
  if (err == 0 && call->create.file) fs_backing_created(call->d, call->create.id);
  if (err == 0) fs_service_wrote(call->d);
  if (err == 0) fs_left_record(call->d, body, n);
  if (err == 0 && call->create.directory) fs_path_parent(call->d, call->create.id, call->create.dir);
  fs_client_call_done(ctx, err, body, n);
}

const struct fs_client_call_op fs_create_call = {
    .check = fs_service_check_create, .prepare = fs_service_creates, .done = fs_service_created};

/* Ignores an error: then the home did not answer in time. The home also answers at once if it keeps
   the bytes for nodes that have the file open. */
static void fs_service_unlinked(void *ctx, fs_err err, const void *body, size_t n) {
  (void)err, (void)body, (void)n;
  fs_client_call_done(ctx, 0, NULL, 0);
}

/* Answers a removal or a rename after the home has unlinked the removed file: the client may
   look at st_nlink, or write into the freed space. The name service's answer is the id of the
   removed file, if any, then the record of the renamed one. The client gets the id if it has to
   unlink the backing file itself. */
static void fs_service_removed(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_client_call *call = ctx;
  uint64_t id = 0;
  if (err == 0 && n >= sizeof(id)) memcpy(&id, body, sizeof(id));
  if (err == 0 && n > sizeof(id)) fs_left_record(call->d, (const char *)body + sizeof(id), n - sizeof(id));
  bool wait = id != 0 && call->client && call->d->now < call->until;
  if (wait && fs_backing_leaving(call->d, id))
    fs_client_call_done(ctx, 0, &id, sizeof(id));
  else if (wait)
    fs_ns_await_drop(call->d->ns, id, fs_service_unlinked, call);
  else
    fs_client_call_done(ctx, err, body, err == 0 ? 0 : n);
}

static fs_err fs_service_check_remove(const struct fs_daemon *d, const struct fs_names_call *c) {
  return fs_client_call_check_taking(d, c->remove.dir, fs_call_tail(c), c->tail_len, c->flags & FS_REMOVE_TAKES);
}

const struct fs_client_call_op fs_remove_call = {.check = fs_service_check_remove, .done = fs_service_removed};

static fs_err fs_service_check_rename(const struct fs_daemon *d, const struct fs_names_call *c) {
  /* The primary knows whether a record has the dataset's old name. */
  fs_err err = fs_client_call_check_dir(d, c->rename.dir, fs_call_tail(c), d->cfg->overlay ? 0 : c->tail_len);
  if (err < 0) return err;
  return fs_client_call_check_taking(d, c->rename.to, fs_call_tail2(c), c->tail2_len, c->flags & FS_RENAME_TAKES);
}

const struct fs_client_call_op fs_rename_call = {.check = fs_service_check_rename, .done = fs_service_removed};

static void fs_service_finds(struct fs_client_call *call, const struct fs_names_call *c) {
  fs_ns_find(call->d->ns, call->d->now, c->find.id, 0, fs_client_call_done, call);
}

const struct fs_client_call_op fs_find_call = {.start = fs_service_finds};

static void fs_service_node_local(struct fs_client_call *call, const struct fs_names_call *c) {
  fs_client_call_done(call, fs_ctl_node_local(call->d, c), NULL, 0);
}

const struct fs_client_call_op fs_node_local_call = {.check = fs_client_call_check_name,
                                                     .start = fs_service_node_local};
