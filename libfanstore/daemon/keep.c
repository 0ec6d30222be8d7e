/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeping outputs of a job on the node: each spill gets its own name below <local-dir>/fanstore-outputs/<job>, by
 * rename(2), so that no byte is copied. Called by outputs.c when no program of the job has a file open any more; the
 * I/O pool does it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/outputs.h"
#include "daemon/spill.h"
#include "util/util.h"

struct fs_keeping {
  struct fs_io io;
  const struct fs_daemon *d;
  struct fs_output output;
  void (*done)(void *ctx, fs_err err);
  void *ctx;
  char path[2 * PATH_MAX];
};

fs_err fs_keep_dir(const struct fs_daemon *d, char *path, size_t size) {
  int n = snprintf(path, size, "%s/%s/%s", d->cfg->local_dir, FS_OUTPUTS_KEPT, d->cfg->job);
  return n >= 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

static fs_err fs_keep_parents(char *path) {
  char *slash = strrchr(path, '/');
  *slash = '\0';
  fs_err err = fs_mkdirs(path, 0700);
  *slash = '/';
  return err;
}

static fs_err fs_keep_work(struct fs_io *io) {
  struct fs_keeping *k = FS_ITEM(io, struct fs_keeping, io);
  char name[FS_SPILL_NAME_SIZE];
  uint32_t mode = k->output.mode;
  if (S_ISDIR(mode)) return fs_mkdirs(k->path, (mode & 07777) | 0700);
  fs_err err = fs_keep_parents(k->path);
  if (err < 0) return err;
  if (S_ISLNK(mode)) return symlink(k->output.target, k->path) < 0 && errno != EEXIST ? -errno : 0;
  fs_spill_name(k->output.id, name);
  return renameat(k->d->spill_fd, name, AT_FDCWD, k->path) < 0 ? -errno : 0;
}

static void fs_keep_end(struct fs_io *io) {
  struct fs_keeping *k = FS_ITEM(io, struct fs_keeping, io);
  k->done(k->ctx, io->err);
  free(k->output.target);
  free(k);
}

void fs_keep(struct fs_daemon *d, const struct fs_output *o, const char *path, void (*done)(void *ctx, fs_err err),
             void *ctx) {
  struct fs_keeping *k = calloc(1, sizeof(*k));
  fs_err err = k ? fs_keep_dir(d, k->path, sizeof(k->path)) : -ENOMEM;
  size_t n = err == 0 ? strlen(k->path) : 0;
  if (err == 0 && snprintf(k->path + n, sizeof(k->path) - n, "/%s", path) >= PATH_MAX - (int)n) err = -ENAMETOOLONG;
  if (err < 0) {
    free(k);
    done(ctx, err);
    return;
  }
  k->io = (struct fs_io){.work = fs_keep_work, .done = fs_keep_end};
  k->d = d;
  k->output = *o;
  k->output.target = o->target ? strdup(o->target) : NULL;
  k->done = done;
  k->ctx = ctx;
  fs_iopool_submit(&d->pool, &k->io);
}
