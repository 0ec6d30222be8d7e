/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The case that --stage-in and --stage-out have the same directory. The job's names replace the
 * names there, while the job still reads the files that had them. So each daemon holds each file by
 * a hard link in a directory of its own, `.fanstore-held-<job>-<rank>`, as long as it runs; the
 * backing files are symlinks to these links.
 *
 * A later job removes what a dead daemon has left. A daemon counts as dead if its lock is free and
 * its directory is a week old, as some file systems keep locks local to a node.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "daemon/outputs/outpath.h"
#include "daemon/stagein/stagein.h"
#include "daemon/stageout/stageout.h"
#include "util/dir.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_HELD ".fanstore-held-"
#define FS_HELD_OLD_S (7 * 86400)
#define FS_NAMES_FLIGHT 64u

struct fs_in_name {
  struct fs_stagein *in;
  uint64_t id, dir, ino;
  bool directory, gone;
  char *path;
};

/* ---- links ---- */

static void fs_held_remove(const struct fs_stagein *in, const char *name) {
  char path[2 * PATH_MAX];
  if (snprintf(path, sizeof(path), "%s/%s", in->dir, name) < PATH_MAX) (void)fs_remove_tree(path);
}

static void fs_held_clean(const struct fs_stagein *in) {
  DIR *dir = fs_opendirat(in->fd, ".");
  for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
    struct stat st;
    if (strncmp(e->d_name, FS_HELD, strlen(FS_HELD)) != 0) continue;
    FS_AUTO_CLOSE int fd = openat(in->fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fs_sys_fstat(fd, &st) < 0 || fs_age_s(st.st_mtime) < FS_HELD_OLD_S) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) fs_held_remove(in, e->d_name);
  }
  if (dir) closedir(dir);
}

fs_err fs_stagein_held_open(struct fs_daemon *d, char *why, size_t why_size) {
  struct fs_stagein *in = d->stagein;
  struct stat a, b;
  if (!d->stageout || fstat(d->stageout->fd, &a) < 0 || fstat(in->fd, &b) < 0) return 0;
  if (a.st_ino != b.st_ino || a.st_dev != b.st_dev) return 0;
  if (d->net->rank == 0) fs_held_clean(in);
  snprintf(in->held, sizeof(in->held), FS_HELD "%s-%u", d->cfg->job, d->net->rank);
  if (mkdirat(in->fd, in->held, 0700) == 0 || errno == EEXIST)
    in->held_fd = openat(in->fd, in->held, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  fs_err err = in->held_fd < 0 ? -errno : 0;
  if (err == 0) (void)flock(in->held_fd, LOCK_EX | LOCK_NB);
  if (err < 0) snprintf(why, why_size, "--stage-in %s/%s: %s", in->dir, in->held, strerror(-err));
  d->stageout->held = err == 0;
  return err;
}

/* Copies a file to which no hard link can be made. */
static fs_err fs_held_copy(struct fs_stagein *in, const struct stat *st, int dir, const char *name,
                           const char *number) {
  struct timespec times[2] = {st->st_mtim, st->st_mtim};
  FS_AUTO_CLOSE int from = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (from < 0) return -errno;
  FS_AUTO_CLOSE int to = openat(in->held_fd, number, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (to < 0) return -errno;
  fs_err err = fs_stagein_bytes(in, from, to);
  if (err == 0 && (fchmod(to, st->st_mode & 07777) < 0 || futimens(to, times) < 0)) err = -errno;
  if (err < 0) (void)unlinkat(in->held_fd, number, 0);
  return err;
}

fs_err fs_stagein_link(struct fs_stagein *in, struct fs_in_item *item, int dir, const char *name) {
  static uint64_t last; /* only the walking thread is here */
  char number[32];
  if (in->held_fd < 0) return 0;
  item->link = ++last;
  snprintf(number, sizeof(number), "%llu", (unsigned long long)item->link);
  (void)unlinkat(in->held_fd, number, 0);
  return linkat(dir, name, in->held_fd, number, 0) == 0 ? 0 : fs_held_copy(in, &item->st, dir, name, number);
}

void fs_stagein_leave(struct fs_daemon *d) {
  const struct fs_stagein *in = d->stagein;
  if (in && in->held_fd >= 0 && in->held[0] != '\0') fs_held_remove(in, in->held);
}

/* ---- directories and symlinks ---- */

void fs_stagein_named(struct fs_stagein *in, const struct fs_in_item *item) {
  char path[2 * PATH_MAX];
  bool directory = S_ISDIR(item->st.st_mode);
  if (in->held_fd < 0) return;
  if (in->names == in->names_room) {
    size_t room = in->names_room ? 2 * in->names_room : 64;
    struct fs_in_name *grown = realloc(in->name, room * sizeof(*grown));
    if (!grown) return; /* without memory the name stays there */
    in->name = grown;
    in->names_room = room;
  }
  const char *dir = item->dir->path;
  snprintf(path, sizeof(path), "%s%s%s", dir, dir[0] != '\0' ? "/" : "", item->name);
  struct fs_in_name *n = &in->name[in->names];
  *n = (struct fs_in_name){.in = in, .dir = item->dir->id, .ino = item->st.st_ino, .directory = directory};
  n->id = directory ? FS_ITEM(item, struct fs_in_dir, self)->id : item->id;
  n->path = strdup(path);
  in->names += n->path != NULL;
}

/* Removes the names that are gone, the deepest first. The copying thread of stage-out runs it. */
static fs_err fs_held_settle_work(struct fs_io *io) {
  const struct fs_stagein *in = FS_ITEM(io, struct fs_stagein, settle);
  for (size_t i = in->names; i-- > 0;) {
    const struct fs_in_name *n = &in->name[i];
    struct stat st;
    if (!n->gone || fstatat(in->fd, n->path, &st, AT_SYMLINK_NOFOLLOW) < 0) continue;
    if (n->directory || (S_ISLNK(st.st_mode) && st.st_ino == n->ino))
      (void)unlinkat(in->fd, n->path, n->directory ? AT_REMOVEDIR : 0);
  }
  return 0;
}

static void fs_held_settled(struct fs_io *io) {
  FS_ITEM(io, struct fs_stagein, settle)->settled = true;
}

/* Takes the answer whether another record has the name. If so, what is there stays, or was
   replaced. */
static void fs_held_looked(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_in_name *name = ctx;
  size_t at = 0;
  const struct fs_record *r = err == 0 ? fs_record_next(body, n, &at) : NULL;
  if (err != -ENOENT && (!r || r->id != name->id)) name->gone = false;
  name->in->names_asked--;
}

static void fs_held_ask(struct fs_in_name *n) {
  alignas(8) char body[sizeof(struct fs_names_call) + FS_RECORD_NAME_MAX + 8] = {0};
  struct fs_names_call *c = (void *)body;
  struct fs_daemon *d = n->in->d;
  const char *slash = strrchr(n->path, '/'), *name = slash ? slash + 1 : n->path;
  *c = (struct fs_names_call){.op = FS_NAMES_LOOKUP, .lookup.dir = n->dir};
  (void)fs_call_put(c, name, strlen(name), NULL, 0);
  fs_ns_call(d->ns, d->now, c, fs_held_looked, n);
}

static void fs_held_found(void *ctx, fs_err err, const char *path) {
  struct fs_in_name *n = ctx;
  n->gone = err == -ENOENT || (err == 0 && strcmp(path, n->path) != 0);
  if (n->gone)
    fs_held_ask(n);
  else
    n->in->names_asked--;
}

bool fs_stagein_settled(struct fs_daemon *d) {
  struct fs_stagein *in = d->stagein;
  if (!in || in->held_fd < 0 || in->settled) return true;
  while (in->names_next < in->names && in->names_asked < FS_NAMES_FLIGHT) {
    struct fs_in_name *n = &in->name[in->names_next++];
    in->names_asked++;
    fs_path_find(d, n->dir, n->id, fs_held_found, n);
  }
  if (in->names_next < in->names || in->names_asked > 0 || in->settling) return false;
  in->settling = true;
  in->settle = (struct fs_io){.work = fs_held_settle_work, .done = fs_held_settled};
  fs_iopool_submit(&d->stageout->pool, &in->settle);
  return false;
}
