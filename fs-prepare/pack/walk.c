/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collects the items below SOURCE, with several threads. They share two stacks of tasks under one
 * mutex. Each thread gathers its own items and problems, which are joined at the end. A directory
 * with many names is visited by several threads. Directories are opened relative to SOURCE's
 * descriptor. Symlinks are followed only if --dereference says so.
 */
#include <dirent.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "walk.h"

fs_err fs_walk_add_problem(struct fs_walker *w, const char *path, const char *what, bool dir) {
  fs_err err = fs_grow(&w->problems, &w->problem_room, w->nproblems, sizeof *w->problems);
  char *copy = err < 0 ? NULL : strdup(path);
  if (copy == NULL) return -ENOMEM;
  w->problems[w->nproblems++] = (struct fs_walk_problem){.path = copy, .what = what, .dir = dir};
  return 0;
}

char *fs_walk_in_dataset(const struct fs_walk *walk, const char *path) {
  const char *prefix = walk->source->prefix;
  char *out = NULL;
  if (prefix[0] == '\0') return strdup(path);
  return asprintf(&out, "%s%s%s", prefix, path[0] != '\0' ? "/" : "", path) < 0 ? NULL : out;
}

uint16_t fs_walk_depth(const struct fs_walk *walk, const char *path) {
  return (uint16_t)(fs_path_depth(walk->source->prefix) + fs_path_depth(path));
}

/* Returns the same in the walker's text. */
static char *item_path(struct fs_walker *w, const char *path) {
  if (w->walk->source->prefix[0] == '\0') return fs_arena_text(&w->text, path, strlen(path));
  FS_AUTO_FREE char *whole = fs_walk_in_dataset(w->walk, path);
  return whole != NULL ? fs_arena_text(&w->text, whole, strlen(whole)) : NULL;
}

void fs_walk_task_free(struct fs_walk_task *task) {
  free(task->path);
  free(task->names);
}

static fs_err copy_task(struct fs_walk_task *copy, const char *path, const struct fs_walk_task *task) {
  *copy = *task;
  copy->path = strdup(path);
  copy->names = task->names != NULL ? malloc(task->size) : NULL;
  if (copy->names != NULL) memcpy(copy->names, task->names, task->size);
  if (copy->path != NULL && (copy->names != NULL) == (task->names != NULL)) return 0;
  fs_walk_task_free(copy);
  return -ENOMEM;
}

fs_err fs_walk_push(struct fs_walk *walk, const char *path, const struct fs_walk_task *task) {
  struct fs_walk_stack *s = task->here ? &walk->here : &walk->open;
  struct fs_walk_task copy;
  fs_err err = copy_task(&copy, path, task);
  if (err < 0) return err;
  pthread_mutex_lock(&walk->lock);
  err = fs_grow(&s->task, &s->room, s->n, sizeof *s->task);
  if (err == 0) {
    s->task[s->n++] = copy;
    pthread_cond_signal(&walk->more);
  } else {
    fs_walk_task_free(&copy);
  }
  pthread_mutex_unlock(&walk->lock);
  return err;
}

fs_err fs_walk_hand_out(struct fs_walker *w, const char *path, const struct fs_walk_task *task) {
  return w->walk->give != NULL ? w->walk->give(w, path, task) : fs_walk_push(w->walk, path, task);
}

fs_err fs_walk_add_item(struct fs_walker *w, const struct fs_item *item) {
  fs_err err = fs_grow(&w->items.item, &w->items.room, w->items.n, sizeof *w->items.item);
  char *copy = err < 0 ? NULL : item_path(w, item->path);
  if (copy == NULL) return -ENOMEM;
  w->items.item[w->items.n] = *item;
  w->items.item[w->items.n++].path = copy;
  return 0;
}

fs_err fs_walk_add_outside(struct fs_walker *w, const char *path) {
  w->outside++;
  if (w->example != NULL && strcmp(w->example, path) <= 0) return 0;
  free(w->example);
  w->example = strdup(path);
  return w->example != NULL ? 0 : -ENOMEM;
}

/* A directory that is being visited. */
struct visit {
  struct fs_walker *w;
  const struct fs_walk_task *in;
  int dir;
  char *path; /* of the directory and of the name */
  size_t base;
  struct fs_walk_task rest; /* names that another thread shall visit */
  uint32_t names, rest_names;
};

static fs_err begin_visit(struct visit *v) {
  v->base = strlen(v->in->path);
  v->path = malloc(v->base + 1 + NAME_MAX + 2);
  if (v->path == NULL) return -ENOMEM;
  memcpy(v->path, v->in->path, v->base);
  if (v->base != 0) v->path[v->base++] = '/';
  v->rest = *v->in;
  v->rest.names = NULL;
  v->rest.size = 0;
  return 0;
}

static fs_err visit_name(struct visit *v, const char *name) {
  const struct fs_walk *walk = v->w->walk;
  const size_t len = strlen(name);
  if (fs_prep_signal != 0) return -EINTR;
  if (len > FS_NAME_MAX) return -ENAMETOOLONG; /* some file systems have longer ones */
  memcpy(v->path + v->base, name, len + 1);
  fs_err err = fs_walk_visit(v->w, v->dir, name, v->path, v->in);
  return err == 0 && walk->report != NULL ? walk->report(v->w, false) : err;
}

static fs_err hand_out_rest(struct visit *v) {
  fs_err err = v->rest_names != 0 ? fs_walk_hand_out(v->w, v->in->path, &v->rest) : 0;
  v->rest.size = v->rest_names = 0;
  return err;
}

/* Leaves a name to another thread. */
static fs_err leave_name(struct visit *v, const char *name) {
  const size_t len = strlen(name);
  if (len > FS_NAME_MAX) return -ENAMETOOLONG;
  if (v->rest.names == NULL) v->rest.names = malloc(FS_WALK_NAMES * (FS_NAME_MAX + 1u));
  if (v->rest.names == NULL) return -ENOMEM;
  memcpy(v->rest.names + v->rest.size, name, len + 1);
  v->rest.size += len + 1;
  return ++v->rest_names == FS_WALK_NAMES ? hand_out_rest(v) : 0;
}

static fs_err read_names(struct visit *v, DIR *dir) {
  for (;;) {
    errno = 0;
    struct dirent *d = readdir(dir);
    if (d == NULL) return -errno;
    if (fs_is_dot(d->d_name)) continue;
    fs_err err = v->names++ < FS_WALK_NAMES ? visit_name(v, d->d_name) : leave_name(v, d->d_name);
    if (err < 0) return err;
  }
}

static fs_err read_dir(struct fs_walker *w, DIR *dir, const struct fs_walk_task *in) {
  struct visit v = {.w = w, .in = in, .dir = dirfd(dir)};
  fs_err err = begin_visit(&v);
  if (err == 0) err = read_names(&v, dir);
  fs_err rest = hand_out_rest(&v);
  free(v.rest.names);
  free(v.path);
  return err < 0 ? err : rest;
}

/* Visits some names of a directory. dir: its descriptor, or the error of opening it. */
static fs_err walk_names(struct fs_walker *w, fs_fd dir, const struct fs_walk_task *in) {
  struct visit v = {.w = w, .in = in, .dir = dir};
  fs_err err = begin_visit(&v);
  for (const char *name = in->names; name < in->names + in->size && err == 0; name += strlen(name) + 1) {
    if (dir >= 0) {
      err = visit_name(&v, name);
    } else {
      snprintf(v.path + v.base, NAME_MAX + 2, "%s", name);
      err = fs_walk_add_problem(w, v.path, dir == -ENOENT ? "vanished" : strerror(-dir), false);
    }
  }
  free(v.path);
  return err;
}

/* Opens a directory whose path has a followed symlink. Returns -ESTALE if it is not the one that
   was seen. */
static fs_fd open_followed(const struct fs_walker *w, const struct fs_walk_task *in) {
  struct stat st;
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(w->walk->root, in->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC, 0);
  if (fd < 0) return fd;
  fs_err err = fs_sys_fstat(fd, &st);
  if (err == 0 && (st.st_ino != in->chain->ino || st.st_dev != in->chain->dev)) err = -ESTALE;
  return err < 0 ? err : FS_MOVE_FD(fd);
}

static fs_err walk_dir(struct fs_walker *w, const struct fs_walk_task *in) {
  const char *path = in->path[0] != '\0' ? in->path : ".";
  fs_fd fd = in->followed ? open_followed(w, in)
                          : fs_prep_open_beneath(w->walk->root, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0);
  DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
  fs_err err = fd < 0 ? fd : dir == NULL ? -ENOMEM : 0;
  if (in->names != NULL)
    err = err == -ENOMEM ? err : walk_names(w, fd, in);
  else if (err == 0)
    err = read_dir(w, dir, in);
  if (dir != NULL)
    closedir(dir);
  else if (fd >= 0)
    close(fd);
  if (err == 0 || err == -ENOMEM || err == -EINTR) return err;
  bool unreadable = err == -EACCES && fd < 0;
  return fs_walk_add_problem(w, path, unreadable ? "is a directory that is not readable" : strerror(-err), true);
}

/* Takes a task from a stack that is not empty. With the lock. */
static struct fs_walk_task take_task(struct fs_walk *walk) {
  struct fs_walk_stack *s = walk->here.n != 0 ? &walk->here : &walk->open;
  return s->task[--s->n];
}

static bool no_task(const struct fs_walk *walk) {
  return walk->open.n + walk->here.n == 0;
}

static fs_err walk_task(struct fs_walker *w, struct fs_walk_task *task) {
  fs_err err = walk_dir(w, task);
  fs_walk_task_free(task);
  return err == 0 && w->walk->report != NULL ? w->walk->report(w, true) : err;
}

/* Takes tasks until none is left and nobody else can add one. */
static void *walk_thread(void *arg) {
  struct fs_walker *w = arg;
  struct fs_walk *walk = w->walk;
  pthread_mutex_lock(&walk->lock);
  for (;;) {
    while (no_task(walk) && walk->busy != 0 && walk->err == 0) pthread_cond_wait(&walk->more, &walk->lock);
    if (no_task(walk) || walk->err != 0) break;
    struct fs_walk_task task = take_task(walk);
    walk->busy++;
    pthread_mutex_unlock(&walk->lock);
    fs_err err = walk_task(w, &task);
    pthread_mutex_lock(&walk->lock);
    walk->busy--;
    if (err < 0 && walk->err == 0) walk->err = err;
    if (walk->err != 0 || (no_task(walk) && walk->busy == 0)) pthread_cond_broadcast(&walk->more);
  }
  pthread_mutex_unlock(&walk->lock);
  return NULL;
}

static void walk_one(void *ctx, uint64_t i) {
  walk_thread((struct fs_walker *)ctx + i);
}

void fs_walk_threads(struct fs_walk *walk) {
  fs_prep_parallel(walk->jobs, walk->jobs, walk_one, walk->walkers);
}

void fs_walk_stop(struct fs_walk *walk, fs_err err) {
  pthread_mutex_lock(&walk->lock);
  if (walk->err == 0) walk->err = err;
  pthread_cond_broadcast(&walk->more);
  pthread_mutex_unlock(&walk->lock);
}

static fs_err sort_problems(const struct fs_walker *ws, unsigned n, struct fs_walk_problems *p) {
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
static void warn_outside(const struct fs_walker *ws, unsigned n) {
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
static fs_err take_problems(const struct fs_walk *walk, struct fs_tree *tree, const struct fs_walk_problems *p) {
  bool root = p->n != 0 && fs_in_problem(p, "."); /* then nothing is left */
  if (p->n == 0) return 0;
  return walk->o->keep_going && !root ? fs_leave_out_problems(tree, walk->number, p)
                                      : fs_say_problems(walk->source->path, p);
}

static fs_err join(struct fs_tree *tree, struct fs_walker *ws, unsigned n) {
  fs_err err = 0;
  for (unsigned i = 0; i < n && err == 0; i++) {
    err = fs_tree_take(tree, &ws[i].items);
    fs_arena_join(&tree->text, &ws[i].text);
    tree->excluded += ws[i].excluded;
  }
  return err;
}

static void free_walker(struct fs_walker *w) {
  for (size_t k = 0; k < w->nproblems; k++) free(w->problems[k].path);
  free(w->items.item);
  fs_arena_free(&w->text);
  free(w->problems);
  free(w->example);
  fs_ancestors_free(w->ancestors);
}

static void free_stack(struct fs_walk_stack *s) {
  for (size_t i = 0; i < s->n; i++) fs_walk_task_free(&s->task[i]);
  free(s->task);
}

void fs_walk_close(struct fs_walk *walk) {
  free_stack(&walk->open);
  free_stack(&walk->here);
  for (unsigned i = 0; i <= walk->jobs; i++) free_walker(&walk->walkers[i]);
  free(walk->walkers);
}

/* Walks what was pushed, with the other nodes if they can help. */
static void run(struct fs_walk *walk) {
  const struct fs_pack_options *o = walk->o;
  if (fs_pack_nodes != NULL && o->dereference == FS_DEREF_NONE && o->files_from == NULL)
    fs_pack_nodes->walk(walk);
  else
    fs_walk_threads(walk);
}

static fs_err walk_all(struct fs_walk *walk, const struct stat *root) {
  struct fs_walker *first = &walk->walkers[0];
  const struct fs_pack_options *o = walk->o;
  const char *prefix = walk->source->prefix;
  struct fs_walk_task top = {.depth = fs_path_depth(prefix), .replicate = fs_globs_match_above(&o->replicate, prefix)};
  fs_err err = fs_walk_add_stat(first, root, "", NULL, &top);
  if (err == 0 && o->dereference != FS_DEREF_NONE) err = fs_ancestor_add(&first->ancestors, NULL, root, &top.chain);
  if (err == 0) err = o->files_from != NULL ? fs_walk_listed(first) : fs_walk_push(walk, "", &top);
  if (err < 0) return err;
  run(walk);
  return walk->err;
}

static fs_err take_all(struct fs_walk *walk, struct fs_tree *tree) {
  const unsigned n = walk->jobs + 1;
  struct fs_walk_problems problems = {0};
  fs_err err = sort_problems(walk->walkers, n, &problems);
  if (err == 0) err = join(tree, walk->walkers, n);
  if (err == 0) err = take_problems(walk, tree, &problems);
  if (err == 0 && !walk->o->quiet) warn_outside(walk->walkers, n);
  free(problems.all);
  return err;
}

fs_err fs_walk_open(struct fs_walk *walk, const struct fs_pack_options *o, struct fs_tree *tree, uint32_t source) {
  const struct fs_source *src = &tree->sources[source];
  *walk = (struct fs_walk){.o = o,
                           .tree = tree,
                           .source = src,
                           .number = source,
                           .root = src->fd,
                           .user = geteuid(),
                           .jobs = o->jobs,
                           .lock = PTHREAD_MUTEX_INITIALIZER,
                           .more = PTHREAD_COND_INITIALIZER,
                           .walkers = calloc(o->jobs + 1u, sizeof *walk->walkers)};
  if (walk->walkers == NULL) return -ENOMEM;
  for (unsigned i = 0; i <= o->jobs; i++) walk->walkers[i].walk = walk;
  return 0;
}

fs_err fs_walk(const struct fs_pack_options *o, struct fs_tree *tree, uint32_t source) {
  struct fs_walk walk;
  struct stat st;
  if (fstat(tree->sources[source].fd, &st) < 0) return -errno;
  fs_err err = fs_walk_open(&walk, o, tree, source);
  if (err < 0) return err;
  walk.dev = st.st_dev;
  fs_links_init(&walk.links, walk.source, o);
  err = walk_all(&walk, &st);
  if (err == 0) err = take_all(&walk, tree);
  fs_walk_close(&walk);
  return err;
}

void fs_tree_forget(struct fs_tree *tree) {
  fs_block_file_close(&tree->blocks);
  free(tree->items);
  tree->items = NULL;
  tree->n = 0;
  fs_arena_free(&tree->text);
  malloc_trim(0);
}

void fs_tree_free(struct fs_tree *tree) {
  fs_tree_forget(tree);
  fs_sources_close(tree);
  fs_left_out_free(&tree->left_out);
}
