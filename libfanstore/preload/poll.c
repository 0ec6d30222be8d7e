/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of poll, select and epoll_ctl. A regular file is always ready, and epoll refuses it; the
 * kernel would call a placeholder invalid. Virtual descriptors are hidden from the kernel for the
 * call, which then does not wait.
 */
#include <limits.h>

#include "preload/preload.h"

#define FS_ALWAYS (POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM)

static bool is_ours(int fd) {
  return fd >= 0 && fs_fd_slot(fd) != NULL;
}

/* Returns whether the descriptor counts as open here: the kernel does not accept an O_PATH one. */
static bool is_open(const struct fs_slot *s) {
  return atomic_load(&s->kind) < FS_SLOT_PATH;
}

/* If no virtual descriptor is open, the sets are not looked at, and the kernel finds a wrong
   address. */
__attribute__((always_inline)) static inline bool any_ours(const struct pollfd *p, nfds_t n) {
  if (atomic_load_explicit(&fs_state, memory_order_relaxed) == NULL) return false;
  for (nfds_t i = 0; i < n; i++)
    if (is_ours(p[i].fd)) return true;
  return false;
}

bool fs_poll_meets_ours(const struct pollfd *p, nfds_t n) {
  return any_ours(p, n);
}

/* A hidden descriptor: negative, so that the kernel skips it, but none that a program would write
   (-fd, ~fd). */
#define FS_HIDDEN (INT_MIN + 1)

static bool hide(struct pollfd *p, nfds_t n) {
  bool ready = false;
  for (nfds_t i = 0; i < n; i++) {
    if (!is_ours(p[i].fd)) continue;
    ready = ready || (p[i].events & FS_ALWAYS) || !is_open(fs_fd_slot(p[i].fd));
    p[i].fd += FS_HIDDEN;
  }
  return ready;
}

static int show(struct pollfd *p, nfds_t n, int r) {
  for (nfds_t i = 0; i < n; i++) {
    if (p[i].fd >= FS_HIDDEN + (int)FS_FD_MAX) continue;
    p[i].fd -= FS_HIDDEN;
    const struct fs_slot *s = fs_fd_slot(p[i].fd);
    p[i].revents = s == NULL || !is_open(s) ? POLLNVAL : (short)(p[i].events & FS_ALWAYS);
    if (r >= 0 && p[i].revents != 0) r++;
  }
  return r;
}

FS_EXPORT int poll(struct pollfd *p, nfds_t n, int timeout) {
  if (FS_LIKELY(!any_ours(p, n))) return FS_REAL(poll)(p, n, timeout);
  bool ready = hide(p, n);
  return show(p, n, FS_REAL(poll)(p, n, ready ? 0 : timeout));
}
FS_ALIAS(__poll, poll);

FS_EXPORT int ppoll(struct pollfd *p, nfds_t n, const struct timespec *timeout, const sigset_t *mask) {
  static const struct timespec at_once;
  if (FS_LIKELY(!any_ours(p, n))) return FS_REAL(ppoll)(p, n, timeout, mask);
  bool ready = hide(p, n);
  return show(p, n, FS_REAL(ppoll)(p, n, ready ? &at_once : timeout, mask));
}

FS_CHECKED(int, __poll_chk, (struct pollfd * p, nfds_t n, int timeout, size_t size), n <= size / sizeof(*p),
           poll(p, n, timeout))
FS_CHECKED(int, __ppoll_chk, (struct pollfd * p, nfds_t n, const struct timespec *t, const sigset_t *m, size_t size),
           n <= size / sizeof(*p), ppoll(p, n, t, m))

/* Moves the virtual descriptors of a set into `ours`, and returns how many. */
static int take(int n, fd_set *set, fd_set *ours) {
  int count = 0;
  FD_ZERO(ours);
  for (int fd = 0; set != NULL && fd < FS_MIN(n, FD_SETSIZE); fd++) {
    if (!FD_ISSET(fd, set) || !is_ours(fd)) continue;
    FD_CLR(fd, set);
    FD_SET(fd, ours);
    count++;
  }
  return count;
}

static void give_back(int n, fd_set *set, const fd_set *ours) {
  for (int fd = 0; set != NULL && fd < FS_MIN(n, FD_SETSIZE); fd++)
    if (FD_ISSET(fd, ours)) FD_SET(fd, set);
}

bool fs_select_meets_ours(int n, const fd_set *r, const fd_set *w, const fd_set *e) {
  const fd_set *const sets[] = {r, w, e};
  if (fs_state_fd() < 0) return false;
  for (size_t i = 0; i < FS_ARRAY_LEN(sets); i++)
    for (int fd = 0; sets[i] != NULL && fd < FS_MIN(n, FD_SETSIZE); fd++)
      if (FD_ISSET(fd, sets[i]) && is_ours(fd)) return true;
  return false;
}

FS_EXPORT int pselect(int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *timeout, const sigset_t *mask) {
  static const struct timespec at_once;
  fd_set ours[3];
  if (fs_state_fd() < 0) return FS_REAL(pselect)(n, r, w, e, timeout, mask);
  int ready = take(n, r, &ours[0]) + take(n, w, &ours[1]);
  take(n, e, &ours[2]); /* a file has no exceptional conditions */
  int got = FS_REAL(pselect)(n, r, w, e, ready > 0 ? &at_once : timeout, mask);
  give_back(n, r, &ours[0]);
  give_back(n, w, &ours[1]);
  if (got < 0) give_back(n, e, &ours[2]); /* the sets are as they were */
  return got < 0 ? got : got + ready;
}

FS_EXPORT int select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout) {
  fd_set ours[3];
  struct timeval at_once = {0, 0};
  if (fs_state_fd() < 0) return FS_REAL(select)(n, r, w, e, timeout);
  int ready = take(n, r, &ours[0]) + take(n, w, &ours[1]);
  take(n, e, &ours[2]);
  int got = FS_REAL(select)(n, r, w, e, ready > 0 ? &at_once : timeout);
  give_back(n, r, &ours[0]);
  give_back(n, w, &ours[1]);
  if (got < 0) give_back(n, e, &ours[2]);
  return got < 0 ? got : got + ready;
}
FS_ALIAS(__select, select);

FS_EXPORT int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event) {
  struct fs_slot *s = fs_fd_slot(fd);
  if (s == NULL) return FS_REAL(epoll_ctl)(epfd, op, fd, event);
  return fs_ret_int(is_open(s) ? -EPERM : -EBADF);
}
