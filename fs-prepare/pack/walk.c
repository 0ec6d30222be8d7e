/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collects the items below SOURCE, with several threads. They share a stack of directories under
 * one mutex. Each thread gathers its own items and problems, which are joined at the end.
 * Directories are opened relative to SOURCE's descriptor. Symlinks are followed only if
 * --dereference says so.
 */
#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "links.h"

struct pending {
  char *path;
  uint16_t depth;
  bool replicate;
  bool followed;                   /* its path contains a followed symlink */
  size_t region;                   /* length of the path of its region (links.c) */
  const struct fs_ancestor *chain; /* itself and its ancestors; NULL: no symlink is followed */
};

struct shared {
  const struct fs_pack_options *o;
  const struct fs_tree *tree;
  const struct fs_source *source;
  uint32_t number; /* of the source */
  int root;
  uid_t user;
  struct fs_links links;
  pthread_mutex_t lock;
  pthread_cond_t more;
  struct pending *stack;
  size_t n, room;
  unsigned busy;
  fs_err err; /* stops all threads */
};

struct walker {
  struct shared *sh;
  struct fs_items items;
  struct fs_arena text; /* of the items */
  struct fs_walk_problem *problems;
  size_t nproblems, problem_room;
  struct fs_ancestor *ancestors;
  uint64_t excluded;          /* names that match --exclude */
  uint64_t symlinks, outside; /* symlinks seen; those that lead out and are packed unchanged */
  char *example;              /* the first path of `outside` */
};

static fs_err add_problem(struct walker *w, const char *path, const char *what) {
  fs_err err = fs_grow(&w->problems, &w->problem_room, w->nproblems, sizeof *w->problems);
  char *copy = err < 0 ? NULL : strdup(path);
  if (copy == NULL) return -ENOMEM;
  w->problems[w->nproblems++] = (struct fs_walk_problem){.path = copy, .what = what};
  return 0;
}

/* Adds the problem of a directory that was an item already when it could not be read. */
static fs_err add_dir_problem(struct walker *w, const char *path, const char *what) {
  fs_err err = add_problem(w, path, what);
  if (err == 0) w->problems[w->nproblems - 1].dir = true;
  return err;
}

/* Returns a path of the source as a path of the dataset, from malloc, or NULL. */
static char *in_dataset(const struct shared *sh, const char *path) {
  const char *prefix = sh->source->prefix;
  char *out = NULL;
  if (prefix[0] == '\0') return strdup(path);
  return asprintf(&out, "%s%s%s", prefix, path[0] != '\0' ? "/" : "", path) < 0 ? NULL : out;
}

/* Returns the same in the walker's text. */
static char *item_path(struct walker *w, const char *path) {
  if (w->sh->source->prefix[0] == '\0') return fs_arena_text(&w->text, path, strlen(path));
  FS_AUTO_FREE char *whole = in_dataset(w->sh, path);
  return whole != NULL ? fs_arena_text(&w->text, whole, strlen(whole)) : NULL;
}

/* Compares a path of the source with patterns, which are for paths of the dataset. */
static bool matches(const struct shared *sh, const struct fs_globs *g, const char *path) {
  if (g->n == 0) return false;
  FS_AUTO_FREE char *whole = in_dataset(sh, path);
  return whole != NULL && fs_globs_match(g, whole);
}

static fs_err push(struct shared *sh, const char *path, const struct pending *p) {
  char *copy = strdup(path);
  if (copy == NULL) return -ENOMEM;
  pthread_mutex_lock(&sh->lock);
  fs_err err = fs_grow(&sh->stack, &sh->room, sh->n, sizeof *sh->stack);
  if (err == 0) {
    sh->stack[sh->n] = *p;
    sh->stack[sh->n++].path = copy;
    pthread_cond_signal(&sh->more);
  } else {
    free(copy);
  }
  pthread_mutex_unlock(&sh->lock);
  return err;
}

static fs_err read_target(struct walker *w, int dir, const char *name, char **out) {
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

static fs_err add_item(struct walker *w, const struct stat *st, const char *path, char *target,
                       const struct pending *p) {
  /* Names through symlinks are not counted. */
  bool many = S_ISREG(st->st_mode) && w->sh->o->dereference != FS_DEREF_NONE;
  fs_err err = fs_grow(&w->items.item, &w->items.room, w->items.n, sizeof *w->items.item);
  char *copy = err < 0 ? NULL : item_path(w, path);
  if (copy == NULL) return -ENOMEM;
  w->items.item[w->items.n++] = (struct fs_item){
      .path = copy,
      .target = target,
      .size = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0,
      .dev = fs_item_device(st->st_dev),
      .ino = st->st_ino,
      .mtime_sec = st->st_mtim.tv_sec,
      .mtime_nsec = (uint32_t)st->st_mtim.tv_nsec,
      .mode = (uint16_t)(st->st_mode & (S_IFMT | 07777)),
      .depth = p->depth & FS_DEPTH_MASK,
      .source = w->sh->number,
      .replicate = p->replicate,
      .followed = p->followed,
      .linked = many || (!S_ISDIR(st->st_mode) && st->st_nlink > 1),
  };
  return 0;
}

/* Counts a symlink. Returns 1 if it is to be followed, 0, or a negative errno. */
static int look_at_link(struct walker *w, const char *path, const char *target, size_t region) {
  enum fs_dereference mode = w->sh->o->dereference;
  w->symlinks++;
  if (mode == FS_DEREF_ALL) return 1;
  if (!fs_links_out(&w->sh->links, path, region, target)) return 0;
  if (mode == FS_DEREF_OUTSIDE) return 1;
  w->outside++;
  if (w->example != NULL && strcmp(w->example, path) <= 0) return 0;
  free(w->example);
  w->example = strdup(path);
  return w->example != NULL ? 0 : -ENOMEM;
}

/* Handles a symlink: sets *target, or follows it and replaces *st. Returns 0, 1 after a problem, or
   -ENOMEM. */
static int visit_link(struct walker *w, int dir, const char *name, const char *path, struct pending *p, struct stat *st,
                      char **target) {
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

static fs_err visit_dir(struct walker *w, const char *path, struct pending *p, const struct stat *st,
                        const char **problem) {
  if (p->chain != NULL) {
    if (fs_ancestor_loop(p->chain, st)) *problem = "is a directory that a symlink leads to from below it: a loop";
    if (st->st_ino == w->sh->tree->target_ino && st->st_dev == w->sh->tree->target_dev)
      *problem = "is the dataset that is being made; name a DATASET where no symlink leads";
    if (*problem != NULL) return 0;
    fs_err err = fs_ancestor_add(&w->ancestors, p->chain, st, &p->chain);
    if (err < 0) return err;
  }
  return w->sh->o->files_from != NULL ? 0 : push(w->sh, path, p);
}

static const char *file_problem(struct walker *w, int dir, const char *name, const struct pending *p,
                                const struct stat *st) {
  bool own = st->st_uid == w->sh->user && (st->st_mode & S_IRUSR) != 0; /* needs no check */
  if (!own && faccessat(dir, name, R_OK, AT_EACCESS | (p->followed ? 0 : AT_SYMLINK_NOFOLLOW)) < 0)
    return errno == EACCES ? "is not readable" : strerror(errno);
  if (st->st_size != 0 || st->st_blocks != 0) return NULL;
  return fs_pseudo_problem(dir, name, st, p->followed ? 0 : O_NOFOLLOW);
}

/* Handles one name in a directory: adds an item or a problem, or nothing if the name is
   excluded. */
static fs_err visit(struct walker *w, int dir, const char *name, const char *path, const struct pending *in) {
  struct shared *sh = w->sh;
  struct stat st;
  if (matches(sh, &sh->o->exclude, path)) {
    w->excluded++;
    return 0;
  }
  if (strlen(path) + sh->source->skip >= PATH_MAX) return add_problem(w, path, "has a path of more than 4095 bytes");
  if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
    const char *gone = sh->o->files_from != NULL ? "is not there" : "vanished";
    return add_problem(w, path, errno == ENOENT ? gone : strerror(errno));
  }
  struct pending p = *in;
  p.depth++;
  p.replicate |= matches(sh, &sh->o->replicate, path);
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
  atomic_fetch_add_explicit(&sh->tree->progress->now.names, 1, memory_order_relaxed);
  return add_item(w, &st, path, target, &p);
}

static fs_err read_dir(struct walker *w, DIR *dir, const struct pending *in) {
  size_t base = strlen(in->path);
  FS_AUTO_FREE char *path = malloc(base + 1 + NAME_MAX + 2);
  if (path == NULL) return -ENOMEM;
  if (base != 0) {
    memcpy(path, in->path, base);
    path[base++] = '/';
  }
  for (;;) {
    errno = 0;
    struct dirent *d = readdir(dir);
    if (d == NULL) return -errno;
    size_t len = strlen(d->d_name);
    if (fs_is_dot(d->d_name)) continue;
    if (fs_prep_signal != 0) return -EINTR;
    if (len > FS_NAME_MAX) return -ENAMETOOLONG; /* some file systems have longer ones */
    memcpy(path + base, d->d_name, len + 1);
    fs_err err = visit(w, dirfd(dir), d->d_name, path, in);
    if (err < 0) return err;
  }
}

/* Opens a directory whose path has a followed symlink. Returns -ESTALE if it is not the one that
   was seen. */
static fs_fd open_followed(const struct walker *w, const struct pending *in) {
  struct stat st;
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(w->sh->root, in->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC, 0);
  if (fd < 0) return fd;
  fs_err err = fs_sys_fstat(fd, &st);
  if (err == 0 && (st.st_ino != in->chain->ino || st.st_dev != in->chain->dev)) err = -ESTALE;
  return err < 0 ? err : FS_MOVE_FD(fd);
}

static fs_err walk_dir(struct walker *w, const struct pending *in) {
  const char *path = in->path[0] != '\0' ? in->path : ".";
  fs_fd fd = in->followed ? open_followed(w, in)
                          : fs_prep_open_beneath(w->sh->root, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0);
  if (fd < 0) return add_dir_problem(w, path, fd == -EACCES ? "is a directory that is not readable" : strerror(-fd));
  DIR *dir = fdopendir(fd);
  if (dir == NULL) {
    close(fd);
    return -ENOMEM;
  }
  fs_err err = read_dir(w, dir, in);
  closedir(dir);
  if (err == 0 || err == -ENOMEM || err == -EINTR) return err;
  return add_dir_problem(w, path, strerror(-err));
}

/* Takes directories until none is left and no other thread can add one. */
static void *walk_thread(void *arg) {
  struct walker *w = arg;
  struct shared *sh = w->sh;
  pthread_mutex_lock(&sh->lock);
  for (;;) {
    while (sh->n == 0 && sh->busy != 0 && sh->err == 0) pthread_cond_wait(&sh->more, &sh->lock);
    if (sh->n == 0 || sh->err != 0) break;
    struct pending in = sh->stack[--sh->n];
    sh->busy++;
    pthread_mutex_unlock(&sh->lock);
    fs_err err = walk_dir(w, &in);
    free(in.path);
    pthread_mutex_lock(&sh->lock);
    sh->busy--;
    if (err < 0 && sh->err == 0) sh->err = err;
    if (sh->err != 0 || (sh->n == 0 && sh->busy == 0)) pthread_cond_broadcast(&sh->more);
  }
  pthread_mutex_unlock(&sh->lock);
  return NULL;
}

static void walk_one(void *ctx, uint64_t i) {
  walk_thread((struct walker *)ctx + i);
}

/* Visits one component of a name of --files-from. Returns 1 if names may lie below it, 0, or a
   negative errno. */
static int visit_component(struct walker *w, const char *path, bool last) {
  FS_AUTO_FREE char *whole = in_dataset(w->sh, path);
  if (whole == NULL) return -ENOMEM;
  const struct pending in = {.depth = (uint16_t)(fs_path_depth(whole) - 1),
                             .replicate = fs_globs_match_above(&w->sh->o->replicate, whole)};
  const size_t items = w->items.n;
  fs_err err = visit(w, w->sh->root, path, path, &in);
  if (err < 0 || w->items.n == items) return err;
  if (S_ISDIR(w->items.item[items].mode)) return 1;
  return last ? 0 : add_problem(w, path, "is no directory, but --files-from names what is below it");
}

/*
 * Visits a name and the directories above it. Those that it shares with the name before it, in their
 * order, were visited. `stop` is the last path below which nothing can be visited.
 */
static fs_err visit_name(struct walker *w, const char *before, const char *name, char stop[PATH_MAX]) {
  const size_t n = strlen(name), stopped = strlen(stop);
  size_t same = 0;
  if (n >= PATH_MAX) return add_problem(w, name, "has a path of more than 4095 bytes");
  if (stopped != 0 && strncmp(stop, name, stopped) == 0 && name[stopped] == '/') return 0;
  for (size_t i = 0; before[i] == name[i] && name[i] != '\0'; i++)
    if (name[i + 1] == '/' && (before[i + 1] == '/' || before[i + 1] == '\0')) same = i + 1;
  for (size_t at = same + 1; at <= n; at++) {
    if (name[at] != '/' && name[at] != '\0') continue;
    memcpy(stop, name, at);
    stop[at] = '\0';
    int more = visit_component(w, stop, at == n);
    if (more <= 0) return more;
  }
  stop[0] = '\0';
  return 0;
}

static fs_err visit_names(struct walker *w) {
  char stop[PATH_MAX] = "";
  struct fs_names names;
  fs_err err = fs_names_read(w->sh->o->files_from, w->sh->o->null, &names);
  for (size_t i = 0; i < names.n && err == 0; i++) {
    if (fs_prep_signal != 0) err = -EINTR;
    if (err == 0 && names.name[i][0] != '\0') err = visit_name(w, i != 0 ? names.name[i - 1] : "", names.name[i], stop);
  }
  fs_names_free(&names);
  return err;
}

static fs_err sort_problems(const struct walker *ws, unsigned n, struct fs_walk_problems *p) {
  size_t total = 0;
  for (unsigned i = 0; i < n; i++) total += ws[i].nproblems;
  p->all = malloc((total + 1) * sizeof *p->all);
  if (p->all == NULL) return -ENOMEM;
  for (unsigned i = 0; i < n; i++)
    for (size_t k = 0; k < ws[i].nproblems; k++) p->all[p->n++] = ws[i].problems[k];
  qsort(p->all, total, sizeof *p->all, fs_walk_problem_order);
  return 0;
}

/* Prints one line about the symlinks that are packed unchanged and lead out. */
static void warn_outside(const struct walker *ws, unsigned n) {
  uint64_t symlinks = 0, outside = 0;
  const char *example = NULL;
  for (unsigned i = 0; i < n; i++) {
    symlinks += ws[i].symlinks;
    outside += ws[i].outside;
    if (ws[i].example != NULL && (example == NULL || strcmp(ws[i].example, example) < 0)) example = ws[i].example;
  }
  if (outside == 0) return;
  fs_say("pack: warning: %" PRIu64 " of %" PRIu64 " symlink%s lead%s out of SOURCE (as %s does), and what %s to "
         "is not packed; --dereference outside packs it in %s place",
         outside, symlinks, fs_plural(symlinks), outside == 1 ? "s" : "", example,
         outside == 1 ? "it leads" : "they lead", outside == 1 ? "its" : "their");
}

/* Reports the problems. Returns 0 if --keep-going leaves them out, or a negative errno. */
static fs_err take_problems(const struct shared *sh, struct fs_tree *tree, const struct fs_walk_problems *p) {
  bool root = p->n != 0 && fs_in_problem(p, "."); /* then nothing is left */
  if (p->n == 0) return 0;
  return sh->o->keep_going && !root ? fs_leave_out_problems(tree, sh->number, p) : fs_say_problems(sh->source->path, p);
}

static fs_err join(struct fs_tree *tree, struct walker *ws, unsigned n) {
  fs_err err = 0;
  for (unsigned i = 0; i < n && err == 0; i++) {
    err = fs_tree_take(tree, &ws[i].items);
    fs_arena_join(&tree->text, &ws[i].text);
    tree->excluded += ws[i].excluded;
  }
  return err;
}

static void free_walkers(struct walker *ws, unsigned n) {
  for (unsigned i = 0; i < n; i++) {
    for (size_t k = 0; k < ws[i].nproblems; k++) free(ws[i].problems[k].path);
    free(ws[i].items.item);
    fs_arena_free(&ws[i].text);
    free(ws[i].problems);
    free(ws[i].example);
    fs_ancestors_free(ws[i].ancestors);
  }
  free(ws);
}

static fs_err walk_all(struct shared *sh, struct walker *ws, unsigned jobs, const struct stat *root,
                       struct fs_tree *tree) {
  const char *prefix = sh->source->prefix;
  struct pending top = {.depth = fs_path_depth(prefix), .replicate = fs_globs_match_above(&sh->o->replicate, prefix)};
  fs_err err = add_item(&ws[0], root, "", NULL, &top);
  if (err == 0 && sh->o->dereference != FS_DEREF_NONE) err = fs_ancestor_add(&ws[0].ancestors, NULL, root, &top.chain);
  if (err == 0) err = sh->o->files_from != NULL ? visit_names(&ws[0]) : push(sh, "", &top);
  if (err < 0) return err;
  fs_prep_parallel(jobs, jobs, walk_one, ws);
  if (sh->err < 0) return sh->err;
  struct fs_walk_problems problems = {0};
  err = sort_problems(ws, jobs, &problems);
  if (err == 0) err = join(tree, ws, jobs);
  if (err == 0) err = take_problems(sh, tree, &problems);
  if (err == 0 && !sh->o->quiet) warn_outside(ws, jobs);
  free(problems.all);
  return err;
}

fs_err fs_walk(const struct fs_pack_options *o, struct fs_tree *tree, uint32_t source) {
  const struct fs_source *src = &tree->sources[source];
  struct shared sh = {.o = o,
                      .tree = tree,
                      .source = src,
                      .number = source,
                      .root = src->fd,
                      .user = geteuid(),
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .more = PTHREAD_COND_INITIALIZER};
  struct stat st;
  if (fstat(src->fd, &st) < 0) return -errno;
  fs_links_init(&sh.links, src, o);
  struct walker *ws = calloc(o->jobs, sizeof *ws);
  if (ws == NULL) return -ENOMEM;
  for (unsigned i = 0; i < o->jobs; i++) ws[i].sh = &sh;
  fs_err err = walk_all(&sh, ws, o->jobs, &st, tree);
  for (size_t i = 0; i < sh.n; i++) free(sh.stack[i].path);
  free(sh.stack);
  free_walkers(ws, o->jobs);
  return err;
}

void fs_tree_free(struct fs_tree *tree) {
  for (size_t i = 0; i < tree->n; i++) fs_item_drop_blocks(&tree->items[i]);
  free(tree->items);
  fs_arena_free(&tree->text);
  fs_sources_close(tree);
  fs_left_out_free(&tree->left_out);
}
