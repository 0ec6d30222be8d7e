/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of locks (locks.h) of the node whose programs lock: which owner on this node may have
 * locks of which file, and when the home must end them. A process is an owner as long as its client
 * is connected. An open file description may be in several processes, and outlive the one that
 * locked. If that one has closed it or has gone, a thread of the I/O pool looks in /proc for its
 * placeholder. The MPI thread's, but for that look.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/outputs/client_calls.h"
#include "daemon/outputs/locks.h"
#include "daemon/outputs/service.h"
#include "util/sys.h"

#define FS_LOCK_HOLDERS 4096u /* on this node; then ENOLCK */
#define FS_LOCK_END_TRIES 4u
#define FS_LOCK_LOOKS 64u               /* closes that wait for a look in /proc; others do not wait */
#define FS_LOCK_SCANNED FS_LOCK_HOLDERS /* placeholders in one look */
#define FS_LOCK_SCAN_NS 100000000ull    /* least time between two looks that nobody waits for */
#define FS_LOCK_SCAN_SHARE 20u          /* these take at most this part of a processor */

struct fs_lock_holder {
  struct fs_table_link by_id; /* by the file's id */
  struct fs_daemon *d;
  uint64_t owner;
  bool process;
  const struct fs_client *client; /* that has locked last; NULL: it has gone */
  uint32_t home;                  /* the rank that has granted locks, if `granted` */
  uint32_t asking;                /* LOCKs under way */
  uint32_t tries;
  bool known;   /* the home may know it */
  bool granted; /* it may have locks */
  bool poll;    /* it is to be looked for */
  bool ended;   /* its locks are to end */
  bool closed;  /* the client's last call was END */
  bool ending;  /* END is under way */
  bool lost;    /* the home is gone, and the locks with it */
};

struct fs_lock_scan {
  struct fs_io io;
  struct fs_daemon *d;
  uint32_t n, ino[FS_LOCK_SCANNED];
  bool found[FS_LOCK_SCANNED];
  uint64_t took;
};

struct fs_lock_holders {
  struct fs_table table;
  struct fs_lock_scan scan;
  bool scanning;
  uint64_t scan_at;
  struct fs_client_call *looks[FS_LOCK_LOOKS]; /* LOOKs that wait for the next scan */
  uint32_t nlooks, serving, ready;             /* all; those that the present scan, or an earlier one, is for */
  uint32_t ending;                             /* ENDs under way; LOOKs are answered after them */
};

static struct fs_lock_holder *fs_holder_of(struct fs_table_link *l) {
  return l ? FS_ITEM(l, struct fs_lock_holder, by_id) : NULL;
}

static struct fs_lock_holder *fs_holder_find(const struct fs_daemon *d, uint64_t id, uint64_t owner, bool process) {
  struct fs_table_link *l = fs_table_find(&d->lock_holders->table, id);
  for (struct fs_lock_holder *h; (h = fs_holder_of(l)) != NULL; l = fs_table_more(l))
    if (h->owner == owner && h->process == process) return h;
  return NULL;
}

fs_err fs_lock_holders_check(const struct fs_daemon *d, const struct fs_client *c, uint64_t id) {
  struct fs_table_link *l = d->lock_holders ? fs_table_find(&d->lock_holders->table, id) : NULL;
  for (const struct fs_lock_holder *h; (h = fs_holder_of(l)) != NULL; l = fs_table_more(l))
    if (h->lost && h->client == c) return -EIO;
  return 0;
}

/* ---- the end of locks ---- */

static void fs_looks_done(struct fs_lock_holders *t, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) fs_client_call_done(t->looks[i], 0, NULL, 0);
  t->nlooks -= n;
  t->ready -= FS_MIN(t->ready, n);
  t->serving -= FS_MIN(t->serving, n);
  memmove(t->looks, t->looks + n, t->nlooks * sizeof(t->looks[0]));
}

static void fs_looks_answer(struct fs_lock_holders *t) {
  if (t->ending == 0) fs_looks_done(t, t->ready);
}

/* Answers those that have waited for a deadline: the home of some file may be dead. */
static void fs_looks_expire(struct fs_lock_holders *t, uint64_t now) {
  uint32_t n = 0;
  while (n < t->nlooks && now >= t->looks[n]->until) n++;
  if (n > 0) fs_looks_done(t, n);
}

static void fs_holder_settle(struct fs_lock_holder *h);

static void fs_holder_ended(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_lock_holder *h = ctx;
  (void)body, (void)n;
  h->ending = false;
  h->d->lock_holders->ending--;
  if (h->ended && h->asking == 0) h->known = err == -ETIMEDOUT && ++h->tries < FS_LOCK_END_TRIES;
  struct fs_lock_holders *t = h->d->lock_holders;
  fs_holder_settle(h);
  fs_looks_answer(t);
}

/* Frees an owner that the home does not know. Sends END for one whose locks are to end. */
static void fs_holder_settle(struct fs_lock_holder *h) {
  struct fs_daemon *d = h->d;
  const struct fs_names_call c = {.op = FS_NAMES_LOCK,
                                  .flags = FS_LOCK_END | (h->process ? FS_LOCK_PROCESS : 0),
                                  .lock = {.id = h->by_id.key, .owner = h->owner, .end = INT64_MAX}};
  if (h->asking > 0 || h->ending) return;
  if (!h->known || (h->lost && h->ended)) {
    fs_table_remove(&d->lock_holders->table, &h->by_id);
    free(h);
  } else if (h->ended) {
    h->ending = true;
    d->lock_holders->ending++;
    fs_ns_call(d->ns, d->now, &c, fs_holder_ended, h);
  }
}

static void fs_holder_end(struct fs_lock_holder *h) {
  h->ended = true;
  h->poll = false;
  h->tries = 0;
  fs_holder_settle(h);
}

void fs_lock_holders_forget(struct fs_daemon *d, struct fs_client *c) {
  if (!d->lock_holders) return;
  FS_TABLE_EACH(&d->lock_holders->table, l) {
    struct fs_lock_holder *h = fs_holder_of(l);
    if (h->client != c) continue;
    h->client = NULL;
    h->poll = !h->process;
    d->lock_holders->scan_at = 0;
    if (h->process) fs_holder_end(h);
  }
}

/* The home has ended the locks if this node was evicted. If the home was evicted, they went with
   it, also if the file has a replica. */
void fs_lock_holders_members(struct fs_daemon *d) {
  bool here = fs_service_member(d, d->net->rank);
  FS_TABLE_EACH(&d->lock_holders->table, l) {
    struct fs_lock_holder *h = fs_holder_of(l);
    if (h->granted && (!here || !fs_service_member(d, h->home))) h->lost = true;
  }
}

/* ---- open file descriptions whose last user is not known ---- */

static int fs_scan_order(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* Notes the placeholder that a descriptor of a process is, if any. */
static void fs_scan_fd(struct fs_lock_scan *s, int dir, const char *name) {
  char link[64];
  unsigned long long ino;
  ssize_t n = readlinkat(dir, name, link, sizeof(link) - 1);
  if (n <= 0) return;
  link[n] = '\0';
  if (sscanf(link, "socket:[%llu]", &ino) != 1) return;
  const uint32_t key = (uint32_t)ino, *at = bsearch(&key, s->ino, s->n, sizeof(key), fs_scan_order);
  if (at) s->found[at - s->ino] = true;
}

/* A process may have gone, or hide its descriptors. */
static fs_err fs_scan_process(struct fs_lock_scan *s, const char *pid) {
  char path[40];
  snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
  DIR *dir = opendir(path);
  if (!dir) return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -errno : 0;
  for (const struct dirent *e; (e = readdir(dir)) != NULL;)
    if (e->d_name[0] != '.') fs_scan_fd(s, dirfd(dir), e->d_name);
  closedir(dir);
  return 0;
}

/* Returns 1 if all were found, 0 if not, or an error. */
static int fs_scan_all(struct fs_lock_scan *s, DIR *proc) {
  bool all = true;
  fs_err err = 0;
  for (const struct dirent *e; err == 0 && (e = readdir(proc)) != NULL;)
    if (e->d_name[0] >= '0' && e->d_name[0] <= '9') err = fs_scan_process(s, e->d_name);
  for (uint32_t i = 0; i < s->n; i++) all = all && s->found[i];
  return err != 0 ? err : all;
}

/* Looks twice for what it does not find: it may miss a descriptor that moves from one process to
   another. */
static fs_err fs_scan_work(struct fs_io *io) {
  struct fs_lock_scan *s = FS_ITEM(io, struct fs_lock_scan, io);
  uint64_t begin = fs_now_ns();
  DIR *proc = opendir("/proc");
  if (!proc) return -errno;
  int all = fs_scan_all(s, proc);
  if (all == 0) {
    rewinddir(proc);
    all = fs_scan_all(s, proc);
  }
  closedir(proc);
  s->took = fs_now_ns() - begin;
  return FS_MIN(all, 0);
}

static bool fs_holder_polled(const struct fs_lock_holder *h) {
  return h->poll && !h->process && !h->ended && h->asking == 0;
}

static void fs_scan_done(struct fs_io *io) {
  struct fs_lock_scan *s = FS_ITEM(io, struct fs_lock_scan, io);
  struct fs_daemon *d = s->d;
  struct fs_lock_holders *t = d->lock_holders;
  t->scanning = false;
  FS_TABLE_EACH(&t->table, l) {
    struct fs_lock_holder *h = fs_holder_of(l);
    uint32_t ino = FS_LOCK_OWNER_INO(h->owner);
    const uint32_t *at = fs_holder_polled(h) ? bsearch(&ino, s->ino, s->n, sizeof(ino), fs_scan_order) : NULL;
    if (at && io->err == 0 && !s->found[at - s->ino]) fs_holder_end(h);
  }
  t->scan_at = d->now + FS_MAX(s->took * FS_LOCK_SCAN_SHARE, FS_LOCK_SCAN_NS);
  t->ready = t->serving;
  fs_looks_answer(t);
}

/* Sorts the placeholders, and drops those that come twice. */
static void fs_scan_sort(struct fs_lock_scan *s) {
  uint32_t n = 0;
  qsort(s->ino, s->n, sizeof(s->ino[0]), fs_scan_order);
  for (uint32_t i = 0; i < s->n; i++)
    if (n == 0 || s->ino[n - 1] != s->ino[i]) s->ino[n++] = s->ino[i];
  s->n = n;
}

static void fs_scan_start(struct fs_daemon *d) {
  struct fs_lock_holders *t = d->lock_holders;
  struct fs_lock_scan *s = &t->scan;
  *s = (struct fs_lock_scan){.io = {.work = fs_scan_work, .done = fs_scan_done}, .d = d};
  FS_TABLE_EACH(&t->table, l)
  if (s->n < FS_LOCK_SCANNED && fs_holder_polled(fs_holder_of(l)))
    s->ino[s->n++] = FS_LOCK_OWNER_INO(fs_holder_of(l)->owner);
  t->serving = t->nlooks;
  if (s->n == 0) {
    t->ready = t->serving;
    fs_looks_answer(t);
    return;
  }
  fs_scan_sort(s);
  t->scanning = true;
  fs_iopool_submit(&d->pool, &s->io);
}

void fs_lock_holders_timers(struct fs_daemon *d) {
  struct fs_lock_holders *t = d->lock_holders;
  fs_looks_expire(t, d->now);
  bool due = t->nlooks > t->ready || (t->table.count > 0 && d->now >= t->scan_at);
  if (due && !t->scanning) fs_scan_start(d);
}

fs_err fs_lock_holders_new(struct fs_daemon *d) {
  d->lock_holders = calloc(1, sizeof(*d->lock_holders));
  return d->lock_holders ? 0 : -ENOMEM;
}

/* ---- clients' calls ---- */

static fs_err fs_holder_make(struct fs_daemon *d, const struct fs_names_call *c, struct fs_lock_holder **out) {
  bool process = c->flags & FS_LOCK_PROCESS;
  struct fs_lock_holder *h = fs_holder_find(d, c->lock.id, c->lock.owner, process);
  *out = h;
  if (h || (c->flags & (FS_LOCK_NONE | FS_LOCK_END | FS_LOCK_LOOK))) return 0;
  if (d->lock_holders->table.count >= FS_LOCK_HOLDERS) return -ENOLCK;
  *out = h = calloc(1, sizeof(*h));
  if (!h) return -ENOLCK;
  *h = (struct fs_lock_holder){.d = d, .owner = c->lock.owner, .process = process};
  fs_table_add(&d->lock_holders->table, &h->by_id, c->lock.id);
  return 0;
}

static fs_err fs_holder_prepare(struct fs_client_call *call, struct fs_names_call *c) {
  struct fs_lock_holder *h;
  if (c->flags & FS_LOCK_PROCESS) c->lock.owner = call->client->first_id;
  c->lock.pid = call->client->pid;
  if (c->lock.owner == 0) return -ENOLCK;
  fs_err err = fs_holder_make(call->d, c, &h);
  return err == 0 && h && h->lost && !(c->flags & (FS_LOCK_END | FS_LOCK_LOOK)) ? -ENOTRECOVERABLE : err;
}

static void fs_holder_answered(void *ctx, fs_err err, const void *body, size_t n) {
  const struct fs_client_call *call = ctx;
  struct fs_lock_holder *h = fs_holder_find(call->d, call->lock.id, call->lock.owner, call->lock.process);
  h->asking--;
  if (call->lock.ends && err == 0 && h->asking == 0) h->known = false;
  if (call->lock.sets && err == 0) {
    h->granted = true;
    h->home = fs_home_of(call->d, call->lock.id);
  }
  /* The program has closed the file. Its END may not have reached the home, or have overtaken a LOCK
     that the program did not wait for. */
  if (h->closed && h->known && h->asking == 0) {
    h->ended = true;
    h->tries = 0;
  }
  /* The client has gone while this call was under way. */
  if (!call->client && h->client == NULL && h->process) h->ended = true;
  fs_holder_settle(h);
  fs_client_call_done(ctx, err, body, n);
}

static void fs_holder_start(struct fs_client_call *call, const struct fs_names_call *c) {
  struct fs_daemon *d = call->d;
  struct fs_lock_holder *h = fs_holder_find(d, c->lock.id, c->lock.owner, c->flags & FS_LOCK_PROCESS);
  struct fs_lock_holders *t = d->lock_holders;
  if (h && (c->flags & FS_LOCK_LOOK) && !h->process) {
    h->poll = true;
    if (t->nlooks < FS_LOCK_LOOKS) {
      t->looks[t->nlooks++] = call;
      return;
    }
  }
  bool lost = h && h->lost;
  if (lost && (c->flags & FS_LOCK_END)) fs_holder_end(h); /* and frees it */
  if (!h || (c->flags & FS_LOCK_LOOK) || lost) {
    fs_client_call_done(call, 0, NULL, 0);
    return;
  }
  call->lock.id = c->lock.id;
  call->lock.owner = c->lock.owner;
  call->lock.process = h->process;
  call->lock.ends = c->flags & FS_LOCK_END;
  call->lock.sets = (c->flags & (FS_LOCK_READ | FS_LOCK_WRITE)) && !(c->flags & FS_LOCK_TEST);
  h->asking++;
  h->closed = call->lock.ends;
  if (!h->closed) {
    h->client = call->client;
    h->known = true;
    h->poll = h->ended = false;
  }
  fs_ns_call(d->ns, d->now, c, fs_holder_answered, call);
}

const struct fs_client_call_op fs_lock_call = {
    .check = fs_client_call_check_file, .prepare = fs_holder_prepare, .start = fs_holder_start};
