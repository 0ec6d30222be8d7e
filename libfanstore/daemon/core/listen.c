/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The guard thread. It accepts clients, hands them their segments (ipc/handover.h), and notices
 * their ends. It also ensures that the daemon itself ends: when mpirun's daemon above it has gone,
 * or when the MPI thread hangs after a stop. The thread waits only in epoll. A caller that says
 * nothing is dropped after a while.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "ipc/handover.h"
#include "util/sys.h"

#define FS_GUARD_TICK_MS 200
#define FS_HELLO_NS 5000000000ull
#define FS_GUARD_SPARE ((rlim_t)64) /* descriptors reserved for files */
/* after a stop, the MPI thread must begin to leave in this time */
#define FS_HANG_NS 4000000000ull
#define FS_ORPHAN_NS 400000000ull  /* the same after a signal, when a SIGKILL may follow soon */
#define FS_ALONE_NS 40000000000ull /* command.c ends the process before that */
#define FS_LEAVING_NS 1000000000ull
#define FS_LEAVE_NS 60000000000ull /* and the process must end in this time (a purge may be slow) */

struct fs_conn {
  struct fs_chain chain;
  int fd;
  struct fs_client *client; /* NULL until welcomed */
  uint64_t since;
};

struct fs_guard {
  struct fs_daemon *d;
  int epoll;
  rlim_t open, most;         /* connections: now, at most */
  struct fs_chain strangers; /* connected, not yet welcomed; oldest first */
  struct fs_conn listener;
};
static struct fs_guard guard; /* one per process */

static void fs_conn_end(struct fs_conn *c) {
  fs_chain_drop(&c->chain);
  close(c->fd);
  guard.open--;
  if (c->client) fs_clients_forget(guard.d, c->client);
  free(c);
}

/* Returns true if there is room for one more connection. If not, the connection that has been
   silent for longest is ended after this round's events, which may be about it; without such a
   one the new connection is refused. */
static bool fs_guard_room(void) {
  if (guard.open < guard.most) return true;
  if (fs_chain_empty(&guard.strangers)) {
    guard.d->count.refused++;
    return false;
  }
  FS_ITEM(guard.strangers.next, struct fs_conn, chain)->since = 0;
  return true;
}

static void fs_guard_accept(void) {
  int fd = accept4(guard.listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) usleep(10000); /* level-triggered: do not spin on it */
    return;
  }
  struct fs_conn *c = calloc(1, sizeof(*c));
  struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
  if (!c || !fs_guard_room() || epoll_ctl(guard.epoll, EPOLL_CTL_ADD, fd, &ev) < 0) {
    close(fd);
    free(c);
    return;
  }
  guard.open++;
  c->fd = fd;
  c->since = fs_now_ns();
  fs_chain_push(&guard.strangers, &c->chain);
}

static void fs_guard_welcome(struct fs_conn *c, uint32_t pid) {
  struct fs_daemon *d = guard.d;
  struct fs_handover h = {.socket = -1};
  FS_AUTO_CLOSE int channel = -1;
  fs_err err = atomic_load(&d->stop) ? -ESHUTDOWN : 0;
  if (err == 0) c->client = fs_clients_add(d, pid, &channel, &err);
  h.fd[FS_HO_CTL] = d->ctl_fd;
  h.size[FS_HO_CTL] = d->ctl->size;
  h.fd[FS_HO_SLAB] = fs_cache_slab_fd(d->cache, &h.size[FS_HO_SLAB]);
  h.fd[FS_HO_HEAT] = fs_cache_heat_fd(d->cache, &h.size[FS_HO_HEAT]);
  h.fd[FS_HO_RECORDS] = d->records_fd;
  h.size[FS_HO_RECORDS] = d->records_size;
  h.fd[FS_HO_CHANNEL] = channel;
  h.size[FS_HO_CHANNEL] = sizeof(struct fs_channel);
  h.fd[FS_HO_DOORBELL] = d->doorbell;
  if (err < 0) d->count.refused++;
  fs_chain_drop(&c->chain); /* no stranger any more */
  if (fs_handover_welcome(c->fd, err, &h) < 0 || err < 0) fs_conn_end(c);
}

/* Discards what a welcomed client sends, which should be nothing. The end of its connection is
   the client's end. */
static void fs_guard_drain(struct fs_conn *c) {
  char bin[256];
  ssize_t n = recv(c->fd, bin, sizeof(bin), MSG_DONTWAIT);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) fs_conn_end(c);
}

static void fs_guard_event(struct fs_conn *c, uint32_t events) {
  if (c == &guard.listener) {
    fs_guard_accept();
  } else if (c->client) {
    if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP))
      fs_conn_end(c);
    else
      fs_guard_drain(c);
  } else {
    fs_ssize pid = fs_handover_hello(c->fd);
    if (pid >= 0)
      fs_guard_welcome(c, (uint32_t)pid);
    else if (pid == -EPROTONOSUPPORT)
      (void)fs_handover_welcome(c->fd, (fs_err)pid, NULL);
    if (pid < 0 && pid != -EAGAIN) fs_conn_end(c);
  }
}

static void fs_guard_expire(uint64_t now) {
  for (;;) {
    struct fs_conn *c = FS_ITEM(guard.strangers.next, struct fs_conn, chain);
    if (fs_chain_empty(&guard.strangers) || now - c->since < FS_HELLO_NS) return;
    fs_conn_end(c);
  }
}

/* Says now and then that the daemon is cleaning up: the launcher waits for the last line, and a
   removal may be slow. */
static void fs_guard_say(uint64_t now, uint64_t *said) {
  struct fs_control_line l;
  if (!atomic_load(&guard.d->left) || now - *said < FS_LEAVING_NS) return;
  *said = now;
  if (fs_say_begin(guard.d, &l, "leaving") == 0) fs_say_line(&l);
}

/* Returns true if the parent process has gone and nothing has to be done before the end. Outputs
   are kept, copied or named first (command.c). */
static bool fs_guard_orphaned(struct fs_daemon *d, uint64_t now, pid_t parent) {
  static uint64_t since;
  if (getppid() == parent) return false;
  if (since == 0) since = now;
  if (atomic_load(&d->listener) <= 0 || d->cfg->read_only) return true;
  if (!atomic_exchange(&d->alone, true)) fs_daemon_wake(d);
  return now - since > FS_ALONE_NS;
}

/* Ends the process if the MPI thread does not: MPI may never return once a peer has died. */
static void fs_guard_watch(uint64_t now, pid_t parent, uint64_t *stopped) {
  struct fs_daemon *d = guard.d;
  if (fs_guard_orphaned(d, now, parent) && !atomic_exchange(&d->stop, true)) {
    atomic_store(&d->orphan, true);
    fs_daemon_wake(d);
  }
  if (!atomic_load(&d->stop)) return;
  if (*stopped == 0) *stopped = now;
  if (now - *stopped > FS_LEAVE_NS) _exit(1);
  uint64_t patience = atomic_load(&d->orphan) ? FS_ORPHAN_NS : FS_HANG_NS;
  if (now - *stopped > patience && !atomic_load(&d->left)) fs_daemon_leave(d, 1);
}

static void *fs_guard_main(void *arg) {
  struct epoll_event ev[32];
  uint64_t stopped = 0, said = fs_now_ns();
  pid_t parent = *(pid_t *)arg;
  for (;;) {
    int n = epoll_wait(guard.epoll, ev, FS_ARRAY_LEN(ev), FS_GUARD_TICK_MS);
    /* Each connection has at most one event a round, so no event points at a connection that an
       earlier one ended. */
    for (int i = 0; i < n; i++) fs_guard_event(ev[i].data.ptr, ev[i].events);
    uint64_t now = fs_now_ns();
    fs_guard_expire(now);
    fs_guard_watch(now, parent, &stopped);
    fs_guard_say(now, &said);
  }
  return NULL;
}

fs_err fs_guard_start(struct fs_daemon *d) {
  static pid_t parent;
  parent = getppid();
  guard.d = d;
  guard.listener.fd = -1;
  fs_chain_init(&guard.strangers);
  guard.epoll = epoll_create1(EPOLL_CLOEXEC);
  if (guard.epoll < 0) return -errno;
  return fs_thread_start(fs_guard_main, &parent);
}

fs_err fs_guard_listen(struct fs_daemon *d) {
  fs_fd fd = fs_handover_listen(d->socket_path);
  if (fd < 0) return fd;
  struct rlimit lim = {.rlim_cur = RLIM_INFINITY};
  (void)getrlimit(RLIMIT_NOFILE, &lim);
  /* open descriptors have lower numbers */
  rlim_t others = (rlim_t)fd + FS_MIN(FS_GUARD_SPARE, lim.rlim_cur / 8);
  guard.most = lim.rlim_cur > others ? lim.rlim_cur - others : 1;
  guard.listener.fd = fd;
  atomic_store(&d->listener, fd);
  struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &guard.listener};
  return epoll_ctl(guard.epoll, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}
