/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon's side of the hand-over (handover.h): listens, checks the client's uid, sends the
 * welcome with its descriptors. Called by the daemon's listener thread. All sockets are
 * non-blocking, so nothing here waits. No state.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "ipc/handover.h"
#include "ipc/node.h"

#define FS_LISTEN_BACKLOG 1024

/* Binds the socket. If the path is longer than sockaddr_un, binds through /proc/self/fd of the
   directory. */
static fs_err fs_handover_bind(int fd, const char *path) {
  struct sockaddr_un addr = {.sun_family = AF_UNIX};
  size_t n = strlen(path);
  if (n < sizeof(addr.sun_path)) {
    memcpy(addr.sun_path, path, n + 1);
    return bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : 0;
  }
  char dir[PATH_MAX];
  const char *slash = strrchr(path, '/');
  if (!slash || n >= sizeof(dir)) return -ENAMETOOLONG;
  memcpy(dir, path, (size_t)(slash - path));
  dir[slash - path] = '\0';
  FS_AUTO_CLOSE int dirfd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dirfd < 0) return -errno;
  int len = snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/%s", dirfd, slash + 1);
  if (len >= (int)sizeof(addr.sun_path)) return -ENAMETOOLONG;
  return bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : 0;
}

fs_fd fs_handover_listen(const char *socket_path) {
  FS_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -errno;
  if (unlink(socket_path) < 0 && errno != ENOENT) return -errno;
  if (fchmod(fd, FS_SOCKET_MODE) < 0) return -errno; /* before bind: the name appears with this mode */
  fs_err err = fs_handover_bind(fd, socket_path);
  if (err < 0) return err;
  if (chmod(socket_path, FS_SOCKET_MODE) < 0) return -errno;
  if (listen(fd, FS_LISTEN_BACKLOG) < 0) return -errno;
  return FS_MOVE_FD(fd);
}

fs_ssize fs_handover_hello(int connection) {
  struct ucred cred;
  socklen_t len = sizeof(cred);
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0) return -errno;
  if (cred.uid != geteuid()) return -EPERM;
  struct fs_hello hello;
  ssize_t n = recv(connection, &hello, sizeof(hello), MSG_DONTWAIT | MSG_TRUNC);
  if (n < 0) return errno == EWOULDBLOCK || errno == EINTR ? -EAGAIN : -errno;
  if (n == 0) return -ECONNRESET;
  if (n < (ssize_t)offsetof(struct fs_hello, pid) || hello.magic != FS_HELLO_MAGIC) return -EPROTO;
  if (hello.version != FS_IPC_VERSION) return -EPROTONOSUPPORT;
  if (n != (ssize_t)sizeof(hello)) return -EPROTO;
  return cred.pid > 0 ? (fs_ssize)cred.pid : 0; /* 0: a process of another pid namespace */
}

fs_err fs_handover_welcome(int connection, fs_err refusal, const struct fs_handover *h) {
  struct fs_welcome w = {.magic = FS_HELLO_MAGIC, .version = FS_IPC_VERSION, .err = refusal};
  struct iovec iov = {.iov_base = &w, .iov_len = sizeof(w)};
  struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
  alignas(struct cmsghdr) char control[CMSG_SPACE(FS_HO_COUNT * sizeof(int))] = {0};
  if (refusal == 0) {
    memcpy(w.size, h->size, sizeof(w.size));
    msg.msg_control = control;
    msg.msg_controllen = sizeof(control);
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(FS_HO_COUNT * sizeof(int));
    memcpy(CMSG_DATA(c), h->fd, FS_HO_COUNT * sizeof(int));
  }
  ssize_t n = sendmsg(connection, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n < 0) return -errno;
  return n == (ssize_t)sizeof(w) ? 0 : -EPROTO;
}
