/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The store: a datagram socket that is connected to itself, and that all processes which share a
 * state inherit. A real descriptor that belongs to a slot waits in the socket's queue as one
 * message. Processes only peek at it, so that any number of them get a copy. The kernel frees all
 * of it with the last process. fdreal.c calls this.
 *
 * `store_owner` keeps two processes from walking the queue at once. It is a hint: a process that
 * has waited too long for it goes on without. Every message says what it carries, so the worst case
 * is a walk that misses a message.
 */
#include <linux/sockios.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "client/data_priv.h"
#include "client/fd/fdreal.h"

#define FS_STORE_MAGIC 0x46534654u
#define FS_STORE_WAIT_DEAD_NS 50000000ull /* a thread in another pid namespace may seem dead */
#define FS_STORE_WAIT_NS 2000000000ull
/* If so many messages wait, each put looks for messages whose slots are in use no more. No more
   than twice as many may wait. */
#define FS_STORE_SOME 16
#define FS_STORE_MOST 32

struct note {
  uint32_t magic, slot, gen, token, from;
};

union control {
  struct cmsghdr head;
  char room[CMSG_SPACE(sizeof(int))];
};

fs_fd fs_store_new(void) {
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  socklen_t len = sizeof(name);
  fs_fd fd = (fs_fd)FS_SYS3(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return fd;
  /* The kernel chooses an address, in no file system. A socket that is connected to itself takes
     messages from nobody else. */
  fs_err err = (fs_err)FS_SYS3(SYS_bind, fd, &name, sizeof(sa_family_t));
  if (err == 0) err = (fs_err)FS_SYS3(SYS_getsockname, fd, &name, &len);
  if (err == 0) err = (fs_err)FS_SYS3(SYS_connect, fd, &name, len);
  if (err == 0) return fd;
  fs_sys_close(fd);
  return err;
}

bool fs_store_give_up(uint32_t tid, uint64_t begin) {
  uint64_t waited = fs_now_ns() - begin;
  if (waited < FS_STORE_WAIT_DEAD_NS) FS_SYS1(SYS_sched_yield, 0);
  if (waited < FS_STORE_WAIT_DEAD_NS) return false;
  return waited > FS_STORE_WAIT_NS || FS_SYS2(SYS_tkill, tid, 0) == -ESRCH;
}

void fs_store_begin(struct fs_state *st) {
  uint32_t me = (uint32_t)fs_sys_gettid(), other = 0;
  if (FS_LIKELY(atomic_compare_exchange_strong(&st->store_owner, &other, me))) return;
  uint64_t begin = fs_now_ns();
  /* If it is this thread's turn, a signal handler has interrupted it. */
  while (other != me && !fs_store_give_up(other, begin)) {
    other = 0;
    if (atomic_compare_exchange_strong(&st->store_owner, &other, me)) return;
  }
  atomic_store(&st->store_owner, me);
}

void fs_store_end(struct fs_state *st) {
  uint32_t me = (uint32_t)fs_sys_gettid();
  atomic_compare_exchange_strong(&st->store_owner, &me, 0);
}

/* Receives one message. With `fd`, also its descriptor, or -1 if it had none. */
static bool receive(struct note *n, int *fd, int flags) {
  union control control = {.room = {0}};
  struct iovec iov = {n, sizeof(*n)};
  struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
  if (fd != NULL) {
    *fd = -1;
    m.msg_control = &control;
    m.msg_controllen = sizeof(control);
  }
  long got = FS_SYS3(SYS_recvmsg, fs_state_store(), &m, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return false;
  const struct cmsghdr *c = fd != NULL ? CMSG_FIRSTHDR(&m) : NULL;
  if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
    memcpy(fd, CMSG_DATA(c), sizeof(int));
  if (got != sizeof(*n) || n->magic != FS_STORE_MAGIC) n->slot = FS_SLOTS;
  return true;
}

static bool leave(const struct note *n, int fd) {
  union control control = {.room = {0}};
  struct iovec iov = {(void *)n, sizeof(*n)};
  struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(c), &fd, sizeof(int));
  return FS_SYS3(SYS_sendmsg, fs_state_store(), &m, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(*n);
}

/* Makes the next peek be at message i. */
static bool peek_at(uint32_t i) {
  int off = (int)(i * sizeof(struct note));
  return FS_SYS5(SYS_setsockopt, fs_state_store(), SOL_SOCKET, SO_PEEK_OFF, &off, sizeof(off)) == 0;
}

fs_fd fs_store_get(const struct fs_state *st, uint32_t slot, uint32_t token, uint32_t *from) {
  struct note n;
  uint32_t gen = atomic_load(&st->slot[slot].gen);
  for (uint32_t i = 0; fs_state_store() >= 0 && i < 2 * FS_STORE_MOST; i++) {
    if (!peek_at(i) || !receive(&n, NULL, MSG_PEEK)) break;
    if (n.slot != slot || n.gen != gen || n.token != token) continue;
    int fd;
    if (!peek_at(i) || !receive(&n, &fd, MSG_PEEK)) break;
    *from = n.from;
    if (n.slot == slot && n.gen == gen && n.token == token && fd >= 0) return fd;
    if (fd >= 0) fs_sys_close(fd);
  }
  return -ENOENT;
}

/* Returns whether the slot is another file's, or its offset has moved to another description. */
static bool is_stale(const struct fs_state *st, const struct note *n) {
  if (n->slot >= FS_SLOTS || atomic_load(&st->slot[n->slot].gen) != n->gen) return true;
  uint64_t off = atomic_load(&st->slot[n->slot].offset);
  return (off & FS_OFFSET_REAL) && FS_OFFSET_TOKEN(off) != n->token;
}

/* Returns how many messages wait, and sets how many of them are stale. */
static uint32_t count(const struct fs_state *st, uint32_t *stale) {
  struct note n;
  uint32_t all = 0;
  *stale = 0;
  for (; all < 2 * FS_STORE_MOST && peek_at(all) && receive(&n, NULL, MSG_PEEK); all++) *stale += is_stale(st, &n);
  return all;
}

/* Takes the first `all` messages and puts back those that are neither stale nor among the `drop`
   oldest. */
static void turn_over(const struct fs_state *st, uint32_t all, uint32_t drop) {
  struct note n;
  int fd;
  for (uint32_t i = 0; i < all && receive(&n, &fd, 0); i++) {
    if (i >= drop && fd >= 0 && !is_stale(st, &n)) leave(&n, fd);
    if (fd >= 0) fs_sys_close(fd);
  }
}

/* Makes room. If a message must go that somebody may still want, it is the oldest. */
static void prune(struct fs_state *st) {
  uint32_t stale, all = count(st, &stale);
  if (all < FS_STORE_SOME) return;
  if (stale == 0) fs_slot_reclaim(st);
  all = count(st, &stale);
  uint32_t drop = all - stale >= FS_STORE_MOST ? all - FS_STORE_MOST + 1 : 0;
  if (stale > 0 || drop > 0) turn_over(st, all, drop);
}

void fs_store_put(struct fs_state *st, uint32_t slot, uint32_t token, int real) {
  struct note n = {FS_STORE_MAGIC, slot, atomic_load(&st->slot[slot].gen), token, (uint32_t)fs_sys_gettid()};
  if (fs_state_store() < 0) return;
  prune(st);
  leave(&n, real);
}
