/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of sendmsg and sendmmsg: a descriptor that leaves for another process (SCM_RIGHTS) shares its open file with
 * it. Without the note, closing it here would give its placeholder to the next open, and the receiver, who knows the
 * file by the placeholder, would read that one.
 */
#include "preload/preload.h"

static bool carries_ours(const struct msghdr *m) {
  struct msghdr h = *m; /* CMSG_NXTHDR wants it writable */
  for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c != NULL; c = CMSG_NXTHDR(&h, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len < CMSG_LEN(0)) continue;
    for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      if (fs_fd_slot(fd) != NULL) return true;
    }
  }
  return false;
}

FS_EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags) {
  FS_MAY_BE_NULL(m);
  if (FS_UNLIKELY(m != NULL && m->msg_controllen > 0 && fs_state_fd() >= 0) && carries_ours(m)) fs_fd_share();
  return FS_REAL(sendmsg)(fd, m, flags);
}

FS_EXPORT int sendmmsg(int fd, struct mmsghdr *m, unsigned n, int flags) {
  for (unsigned i = 0; fs_state_fd() >= 0 && i < n; i++)
    if (m[i].msg_hdr.msg_controllen > 0 && carries_ours(&m[i].msg_hdr)) fs_fd_share();
  return FS_REAL(sendmmsg)(fd, m, n, flags);
}
