/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Visits one name of SOURCE: makes an item of it, or a problem. Any thread of the walk. Symlinks are
 * followed only if --dereference says so.
 */
#include <string.h>
#include <unistd.h>

#include "walk.h"

static fs_err add_problem(struct fs_walker *w, const char *path, const char *what) {
  return fs_walk_add_problem(w, path, what, false);
}

/* Compares a path of the source with patterns, which are for paths of the dataset. */
static bool matches(const struct fs_walk *walk, const struct fs_globs *g, const char *path) {
  if (g->n == 0) return false;
  FS_AUTO_FREE char *whole = fs_walk_in_dataset(walk, path);
  return whole != NULL && fs_globs_match(g, whole);
}

static fs_err read_target(struct fs_walker *w, int dir, const char *name, char **out) {
  char buf[PATH_MAX];
  ssize_t n = readlinkat(dir, name, buf, sizeof buf);
  if (n < 0) return -errno;
  if ((size_t)n == sizeof buf) return -ENAMETOOLONG;
  *out = fs_arena_text(&w->text, buf, (size_t)n);
  return *out != NULL ? 0 : -ENOMEM;
}

static const char *why_refused(mode_t mode) {
  switch (mode & S_IFMT) {
  case S_IFSOCK:
    return "is a socket";
  case S_IFIFO:
    return "is a fifo";
  case S_IFCHR:
  case S_IFBLK:
    return "is a device";
  default:
    return "is of an unknown type";
  }
}

fs_err fs_walk_add_stat(struct fs_walker *w, const struct stat *st, const char *path, char *target,
                        const struct fs_walk_task *p) {
  /* Names through symlinks are not counted. */
  bool many = S_ISREG(st->st_mode) && w->walk->o->dereference != FS_DEREF_NONE;
  struct fs_item item = {.path = (char *)path,
                         .target = target,
                         .size = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0,
                         .dev = fs_item_device(st->st_dev),
                         .ino = st->st_ino,
                         .mtime_sec = st->st_mtim.tv_sec,
                         .mtime_nsec = (uint32_t)st->st_mtim.tv_nsec,
                         .mode = (uint16_t)(st->st_mode & (S_IFMT | 07777)),
                         .depth = p->depth & FS_DEPTH_MASK,
                         .source = w->walk->number,
                         .replicate = p->replicate,
                         .followed = p->followed,
                         .linked = many || (!S_ISDIR(st->st_mode) && st->st_nlink > 1)};
  return fs_walk_add_item(w, &item);
}

/* Counts a symlink. Returns 1 if it is to be followed, 0, or a negative errno. */
static int look_at_link(struct fs_walker *w, const char *path, const char *target, size_t region) {
  enum fs_dereference mode = w->walk->o->dereference;
  w->symlinks++;
  if (mode == FS_DEREF_ALL) return 1;
  if (!fs_links_out(&w->walk->links, path, region, target)) return 0;
  if (mode == FS_DEREF_OUTSIDE) return 1;
  return fs_walk_add_outside(w, path);
}

/* Handles a symlink: sets *target, or follows it and replaces *st. Returns 0, 1 after a problem, or
   -ENOMEM. */
static int visit_link(struct fs_walker *w, int dir, const char *name, const char *path, struct fs_walk_task *p,
                      struct stat *st, char **target) {
  fs_err err = read_target(w, dir, name, target);
  if (err == 0) err = look_at_link(w, path, *target, p->region);
  if (err == -ENOMEM || err == 0) return err;
  *target = NULL;
  if (err < 0) return add_problem(w, path, strerror(-err)) < 0 ? -ENOMEM : 1;
  p->followed = true;
  p->region = strlen(path);
  if (fstatat(dir, name, st, 0) == 0) return 0;
  const char *what = errno == ENOENT  ? "is a symlink to be followed that leads to nothing"
                     : errno == ELOOP ? "is a symlink to be followed that leads to itself"
                                      : strerror(errno);
  return add_problem(w, path, what) < 0 ? -ENOMEM : 1;
}

static fs_err visit_dir(struct fs_walker *w, const char *path, struct fs_walk_task *p, const struct stat *st,
                        const char **problem) {
  if (p->chain != NULL) {
    if (fs_ancestor_loop(p->chain, st)) *problem = "is a directory that a symlink leads to from below it: a loop";
    if (st->st_ino == w->walk->tree->target_ino && st->st_dev == w->walk->tree->target_dev)
      *problem = "is the dataset that is being made; name a DATASET where no symlink leads";
    if (*problem != NULL) return 0;
    fs_err err = fs_ancestor_add(&w->ancestors, p->chain, st, &p->chain);
    if (err < 0) return err;
  }
  p->here = st->st_dev != w->walk->dev;
  return w->walk->o->files_from != NULL ? 0 : fs_walk_hand_out(w, path, p);
}

static const char *file_problem(struct fs_walker *w, int dir, const char *name, const struct fs_walk_task *p,
                                const struct stat *st) {
  bool own = st->st_uid == w->walk->user && (st->st_mode & S_IRUSR) != 0; /* needs no check */
  if (!own && faccessat(dir, name, R_OK, AT_EACCESS | (p->followed ? 0 : AT_SYMLINK_NOFOLLOW)) < 0)
    return errno == EACCES ? "is not readable" : strerror(errno);
  if (st->st_size != 0 || st->st_blocks != 0) return NULL;
  return fs_pseudo_problem(dir, name, st, p->followed ? 0 : O_NOFOLLOW);
}

/* Gives a name back to the lead: the number of its device means nothing there. */
static fs_err give_name(struct fs_walker *w, const char *name, const struct fs_walk_task *in) {
  struct fs_walk_task task = *in;
  task.here = true;
  task.names = (char *)name;
  task.size = strlen(name) + 1;
  return w->walk->give(w, in->path, &task);
}

fs_err fs_walk_visit(struct fs_walker *w, int dir, const char *name, const char *path, const struct fs_walk_task *in) {
  struct fs_walk *walk = w->walk;
  struct stat st;
  if (matches(walk, &walk->o->exclude, path)) {
    w->excluded++;
    return 0;
  }
  if (strlen(path) + walk->source->skip >= PATH_MAX) return add_problem(w, path, "has a path of more than 4095 bytes");
  if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
    const char *gone = walk->o->files_from != NULL ? "is not there" : "vanished";
    return add_problem(w, path, errno == ENOENT ? gone : strerror(errno));
  }
  struct fs_walk_task p = *in;
  if (walk->give != NULL && st.st_dev != walk->dev) return give_name(w, name, in);
  p.names = NULL;
  p.size = 0;
  p.depth++;
  p.replicate |= matches(walk, &walk->o->replicate, path);
  const char *problem = NULL;
  char *target = NULL;
  int err = S_ISLNK(st.st_mode) ? visit_link(w, dir, name, path, &p, &st, &target) : 0;
  if (err == 0 && target == NULL) {
    if (S_ISREG(st.st_mode))
      problem = file_problem(w, dir, name, &p, &st);
    else if (S_ISDIR(st.st_mode))
      err = visit_dir(w, path, &p, &st, &problem);
    else
      problem = why_refused(st.st_mode);
  }
  if (problem != NULL) return add_problem(w, path, problem);
  if (err != 0) return err < 0 ? err : 0;
  atomic_fetch_add_explicit(&walk->tree->progress->now.names, 1, memory_order_relaxed);
  return fs_walk_add_stat(w, &st, path, target, &p);
}
