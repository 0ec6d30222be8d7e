/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of the calls that pass descriptors between processes (SCM_RIGHTS). One that leaves becomes a real one first,
 * since nothing is known of the receiver. Where no real file can be made (no space), the placeholder goes; its slot is
 * marked shared, so that closing it here does not give it to the next open before the receiver has looked. Of one that
 * arrives, what the table knew of its number is forgotten.
 */
#include "preload/preload.h"

static void for_each_fd(const struct msghdr *m, void (*see)(int fd)) {
  struct msghdr h = *m; /* CMSG_NXTHDR wants it writable */
  for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c != NULL; c = CMSG_NXTHDR(&h, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len < CMSG_LEN(0)) continue;
    for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      see(fd);
    }
  }
}

static void make_real(int fd) {
  struct fs_slot *s = fs_fd_slot(fd);
  if (s == NULL) s = fs_fd_adopt(fd);
  if (s != NULL && fs_fd_take_over(fd, s) != 0) fs_fd_share();
}

static bool is_file(int fd) {
  const struct fs_slot *s = fs_fd_slot(fd);
  return s != NULL && atomic_load(&s->kind) < FS_SLOT_PATH;
}

/* What a file's descriptor gets where a socket is wanted. */
static ssize_t after(int fd, ssize_t r) {
  if (FS_UNLIKELY(r < 0 && errno == EBADF && is_file(fd))) errno = ENOTSOCK;
  return r;
}

FS_EXPORT int accept(int fd, struct sockaddr *a, socklen_t *n) {
  return (int)after(fd, FS_FRESH(FS_REAL(accept)(fd, a, n)));
}
FS_EXPORT int accept4(int fd, struct sockaddr *a, socklen_t *n, int flags) {
  return (int)after(fd, FS_FRESH(FS_REAL(accept4)(fd, a, n, flags)));
}

FS_EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags) {
  ssize_t r = FS_REAL(recvmsg)(fd, m, flags);
  if (FS_UNLIKELY(r >= 0 && m->msg_controllen > 0)) for_each_fd(m, fs_fd_forget);
  return after(fd, r);
}

FS_EXPORT int recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags, struct timespec *timeout) {
  int r = FS_REAL(recvmmsg)(fd, m, n, flags, timeout);
  for (int i = 0; i < r; i++)
    if (FS_UNLIKELY(m[i].msg_hdr.msg_controllen > 0)) for_each_fd(&m[i].msg_hdr, fs_fd_forget);
  return (int)after(fd, r);
}

FS_EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags) {
  FS_MAY_BE_NULL(m);
  if (FS_UNLIKELY(m != NULL && m->msg_controllen > 0 && fs_state_fd() >= 0)) for_each_fd(m, make_real);
  return after(fd, FS_REAL(sendmsg)(fd, m, flags));
}

FS_EXPORT int sendmmsg(int fd, struct mmsghdr *m, unsigned n, int flags) {
  for (unsigned i = 0; fs_state_fd() >= 0 && i < n; i++)
    if (m[i].msg_hdr.msg_controllen > 0) for_each_fd(&m[i].msg_hdr, make_real);
  return (int)after(fd, FS_REAL(sendmmsg)(fd, m, n, flags));
}
FS_ALIAS(__sendmmsg, sendmmsg);
