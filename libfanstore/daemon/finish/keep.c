/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps outputs of a job on the node. rename(2) gives each backing file its name below
 * <local-dir>/fanstore-outputs/<job>, so that no byte is copied. The segments of other nodes are
 * first written into the backing file. finish.c calls this when no program of the job has a file
 * open any more. The I/O pool does the work, except what waits for other nodes: that has a thread
 * of its own, as it must not delay the reads of those nodes.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/finish/finish.h"
#include "daemon/outputs/backing.h"
#include "daemon/outputs/source.h"
#include "util/dir.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_KEEP_TRIES 4u
#define FS_KEEP_PAUSE_US 50000u

struct fs_keeping {
  struct fs_io io;
  const struct fs_daemon *d;
  struct fs_output output;
  struct fs_scattered scattered;
  void (*done)(void *ctx, fs_err err);
  void *ctx;
  size_t base; /* length of the directory's part of `path`, with the slash */
  char path[2 * PATH_MAX];
};

static struct fs_iopool gathering; /* there is one daemon per process */

fs_err fs_keep_dir(const struct fs_daemon *d, char *path, size_t size) {
  int n = snprintf(path, size, "%s/%s/%s", d->cfg->local_dir, FS_OUTPUTS_KEPT, d->cfg->job);
  return n >= 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

/* If other users can make names in <local-dir>, this directory must belong to this user. The
   owner of a directory can replace what is in it, also by a symlink that leads outputs
   elsewhere. */
fs_err fs_keep_open(const struct fs_daemon *d, char *why, size_t why_size) {
  struct stat st, link;
  FS_AUTO_CLOSE int local = open(d->cfg->local_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  /* then each file fails by itself */
  if (local < 0 || (mkdirat(local, FS_OUTPUTS_KEPT, 0755) < 0 && errno != EEXIST)) return 0;
  if (fstatat(local, FS_OUTPUTS_KEPT, &link, AT_SYMLINK_NOFOLLOW) < 0) return 0;
  if (fstatat(local, FS_OUTPUTS_KEPT, &st, 0) < 0) st = link;
  if (link.st_uid == geteuid() && st.st_uid == geteuid()) return 0;
  snprintf(why, why_size, "%s/" FS_OUTPUTS_KEPT " belongs to another user: give --local-dir a directory of your own",
           d->cfg->local_dir);
  return -EPERM;
}

void fs_keep_close(const struct fs_daemon *d) {
  char path[PATH_MAX];
  int n = snprintf(path, sizeof(path), "%s/" FS_OUTPUTS_KEPT, d->cfg->local_dir);
  struct stat st;
  if (n < (int)sizeof(path) && lstat(path, &st) == 0 && st.st_uid == geteuid())
    (void)rmdir(path); /* fails unless it is empty */
}

static fs_err fs_keep_parents(char *path) {
  char *slash = strrchr(path, '/');
  *slash = '\0';
  fs_err err = fs_mkdirs(path, 0700);
  *slash = '/';
  return err;
}

/* Makes a directory, which may exist already because of a file in it. */
static fs_err fs_keep_directory(const char *path, uint32_t mode) {
  if (mkdir(path, 0700) < 0 && errno != EEXIST) return -errno;
  return fs_chmod_dir(AT_FDCWD, path, (mode & 07777) | 0700);
}

static fs_err fs_keep_symlink(const struct fs_output *o, const char *path) {
  struct timespec times[2] = {fs_output_time(o), fs_output_time(o)};
  if (symlink(o->target, path) < 0) return errno != EEXIST ? -errno : 0;
  return utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* ---- a file of several writers ---- */

static fs_err fs_keep_extent(struct fs_source *s, const struct fs_output_extent *e, char *buf) {
  for (uint64_t at = e->off, end = e->off + e->len; at < end;) {
    bool hole;
    fs_ssize n = fs_source_read(s, buf, (size_t)FS_MIN(end - at, FS_SOURCE_BYTES), at, &hole);
    if (n <= 0) return n < 0 ? (fs_err)n : -EIO;
    fs_err err = fs_pwrite_full(s->fd, buf, (size_t)n, at);
    if (err < 0) return err;
    at += (uint64_t)n;
  }
  return 0;
}

/* Writes the segments into the backing file itself, which nobody reads any more. The file keeps
   its times and mode. */
static fs_err fs_keep_gather(const struct fs_keeping *k) {
  struct fs_source s;
  FS_AUTO_FREE char *buf = malloc(FS_SOURCE_BYTES);
  fs_err err = buf ? fs_source_open(&s, k->d, k->d->inside, k->output.id, O_RDWR, &k->scattered) : -ENOMEM;
  if (err < 0) return err;
  struct timespec times[2] = {s.st.st_mtim, s.st.st_mtim};
  for (uint32_t i = 0; err == 0 && i < k->scattered.count; i++) err = fs_keep_extent(&s, &k->scattered.extent[i], buf);
  if (err == 0) err = fs_source_same_segments(&s);
  /* also after an error, for the next try */
  bool set = fchmod(s.fd, s.st.st_mode & 07777) == 0 && futimens(s.fd, times) == 0;
  if (err == 0 && !set) err = -errno;
  fs_source_close(&s);
  return err;
}

static fs_err fs_keep_whole(const struct fs_keeping *k) {
  fs_err err = fs_keep_gather(k);
  /* If a segment's node died during the read, another node has the segment. */
  for (unsigned i = 1; (err == -EAGAIN || (err == -EHOSTDOWN && k->d->replicas)) && i < FS_KEEP_TRIES; i++) {
    /* a segment written a moment ago may look changed by its times alone */
    usleep(FS_KEEP_PAUSE_US);
    err = fs_keep_gather(k);
  }
  return err;
}

/* ---- any of them ---- */

static fs_err fs_keep_work(struct fs_io *io) {
  struct fs_keeping *k = FS_ITEM(io, struct fs_keeping, io);
  char name[FS_BACKING_NAME_SIZE];
  uint32_t mode = k->output.mode;
  char why[PATH_MAX + 128];
  fs_err err = fs_keep_open(k->d, why, sizeof(why)); /* another job may have removed it since the start */
  if (err < 0) return err;
  err = k->scattered.count > 0 ? fs_keep_whole(k) : 0;
  if (err == 0) err = fs_keep_parents(k->path);
  if (err < 0) return err;
  if (S_ISDIR(mode)) return fs_keep_directory(k->path, mode);
  if (S_ISLNK(mode)) return fs_keep_symlink(&k->output, k->path);
  fs_backing_name(k->output.id, name);
  return renameat(k->d->backing_fd, name, AT_FDCWD, k->path) < 0 ? -errno : 0;
}

static void fs_keep_end(struct fs_io *io) {
  struct fs_keeping *k = FS_ITEM(io, struct fs_keeping, io);
  if (io->err == 0 && S_ISDIR(k->output.mode)) fs_settle_add(&k->output, true, k->path + k->base);
  k->done(k->ctx, io->err);
  free(k->output.target);
  free(k->scattered.extent);
  free(k);
}

static fs_err fs_keep_pool(struct fs_daemon *d, const struct fs_keeping *k, struct fs_iopool **pool) {
  fs_err err = 0;
  *pool = k->scattered.count > 0 ? &gathering : &d->pool;
  if (k->scattered.count > 0 && gathering.wake == 0) err = fs_iopool_start(&gathering, 1, d->wake);
  return err;
}

int fs_keep_reap(void) {
  return gathering.wake != 0 ? fs_iopool_reap(&gathering) : 0;
}

void fs_keep(struct fs_daemon *d, const struct fs_output *o, const char *path, void (*done)(void *ctx, fs_err err),
             void *ctx) {
  struct fs_keeping *k = calloc(1, sizeof(*k));
  const struct fs_backing_file *f = fs_backing_find(d, o->id);
  struct fs_iopool *pool = NULL;
  fs_err err = k ? fs_keep_dir(d, k->path, sizeof(k->path)) : -ENOMEM;
  size_t n = err == 0 ? strlen(k->path) : 0;
  if (err == 0 && snprintf(k->path + n, sizeof(k->path) - n, "/%s", path) >= PATH_MAX - (int)n) err = -ENAMETOOLONG;
  if (err == 0 && f) err = fs_backing_scattered(f, &k->scattered);
  if (err == 0) err = fs_keep_pool(d, k, &pool);
  if (err < 0) {
    if (k) free(k->scattered.extent);
    free(k);
    done(ctx, err);
    return;
  }
  k->io = (struct fs_io){.work = fs_keep_work, .done = fs_keep_end};
  k->d = d;
  k->base = n + 1;
  k->output = *o;
  k->output.target = o->target ? strdup(o->target) : NULL;
  k->done = done;
  k->ctx = ctx;
  fs_iopool_submit(pool, &k->io);
}
