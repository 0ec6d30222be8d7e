/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connects the name service (metadata/ns.h) to this daemon: starts it, runs its timers, carries its
 * messages to and from the network, and passes its events to clients and backing files. All runs in
 * the MPI thread.
 */
#include "daemon/outputs/service.h"

#include "daemon/metadata/ns_net.h"
#include "daemon/module.h"
#include "daemon/outputs/backing.h"
#include "daemon/outputs/left.h"

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

static void fs_service_tree(struct fs_ns *ns) {
  struct fs_daemon *d = fs_ns_user(ns);
  atomic_fetch_add(&d->ctl->tree, 1);
}

static void fs_service_lists(struct fs_ns *ns) {
  fs_maps_changed(fs_ns_user(ns));
}

static void fs_service_dropped(struct fs_ns *ns, uint64_t id) {
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
                                                    .tree = fs_service_tree,
                                                    .lists = fs_service_lists,
                                                    .dropped = fs_service_dropped,
                                                    .dropping = fs_service_dropping,
                                                    .home = fs_service_home,
                                                    .members = fs_service_members_changed,
                                                    .other = fs_service_other};

/* ---- called by the daemon's loop ---- */

/* A call takes at most seven deadlines of the name service: less than two of the job's. */
fs_err fs_service_start(struct fs_daemon *d) {
  uint64_t deadline = d->cfg->deadline_ns / 4;
  fs_err err = fs_ns_new(&d->ns, d->net->rank, d->net->nodes, deadline, &fs_service_hooks, d);
  if (err == 0) err = fs_ns_net_new(&d->ns_net, d->net, deadline, fs_service_receive, d);
  if (err == 0) fs_ns_limit(d->ns, fs_memory_names(d));
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
  fs_service_full(d);
}

bool fs_service_busy(const struct fs_daemon *d) {
  return fs_ns_busy(d->ns);
}

void fs_service_members(struct fs_daemon *d) {
  if (d->cfg->verbose) fs_say_text(d, "warn", "names: %u members", fs_ns_members(d->ns)->count);
  if (fs_member(fs_ns_members(d->ns), d->net->rank)) return;
  fs_ctl_mark_all(d);
  atomic_fetch_or(&d->ctl->tree, FS_TREE_UNKNOWN);
}

bool fs_service_member(const struct fs_daemon *d, uint32_t rank) {
  return fs_member(fs_ns_members(d->ns), rank);
}

uint64_t fs_service_lost(const struct fs_daemon *d) {
  return (d->ns ? fs_ns_dropped(d->ns) : 0) + (d->ns_net ? fs_ns_net_dropped(d->ns_net) : 0);
}
