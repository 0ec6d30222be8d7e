/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Outputs whose home has died. With replicas, the file's new home is asked whether it has the
 * bytes; it has none that could not be replicated. With --stage-out, the directory is checked for a
 * copy of the last published contents. A copy has its name only when it is complete and synced, and
 * has the size and mtime that the record tells. finish.c calls this in the MPI thread; the thread
 * that copies looks into the directory, since that may hang.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/metadata/ns.h"
#include "daemon/outputs/outpath.h"
#include "daemon/stageout/stageout.h"

struct fs_orphaned {
  struct fs_io io;
  struct fs_chain chain;
  int dir;
  struct fs_output output;
  void (*done)(void *ctx, bool whole, const char *path); /* NULL: already answered */
  void *ctx;
  char path[];
};

struct fs_output fs_orphaned_item(const struct fs_record *r) {
  return (struct fs_output){.id = r->id,
                            .dir = r->dir,
                            .mode = r->mode,
                            .mtime = r->mtime,
                            .mtime_ns = r->mtime_ns,
                            .gone = true,
                            .size = r->size};
}

void fs_orphaned_say(const struct fs_daemon *d, const struct fs_output *output, const char *path) {
  struct fs_control_line l;
  if (fs_say_begin(d, &l, "output") == 0 && fs_control_add_u64(&l, "size", output->size) == 0 &&
      fs_control_add_u64(&l, "gone", FS_OUTPUT_ID_RANK(output->id)) == 0 && fs_control_add(&l, "name", path) == 0)
    fs_say_line(&l);
}

struct fs_orphaned_question {
  struct fs_daemon *d;
  const struct fs_output *output;
  void (*done)(void *ctx, fs_err err, const char *path);
  void *ctx;
};

/* The new home answers -EIO for a file whose bytes the last home had not sent
   (backing_extents.c). */
static void fs_orphaned_told(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_orphaned_question q = *(struct fs_orphaned_question *)ctx;
  (void)body, (void)n;
  free(ctx);
  if (err == -EIO)
    fs_path_find(q.d, q.output->dir, q.output->id, q.done, q.ctx);
  else
    q.done(q.ctx, -EEXIST, NULL);
}

void fs_orphaned_find(struct fs_daemon *d, const struct fs_output *output,
                      void (*done)(void *ctx, fs_err err, const char *path), void *ctx) {
  struct fs_names_call c = {.op = FS_NAMES_EXTENTS, .extents = {.id = output->id, .off = INT64_MAX}};
  struct fs_orphaned_question *q = d->replicas ? malloc(sizeof(*q)) : NULL;
  if (!q) {
    fs_path_find(d, output->dir, output->id, done, ctx);
    return;
  }
  *q = (struct fs_orphaned_question){.d = d, .output = output, .done = done, .ctx = ctx};
  fs_ns_call(d->ns, d->now, &c, fs_orphaned_told, q);
}

static struct fs_chain looks = {&looks, &looks}; /* checks that are with the thread */

static fs_err fs_orphaned_work(struct fs_io *io) {
  const struct fs_orphaned *g = FS_ITEM(io, struct fs_orphaned, io);
  struct stat st;
  if (fstatat(g->dir, g->path, &st, AT_SYMLINK_NOFOLLOW) < 0) return -errno;
  bool same = S_ISREG(st.st_mode) && (uint64_t)st.st_size == g->output.size && st.st_mtim.tv_sec == g->output.mtime &&
              st.st_mtim.tv_nsec == (long)g->output.mtime_ns;
  return same ? 0 : -ESTALE;
}

static void fs_orphaned_end(struct fs_io *io) {
  struct fs_orphaned *g = FS_ITEM(io, struct fs_orphaned, io);
  fs_chain_drop(&g->chain);
  if (g->done) g->done(g->ctx, io->err == 0, g->path);
  free(g);
}

void fs_orphaned_look(struct fs_daemon *d, const struct fs_output *output, const char *path,
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
  fs_chain_push(&looks, &g->chain);
  fs_iopool_submit(&d->stageout->pool, &g->io);
}

void fs_orphaned_give_up(void) {
  for (struct fs_chain *l; (l = fs_chain_pop(&looks)) != NULL;) {
    struct fs_orphaned *g = FS_ITEM(l, struct fs_orphaned, chain);
    g->done(g->ctx, false, g->path);
    g->done = NULL;
  }
}
