/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The walk of SOURCE by several nodes (docs/internals/pack-nodes.md). The lead has all tasks. Its
 * main thread sends tasks to other ranks and adds what they found as a further walker, while its
 * threads walk. The threads of another rank put what they find into one message, which its main
 * thread sends. It is under `lock`.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../pack/walk.h"
#include "nodes.h"

#define TURN_NS (FS_NS_PER_S / 10)
#define MOST_TASKS 8u      /* of a rank, for each of its threads */
#define MESSAGE (1u << 20) /* bytes of FS_NODES_FOUND */
#define PART (64u << 10)   /* what a thread puts into it at once */
#define TASKS (256u << 10) /* bytes of FS_NODES_WALK */
#define UNSENT 4u          /* messages of a rank */
#define GATHER_NS 1000000  /* how long a message waits for more, while tasks are waiting */
#define MOST_JOBS 4096u

struct fs_lead_walk { /* of the lead, while it walks */
  struct fs_walk *walk;
  struct remote {
    uint32_t jobs, tasks; /* its threads; tasks that it has */
  } * rank;
  uint64_t *names; /* [rank]: that it has found */
  uint32_t away;   /* tasks of all ranks */
  _Atomic bool done;
};

struct fs_node_walk { /* of another rank, while it walks for the lead */
  struct fs_walk walk;
  struct fs_tree tree;
  struct fs_progress progress;
  char mount[PATH_MAX];
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t taken;
  struct fs_msg *out; /* NULL: nothing was found since the last one */
  uint32_t tasks;     /* whose end no thread has put into a message yet */
  uint64_t sent_ns;
};

static void put_task(struct fs_msg *m, const char *path, const struct fs_walk_task *t) {
  fs_msg_text(m, path);
  fs_msg_u32(m, t->replicate);
  fs_msg_u32(m, t->here);
  fs_msg_u32(m, (uint32_t)t->size);
  fs_msg_put(m, t->names, t->size);
}

/* Returns true if the path is not too long in the dataset. */
static bool fits(const struct fs_walk *walk, const char *path) {
  return strlen(path) + walk->source->skip < PATH_MAX;
}

static bool names_ok(const char *names, size_t size) {
  if (names[size - 1] != '\0') return false;
  for (size_t at = 0, n; at < size; at += n + 1)
    if (!fs_in_name_ok(names + at, n = strlen(names + at))) return false;
  return true;
}

/* Reads a task. Its texts are in the message. Returns its path, or NULL. */
static const char *get_task(const struct fs_walk *walk, struct fs_walk_task *t, struct fs_in *in) {
  const char *path = fs_in_path(in);
  *t = (struct fs_walk_task){.replicate = fs_in_u32(in) != 0, .here = false};
  t->here = fs_in_u32(in) != 0;
  t->size = fs_in_u32(in);
  t->names = t->size != 0 ? (char *)fs_in_get(in, t->size) : NULL;
  if (in->bad || !fits(walk, path) || (t->names != NULL && !names_ok(t->names, t->size))) return NULL;
  t->depth = fs_walk_depth(walk, path);
  return path;
}

/* The lead. */

/* Sends a rank some of the tasks that are open, with the walk's lock. */
static void send_tasks(struct fs_nodes *n, uint32_t to, uint32_t most) {
  struct fs_lead_walk *l = n->lead_walk;
  struct fs_walk_stack *s = &l->walk->open;
  struct fs_msg *m = fs_msg_new(FS_NODES_WALK);
  uint32_t sent = 0;
  fs_msg_u32(m, l->walk->number);
  for (; sent < most && m != NULL && m->n < TASKS; sent++) {
    struct fs_walk_task *t = &s->task[--s->n];
    put_task(m, t->path, t);
    fs_walk_task_free(t);
  }
  l->walk->busy += sent;
  l->rank[to].tasks += sent;
  l->away += sent;
  fs_nodes_send(n, to, m);
}

/* Returns how many more tasks a rank may get. */
static uint32_t room(const struct remote *r, size_t open, uint32_t nodes) {
  const uint64_t most = FS_MIN((uint64_t)MOST_TASKS * r->jobs, r->jobs + open / (2ull * nodes));
  return most > r->tasks ? (uint32_t)(most - r->tasks) : 0;
}

/* Tasks for which the lead has idle threads stay. */
static void hand_out(struct fs_nodes *n) {
  struct fs_lead_walk *l = n->lead_walk;
  struct fs_walk *walk = l->walk;
  if (atomic_load(&l->done)) n->moved = true;
  pthread_mutex_lock(&walk->lock);
  const size_t idle = walk->jobs - FS_MIN(walk->jobs, walk->busy - l->away);
  for (uint32_t i = 1; i < n->nodes && walk->open.n > idle && walk->err == 0; i++) {
    const size_t open = walk->open.n - idle;
    const uint32_t most = (uint32_t)FS_MIN(open, (size_t)room(&l->rank[i], open, n->nodes));
    if (most != 0) send_tasks(n, i, most);
  }
  pthread_mutex_unlock(&walk->lock);
}

static void send_source(struct fs_nodes *n, const struct fs_walk *walk) {
  char path[PATH_MAX];
  struct stat st = {0};
  fs_nodes_absolute(walk->source->path, path);
  fs_sys_fstat(walk->root, &st);
  for (uint32_t i = 1; i < n->nodes; i++) {
    struct fs_msg *m = fs_msg_new(FS_NODES_SOURCE);
    fs_msg_u32(m, walk->number);
    fs_msg_text(m, path);
    fs_msg_text(m, walk->source->prefix);
    fs_msg_text(m, walk->links.mount);
    fs_msg_text(m, walk->links.mount_real);
    fs_msg_u64(m, st.st_ino);
    fs_msg_u64(m, (uint64_t)st.st_mtim.tv_sec);
    fs_nodes_send(n, i, m);
  }
}

static void *lead_threads(void *arg) {
  struct fs_lead_walk *l = arg;
  fs_walk_threads(l->walk);
  atomic_store(&l->done, true);
  return NULL;
}

static void say_names(const struct fs_nodes *n, const struct fs_lead_walk *l, uint64_t began_ns) {
  FS_AUTO_FREE char *path = fs_prep_name(l->walk->source->path);
  FS_AUTO_FREE char *of = NULL;
  l->names[0] = 0;
  for (unsigned i = 0; i < l->walk->jobs; i++) l->names[0] += l->walk->walkers[i].items.n;
  l->names[0]--; /* SOURCE itself */
  if (asprintf(&of, " of %s", path) >= 0) fs_nodes_say_each(n, "walked", "name", of, began_ns, l->names);
}

static void lead_walk(struct fs_nodes *n, struct fs_lead_walk *l) {
  pthread_t thread;
  fs_err err = 0;
  if (!fs_prep_thread(&thread, lead_threads, l)) {
    fs_walk_stop(l->walk, -EAGAIN);
    return;
  }
  send_source(n, l->walk);
  n->lead_walk = l;
  n->tick = hand_out;
  while (!atomic_load(&l->done) && err == 0) err = fs_nodes_step(n, fs_now_ns() + TURN_NS);
  if (err < 0) fs_walk_stop(l->walk, err);
  pthread_join(thread, NULL);
  n->tick = NULL;
  n->lead_walk = NULL;
  for (uint32_t i = 1; i < n->nodes && l->walk->err == 0; i++) {
    struct fs_msg *m = fs_msg_new(FS_NODES_WALKED);
    fs_msg_u32(m, l->walk->number);
    fs_nodes_send(n, i, m);
  }
}

void fs_walk_lead(struct fs_nodes *n, struct fs_walk *walk) {
  struct fs_lead_walk l = {.walk = walk};
  const uint64_t began = fs_now_ns();
  l.rank = calloc(n->nodes, sizeof *l.rank);
  l.names = calloc(n->nodes, sizeof *l.names);
  if (n->nodes == 1 || l.rank == NULL || l.names == NULL)
    fs_walk_threads(walk);
  else
    lead_walk(n, &l);
  if (n->o.verbose && l.names != NULL && walk->err == 0) say_names(n, &l, began);
  free(l.rank);
  free(l.names);
}

static fs_err take_item(struct fs_walker *w, struct fs_in *in) {
  struct fs_item item;
  fs_err err = fs_found_take_item(in, &w->text, &item);
  if (err < 0) return err;
  if (item.path[0] == '\0' || !fits(w->walk, item.path)) return -EPROTO;
  item.dev = fs_item_device(w->walk->dev);
  item.source = w->walk->number;
  item.depth = fs_walk_depth(w->walk, item.path) & FS_DEPTH_MASK;
  return fs_walk_add_item(w, &item);
}

static fs_err take_problem(struct fs_walker *w, struct fs_in *in) {
  const char *path, *what;
  fs_err err = fs_found_take_problem(in, &path, &what);
  const bool dir = fs_in_u32(in) != 0;
  if (err < 0 || in->bad) return -EPROTO;
  const char *copy = fs_arena_text(&w->text, what, strlen(what));
  return copy != NULL ? fs_walk_add_problem(w, path, copy, dir) : -ENOMEM;
}

static fs_err take_task(struct fs_walker *w, struct fs_in *in) {
  struct fs_walk_task task;
  const char *path = get_task(w->walk, &task, in);
  return path != NULL ? fs_walk_push(w->walk, path, &task) : -EPROTO;
}

static fs_err take_done(struct fs_lead_walk *l, uint32_t from, struct fs_in *in) {
  struct remote *r = &l->rank[from];
  struct fs_walk *walk = l->walk;
  struct fs_walker *w = &walk->walkers[walk->jobs];
  const uint64_t names = fs_in_u64(in);
  w->excluded += fs_in_u64(in);
  w->symlinks += fs_in_u64(in);
  const uint64_t outside = fs_in_u64(in);
  const char *example = fs_in_path(in);
  if (in->bad || r->tasks == 0 || !fits(walk, example)) return -EPROTO;
  fs_err err = outside != 0 ? fs_walk_add_outside(w, example) : 0;
  if (outside != 0) w->outside += outside - 1;
  l->names[from] += names;
  atomic_fetch_add_explicit(&walk->tree->progress->now.names, names, memory_order_relaxed);
  r->tasks--;
  l->away--;
  pthread_mutex_lock(&walk->lock);
  if (--walk->busy == 0) pthread_cond_broadcast(&walk->more);
  pthread_mutex_unlock(&walk->lock);
  return err;
}

/* A rank that was slow to begin may say so when the walk is over. */
static fs_err on_found(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  struct fs_lead_walk *l = n->lead_walk;
  const uint32_t source = fs_in_u32(in), jobs = fs_in_u32(in);
  if (in->at == in->n && (l == NULL || l->walk->number != source)) return 0;
  if (l == NULL || l->walk->number != source || jobs == 0 || jobs > MOST_JOBS) return -EPROTO;
  struct fs_walker *w = &l->walk->walkers[l->walk->jobs];
  l->rank[from].jobs = jobs;
  fs_err err = 0;
  while (in->at < in->n && !in->bad && err == 0) {
    const uint32_t record = fs_in_u32(in);
    err = record == FS_FOUND_ITEM      ? take_item(w, in)
          : record == FS_FOUND_PROBLEM ? take_problem(w, in)
          : record == FS_FOUND_TASK    ? take_task(w, in)
          : record == FS_FOUND_DONE    ? take_done(l, from, in)
                                       : -EPROTO;
  }
  return err;
}

/* Another rank. */

static struct fs_node_walk *part_of(struct fs_walker *w) {
  return (struct fs_node_walk *)((char *)w->walk - offsetof(struct fs_node_walk, walk));
}

static struct fs_msg *new_found(const struct fs_node_walk *p) {
  struct fs_msg *m = fs_msg_new(FS_NODES_FOUND);
  fs_msg_u32(m, p->walk.number);
  fs_msg_u32(m, p->walk.jobs);
  return m;
}

/* Puts what a walker has into the message that the main thread sends. Waits while that is full.
   end: it is the last of a task. */
static fs_err pass_on(struct fs_walker *w, bool end) {
  struct fs_node_walk *p = part_of(w);
  pthread_mutex_lock(&p->lock);
  while (p->out != NULL && p->out->n + w->out->n > MESSAGE) pthread_cond_wait(&p->taken, &p->lock);
  if (p->out == NULL) p->out = new_found(p);
  fs_msg_put(p->out, w->out->data, w->out->n);
  const bool failed = p->out == NULL || p->out->failed || w->out->failed;
  p->tasks -= end;
  pthread_mutex_unlock(&p->lock);
  w->out->n = 0;
  fs_arena_free(&w->text);
  return failed ? -ENOMEM : 0;
}

static void put_done(struct fs_walker *w) {
  fs_msg_u32(w->out, FS_FOUND_DONE);
  fs_msg_u64(w->out, atomic_exchange(&w->walk->tree->progress->now.names, 0));
  fs_msg_u64(w->out, w->excluded);
  fs_msg_u64(w->out, w->symlinks);
  fs_msg_u64(w->out, w->outside);
  fs_msg_text(w->out, w->example != NULL ? w->example : "");
  w->excluded = w->symlinks = w->outside = 0;
  free(w->example);
  w->example = NULL;
}

static fs_err report(struct fs_walker *w, bool end) {
  for (size_t i = 0; i < w->items.n; i++)
    fs_found_put_item(w->out, &w->items.item[i], w->items.item[i].path + w->walk->source->skip);
  for (size_t i = 0; i < w->nproblems; i++) {
    fs_found_put_problem(w->out, w->problems[i].path, w->problems[i].what);
    fs_msg_u32(w->out, w->problems[i].dir);
    free(w->problems[i].path);
  }
  w->items.n = w->nproblems = 0;
  if (end) put_done(w);
  return end || w->out->n >= PART ? pass_on(w, end) : 0;
}

static fs_err give(struct fs_walker *w, const char *path, const struct fs_walk_task *task) {
  fs_msg_u32(w->out, FS_FOUND_TASK);
  put_task(w->out, path, task);
  return w->out->n >= PART ? pass_on(w, false) : 0;
}

/* Sends what was found. Little of it waits a moment for more, while the threads have work. */
static void send_found(struct fs_nodes *n) {
  struct fs_node_walk *p = n->node_walk;
  pthread_mutex_lock(&p->walk.lock);
  const bool work = p->walk.open.n != 0;
  const fs_err err = p->walk.err;
  pthread_mutex_unlock(&p->walk.lock);
  if (err < 0 && err != -EINTR)
    fs_nodes_fail(n, "node %u (%s): SOURCE %s: %s", n->rank, n->host, p->walk.source->path, strerror(-err));
  if (n->sending >= UNSENT) return;
  pthread_mutex_lock(&p->lock);
  struct fs_msg *m = p->out;
  if (m != NULL && work && m->n < PART && fs_now_ns() - p->sent_ns < GATHER_NS) m = NULL;
  if (m != NULL) p->out = NULL;
  pthread_cond_broadcast(&p->taken);
  pthread_mutex_unlock(&p->lock);
  if (m == NULL) return;
  p->sent_ns = fs_now_ns();
  n->moved = true;
  fs_nodes_send(n, 0, m);
}

static void *node_threads(void *arg) {
  fs_walk_threads(&((struct fs_node_walk *)arg)->walk);
  return NULL;
}

/* The roots of local disks have equal inodes, so the time is compared, too. */
static fs_err open_source(struct fs_nodes *n, struct fs_source *src, uint64_t ino, uint64_t mtime) {
  fs_err err = fs_nodes_open_source(src, NULL);
  if (err == 0 && (src->st.st_ino != ino || (uint64_t)src->st.st_mtim.tv_sec != mtime)) err = -ESTALE;
  return err < 0 ? fs_nodes_fail_source(n, src->path, err) : 0;
}

static fs_err read_source(struct fs_nodes *n, struct fs_node_walk *p, struct fs_in *in) {
  const uint32_t number = fs_in_u32(in);
  struct fs_source *src = p->tree.sources;
  src->path = strdup(fs_in_text(in));
  if (src->path == NULL) return -ENOMEM;
  const char *prefix = fs_in_text(in), *mount = fs_in_text(in), *real = fs_in_text(in);
  const uint64_t ino = fs_in_u64(in), mtime = fs_in_u64(in);
  if (in->bad || strlen(prefix) >= PATH_MAX || strlen(mount) >= PATH_MAX || strlen(real) >= PATH_MAX) return -EPROTO;
  strcpy(src->prefix, prefix);
  src->skip = prefix[0] != '\0' ? strlen(prefix) + 1 : 0;
  fs_err err = open_source(n, src, ino, mtime);
  if (err == 0) err = fs_walk_open(&p->walk, &n->o, &p->tree, 0);
  if (err < 0) return err;
  p->walk.number = number;
  p->walk.dev = src->st.st_dev;
  p->walk.links.root = src->fd;
  strcpy(p->walk.links.mount, mount);
  strcpy(p->walk.links.mount_real, real);
  return 0;
}

static void node_walk_free(struct fs_node_walk *p) {
  for (unsigned i = 0; p->walk.walkers != NULL && i < p->walk.jobs; i++) fs_msg_free(p->walk.walkers[i].out);
  if (p->walk.walkers != NULL) fs_walk_close(&p->walk);
  fs_msg_free(p->out);
  if (p->tree.nsources != 0) free((char *)p->tree.sources->path);
  fs_sources_close(&p->tree);
  free(p);
}

static fs_err start(struct fs_nodes *n, struct fs_node_walk *p, struct fs_in *in) {
  p->tree.progress = &p->progress;
  p->tree.sources = calloc(1, sizeof *p->tree.sources);
  if (p->tree.sources == NULL) return -ENOMEM;
  p->tree.sources->fd = -1;
  p->tree.nsources = 1;
  fs_err err = read_source(n, p, in);
  if (err < 0) return err;
  for (unsigned i = 0; i < p->walk.jobs; i++)
    if ((p->walk.walkers[i].out = calloc(1, sizeof(struct fs_msg))) == NULL) return -ENOMEM;
  p->walk.report = report;
  p->walk.give = give;
  p->walk.busy = 1; /* the lead may send more */
  return fs_prep_thread(&p->thread, node_threads, p) ? 0 : -EAGAIN;
}

static fs_err on_source(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  if (from != 0 || n->node_walk != NULL || n->tick != NULL) return -EPROTO;
  struct fs_node_walk *p = calloc(1, sizeof *p);
  if (p == NULL) return -ENOMEM;
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->taken, NULL);
  fs_err err = start(n, p, in);
  if (err < 0) {
    node_walk_free(p);
    return err;
  }
  n->node_walk = p;
  n->tick = send_found;
  fs_nodes_send(n, 0, new_found(p));
  return 0;
}

static fs_err on_walk(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  struct fs_node_walk *p = n->node_walk;
  if (from != 0 || p == NULL || fs_in_u32(in) != p->walk.number) return -EPROTO;
  while (in->at < in->n) {
    struct fs_walk_task task;
    const char *path = get_task(&p->walk, &task, in);
    if (path == NULL || task.here) return -EPROTO;
    pthread_mutex_lock(&p->lock);
    p->tasks++;
    pthread_mutex_unlock(&p->lock);
    fs_err err = fs_walk_push(&p->walk, path, &task);
    if (err < 0) return err;
  }
  return 0;
}

static fs_err on_walked(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  struct fs_node_walk *p = n->node_walk;
  if (from != 0 || p == NULL || fs_in_u32(in) != p->walk.number) return -EPROTO;
  pthread_mutex_lock(&p->lock);
  const bool ended = p->tasks == 0;
  pthread_mutex_unlock(&p->lock);
  if (!ended) return -EPROTO; /* its threads would wait for this one */
  pthread_mutex_lock(&p->walk.lock);
  p->walk.busy--; /* a thread may be about to do the same for its last task */
  pthread_cond_broadcast(&p->walk.more);
  pthread_mutex_unlock(&p->walk.lock);
  pthread_join(p->thread, NULL);
  n->tick = NULL;
  n->node_walk = NULL;
  node_walk_free(p);
  return 0;
}

void fs_walk_begin(struct fs_nodes *n) {
  n->handler[n->rank == 0 ? FS_NODES_FOUND : FS_NODES_SOURCE] = n->rank == 0 ? on_found : on_source;
  if (n->rank == 0) return;
  n->handler[FS_NODES_WALK] = on_walk;
  n->handler[FS_NODES_WALKED] = on_walked;
}
