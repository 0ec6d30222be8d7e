/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The home's part of locks (locks.h). Each owner of locks has an open file description of the
 * backing file here, and its locks are the kernel's locks of that description. So the kernel decides
 * between all nodes, and between them and the home's programs. The MPI thread never waits: a thread
 * waits for one lock, and a signal ends its wait.
 */
#include "daemon/outputs/locks.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include "util/sys.h"
#include "util/util.h"

#define FS_LOCK_OWNERS 4096u /* on all nodes, of this home's files, and a quarter of the descriptors; then ENOLCK */
#define FS_LOCK_WAITS 256u   /* threads that wait; others ask again and again */
#define FS_LOCK_RANGES 4096u /* of one owner; then ENOLCK */
#define FS_LOCK_HOLD_NS 250000000ull    /* a question about a wait is answered after this, */
#define FS_LOCK_HOLDS 16u               /* or after this part of the deadline */
#define FS_LOCK_FORGET_NS 2000000000ull /* a wait that nobody asks about ends */

/* An owner: on `rank`, a process or an open file description. One that has both kinds of locks, of
   flock and of fcntl, is two owners here. */
struct fs_lock_owner {
  struct fs_table_link by_id; /* by the file's id */
  uint64_t owner;
  uint32_t rank, pid;
  bool process, flock;
  bool ended;       /* its waits are about to end; then it goes */
  int fd;           /* of the backing file */
  uint32_t waits;   /* threads that use fd */
  uint32_t changes; /* at least as many as it has ranges */
};

/* A thread that waits for a lock. */
struct fs_lock_wait {
  struct fs_chain chain;
  struct fs_daemon *d;
  struct fs_lock_owner *owner;
  struct fs_call_lock lock;
  uint32_t flags;        /* FS_LOCK_READ or WRITE, FLOCK */
  struct fs_asked asked; /* the question about it, if `asking` */
  bool asking;
  uint64_t answer_at, forget_at;
  _Atomic int32_t thread; /* its number, as soon as it runs */
  _Atomic bool leave;     /* it is to end */
  _Atomic bool done;      /* the thread's last access */
  fs_err err;
};

struct fs_locks {
  struct fs_table owners;
  struct fs_chain waits;
  uint32_t waiting;
  _Atomic uint32_t done; /* not 0: waits are done and not reaped */
};

/* Raises the soft limit of descriptors, as far as it may, so that the owners leave enough. */
static void fs_locks_room(void) {
  struct rlimit l;
  if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur >= 4 * FS_LOCK_OWNERS) return;
  l.rlim_cur = FS_MIN(l.rlim_max, (rlim_t)(4 * FS_LOCK_OWNERS));
  (void)setrlimit(RLIMIT_NOFILE, &l);
}

static bool fs_locks_full(const struct fs_daemon *d) {
  struct rlimit l;
  if (d->locks->owners.count >= FS_LOCK_OWNERS || getrlimit(RLIMIT_NOFILE, &l) < 0) return true;
  return d->locks->owners.count >= l.rlim_cur / 4;
}

static int wake_signal(void) {
  return SIGRTMIN + 4;
}

static void woken(int sig) {
  (void)sig;
}

fs_err fs_locks_new(struct fs_daemon *d) {
  struct sigaction sa = {.sa_handler = woken}; /* without SA_RESTART */
  struct fs_locks *t = calloc(1, sizeof(*t));
  if (!t) return -ENOMEM;
  fs_chain_init(&t->waits);
  fs_locks_room();
  sigemptyset(&sa.sa_mask);
  sigaction(wake_signal(), &sa, NULL);
  d->locks = t;
  return 0;
}

/* ---- the kernel's locks ---- */

static fs_err fs_lock_error(int r) {
  return r == 0 ? 0 : errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
}

static struct flock fs_lock_range(const struct fs_call_lock *l, uint32_t flags) {
  short type = flags & FS_LOCK_READ ? F_RDLCK : flags & FS_LOCK_WRITE ? F_WRLCK : F_UNLCK;
  bool whole = l->end == INT64_MAX;
  return (struct flock){.l_type = type,
                        .l_whence = SEEK_SET,
                        .l_start = (off_t)l->start,
                        .l_len = whole ? 0 : (off_t)(l->end - l->start + 1)};
}

static fs_err fs_lock_set(int fd, const struct fs_call_lock *l, uint32_t flags, bool wait) {
  if (flags & FS_LOCK_FLOCK) {
    int op = flags & FS_LOCK_READ ? LOCK_SH : flags & FS_LOCK_WRITE ? LOCK_EX : LOCK_UN;
    return fs_lock_error(flock(fd, wait ? op : op | LOCK_NB));
  }
  struct flock range = fs_lock_range(l, flags);
  return fs_lock_error(fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &range));
}

/* Returns how many locks the kernel has of this description. */
static uint32_t fs_lock_count(int fd) {
  char path[40], line[256];
  uint32_t n = 0;
  snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
  FILE *f = fopen(path, "re");
  while (f && fgets(line, sizeof(line), f)) n += strncmp(line, "lock:", 5) == 0;
  if (f) fclose(f);
  return n;
}

/* Returns -ENOLCK if the owner has as many ranges as it may. Counts them only now and then. An unlock
   may split a range. */
static fs_err fs_lock_bound(struct fs_lock_owner *o, const struct fs_call_lock *l, uint32_t flags) {
  if (flags & FS_LOCK_FLOCK) return 0;
  if (l->start == 0 && l->end == INT64_MAX) {
    o->changes = 0;
    return 0;
  }
  if (++o->changes < FS_LOCK_RANGES) return 0;
  o->changes = fs_lock_count(o->fd);
  return o->changes < (flags & FS_LOCK_NONE ? 2 : 1) * FS_LOCK_RANGES ? 0 : -ENOLCK;
}

/* ---- owners ---- */

static struct fs_lock_owner *fs_owner_next(struct fs_table_link *l) {
  return l ? FS_ITEM(l, struct fs_lock_owner, by_id) : NULL;
}

static struct fs_lock_owner *fs_owner_find(const struct fs_daemon *d, uint32_t rank, const struct fs_names_call *c) {
  bool process = c->flags & FS_LOCK_PROCESS, kind = c->flags & FS_LOCK_FLOCK;
  struct fs_lock_owner *o = fs_owner_next(fs_table_find(&d->locks->owners, c->lock.id));
  while (o && (o->rank != rank || o->owner != c->lock.owner || o->process != process || o->flock != kind || o->ended))
    o = fs_owner_next(fs_table_more(&o->by_id));
  return o;
}

bool fs_locks_writable(const struct fs_daemon *d, uint64_t id) {
  struct fs_table_link *l = d->locks ? fs_table_find(&d->locks->owners, id) : NULL;
  for (const struct fs_lock_owner *o; (o = fs_owner_next(l)) != NULL; l = fs_table_more(l))
    if (!o->flock) return true;
  return false;
}

/* The kernel wants a description that can be written for an exclusive lock of fcntl. Until now a
   program of this node could unlock without publishing its stores through a mapping, which change no
   times. */
static fs_err fs_owner_make(struct fs_daemon *d, uint32_t rank, const struct fs_names_call *c,
                            struct fs_lock_owner **out) {
  if ((*out = fs_owner_find(d, rank, c)) != NULL) return 0;
  if (fs_locks_full(d)) return -ENOLCK;
  bool kind = c->flags & FS_LOCK_FLOCK;
  fs_fd fd = fs_backing_file_open(d, c->lock.id, kind ? O_RDONLY : O_RDWR);
  if (fd == -EAGAIN) return fd; /* another thread has a lease for a moment: the call comes again */
  if (fd < 0) return fd == -ENOENT ? -ENOENT : -ENOLCK;
  struct fs_lock_owner *o = calloc(1, sizeof(*o));
  if (!o) {
    close(fd);
    return -ENOLCK;
  }
  *o = (struct fs_lock_owner){.owner = c->lock.owner,
                              .rank = rank,
                              .pid = c->lock.pid,
                              .process = c->flags & FS_LOCK_PROCESS,
                              .flock = kind,
                              .fd = fd};
  fs_table_add(&d->locks->owners, &o->by_id, c->lock.id);
  if (rank != d->net->rank) atomic_fetch_add(&d->ctl->lock_owners, 1);
  fs_backing_loosen(d, c->lock.id);
  *out = o;
  return 0;
}

/* Closes the description, which ends its locks, when no thread uses it any more. */
static void fs_owner_free(struct fs_daemon *d, struct fs_lock_owner *o) {
  if (!o->ended || o->waits > 0) return;
  fs_table_remove(&d->locks->owners, &o->by_id);
  if (o->rank != d->net->rank) atomic_fetch_sub(&d->ctl->lock_owners, 1);
  close(o->fd);
  free(o);
}

static void fs_wait_wake(const struct fs_lock_wait *w);

static void fs_owner_end(struct fs_daemon *d, struct fs_lock_owner *o) {
  const struct fs_call_lock whole = {.end = INT64_MAX};
  o->ended = true;
  for (struct fs_chain *l = d->locks->waits.next; l != &d->locks->waits; l = l->next) {
    struct fs_lock_wait *w = FS_ITEM(l, struct fs_lock_wait, chain);
    if (w->owner != o) continue;
    atomic_store(&w->leave, true);
    fs_wait_wake(w);
  }
  (void)fs_lock_set(o->fd, &whole, FS_LOCK_NONE, false);
  (void)fs_lock_set(o->fd, &whole, FS_LOCK_NONE | FS_LOCK_FLOCK, false);
  fs_owner_free(d, o);
}

void fs_locks_members(struct fs_daemon *d) {
  FS_TABLE_EACH(&d->locks->owners, l) {
    struct fs_lock_owner *o = FS_ITEM(l, struct fs_lock_owner, by_id);
    if (!o->ended && !fs_member(fs_ns_members(d->ns), o->rank)) fs_owner_end(d, o);
  }
}

/* ---- waits ---- */

/* A signal that comes before the thread is in the kernel's wait has no effect. So the timers send it
   again. The number of a thread that has ended may be another thread's, which blocks the signal or
   ignores it. */
static void fs_wait_wake(const struct fs_lock_wait *w) {
  int32_t thread = atomic_load(&w->thread);
  if (thread != 0 && !atomic_load(&w->done)) FS_SYS3(SYS_tgkill, getpid(), thread, wake_signal());
}

static void *fs_wait_main(void *arg) {
  struct fs_lock_wait *w = arg;
  struct fs_daemon *d = w->d;
  const uint64_t one = 1;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, wake_signal());
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  atomic_store(&w->thread, fs_sys_gettid());
  do {
    w->err = atomic_load(&w->leave) ? -EINTR : fs_lock_set(w->owner->fd, &w->lock, w->flags, true);
  } while (w->err == -EINTR && !atomic_load(&w->leave));
  atomic_store(&w->done, true); /* w may be gone from here on */
  atomic_fetch_add(&d->locks->done, 1);
  (void)fs_sys_write(d->wake, &one, sizeof(one));
  return NULL;
}

static struct fs_lock_wait *fs_wait_find(const struct fs_daemon *d, const struct fs_lock_owner *o,
                                         const struct fs_names_call *c) {
  const uint32_t kind = FS_LOCK_READ | FS_LOCK_WRITE | FS_LOCK_FLOCK;
  for (struct fs_chain *l = d->locks->waits.next; l != &d->locks->waits; l = l->next) {
    struct fs_lock_wait *w = FS_ITEM(l, struct fs_lock_wait, chain);
    if (w->owner == o && w->flags == (c->flags & kind) && w->lock.start == c->lock.start && w->lock.end == c->lock.end)
      return w;
  }
  return NULL;
}

/* A lock was granted. Its answer waits until the file's record is right, so that the program sees
   what was written under the lock before: whoever wrote may have unlocked without publishing, or may
   have been killed. */
struct fs_lock_granted {
  struct fs_daemon *d;
  struct fs_asked asked;
};

static void fs_lock_shown(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_lock_granted *g = ctx;
  (void)err, (void)body, (void)n;
  fs_ns_answer(g->d->ns, g->asked, 0, NULL, 0);
  free(g);
}

/* Answers a question for a lock. */
static void fs_lock_answer(struct fs_daemon *d, uint64_t id, struct fs_asked a, fs_err err) {
  struct fs_lock_granted *g = err == 0 ? malloc(sizeof(*g)) : NULL;
  if (!g) {
    fs_ns_answer(d->ns, a, err, NULL, 0);
    return;
  }
  *g = (struct fs_lock_granted){.d = d, .asked = a};
  fs_backing_show(d, id, fs_lock_shown, g);
}

static void fs_wait_answer(struct fs_lock_wait *w, fs_err err) {
  if (!w->asking) return;
  w->asking = false;
  fs_lock_answer(w->d, w->owner->by_id.key, w->asked, err);
}

/* Makes `a` the question about this wait. Another thread may have asked before. */
static void fs_wait_asked(struct fs_lock_wait *w, struct fs_asked a) {
  const struct fs_daemon *d = w->d;
  if (w->asked.id != a.id) fs_wait_answer(w, -EINPROGRESS);
  w->asked = a;
  w->asking = true;
  w->answer_at = d->now + FS_MIN(FS_LOCK_HOLD_NS, d->cfg->deadline_ns / FS_LOCK_HOLDS);
  w->forget_at = d->now + FS_LOCK_FORGET_NS + d->cfg->deadline_ns;
}

/* Returns -EBUSY if there is no thread to spare: the client then asks again. */
static fs_err fs_wait_start(struct fs_daemon *d, struct fs_asked a, struct fs_lock_owner *o,
                            const struct fs_names_call *c) {
  struct fs_lock_wait *w = d->locks->waiting < FS_LOCK_WAITS ? calloc(1, sizeof(*w)) : NULL;
  if (!w) return -EBUSY;
  w->d = d;
  w->owner = o;
  w->lock = c->lock;
  w->flags = c->flags & (FS_LOCK_READ | FS_LOCK_WRITE | FS_LOCK_FLOCK);
  if (fs_thread_start(fs_wait_main, w) < 0) {
    free(w);
    return -EBUSY;
  }
  o->waits++;
  d->locks->waiting++;
  fs_chain_push(&d->locks->waits, &w->chain);
  fs_wait_asked(w, a);
  return 0;
}

/* Returns the answer to the question about a wait that has ended. LEAVE has asked for a last try. If
   the owner has ended, its program has closed a descriptor of the file. If another thread of it still
   waits, it asks again. */
static fs_err fs_wait_result(const struct fs_lock_wait *w) {
  if (w->owner->ended) return -EINPROGRESS;
  bool left = atomic_load(&w->leave) && w->err < 0;
  return left ? fs_lock_set(w->owner->fd, &w->lock, w->flags, false) : w->err;
}

/* If nobody asks, makes no last try: nobody would know of the lock. */
static void fs_wait_end(struct fs_daemon *d, struct fs_lock_wait *w) {
  struct fs_lock_owner *o = w->owner;
  fs_chain_drop(&w->chain);
  if (w->asking) fs_wait_answer(w, fs_wait_result(w));
  free(w);
  d->locks->waiting--;
  o->waits--;
  fs_owner_free(d, o);
}

int fs_locks_reap(struct fs_daemon *d) {
  uint32_t n = d->locks ? atomic_exchange(&d->locks->done, 0) : 0;
  if (n == 0) return 0;
  for (struct fs_chain *l = d->locks->waits.next, *next; l != &d->locks->waits; l = next) {
    struct fs_lock_wait *w = FS_ITEM(l, struct fs_lock_wait, chain);
    next = l->next;
    if (atomic_load(&w->done)) fs_wait_end(d, w);
  }
  fs_ns_run_local(d->ns, d->now);
  return (int)n;
}

void fs_locks_timers(struct fs_daemon *d) {
  bool any = false;
  for (struct fs_chain *l = d->locks->waits.next; l != &d->locks->waits; l = l->next) {
    struct fs_lock_wait *w = FS_ITEM(l, struct fs_lock_wait, chain);
    bool leaves = atomic_load(&w->leave);
    if (w->asking && !leaves && d->now >= w->answer_at) {
      fs_wait_answer(w, -EINPROGRESS);
      any = true;
    }
    if (!leaves && d->now >= w->forget_at) atomic_store(&w->leave, leaves = true);
    if (leaves) fs_wait_wake(w);
  }
  if (any) fs_ns_run_local(d->ns, d->now);
}

/* ---- calls ---- */

/* Returns the process whose lock is in the way, or -1: the kernel names the home's processes only.
   The lock is of the owner whose own question does not find it. */
static int32_t fs_lock_pid(const struct fs_daemon *d, const struct fs_lock_owner *asker, const struct flock *found) {
  if (found->l_pid > 0) return found->l_pid;
  struct fs_table_link *l = fs_table_find(&d->locks->owners, asker->by_id.key);
  for (struct fs_lock_owner *o; (o = fs_owner_next(l)) != NULL; l = fs_table_more(l)) {
    struct flock again = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = found->l_start, .l_len = found->l_len};
    if (o == asker || !o->process || o->ended || fcntl(o->fd, F_OFD_GETLK, &again) != 0) continue;
    if (again.l_type == F_UNLCK || again.l_start != found->l_start || again.l_len != found->l_len)
      return (int32_t)o->pid;
  }
  return -1;
}

static fs_err fs_lock_test(const struct fs_daemon *d, const struct fs_lock_owner *o, const struct fs_names_call *c,
                           struct fs_lock_found *found) {
  struct flock l = fs_lock_range(&c->lock, c->flags);
  if (fcntl(o->fd, F_OFD_GETLK, &l) != 0) return -errno;
  *found = (struct fs_lock_found){.pid = -1};
  if (l.l_type == F_UNLCK) return 0;
  found->flags = l.l_type == F_RDLCK ? FS_LOCK_READ : FS_LOCK_WRITE;
  found->start = (uint64_t)l.l_start;
  found->end = l.l_len == 0 ? INT64_MAX : (uint64_t)(l.l_start + l.l_len - 1);
  found->pid = fs_lock_pid(d, o, &l);
  return 0;
}

/* Sets a lock. Returns -EINPROGRESS if the answer comes later. If a thread waits for this lock, only
   that thread may get it: it could run after the program has unlocked, and would lock once more. */
static fs_err fs_lock_take(struct fs_daemon *d, struct fs_asked a, struct fs_lock_owner *o,
                           const struct fs_names_call *c) {
  struct fs_lock_wait *w = fs_wait_find(d, o, c);
  if (w && !(c->flags & (FS_LOCK_WAIT | FS_LOCK_LEAVE))) return -EBUSY;
  if (w) {
    fs_wait_asked(w, a);
    if (c->flags & FS_LOCK_LEAVE) {
      atomic_store(&w->leave, true);
      fs_wait_wake(w);
    }
    return -EINPROGRESS;
  }
  fs_err err = fs_lock_bound(o, &c->lock, c->flags);
  if (err == 0) err = fs_lock_set(o->fd, &c->lock, c->flags, false);
  if (err != -EBUSY || !(c->flags & FS_LOCK_WAIT)) return err;
  err = fs_wait_start(d, a, o, c);
  return err == 0 ? -EINPROGRESS : err;
}

/* Ends both kinds of locks of an owner. */
static void fs_locks_end(struct fs_daemon *d, uint32_t rank, const struct fs_names_call *c) {
  struct fs_names_call kind = *c;
  for (unsigned i = 0; i < 2; i++, kind.flags ^= FS_LOCK_FLOCK) {
    struct fs_lock_owner *o = fs_owner_find(d, rank, &kind);
    if (o) fs_owner_end(d, o);
  }
}

void fs_locks_call(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f, const struct fs_names_call *c) {
  struct fs_lock_owner *o = fs_owner_find(d, a.from, c);
  struct fs_lock_found found = {0};
  bool test = c->flags & FS_LOCK_TEST;
  bool sets = false;
  fs_err err = 0;
  if (c->flags & FS_LOCK_END) {
    fs_locks_end(d, a.from, c);
  } else if (c->flags & FS_LOCK_NONE) {
    if (o) err = fs_lock_bound(o, &c->lock, c->flags);
    if (o && err == 0) err = fs_lock_set(o->fd, &c->lock, c->flags, false);
  } else {
    err = !f || f->gone ? -ENOENT : f->in ? -ENOLCK : fs_owner_make(d, a.from, c, &o);
    sets = err == 0 && !test;
    if (err == 0) err = test ? fs_lock_test(d, o, c, &found) : fs_lock_take(d, a, o, c);
  }
  if (sets && err == 0)
    fs_lock_answer(d, c->lock.id, a, 0);
  else if (err != -EINPROGRESS)
    fs_ns_answer(d->ns, a, err, &found, test && err == 0 ? sizeof(found) : 0);
}
