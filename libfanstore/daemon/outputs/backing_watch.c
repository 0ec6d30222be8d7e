/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Publishes this node's files; called in the MPI thread. A client's publication comes through the
 * daemon, which adds the backing file's present attributes and a growing number. If two
 * publications are under way at once, the directory's primary keeps the higher number.
 *
 * What a client leaves to the daemon, and what a program without the library or a killed one has
 * written, is found by looking: at each file that may be open for writing, after 20 ms and then once
 * a second. The kernel's inotify could tell of closes, but then each read and write of a backing file
 * would take 120 ns longer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/module.h"
#include "daemon/outputs/client_calls.h"
#include "daemon/outputs/forwarder.h"
#include "daemon/outputs/left.h"
#include "daemon/outputs/locks.h"
#include "daemon/outputs/replicate.h"
#include "daemon/outputs/service.h"
#include "daemon/outputs/written.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_WATCH_PUBLISHING 64u /* publications by the daemon at once */
#define FS_WATCH_MOVES 16u      /* most renames that a publication follows */

/* ---- publishing ---- */

struct fs_publication {
  struct fs_daemon *d;
  struct fs_names_call call; /* PUBLISH */
  uint32_t moves;
  bool open;         /* nobody has closed or synced the file */
  struct stat known; /* its attributes now, if the mode is not 0 */
  fs_err why;        /* why there is no replica */
  fs_ns_done *done;
  void *ctx;
};

/* Gets the backing file's attributes, if they are not known. */
static bool fs_backing_stat(const struct fs_daemon *d, uint64_t id, struct stat *st) {
  char name[FS_BACKING_NAME_SIZE];
  if (st->st_mode == 0 && fstatat(d->backing_fd, fs_backing_name(id, name), st, AT_SYMLINK_NOFOLLOW) < 0) return false;
  return S_ISREG(st->st_mode);
}

/* Fills in the attributes of the backing file and the flags. False if there is no such file. */
static bool fs_backing_fill_by(const struct fs_daemon *d, struct fs_call_publish *c, uint32_t *flags, struct stat *st) {
  const struct fs_backing_file *f = fs_backing_find(d, c->id);
  *flags &= ~(uint32_t)(FS_PUBLISH_STAGED_IN | FS_PUBLISH_SHARED);
  if (f && f->in) { /* a link to a staged-in file: as it was when found */
    c->size = f->size;
    c->mtime = f->mtime;
    c->mtime_ns = f->mtime_ns;
    c->mode = f->mode;
    *flags |= FS_PUBLISH_STAGED_IN;
    return true;
  }
  if (!fs_backing_stat(d, c->id, st)) return false;
  c->size = (uint64_t)st->st_size;
  c->mtime = st->st_mtim.tv_sec;
  c->mtime_ns = (uint32_t)st->st_mtim.tv_nsec;
  c->mode = S_IFREG | (st->st_mode & 07777);
  c->ctime = (uint64_t)st->st_ctim.tv_sec * 1000000000u + (uint64_t)st->st_ctim.tv_nsec;
  if (!f || !fs_extents_any(f->extents)) return true;
  c->size = FS_MAX(c->size, fs_extents_end(f->extents));
  *flags |= FS_PUBLISH_SHARED;
  return true;
}

static bool fs_backing_fill(const struct fs_daemon *d, struct fs_call_publish *c) {
  struct stat st = {.st_mode = 0};
  uint32_t flags = 0;
  return fs_backing_fill_by(d, c, &flags, &st);
}

/* Completes a PUBLISH of a file of this node with the backing file's attributes and the
   publication's number. Returns false if there is no backing file; the call's values then count. `known`:
   the attributes, or a mode of 0. */
static bool fs_backing_publishing(struct fs_daemon *d, struct fs_names_call *c, bool open, struct stat *known) {
  bool filled = fs_backing_fill_by(d, &c->publish, &c->flags, known);
  c->publish.number = ++d->backing_files->published;
  fs_backing_published(d, &c->publish, filled, open);
  struct fs_backing_file *f = fs_backing_find(d, c->publish.id);
  if (f) f->number = c->publish.number;
  return filled;
}

void fs_backing_not_published(struct fs_daemon *d, uint64_t id) {
  struct fs_backing_file *f = fs_backing_find(d, id);
  if (f) f->size = UINT64_MAX; /* so that the next close publishes */
}

static void fs_publication_end(struct fs_publication *p, fs_err err, const void *body, size_t n) {
  if (err < 0) fs_backing_not_published(p->d, p->call.publish.id);
  if (err == 0) fs_left_record(p->d, body, n);
  if (err == 0) err = p->why;
  p->done(p->ctx, err, body, n);
  free(p);
}

static void fs_publication_start(struct fs_publication *p);

static void fs_publication_answered(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_publication *p = ctx;
  if (err == -EREMCHG && n == sizeof(p->call.publish.dir) && p->moves++ < FS_WATCH_MOVES) {
    memcpy(&p->call.publish.dir, body, n);
    fs_publication_start(p);
    return;
  }
  fs_publication_end(p, err, body, n);
}

static void fs_publication_start(struct fs_publication *p) {
  struct fs_daemon *d = p->d;
  bool there = p->call.publish.dir != 0 && fs_backing_publishing(d, &p->call, p->open, &p->known);
  p->known.st_mode = 0; /* the next time they are others */
  if (!there) {
    fs_publication_end(p, -ENOENT, NULL, 0);
    return;
  }
  fs_ns_call(d->ns, d->now, &p->call, fs_publication_answered, p);
}

static void fs_publication_replicated(void *ctx, fs_err err) {
  struct fs_publication *p = ctx;
  p->why = err;
  fs_publication_start(p);
}

static struct fs_publication *fs_publication_make(struct fs_daemon *d, uint64_t id, fs_ns_done *done, void *ctx) {
  const struct fs_backing_file *f = fs_backing_find(d, id);
  struct fs_publication *p = malloc(sizeof(*p));
  if (!p) {
    done(ctx, -ENOMEM, NULL, 0);
    return NULL;
  }
  *p = (struct fs_publication){.d = d, .done = done, .ctx = ctx};
  p->call = (struct fs_names_call){
      .op = FS_NAMES_PUBLISH, .flags = FS_PUBLISH_DURABLE, .publish = {.id = id, .dir = f ? f->dir : 0}};
  return p;
}

static void fs_publication_new(struct fs_daemon *d, uint64_t id, uint64_t begin, bool open, fs_ns_done *done,
                               void *ctx) {
  const struct fs_backing_file *f = fs_backing_find(d, id);
  struct fs_publication *p = fs_publication_make(d, id, done, ctx);
  if (!p) return;
  p->open = open;
  struct fs_replica_wish wish = {.behind = f && f->publishing, .begin = begin, .end = UINT64_MAX};
  fs_replicate(d, id, wish, fs_publication_replicated, p);
}

void fs_backing_publish_open(struct fs_daemon *d, uint64_t id, fs_ns_done *done, void *ctx) {
  struct fs_publication *p = fs_publication_make(d, id, done, ctx);
  if (!p) return;
  p->open = true;
  fs_publication_start(p);
}

void fs_backing_publish(struct fs_daemon *d, uint64_t id, fs_ns_done *done, void *ctx) {
  fs_publication_new(d, id, 0, false, done, ctx);
}

void fs_backing_publish_map(struct fs_daemon *d, uint64_t id, bool open, fs_ns_done *done, void *ctx) {
  fs_publication_new(d, id, UINT64_MAX, open, done, ctx);
}

/* ---- files that may be open for writing ---- */

#define FS_OPEN_YOUNG_NS 20000000ull /* until the first look at a file */
#define FS_OPEN_NS 1000000000ull     /* between two looks */
#define FS_OPEN_LOOKS 32u            /* files in a row */
#define FS_OPEN_LOOKS_ALONE 4u       /* if nobody waits for them */

static void fs_open_enter(struct fs_daemon *d, struct fs_backing_file *f, struct fs_chain *list, uint64_t ns) {
  if (!fs_chain_empty(&f->open)) return;
  f->look_at = d->now + ns;
  fs_chain_push(list, &f->open);
}

void fs_backing_is_open(struct fs_daemon *d, struct fs_backing_file *f) {
  bool alone = fs_ctl_alone(d); /* nobody asks for its attributes */
  struct fs_backing *s = d->backing_files;
  fs_open_enter(d, f, alone ? &s->open : &s->young, alone ? FS_OPEN_NS : FS_OPEN_YOUNG_NS);
}

void fs_backing_to_write(struct fs_daemon *d, uint64_t id) {
  struct fs_backing_file *f = fs_backing_find(d, id);
  if (f) fs_open_enter(d, f, &d->backing_files->open, FS_OPEN_NS); /* its close publishes it, if it has changed */
}

void fs_backing_grows(struct fs_daemon *d, struct fs_backing_file *f) {
  if (!d->replicas) fs_open_enter(d, f, &d->backing_files->open, FS_OPEN_NS);
}

struct fs_watched {
  struct fs_daemon *d;
  uint64_t id;
};

static void fs_watch_published(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_watched w = *(struct fs_watched *)ctx;
  struct fs_backing_file *f = fs_backing_find(w.d, w.id);
  (void)body, (void)n;
  free(ctx);
  w.d->backing_files->publishing--;
  if (!f) return;
  f->publishing = false;
  if (err < 0 && err != -ENOENT) fs_open_enter(w.d, f, &w.d->backing_files->open, FS_OPEN_NS); /* it is tried again */
}

/* Publishes a file that is not open, with the attributes that it has now. */
static void fs_watch_publish_known(struct fs_daemon *d, uint64_t id, const struct stat *st, struct fs_watched *w) {
  struct fs_publication *p = fs_publication_make(d, id, fs_watch_published, w);
  if (!p) return;
  p->known = *st;
  p->call.flags = 0; /* nobody waits for it */
  fs_publication_start(p);
}

static void fs_watch_publish(struct fs_daemon *d, struct fs_backing_file *f, bool open, const struct stat *st) {
  struct fs_watched *w = f->publishing ? NULL : malloc(sizeof(*w));
  if (!w) {
    fs_backing_is_open(d, f); /* for another look */
    return;
  }
  *w = (struct fs_watched){.d = d, .id = f->id};
  f->publishing = true;
  d->backing_files->publishing++;
  if (open)
    fs_backing_publish_open(d, f->id, fs_watch_published, w);
  else if (d->replicas)
    fs_backing_publish(d, f->id, fs_watch_published, w);
  else
    fs_watch_publish_known(d, f->id, st, w);
}

static bool fs_watch_same(const struct fs_backing_file *f, const struct fs_call_publish *c) {
  return f->mode == c->mode && f->size == c->size && f->mtime == c->mtime && f->mtime_ns == c->mtime_ns;
}

/*
 * Looks at a file, which leaves its list, and publishes it if its record is out of date. A file that
 * is still open enters the list again. It gets its replica when it is closed or synced. If it was
 * never published, it need not be while it is open: other nodes ask for it. If the daemon itself has
 * descriptors for locks, which may be for long, the kernel cannot tell whether somebody else has it
 * open. Then it is taken to be closed, and looked at again.
 */
static void fs_open_look(struct fs_daemon *d, struct fs_backing_file *f) {
  struct fs_call_publish c = {.id = f->id};
  struct stat st;
  uint32_t flags = 0;
  fs_chain_drop(&f->open);
  if (f->creating || f->removed || f->gone || f->dir == 0) return; /* fs_backing_created enters it */
  bool open = fs_backing_written(d, f->id, &st) > 0;
  if (open) fs_open_enter(d, f, &d->backing_files->open, FS_OPEN_NS);
  open = open && !fs_locks_writable(d, f->id);
  if ((open && f->mode == 0) || !fs_backing_fill_by(d, &c, &flags, &st)) return;
  bool same = fs_watch_same(f, &c), whole = !open && f->untold;
  if (same && whole && !d->replicas) {
    f->untold = false;
    fs_modules_published(d, f->id);
  }
  if (!same || (whole && d->replicas)) fs_watch_publish(d, f, open, &st);
}

void fs_backing_look(struct fs_daemon *d, uint64_t id, fs_ns_done *done, void *ctx) {
  struct fs_backing_file *f = fs_backing_find(d, id);
  struct fs_call_publish c = {.id = id};
  bool seen = f && f->dir != 0 && !f->removed && fs_backing_fill(d, &c);
  if (f) fs_backing_is_open(d, f);
  if (seen && !fs_watch_same(f, &c))
    fs_backing_publish_open(d, id, done, ctx);
  else
    done(ctx, 0, NULL, 0);
}

void fs_backing_show(struct fs_daemon *d, uint64_t id, fs_ns_done *done, void *ctx) {
  struct fs_backing_file *f = fs_backing_find(d, id);
  struct fs_call_publish c = {.id = id};
  bool old = f && f->mode != 0 && f->dir != 0 && !f->removed && fs_backing_fill(d, &c) &&
             (f->publishing || !fs_watch_same(f, &c));
  if (old) fs_backing_is_open(d, f);
  if (old)
    fs_backing_publish_open(d, id, done, ctx);
  else
    done(ctx, 0, NULL, 0);
}

/* Each list is in the order of look_at. If much is being published, files stay in it. */
static void fs_open_timers(struct fs_daemon *d, const struct fs_chain *list, uint32_t most) {
  for (; most > 0 && !fs_chain_empty(list) && d->backing_files->publishing < FS_WATCH_PUBLISHING; most--) {
    struct fs_backing_file *f = FS_ITEM(list->next, struct fs_backing_file, open);
    if (d->now < f->look_at) return;
    fs_open_look(d, f);
  }
}

void fs_backing_look_all(struct fs_daemon *d) {
  struct fs_backing *s = d->backing_files;
  struct fs_chain *lists[] = {&s->young, &s->open};
  for (size_t i = 0; i < FS_ARRAY_LEN(lists); i++) {
    for (struct fs_chain *l = lists[i]->next; l != lists[i]; l = l->next)
      FS_ITEM(l, struct fs_backing_file, open)->look_at = d->now;
    fs_open_timers(d, lists[i], UINT32_MAX);
  }
  fs_forwarders_look_all(d);
  fs_written_look_all(d);
}

void fs_backing_timers(struct fs_daemon *d) {
  struct fs_backing *s = d->backing_files;
  fs_open_timers(d, &s->young, FS_OPEN_LOOKS);
  fs_open_timers(d, &s->open, fs_ctl_alone(d) ? FS_OPEN_LOOKS_ALONE : FS_OPEN_LOOKS);
}

/* ---- a client's PUBLISH ---- */

static fs_err fs_backing_check_publish(const struct fs_daemon *d, const struct fs_names_call *c) {
  if (fs_service_evicted(d)) return -EIO;
  return fs_backing_mine(d, c->publish.id) ? fs_client_call_check_name(d, c) : -EINVAL;
}

/* A program that has synced a file may go on writing, and another one may have it open. */
static void fs_backing_called(void *ctx, fs_err err, const void *body, size_t n) {
  const struct fs_client_call *call = ctx;
  struct fs_backing_file *f = fs_backing_find(call->d, call->publish.call.publish.id);
  if (f) fs_backing_is_open(call->d, f);
  if (err == 0) fs_left_record(call->d, body, n);
  if (err < 0) fs_backing_not_published(call->d, call->publish.call.publish.id);
  fs_client_call_done(ctx, err == 0 ? call->publish.why : err, body, n);
}

/* Publishes a file that has its replica. */
static void fs_backing_replicated(void *ctx, fs_err err) {
  struct fs_client_call *call = ctx;
  struct fs_daemon *d = call->d;
  struct stat st = {.st_mode = 0};
  call->publish.why = err;
  (void)fs_backing_publishing(d, &call->publish.call, false, &st);
  fs_ns_call(d->ns, d->now, &call->publish.call, fs_backing_called, call);
}

static void fs_backing_publishes(struct fs_client_call *call, const struct fs_names_call *c) {
  call->publish.call = *c;
  call->publish.call.publish.ctime = 0; /* the home sets it from the backing file */
  fs_replicate(call->d, c->publish.id,
               (struct fs_replica_wish){.sync = c->flags & FS_PUBLISH_DURABLE, .end = UINT64_MAX},
               fs_backing_replicated, call);
}

const struct fs_client_call_op fs_publish_call = {.check = fs_backing_check_publish, .start = fs_backing_publishes};
