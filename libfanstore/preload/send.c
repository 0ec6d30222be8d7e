/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of the calls that pass descriptors between processes (SCM_RIGHTS). A virtual descriptor
 * that leaves becomes a real one first, since nothing is known of the receiver. If no real file can
 * be made, for lack of space, the placeholder goes. Its slot is then marked shared, so that closing
 * it here does not give it to the next open before the receiver has looked. When a descriptor
 * arrives, the table forgets what it knew of its number.
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
  if (fs_output_tracked_id(fd) != 0) fs_fd_share();
  struct fs_slot *s = fs_fd_slot(fd);
  if (s == NULL) s = fs_fd_adopt(fd);
  if (s != NULL && fs_fd_take_over(fd, s) != 0) fs_fd_share();
}

/* Returns what a file's descriptor gets if a socket is wanted. */
static ssize_t after(int fd, ssize_t r) {
  return FS_UNLIKELY(r < 0 && errno == EBADF) ? fs_not_a_socket(fd, r) : r;
}

FS_EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags) {
  socklen_t room = fs_bad_address(m) || m->msg_name == NULL ? 0 : m->msg_namelen;
  ssize_t r = FS_REAL(recvmsg)(fd, m, flags);
  if (r >= 0 && room > 0) fs_nl_told(m->msg_name, room, &m->msg_namelen);
  if (FS_UNLIKELY(r >= 0 && m->msg_controllen > 0)) for_each_fd(m, fs_fd_forget);
  return after(fd, r);
}

/* Collects how many bytes each address may take, which the kernel overwrites. NULL: none is asked
   for. */
#define fs_rooms(m, n)                                                                                                 \
  (fs_mount_count() > 0 && any_name(m, n) ? fill_rooms(m, n, alloca(FS_MIN(n, UIO_MAXIOV) * sizeof(socklen_t))) : NULL)
static bool any_name(const struct mmsghdr *m, unsigned n) {
  for (unsigned i = 0; !fs_bad_address(m) && i < FS_MIN(n, UIO_MAXIOV); i++)
    if (m[i].msg_hdr.msg_name != NULL) return true;
  return false;
}
static socklen_t *fill_rooms(const struct mmsghdr *m, unsigned n, socklen_t *room) {
  for (unsigned i = 0; i < FS_MIN(n, UIO_MAXIOV); i++) room[i] = m[i].msg_hdr.msg_namelen;
  return room;
}

FS_EXPORT int recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags, struct timespec *timeout) {
  socklen_t *room = fs_rooms(m, n);
  int r = FS_REAL(recvmmsg)(fd, m, n, flags, timeout);
  for (unsigned i = 0; r > 0 && i < FS_MIN(n, (unsigned)r); i++) {
    struct msghdr *h = &m[i].msg_hdr;
    if (FS_UNLIKELY(h->msg_controllen > 0)) for_each_fd(h, fs_fd_forget);
    if (room != NULL && h->msg_name != NULL) fs_nl_told(h->msg_name, room[i], &h->msg_namelen);
  }
  return (int)after(fd, r);
}

FS_EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags) {
  FS_MAY_BE_NULL(m);
  if (FS_UNLIKELY(m != NULL && m->msg_controllen > 0 && fs_mount_count() > 0)) for_each_fd(m, make_real);
  return after(fd, fs_send_message(fd, m, flags));
}

/* Returns whether a message has an address that may be a path below a mount. */
static bool any_below(const struct mmsghdr *m, unsigned n) {
  for (unsigned i = 0; !fs_bad_address(m) && i < n; i++)
    if (FS_UNLIKELY(fs_address_below(m[i].msg_hdr.msg_name, m[i].msg_hdr.msg_namelen))) return true;
  return false;
}

/* Sends one message after the other. An error after the first message is left to the next call. */
static int send_each(int fd, struct mmsghdr *m, unsigned n, int flags) {
  for (unsigned i = 0; i < n; i++) {
    ssize_t r = fs_send_message(fd, &m[i].msg_hdr, flags);
    if (r < 0) return i > 0 ? (int)i : -1;
    m[i].msg_len = (unsigned)r;
  }
  return (int)n;
}

FS_EXPORT int sendmmsg(int fd, struct mmsghdr *m, unsigned n, int flags) {
  for (unsigned i = 0; fs_mount_count() > 0 && !fs_bad_address(m) && i < n; i++)
    if (m[i].msg_hdr.msg_controllen > 0) for_each_fd(&m[i].msg_hdr, make_real);
  n = FS_MIN(n, UIO_MAXIOV);
  if (fs_mount_count() > 0 && any_below(m, n)) return (int)after(fd, send_each(fd, m, n, flags));
  return (int)after(fd, FS_REAL(sendmmsg)(fd, m, n, flags));
}
FS_ALIAS(__sendmmsg, sendmmsg);
