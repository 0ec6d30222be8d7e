/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decides what is copied, renamed and removed, and when (stageout.h). A published file is copied
 * after it has been quiet for a second; by then it usually has been renamed to its final name. Its
 * path is asked for before the copy and again after it. The MPI thread's.
 */
#include "daemon/stageout/stageout.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/metadata/ns.h"
#include "daemon/stageout/inplace.h"

#define FS_STAGEOUT_RETRY_NS 5000000000ull
#define FS_STAGEOUT_LAST_NS 1000000000ull /* between the tries at the end of the job */
#define FS_STAGEOUT_TRIES 3u              /* tries at the end of the job */
#define FS_STAGEOUT_CHANGES 10u           /* tries for a file that somebody still writes */
#define FS_STAGEOUT_CANCEL_NS 1000000000ull

/* ---- the table ---- */

static struct fs_stageout_file *fs_stageout_find(const struct fs_stageout *o, uint64_t id) {
  struct fs_table_link *l = fs_table_find(&o->files, id);
  return l ? FS_ITEM(l, struct fs_stageout_file, by_id) : NULL;
}

static struct fs_stageout_file *fs_stageout_make(struct fs_stageout *o, uint64_t id) {
  struct fs_stageout_file *f = fs_stageout_find(o, id);
  if (f || (f = calloc(1, sizeof(*f))) == NULL) return f;
  f->out = o;
  f->output = (struct fs_output){.id = id, .mode = S_IFREG};
  fs_chain_init(&f->chain);
  fs_table_add(&o->files, &f->by_id, id);
  return f;
}

static void fs_stageout_free(struct fs_stageout *o, struct fs_stageout_file *f) {
  fs_table_remove(&o->files, &f->by_id);
  o->removing -= f->removed;
  fs_chain_drop(&f->chain);
  free(f->staged.path);
  free(f);
}

/* ---- one file ---- */

static void fs_stageout_queue(struct fs_stageout_file *f, struct fs_chain *list, uint64_t due) {
  f->due = due;
  fs_chain_drop(&f->chain);
  fs_chain_push(list, &f->chain);
}

static void fs_stageout_answer(struct fs_stageout_file *f, fs_err err) {
  void (*done)(void *ctx, fs_err err) = f->done;
  f->done = NULL;
  f->output.target = NULL;
  if (done) done(f->ctx, err);
}

static void fs_stageout_failed(struct fs_stageout *o, const struct fs_stageout_item *i) {
  struct fs_daemon *d = o->d;
  struct fs_stageout_file *f = i->file;
  bool changed = i->err == -EAGAIN, over = i->err == -ECANCELED || i->err == -ESTALE;
  if (!over && (!changed || f->done)) f->tries++;
  bool taken = o->in_place && i->err == -EEXIST;
  /* another rank may just have put it there, so only the second failure counts */
  if (!changed && !over && !o->warned && (!taken || f->tries > 1)) {
    o->warned = true;
    if (taken)
      fs_say_text(d, "warn", "%s/%s is there and not this job's: the output is kept on its node", o->dir, i->path);
    else
      fs_say_text(d, "warn", "%s: %s: %s; it is tried again", o->in_place ? o->dir : "--stage-out",
                  i->path ? i->path : o->dir, strerror(-i->err));
  }
  if (over || (f->done && f->tries >= (changed ? FS_STAGEOUT_CHANGES : FS_STAGEOUT_TRIES)))
    fs_stageout_answer(f, i->err);
  else
    fs_stageout_queue(f, changed ? &o->due : &o->retry,
                      d->now + (changed   ? FS_STAGEOUT_QUIET_NS
                                : f->done ? FS_STAGEOUT_LAST_NS
                                          : FS_STAGEOUT_RETRY_NS));
}

/* Queues a removed file for the removal of its copy, after the quiet time: whatever takes its
   name is published by then. Nobody waits for the removal. */
static void fs_stageout_queue_removed(struct fs_stageout *o, struct fs_stageout_file *f) {
  fs_stageout_answer(f, 0);
  if (f->staged.path && !o->ending)
    fs_stageout_queue(f, &o->due, o->d->now + FS_STAGEOUT_QUIET_NS);
  else
    fs_stageout_queue(f, &o->now, 0);
}

void fs_stageout_end(struct fs_stageout *o, struct fs_stageout_item *i) {
  struct fs_stageout_file *f = i->file;
  if (i->through && i->err == 0 && S_ISDIR(i->output.mode) && !i->there) fs_settle_add(&i->output, false, i->path);
  f->busy = false;
  if (!i->later && (i->task == FS_STAGE_REMOVE || i->task == FS_STAGE_REMOVED)) {
    fs_stageout_answer(f, 0);
    fs_stageout_free(o, f);
  } else if (f->removed) {
    fs_stageout_queue_removed(o, f);
  } else if (atomic_load(&o->cancelled) && (i->later || i->err < 0 || f->again)) {
    fs_stageout_answer(f, i->err < 0 ? i->err : -ECANCELED);
  } else if (i->later) {
    fs_stageout_queue(f, &o->now, 0);
  } else if (i->err < 0) {
    fs_stageout_failed(o, i);
  } else if (f->again) {
    fs_stageout_queue(f, &o->due, o->d->now + FS_STAGEOUT_QUIET_NS);
  } else {
    f->tries = 0;
    fs_stageout_answer(f, 0);
  }
}

bool fs_stageout_nameless(struct fs_stageout *o, struct fs_stageout_file *f) {
  const struct fs_backing_file *s = fs_backing_find(o->d, f->output.id);
  if (!f->removed) {
    f->removed = true;
    f->output.dir = s ? s->dir : 0;
    o->removing++;
  }
  return f->gone || o->ending || !f->staged.path;
}

/* Takes the answer whether the name of a removed file is used again. If it is not, the copy is
   removed. If it is, the other file's copy will replace it, and until then it is the only one. */
static void fs_stageout_asked(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_stageout_file *f = ctx;
  struct fs_stageout *o = f->out;
  (void)body, (void)n;
  f->asking = false;
  /* any other error means that nobody knows */
  f->gone = err == -ENOENT || err == -ENOTDIR || o->ending;
  if (f->gone)
    fs_stageout_queue(f, &o->now, 0);
  else
    fs_stageout_queue(f, &o->retry, o->d->now + FS_STAGEOUT_RETRY_NS);
}

/* Asks whether the name of a removed file is used again, unless that is known or does not
   matter. Returns true if it asked. */
static bool fs_stageout_ask(struct fs_stageout *o, struct fs_stageout_file *f) {
  alignas(8) char body[sizeof(struct fs_names_call) + FS_RECORD_NAME_MAX + 8] = {0};
  struct fs_names_call *c = (void *)body;
  const char *slash = f->staged.path ? strrchr(f->staged.path, '/') : NULL, *name = slash ? slash + 1 : f->staged.path;
  if (!f->removed || !name || f->gone || o->ending || f->output.dir == 0) return false;
  *c = (struct fs_names_call){.op = FS_NAMES_LOOKUP, .lookup.dir = f->output.dir};
  (void)fs_call_put(c, name, strlen(name), NULL, 0);
  fs_chain_drop(&f->chain);
  f->asking = true;
  fs_ns_call(o->d->ns, o->d->now, c, fs_stageout_asked, f);
  return true;
}

static uint64_t fs_stageout_size(const struct fs_stageout *o, const struct fs_stageout_file *f) {
  char name[FS_BACKING_NAME_SIZE];
  struct stat st;
  const struct fs_backing_file *s = fs_backing_find(o->d, f->output.id);
  if (s && s->in && !f->removed) return o->held ? 0 : s->size;
  if (f->removed || !S_ISREG(f->output.mode) ||
      fstatat(o->d->backing_fd, fs_backing_name(f->output.id, name), &st, AT_SYMLINK_NOFOLLOW) < 0)
    return 0;
  return (uint64_t)st.st_size;
}

/* Moves files from a list into the batch, as many as fit. */
static void fs_stageout_take(struct fs_stageout *o, const struct fs_chain *list, uint64_t *bytes) {
  while (list->next != list && o->batch.count < FS_BATCH_FILES && *bytes < FS_BATCH_BYTES) {
    struct fs_stageout_file *f = FS_ITEM(list->next, struct fs_stageout_file, chain);
    uint64_t size = f->due > o->d->now ? UINT64_MAX : fs_stageout_size(o, f);
    if (f->due > o->d->now || (o->batch.count > 0 && size > FS_BATCH_SMALL)) return;
    if (fs_stageout_ask(o, f)) continue;
    *bytes += size > FS_BATCH_SMALL ? FS_BATCH_BYTES : size;
    fs_chain_drop(&f->chain);
    f->busy = true;
    f->again = false;
    fs_batch_add(o, f);
  }
}

static void fs_stageout_next(struct fs_stageout *o) {
  uint64_t bytes = 0;
  if (o->batch.count > 0) return;
  fs_stageout_take(o, &o->now, &bytes);
  fs_stageout_take(o, &o->due, &bytes);
  fs_stageout_take(o, &o->retry, &bytes);
  if (o->batch.count == 0) return;
  o->copied_before = atomic_load(&o->copied);
  fs_batch_begin(o);
}

/* ---- what others call ---- */

void fs_stageout_touch(struct fs_daemon *d, uint64_t id) {
  struct fs_stageout *o = d->stageout;
  struct fs_stageout_file *f = o && fs_backing_mine(d, id) ? fs_stageout_make(o, id) : NULL;
  /* without memory the file is copied at the end of the job */
  if (!f || f->done || f->removed) return;
  if (f->busy)
    f->again = true;
  else
    fs_stageout_queue(f, &o->due, d->now + FS_STAGEOUT_QUIET_NS);
}

void fs_stageout_removed(struct fs_daemon *d, uint64_t id) {
  struct fs_stageout *o = d->stageout;
  struct fs_stageout_file *f = o ? fs_stageout_find(o, id) : NULL;
  if (!f || f->removed) return;
  fs_stageout_nameless(o, f);
  if (!f->busy) fs_stageout_queue_removed(o, f);
}

void fs_stageout_there(struct fs_daemon *d, uint64_t id, const char *path, const struct stat *st) {
  struct fs_stageout *o = d->stageout;
  struct fs_stageout_file *f = o ? fs_stageout_make(o, id) : NULL;
  if (!f) return;
  f->staged = (struct fs_staged){.path = strdup(path),
                                 .ino = st->st_ino,
                                 .size = (uint64_t)st->st_size,
                                 .mtime = st->st_mtim,
                                 .mode = st->st_mode & 07777};
}

/* ---- files whose home has gone ---- */

struct fs_orphaned {
  struct fs_io io;
  struct fs_chain chain;
  int dir;
  struct fs_output output;
  void (*done)(void *ctx, bool whole, const char *path); /* NULL: answered already */
  void *ctx;
  char path[];
};

/* A copy has its name only when it is whole and on the disk, and has the size and mtime of the file. */
static fs_err fs_orphaned_work(struct fs_io *io) {
  const struct fs_orphaned *g = FS_ITEM(io, struct fs_orphaned, io);
  struct stat st;
  if (fstatat(g->dir, g->path, &st, AT_SYMLINK_NOFOLLOW) < 0) return -errno;
  bool same = S_ISREG(st.st_mode) && (uint64_t)st.st_size == g->output.size && st.st_mtim.tv_sec == g->output.mtime &&
              st.st_mtim.tv_nsec == (long)g->output.mtime_ns;
  return same ? 0 : -ESTALE;
}

static void fs_orphaned_answer(struct fs_orphaned *g, bool whole) {
  if (g->done) g->done(g->ctx, whole, g->path);
  g->done = NULL;
}

static void fs_orphaned_end(struct fs_io *io) {
  struct fs_orphaned *g = FS_ITEM(io, struct fs_orphaned, io);
  fs_chain_drop(&g->chain);
  fs_orphaned_answer(g, io->err == 0);
  free(g);
}

void fs_stageout_look(struct fs_daemon *d, const struct fs_output *output, const char *path,
                      void (*done)(void *ctx, bool whole, const char *path), void *ctx) {
  size_t n = strlen(path) + 1;
  struct fs_orphaned *g = atomic_load(&d->stageout->cancelled) ? NULL : malloc(sizeof(*g) + n);
  if (!g) {
    done(ctx, false, path);
    return;
  }
  *g = (struct fs_orphaned){.io = {.work = fs_orphaned_work, .done = fs_orphaned_end},
                            .dir = d->stageout->fd,
                            .output = *output,
                            .done = done,
                            .ctx = ctx};
  memcpy(g->path, path, n);
  fs_chain_push(&d->stageout->looks, &g->chain);
  fs_iopool_submit(&d->stageout->pool, &g->io);
}

/* Those that hang are not waited for. */
static void fs_stageout_give_up(struct fs_stageout *o) {
  atomic_store(&o->given_up, true);
  for (uint32_t i = 0; i < o->batch.count; i++) fs_stageout_answer(o->batch.item[i].file, -EINPROGRESS);
  for (struct fs_chain *l; (l = fs_chain_pop(&o->looks)) != NULL;)
    fs_orphaned_answer(FS_ITEM(l, struct fs_orphaned, chain), false);
}

void fs_stageout_timers(struct fs_daemon *d) {
  struct fs_stageout *o = d->stageout;
  if (!o) return;
  (void)fs_iopool_reap(&o->pool);
  if (o->cancel_by != 0 && d->now >= o->cancel_by && !o->given_up) fs_stageout_give_up(o);
  fs_stageout_next(o);
}

void fs_stageout_last(struct fs_daemon *d, const struct fs_output *output, void (*done)(void *ctx, fs_err err),
                      void *ctx) {
  struct fs_stageout *o = d->stageout;
  bool cancelled = atomic_load(&o->cancelled);
  struct fs_stageout_file *f = cancelled ? NULL : fs_stageout_make(o, output->id);
  if (!f || f->removed) {
    done(ctx, cancelled ? -ECANCELED : f ? 0 : -ENOMEM);
    return;
  }
  f->output = *output;
  f->done = done;
  f->ctx = ctx;
  f->tries = 0;
  if (f->busy)
    f->again = true;
  else
    fs_stageout_queue(f, &o->now, 0);
}

static void fs_stageout_synced(struct fs_io *io) {
  FS_ITEM(io, struct fs_stageout, sync)->synced = true;
}

/* All that has a name has its copy: what was removed goes, without a question. */
bool fs_stageout_removed_all(struct fs_stageout *o) {
  struct fs_chain *lists[] = {&o->due, &o->retry};
  o->ending = true;
  for (size_t i = 0; i < FS_ARRAY_LEN(lists); i++) {
    for (struct fs_chain *l = lists[i]->next, *next; l != lists[i]; l = next) {
      struct fs_stageout_file *f = FS_ITEM(l, struct fs_stageout_file, chain);
      next = l->next;
      if (f->removed) fs_stageout_queue(f, &o->now, 0);
    }
  }
  return o->removing == 0;
}

bool fs_stageout_sync(struct fs_daemon *d, bool named, fs_err *err) {
  struct fs_stageout *o = d->stageout;
  bool cancelled = atomic_load(&o->cancelled);
  *err = 0;
  if (!o->syncing && !cancelled) {
    o->syncing = true;
    o->named = named;
    o->sync = (struct fs_io){.work = fs_stageout_sync_work, .done = fs_stageout_synced};
    fs_iopool_submit(&o->pool, &o->sync);
  }
  *err = o->synced ? o->sync.err : 0;
  return o->synced || cancelled;
}

void fs_stageout_cancel(struct fs_daemon *d) {
  struct fs_stageout *o = d->stageout;
  if (!o || atomic_exchange(&o->cancelled, true)) return;
  /* so long the thread may take to name its present batch */
  o->cancel_by = d->now + FS_STAGEOUT_CANCEL_NS;
  struct fs_chain *lists[] = {&o->now, &o->due, &o->retry};
  for (size_t i = 0; i < FS_ARRAY_LEN(lists); i++)
    for (struct fs_chain *l; (l = fs_chain_pop(lists[i])) != NULL;)
      fs_stageout_answer(FS_ITEM(l, struct fs_stageout_file, chain), -ECANCELED);
}

bool fs_stageout_done(const struct fs_daemon *d, uint64_t id) {
  const struct fs_stageout_file *f = d->stageout ? fs_stageout_find(d->stageout, id) : NULL;
  const struct fs_backing_file *s = fs_backing_find(d, id);
  char name[FS_BACKING_NAME_SIZE];
  struct stat st;
  if (!f || f->busy || !f->staged.path || f->staged.open || f->again || f->removed) return false;
  if (s && s->changes != f->staged.changes) return false;
  return fstatat(d->backing_fd, fs_backing_name(id, name), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
         (uint64_t)st.st_size == f->staged.size && fs_same_time(st.st_mtim, f->staged.mtime);
}

bool fs_stageout_held(const struct fs_daemon *d, uint64_t id) {
  const struct fs_backing_file *f = fs_backing_find(d, id);
  return f && f->in && d->stageout && d->stageout->held;
}

bool fs_stageout_at(const struct fs_daemon *d, uint64_t id, const char *path) {
  const struct fs_stageout_file *f = fs_stageout_find(d->stageout, id);
  return fs_stageout_done(d, id) && strcmp(f->staged.path, path) == 0;
}

uint64_t fs_stageout_under_way(const struct fs_daemon *d) {
  const struct fs_stageout *o = d->stageout;
  bool last = o && o->batch.count > 0 && o->batch.item[0].file->done;
  return last ? atomic_load(&o->copied) - o->copied_before : 0;
}

/* ---- start ---- */

/* Opens the directory for --in-place. If this node cannot use it, the node keeps its outputs
   instead. */
static fs_err fs_stageout_in_place(struct fs_daemon *d, struct fs_stageout *o) {
  struct stat st;
  fs_err err = o->fd < 0 || faccessat(o->fd, ".", R_OK | W_OK | X_OK, AT_EACCESS) < 0 ? -errno : 0;
  if (err == 0 && (fstat(o->fd, &st) < 0 || st.st_ino != d->cfg->in_place)) err = -EXDEV;
  o->in_place = true;
  d->stageout = o;
  if (err == 0 && fs_inplace_dirty(o)) err = fs_inplace_begin(o);
  if (err == 0) return 0;
  fs_say_text(d, "warn", "%s: %s: outputs of this node are kept on it", o->dir,
              err == -EXDEV ? "another directory than on fs-launch's host" : strerror(-err));
  d->stageout = NULL;
  return 0;
}

fs_err fs_stageout_open(struct fs_daemon *d, char *why, size_t why_size) {
  char name[FS_JOB_NAME_MAX + 16];
  if (!d->cfg->stage_out) return 0;
  struct fs_stageout *o = calloc(1, sizeof(*o));
  if (!o) return -ENOMEM;
  o->d = d;
  o->dir = d->cfg->stage_out;
  fs_chain_init(&o->now);
  fs_chain_init(&o->due);
  fs_chain_init(&o->retry);
  fs_chain_init(&o->looks);
  o->fd = open(o->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  fs_err err = o->fd < 0 ? -errno : 0;
  if (d->cfg->in_place) return fs_stageout_in_place(d, o);
  snprintf(name, sizeof(name), "%s-%u", d->cfg->job, d->net->rank);
  if (err == 0) err = fs_stageout_log_open(&o->log, o->fd, name);
  if (err < 0) snprintf(why, why_size, "--stage-out %s: %s", o->dir, strerror(-err));
  d->stageout = o;
  return err;
}

static void fs_stageout_cleaned(struct fs_io *io) {
  (void)io;
}

fs_err fs_stageout_start(struct fs_daemon *d) {
  if (!d->stageout) return 0;
  d->stageout->buf = malloc(FS_SOURCE_BYTES);
  if (!d->stageout->buf) return -ENOMEM;
  fs_err err = fs_inside_new(d, &d->stageout->inside);
  if (err == 0) err = fs_iopool_start(&d->stageout->pool, 1, d->wake);
  if (err < 0) return err;
  if (!d->stageout->log) return 0;
  d->stageout->clean = (struct fs_io){.work = fs_stageout_clean_work, .done = fs_stageout_cleaned};
  fs_iopool_submit(&d->stageout->pool, &d->stageout->clean);
  return 0;
}
