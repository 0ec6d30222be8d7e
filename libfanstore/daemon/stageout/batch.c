/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A batch on its way to the copying thread and back (stageout.h). A batch goes to the thread twice.
 * The first time its files are copied under temporary names and synced. The second time each file
 * that still has the same path gets its name. The paths are asked for before both, all at once. The
 * MPI thread's.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/outputs/backing.h"
#include "daemon/outputs/outpath.h"
#include "daemon/stageout/stageout.h"
#include "util/sys.h"

void fs_batch_add(struct fs_stageout *o, struct fs_stageout_file *f) {
  struct fs_stageout_item *i = &o->batch.item[o->batch.count++];
  *i = (struct fs_stageout_item){.out = o, .file = f, .output = f->output, .staged = &f->staged, .fd = -1};
  i->task = f->removed ? FS_STAGE_REMOVE : FS_STAGE_COPY;
  /* it belongs to the caller, who may have gone before the thread has finished */
  if (f->output.target) {
    i->output.target = strdup(f->output.target);
    if (!i->output.target) i->err = -ENOMEM;
  }
}

static void fs_batch_drop(struct fs_stageout_item *i) {
  free(i->path);
  free(i->copy.path);
  free(i->output.target);
  free(i->scattered.extent);
}

static void fs_batch_finish(struct fs_stageout *o) {
  struct fs_stageout_batch *b = &o->batch;
  uint32_t count = b->count;
  b->count = 0;
  for (uint32_t i = 0; i < count; i++) {
    fs_stageout_end(o, &b->item[i]);
    fs_batch_drop(&b->item[i]);
  }
}

/* ---- copying ---- */

static void fs_batch_copied(struct fs_io *io);
static void fs_batch_named(struct fs_io *io);

/* Copies the file's present extent map for the thread. */
static fs_err fs_batch_scattered(struct fs_stageout_item *i) {
  const struct fs_backing_file *s = fs_backing_find(i->out->d, i->output.id);
  return s && i->task == FS_STAGE_COPY ? fs_backing_scattered(s, &i->scattered) : 0;
}

/* Counts an answer. With the last one, the batch goes to the thread. */
static void fs_batch_asked(struct fs_stageout *o, bool copying) {
  struct fs_stageout_batch *b = &o->batch;
  if (--b->asking > 0) return;
  for (uint32_t i = 0; copying && i < b->count; i++)
    if (b->item[i].err == 0) b->item[i].err = fs_batch_scattered(&b->item[i]);
  b->io = copying ? (struct fs_io){.work = fs_stageout_copy_work, .done = fs_batch_copied}
                  : (struct fs_io){.work = fs_stageout_name_work, .done = fs_batch_named};
  fs_iopool_submit(&o->pool, &b->io);
}

/* Returns true if the file's name may have been lost together with other nodes; then its copy
   has to stay. */
static bool fs_batch_severed(const struct fs_stageout_item *i) {
  const struct fs_daemon *d = i->out->d;
  return !i->file->removed && i->staged->path && fs_ns_members(d->ns)->count < d->net->nodes;
}

/* Handles a file that has lost its name: its copy goes, too, if nothing else has that name. */
static void fs_batch_nameless(struct fs_stageout_item *i) {
  if (!S_ISREG(i->output.mode) || fs_stageout_nameless(i->out, i->file))
    i->task = FS_STAGE_REMOVE;
  else
    i->err = -EAGAIN;
}

/* Takes the path of a file, or the error. */
static void fs_batch_found(void *ctx, fs_err err, const char *path) {
  struct fs_stageout_item *i = ctx;
  bool copying = i->task == FS_STAGE_COPY;
  if (err == 0) {
    free(i->path);
    i->path = strdup(path);
    if (!i->path) err = -ENOMEM;
  }
  if (S_ISREG(i->output.mode) && !fs_backing_mine(i->out->d, i->output.id))
    err = -ESTALE;
  else if (!fs_ns_sure(i->out->d->ns))
    err = -EAGAIN;
  if (err == -ENOENT && fs_batch_severed(i)) err = -ENOLINK;
  if (err == -ENOENT)
    fs_batch_nameless(i);
  else
    i->err = err; /* if a copy has been made, the next try makes another */
  fs_batch_asked(i->out, copying);
}

static void fs_batch_ask(struct fs_stageout_item *i) {
  const struct fs_backing_file *s = fs_backing_find(i->out->d, i->output.id);
  i->out->batch.asking++;
  i->asked_ns = fs_now_ns();
  fs_path_find(i->out->d, S_ISREG(i->output.mode) ? (s ? s->dir : 0) : i->output.dir, i->output.id, fs_batch_found, i);
}

void fs_batch_begin(struct fs_stageout *o) {
  struct fs_stageout_batch *b = &o->batch;
  b->asking = 1; /* held until all questions are asked, so that no answer ends the round early */
  for (uint32_t i = 0; i < b->count; i++)
    if (b->item[i].err == 0 && b->item[i].task == FS_STAGE_COPY) fs_batch_ask(&b->item[i]);
  fs_batch_asked(o, true);
}

/* ---- naming ---- */

static void fs_batch_name(struct fs_stageout_item *i) {
  const struct fs_backing_file *s = fs_backing_find(i->out->d, i->output.id);
  bool file = S_ISREG(i->output.mode);
  if (i->later || i->err < 0) return;
  if (i->task == FS_STAGE_REMOVE) {
    i->task = FS_STAGE_REMOVED;
    return;
  }
  i->changed = file && s && s->changes != i->scattered.changes;
  i->task = FS_STAGE_NAME;
  if (i->file->removed)
    fs_batch_nameless(i);
  else if (file && !i->changed)
    fs_batch_ask(i);
}

static void fs_batch_copied(struct fs_io *io) {
  struct fs_stageout_batch *b = FS_ITEM(io, struct fs_stageout_batch, io);
  b->asking = 1;
  for (uint32_t i = 0; i < b->count; i++) fs_batch_name(&b->item[i]);
  fs_batch_asked(b->item[0].out, false);
}

static void fs_batch_named(struct fs_io *io) {
  struct fs_stageout_batch *b = FS_ITEM(io, struct fs_stageout_batch, io);
  struct fs_stageout *o = b->item[0].out;
  bool late = false;
  b->asking = 1;
  for (uint32_t i = 0; i < b->count; i++) {
    if (!b->item[i].late) continue;
    b->item[i].late = false;
    late = true;
    fs_batch_ask(&b->item[i]);
  }
  if (late)
    fs_batch_asked(o, false);
  else
    fs_batch_finish(o);
}
