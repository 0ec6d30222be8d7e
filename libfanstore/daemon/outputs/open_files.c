/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See open_files.h. The home hears of each OPEN, and when the last client of this node has closed
 * the file. Messages between two ranks keep their order. So a CLOSE that is sent while no OPEN is
 * under way cannot undo a later OPEN. The name service does not repeat a CLOSE: only this file
 * knows if an OPEN is under way.
 */
#include "daemon/outputs/open_files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/blocks/fetch.h"
#include "daemon/metadata/ns.h"
#include "daemon/outputs/backing.h"
#include "daemon/outputs/client_calls.h"
#include "daemon/outputs/locks.h"

#define FS_CLIENT_CHAINS 256u
#define FS_CLIENT_HOLDS 65536u /* most opens of one client; then EMFILE */
#define FS_RELEASE_TRIES 4u

struct fs_open_file {
  struct fs_table_link by_id;
  struct fs_daemon *d;
  uint64_t id;
  uint32_t holds, asking; /* opens by clients; OPENs under way */
  uint32_t tries;
  bool known;     /* the home may think that this node has it open */
  bool releasing; /* a CLOSE is under way */
};

struct fs_open_files {
  struct fs_snapshots *snapshots;
  struct fs_table files;
};

struct fs_client_open {
  struct fs_client_open *next;
  uint64_t id;
  uint32_t snapshot, count;
};

struct fs_client_opens {
  uint32_t count;
  struct fs_client_open *chain[FS_CLIENT_CHAINS];
};

fs_err fs_open_files_new(struct fs_daemon *d) {
  struct fs_open_files *t = calloc(1, sizeof(*t));
  if (!t) return -ENOMEM;
  d->holds = t;
  return fs_snapshots_new(&t->snapshots, d->cache, FS_OUTPUT_SNAPSHOTS);
}

const struct fs_snapshot *fs_open_files_find(const struct fs_daemon *d, uint32_t snapshot) {
  return d->holds ? fs_snapshots_find(d->holds->snapshots, snapshot) : NULL;
}

void fs_open_files_fetch(struct fs_daemon *d, uint32_t snapshot, bool begins) {
  fs_snapshots_fetch(d->holds->snapshots, snapshot, begins);
}

/* ---- files ---- */

static struct fs_open_file *fs_held_find(struct fs_open_files *t, uint64_t id) {
  struct fs_table_link *l = fs_table_find(&t->files, id);
  return l ? FS_ITEM(l, struct fs_open_file, by_id) : NULL;
}

static void fs_held_free(struct fs_open_file *f) {
  fs_table_remove(&f->d->holds->files, &f->by_id);
  free(f);
}

static void fs_held_settle(struct fs_open_file *f);

static void fs_held_released(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_open_file *f = ctx;
  (void)body, (void)n;
  f->releasing = false;
  if (f->holds == 0 && f->asking == 0) f->known = err == -ETIMEDOUT && ++f->tries < FS_RELEASE_TRIES;
  fs_held_settle(f);
}

/* If no client has the file open, sends CLOSE to the home, and frees the entry after that. */
static void fs_held_settle(struct fs_open_file *f) {
  struct fs_names_call c = {.op = FS_NAMES_CLOSE, .close.id = f->id};
  if (f->holds > 0 || f->asking > 0 || f->releasing) return;
  if (!f->known) {
    fs_held_free(f);
    return;
  }
  f->releasing = true;
  fs_ns_call(f->d->ns, f->d->now, &c, fs_held_released, f);
}

fs_err fs_open_files_ask(struct fs_daemon *d, const struct fs_client *c, uint64_t id) {
  struct fs_open_file *f = fs_held_find(d->holds, id);
  if (FS_OUTPUT_ID_RANK(id) >= d->net->nodes) return -EINVAL;
  if (c->holds && c->holds->count >= FS_CLIENT_HOLDS) return -EMFILE;
  if (!f) {
    f = malloc(sizeof(*f));
    if (!f) return -ENOMEM;
    *f = (struct fs_open_file){.d = d, .id = id};
    fs_table_add(&d->holds->files, &f->by_id, id);
  }
  f->asking++;
  f->known = true;
  f->tries = 0;
  return 0;
}

/* ---- what one client has open ---- */

static struct fs_client_open **fs_client_chain(const struct fs_client *c, uint64_t id) {
  return &c->holds->chain[fs_mix64(id) % FS_CLIENT_CHAINS];
}

/* Ends one open of this snapshot. */
static void fs_client_drop(struct fs_daemon *d, const struct fs_client *c, struct fs_client_open *h) {
  struct fs_open_file *f = fs_held_find(d->holds, h->id);
  fs_snapshots_release(d->holds->snapshots, h->snapshot);
  f->holds--;
  c->holds->count--;
  h->count--;
  if (h->count == 0) {
    struct fs_client_open **at = fs_client_chain(c, h->id);
    while (*at != h) at = &(*at)->next;
    *at = h->next;
    free(h);
  }
  fs_held_settle(f);
}

static fs_err fs_client_add(struct fs_daemon *d, struct fs_client *c, const struct fs_opened *held) {
  if (!c->holds) c->holds = calloc(1, sizeof(*c->holds));
  if (!c->holds) return -ENOMEM;
  struct fs_client_open **chain = fs_client_chain(c, held->id), *h = *chain;
  while (h && (h->id != held->id || h->snapshot != held->snapshot)) h = h->next;
  if (!h) {
    h = malloc(sizeof(*h));
    if (!h) return -ENOMEM;
    *h = (struct fs_client_open){.next = *chain, .id = held->id, .snapshot = held->snapshot};
    *chain = h;
  }
  h->count++;
  c->holds->count++;
  fs_held_find(d->holds, held->id)->holds++;
  return 0;
}

static bool fs_held_sane(const struct fs_daemon *d, const struct fs_opened *held, uint64_t id) {
  bool here = fs_home_of(d, id) == d->net->rank; /* read through the kernel, not in blocks */
  return held->id == id && held->size <= INT64_MAX &&
         (here || held->own <= (uint64_t)FS_OUTPUT_BLOCK * FS_OUTPUT_BLOCKS) && S_ISREG(held->mode) &&
         held->mtime_ns < 1000000000 && held->ctime_ns < 1000000000;
}

fs_err fs_open_files_answered(struct fs_daemon *d, struct fs_client *c, uint64_t id, fs_err err,
                              struct fs_opened *held) {
  struct fs_open_file *f = fs_held_find(d->holds, id);
  if (err == 0 && !fs_held_sane(d, held, id)) err = -EPROTO;
  if (err == 0 && c) {
    int64_t snapshot = fs_snapshots_hold(d->holds->snapshots, id, held->version, held->own, held->list);
    held->snapshot = (uint32_t)snapshot;
    err = snapshot < 0 ? (fs_err)snapshot : fs_client_add(d, c, held);
    if (err < 0 && snapshot > 0) fs_snapshots_release(d->holds->snapshots, (uint32_t)snapshot);
  }
  f->asking--;
  fs_held_settle(f);
  return err == -ETIMEDOUT ? -EHOSTDOWN : err;
}

fs_err fs_open_files_release(struct fs_daemon *d, struct fs_client *c, uint64_t id, uint64_t snapshot) {
  if (!c->holds) return -ENOENT;
  struct fs_client_open *h = *fs_client_chain(c, id);
  while (h && (h->id != id || h->snapshot != snapshot)) h = h->next;
  if (!h) return -ENOENT;
  fs_client_drop(d, c, h);
  return 0;
}

void fs_open_files_given_back(struct fs_daemon *d, struct fs_client *c, uint32_t snapshot) {
  const struct fs_snapshot *h = fs_open_files_find(d, snapshot);
  if (h) (void)fs_open_files_release(d, c, h->id, snapshot);
}

void fs_open_files_forget(struct fs_daemon *d, struct fs_client *c) {
  for (uint32_t i = 0; c->holds && i < FS_CLIENT_CHAINS; i++) {
    while (c->holds->chain[i]) fs_client_drop(d, c, c->holds->chain[i]);
  }
  free(c->holds);
  c->holds = NULL;
}

/* ---- clients' calls ---- */

static fs_err fs_open_files_opens(struct fs_client_call *call, struct fs_names_call *c) {
  call->id = c->open.id;
  fs_err err = fs_lock_holders_check(call->d, call->client, c->open.id);
  return err < 0 ? err : fs_open_files_ask(call->d, call->client, c->open.id);
}

static void fs_open_files_opened(void *ctx, fs_err err, const void *body, size_t n) {
  const struct fs_client_call *call = ctx;
  struct fs_opened held = {0};
  bool silent = err == -EHOSTDOWN || err == -ETIMEDOUT; /* the body names the home */
  if (err == 0 && n >= sizeof(held)) memcpy(&held, body, sizeof(held));
  err = fs_open_files_answered(call->d, call->client, call->id, err, &held);
  if (err == 0 && call->client && n > sizeof(held))
    fs_fetch_given(call->d, FS_OUTPUT_KEY(held.snapshot, 0), (const char *)body + sizeof(held), n - sizeof(held));
  if (silent)
    fs_client_call_done(ctx, err, body, n);
  else
    fs_client_call_done(ctx, err, &held, err == 0 ? sizeof(held) : 0);
}

const struct fs_client_call_op fs_open_call = {.prepare = fs_open_files_opens, .done = fs_open_files_opened};

static void fs_open_files_closes(struct fs_client_call *call, const struct fs_names_call *c) {
  fs_client_call_done(call, fs_open_files_release(call->d, call->client, c->close.id, c->close.snapshot), NULL, 0);
}

const struct fs_client_call_op fs_close_call = {.start = fs_open_files_closes};
