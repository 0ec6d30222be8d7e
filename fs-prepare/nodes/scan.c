/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first pass over archives by several nodes (docs/internals/pack-nodes.md). The lead's threads take one
 * archive after the other, and its main thread sends others to the other ranks. A rank scans each in a thread
 * of its own (pack/archive.c), and its main thread sends what was found.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../pack/kinds.h"
#include "nodes.h"

#define TURN_NS (FS_NS_PER_S / 10)
#define MESSAGE (1u << 20) /* bytes of FS_NODES_SCANNED */
#define UNSENT 4u          /* messages of a rank */
#define HANGS_S 5          /* for a thread to end after a failure */

struct fs_lead_scan { /* of the lead, while archives are scanned */
  const struct fs_pack_options *o;
  struct fs_tree *tree;
  struct fs_scan *scan;
  pthread_mutex_t lock;
  uint32_t next; /* source; under `lock` */
  uint32_t *own; /* sources that were dealt to the lead, and its threads have not taken; under `lock` */
  uint32_t nown;
  uint32_t *by;    /* [source]: the other rank that scans it; 0: none */
  uint32_t *has;   /* [rank]: archives that it scans; the lead: that were dealt to it */
  uint32_t away;   /* those of all other ranks */
  uint64_t *taken; /* [rank]: archives that it has scanned or scans; under `lock` */
  _Atomic bool done;
};

struct fs_node_scan { /* of another rank: an archive that it scans */
  const struct fs_pack_options *o;
  struct fs_source src;
  struct stat lead; /* size and time that the lead has seen */
  uint32_t number;  /* the lead's */
  fs_err err;       /* of opening it */
  struct fs_scan scan;
  pthread_t thread;
  _Atomic bool done;
  size_t items, problems, begins; /* that were sent */
  struct fs_node_scan *next;
};

/* The lead. */

/* Takes the next archive for a rank, with the lock. Returns false if none is left. */
static bool take(struct fs_lead_scan *l, uint32_t rank, uint32_t *source) {
  while (l->next < l->tree->nsources && l->tree->sources[l->next].kind == FS_SOURCE_DIR) l->next++;
  if (l->next == l->tree->nsources) return false;
  *source = l->next++;
  l->taken[rank]++;
  return true;
}

/* Takes the next archive for a thread of the lead. */
static bool take_own(struct fs_lead_scan *l, uint32_t *source) {
  pthread_mutex_lock(&l->lock);
  const bool dealt = l->nown != 0;
  if (dealt) *source = l->own[--l->nown];
  const bool some = dealt || take(l, 0, source);
  pthread_mutex_unlock(&l->lock);
  return some;
}

static void scan_some(void *ctx, uint64_t thread) {
  struct fs_lead_scan *l = ctx;
  (void)thread;
  for (uint32_t i; take_own(l, &i);) fs_archive_scan(l->o, &l->tree->sources[i], i, &l->scan[i]);
}

static void *lead_threads(void *arg) {
  struct fs_lead_scan *l = arg;
  fs_prep_parallel(l->o->jobs, l->o->jobs, scan_some, l);
  atomic_store(&l->done, true);
  return NULL;
}

static void send_archive(struct fs_nodes *n, uint32_t to, uint32_t number) {
  struct fs_lead_scan *l = n->lead_scan;
  struct fs_source *src = &l->tree->sources[number];
  char path[PATH_MAX];
  struct fs_msg *m = fs_msg_new(FS_NODES_SCAN);
  src->begins.most = fs_archive_begins(l->o, number);
  fs_nodes_absolute(src->path, path);
  fs_msg_u32(m, number);
  fs_msg_text(m, path);
  fs_msg_text(m, src->prefix);
  fs_msg_stat(m, &src->st);
  l->by[number] = to;
  l->away++;
  fs_nodes_send(n, to, m);
}

/* Gives archives to the ranks from `first` on, one to each in turn, until each has as many as the lead has
   threads. A rank has as many threads, or about as many. */
static void deal(struct fs_nodes *n, uint32_t first) {
  struct fs_lead_scan *l = n->lead_scan;
  for (uint32_t has = 0; has < l->o->jobs && n->err == 0; has++)
    for (uint32_t i = first; i < n->nodes && n->err == 0; i++) {
      uint32_t number;
      if (l->has[i] > has) continue;
      pthread_mutex_lock(&l->lock);
      const bool some = take(l, i, &number);
      pthread_mutex_unlock(&l->lock);
      if (!some) return;
      l->has[i]++;
      if (i == 0)
        l->own[l->nown++] = number;
      else
        send_archive(n, i, number);
    }
}

static void hand_out(struct fs_nodes *n) {
  struct fs_lead_scan *l = n->lead_scan;
  if (atomic_load(&l->done) && l->away == 0) n->moved = true;
  deal(n, 1);
}

static void stop(struct fs_lead_scan *l) {
  pthread_mutex_lock(&l->lock);
  l->next = l->tree->nsources;
  l->nown = 0;
  pthread_mutex_unlock(&l->lock);
  for (uint32_t i = 0; i < l->tree->nsources; i++) atomic_store(&l->scan[i].stop, true);
}

static fs_err lead_scan(struct fs_nodes *n, struct fs_lead_scan *l) {
  pthread_t thread;
  n->lead_scan = l;
  deal(n, 0); /* to the lead, too: no node's threads may take all of a few */
  const bool started = fs_prep_thread(&thread, lead_threads, l);
  fs_err err = started ? 0 : -ENOMEM;
  n->tick = hand_out;
  while (err == 0 && (!atomic_load(&l->done) || l->away != 0)) err = fs_nodes_step(n, fs_now_ns() + TURN_NS);
  if (err < 0) stop(l);
  if (started) pthread_join(thread, NULL);
  n->tick = NULL;
  n->lead_scan = NULL;
  return err;
}

fs_err fs_scan_lead(struct fs_nodes *n, const struct fs_pack_options *o, struct fs_tree *tree, struct fs_scan *scan) {
  struct fs_lead_scan l = {.o = o, .tree = tree, .scan = scan};
  const uint64_t began = fs_now_ns();
  l.by = calloc(tree->nsources, sizeof *l.by);
  l.own = calloc(tree->nsources, sizeof *l.own);
  l.has = calloc(n->nodes, sizeof *l.has);
  l.taken = calloc(n->nodes, sizeof *l.taken);
  pthread_mutex_init(&l.lock, NULL);
  const bool room = l.by != NULL && l.own != NULL && l.has != NULL && l.taken != NULL;
  fs_err err = room ? lead_scan(n, &l) : -ENOMEM;
  if (err == 0 && o->verbose) fs_nodes_say_each(n, "read the headers of", "archive", "", began, l.taken);
  pthread_mutex_destroy(&l.lock);
  free(l.by);
  free(l.own);
  free(l.has);
  free(l.taken);
  return err;
}

static fs_err take_item(struct fs_lead_scan *l, uint32_t number, struct fs_in *in) {
  const struct fs_source *src = &l->tree->sources[number];
  struct fs_scan *scan = &l->scan[number];
  struct fs_item item;
  char path[2 * PATH_MAX];
  fs_err err = fs_found_take_item(in, &scan->text, &item);
  if (err < 0) return err;
  const int len =
      snprintf(path, sizeof path, "%s%s%s", src->prefix, src->skip != 0 && item.path[0] != '\0' ? "/" : "", item.path);
  if (len >= PATH_MAX || scan->items.n == FS_MAX_ENTRIES || (item.path[0] == '\0' && !S_ISDIR(item.mode)))
    return -EPROTO;
  item.path = fs_arena_text(&scan->text, path, (size_t)len);
  item.depth = fs_path_depth(path) & FS_DEPTH_MASK;
  item.dev = FS_ARCHIVE_DEVICE(number);
  item.source = number;
  err = item.path != NULL ? fs_grow(&scan->items.item, &scan->items.room, scan->items.n, sizeof item) : -ENOMEM;
  if (err == 0) scan->items.item[scan->items.n++] = item;
  atomic_fetch_add_explicit(&scan->progress->now.names, 1, memory_order_relaxed);
  return err;
}

static fs_err take_problem(struct fs_scan *scan, struct fs_in *in) {
  const char *path, *what;
  fs_err err = fs_found_take_problem(in, &path, &what);
  return err < 0 ? err : fs_problems_add(&scan->problems, path, what);
}

static fs_err take_begin(struct fs_source *src, struct fs_in *in) {
  struct fs_begins *b = &src->begins;
  struct fs_begin *begin;
  const uint64_t member = fs_in_u64(in);
  const uint32_t size = fs_in_u32(in);
  const void *bytes = fs_in_get(in, size);
  if (bytes == NULL || size == 0 || size > FS_SAMPLE_PIECE || (b->n != 0 && member <= b->list[b->n - 1].member))
    return -EPROTO;
  fs_err err = fs_begins_add(b, member, size, &begin);
  if (err == 0 && begin != NULL) memcpy(begin->bytes, bytes, size);
  return err;
}

static fs_err take_end(struct fs_lead_scan *l, uint32_t from, uint32_t number, struct fs_in *in) {
  struct fs_source *src = &l->tree->sources[number];
  struct fs_scan *scan = &l->scan[number];
  const uint32_t kind = fs_in_u32(in);
  scan->replaced = fs_in_u64(in);
  scan->absolute = fs_in_u64(in);
  scan->excluded = fs_in_u64(in);
  if (in->bad || (kind != src->kind && kind != FS_SOURCE_STREAM)) return -EPROTO;
  src->kind = kind;
  l->by[number] = 0;
  l->has[from]--;
  l->away--;
  return 0;
}

static fs_err on_scanned(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  struct fs_lead_scan *l = n->lead_scan;
  const uint32_t number = fs_in_u32(in);
  fs_err err = 0;
  if (l == NULL || number >= l->tree->nsources) return -EPROTO;
  while (in->at < in->n && !in->bad && err == 0) {
    if (from == 0 || l->by[number] != from) return -EPROTO;
    const uint32_t record = fs_in_u32(in);
    err = record == FS_FOUND_ITEM      ? take_item(l, number, in)
          : record == FS_FOUND_PROBLEM ? take_problem(&l->scan[number], in)
          : record == FS_FOUND_BEGIN   ? take_begin(&l->tree->sources[number], in)
          : record == FS_FOUND_DONE    ? take_end(l, from, number, in)
                                       : -EPROTO;
  }
  return err;
}

/* Another rank. */

static void put_end(struct fs_msg *m, const struct fs_node_scan *s) {
  fs_msg_u32(m, FS_FOUND_DONE);
  fs_msg_u32(m, s->src.kind);
  fs_msg_u64(m, s->scan.replaced);
  fs_msg_u64(m, s->scan.absolute);
  fs_msg_u64(m, s->scan.excluded);
}

/* Puts the next record into a message. Returns true if it is the last one. */
static bool put_next(struct fs_msg *m, struct fs_node_scan *s) {
  if (s->items < s->scan.items.n) {
    const struct fs_item *item = &s->scan.items.item[s->items++];
    const char *path = item->path + strlen(s->src.prefix);
    fs_found_put_item(m, item, path + (*path == '/'));
  } else if (s->problems < s->scan.problems.n) {
    const struct fs_problem *p = &s->scan.problems.problem[s->problems++];
    fs_found_put_problem(m, p->path, p->what);
  } else if (s->begins < s->src.begins.n) {
    const struct fs_begin *b = &s->src.begins.list[s->begins++];
    fs_msg_u32(m, FS_FOUND_BEGIN);
    fs_msg_u64(m, b->member);
    fs_msg_u32(m, (uint32_t)b->n);
    fs_msg_put(m, b->bytes, b->n);
  } else {
    put_end(m, s);
    return true;
  }
  return false;
}

/* Sends a message of what was found. Returns true if it is the last one. */
static bool send_found(struct fs_nodes *n, struct fs_node_scan *s) {
  const fs_err err = s->err < 0 ? s->err : s->scan.err;
  if (err < 0 && err != -EINTR) fs_nodes_fail_source(n, s->src.path, err);
  if (err < 0) return true;
  struct fs_msg *m = fs_msg_new(FS_NODES_SCANNED);
  bool last = m == NULL;
  fs_msg_u32(m, s->number);
  while (!last && m->n < MESSAGE) last = put_next(m, s);
  fs_nodes_send(n, 0, m);
  n->moved = true;
  return last;
}

static void node_scan_free(struct fs_node_scan *s) {
  fs_begins_free(&s->src.begins);
  fs_problems_free(&s->scan.problems);
  fs_arena_free(&s->scan.text);
  free(s->scan.items.item);
  if (s->src.fd >= 0) close(s->src.fd);
  free((char *)s->src.path);
  free(s);
}

static void send_scanned(struct fs_nodes *n) {
  for (struct fs_node_scan **at = &n->node_scan, *s; (s = *at) != NULL && n->sending < UNSENT && n->err == 0;) {
    if (!atomic_load(&s->done)) {
      at = &s->next;
    } else if (send_found(n, s)) {
      *at = s->next;
      pthread_join(s->thread, NULL);
      node_scan_free(s);
    }
  }
  if (n->node_scan == NULL) n->tick = NULL;
}

static fs_err open_archive(struct fs_source *src, const struct stat *lead) {
  char why[128];
  src->kind = FS_SOURCE_STREAM; /* until it is probed: no directory */
  fs_err err = fs_nodes_open_source(src, lead);
  if (err < 0) return err;
  const int is = fs_archive_probe(src, why, sizeof why);
  return is < 0 ? is : is == 0 ? -ESTALE : 0;
}

static void *scan_thread(void *arg) {
  struct fs_node_scan *s = arg;
  s->err = open_archive(&s->src, &s->lead);
  if (s->err == 0) fs_archive_scan(s->o, &s->src, s->number, &s->scan);
  atomic_store(&s->done, true);
  return NULL;
}

static fs_err start(struct fs_nodes *n, struct fs_node_scan *s, struct fs_in *in) {
  s->o = &n->o;
  s->src.fd = -1;
  s->number = fs_in_u32(in);
  s->src.path = strdup(fs_in_text(in));
  const char *prefix = fs_in_path(in);
  s->lead = fs_in_stat(in);
  if (s->src.path == NULL) return -ENOMEM;
  if (in->bad) return -EPROTO;
  strcpy(s->src.prefix, prefix);
  s->src.skip = prefix[0] != '\0' ? strlen(prefix) + 1 : 0;
  return fs_prep_thread(&s->thread, scan_thread, s) ? 0 : -EAGAIN;
}

static fs_err on_scan(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  if (from != 0 || n->node_walk != NULL || n->worker != NULL) return -EPROTO;
  struct fs_node_scan *s = calloc(1, sizeof *s);
  fs_err err = s != NULL ? start(n, s, in) : -ENOMEM;
  if (err < 0) {
    if (s != NULL) node_scan_free(s);
    return err;
  }
  s->next = n->node_scan;
  n->node_scan = s;
  n->tick = send_scanned;
  return 0;
}

void fs_scan_stop(struct fs_nodes *n) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += HANGS_S;
  struct fs_node_scan *s = n->node_scan;
  for (; s != NULL; s = s->next) atomic_store(&s->scan.stop, true);
  while ((s = n->node_scan) != NULL) {
    n->node_scan = s->next;
    if (pthread_timedjoin_np(s->thread, NULL, &until) == 0) node_scan_free(s); /* else a read hangs */
  }
}

void fs_scan_begin(struct fs_nodes *n) {
  if (n->rank == 0) n->handler[FS_NODES_SCANNED] = on_scanned;
  if (n->rank != 0) n->handler[FS_NODES_SCAN] = on_scan;
}
