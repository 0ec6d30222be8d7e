/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client's side of the hand-over (handover.h). Called at attach, in any context of a preloaded
 * process: raw system calls, no allocation, bounded by the caller's timeout. No state. After an
 * error all received descriptors are closed.
 */
#include "ipc/handover.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "util/sys.h"

#define FS_HO_PAUSE_NS 1000000ull /* pause between attempts while the daemon's backlog is full */

static uint64_t fs_left(uint64_t deadline) {
  uint64_t now = fs_now_ns();
  return now < deadline ? deadline - now : 0;
}

/* Fills in the socket's address. If the path is too long, the address goes through the descriptor
   of its directory, which stays open in *dir. */
static fs_err fs_address(const char *path, struct sockaddr_un *addr, int *dir) {
  static const char proc[] = "/proc/self/fd/";
  const char *name = strrchr(path, '/');
  char parent[PATH_MAX], *p = addr->sun_path;
  memset(addr, 0, sizeof(*addr));
  addr->sun_family = AF_UNIX;
  if (strlen(path) < sizeof(addr->sun_path)) {
    strcpy(addr->sun_path, path);
    return 0;
  }
  if (!name || name == path || (size_t)(name - path) >= sizeof(parent) || strlen(name) > 64) return -ENAMETOOLONG;
  memcpy(parent, path, (size_t)(name - path));
  parent[name - path] = '\0';
  *dir = fs_sys_openat(AT_FDCWD, parent, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
  if (*dir < 0) return *dir;
  memcpy(p, proc, sizeof(proc) - 1);
  p += sizeof(proc) - 1;
  unsigned digits = 1, v = (unsigned)*dir;
  for (unsigned rest = v; rest > 9; rest /= 10) digits++;
  for (unsigned i = digits; i-- > 0; v /= 10) p[i] = (char)('0' + v % 10);
  strcpy(p + digits, name);
  return 0;
}

/*
 * Makes a call on the connection only in the process that opened it; returns -ECHILD in another. A
 * signal handler may fork during the hand-over, and the child then continues here with its parent's
 * connection: it must neither send a second hello nor take the welcome. Signals are blocked so that
 * nothing forks between the check and the call.
 */
static long fs_as(pid_t process, long number, int fd, const void *message, size_t n, int flags) {
  uint64_t signals;
  fs_sys_sigmask(~0ull, &signals);
  long r = fs_sys_getpid() == process ? FS_SYS6(number, fd, message, n, flags, NULL, 0) : -ECHILD;
  fs_sys_sigmask(signals, NULL);
  return r;
}

static fs_err fs_poll(int fd, pid_t process, short events, uint64_t timeout_ns) {
  struct pollfd p = {.fd = fd, .events = events};
  struct timespec ts = {.tv_sec = (time_t)(timeout_ns / 1000000000u), .tv_nsec = (long)(timeout_ns % 1000000000u)};
  uint64_t signals;
  fs_sys_sigmask(~0ull, &signals); /* signals arrive inside ppoll, and also end it in a child */
  long n = fs_sys_getpid() == process ? FS_SYS5(SYS_ppoll, &p, 1, &ts, &signals, sizeof(signals)) : -ECHILD;
  fs_sys_sigmask(signals, NULL);
  if (n < 0) return (fs_err)n;
  return n == 0 ? -ETIMEDOUT : 0;
}

static fs_err fs_connect_to(int fd, pid_t process, const char *path, uint64_t deadline) {
  struct sockaddr_un addr;
  FS_AUTO_CLOSE int dir = -1;
  fs_err err = fs_address(path, &addr, &dir);
  while (err == 0) {
    err = (fs_err)fs_as(process, SYS_connect, fd, &addr, sizeof(addr), 0);
    if (err != -EAGAIN && err != -EINTR) break; /* EAGAIN: the backlog is full */
    if (fs_left(deadline) == 0) return -ETIMEDOUT;
    struct timespec pause = {.tv_nsec = FS_HO_PAUSE_NS};
    FS_SYS2(SYS_nanosleep, &pause, NULL);
    err = 0;
  }
  return err == -EISCONN ? 0 : err;
}

/* The daemon must have our uid: it tells where data lies. */
static fs_err fs_check_peer(int fd) {
  struct ucred peer;
  socklen_t size = sizeof(peer);
  fs_err err = (fs_err)FS_SYS5(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
  if (err < 0) return err;
  return peer.uid == (uid_t)FS_SYS1(SYS_geteuid, 0) ? 0 : -EPERM;
}

static fs_err fs_send_hello(int fd, pid_t process, uint64_t deadline) {
  struct fs_hello hello = {.magic = FS_HELLO_MAGIC, .version = FS_IPC_VERSION, .pid = (uint32_t)process};
  for (;;) {
    long n = fs_as(process, SYS_sendto, fd, &hello, sizeof(hello), MSG_NOSIGNAL);
    if (n == sizeof(hello)) return 0;
    if (n >= 0) return -EPROTO;
    if (n != -EAGAIN && n != -EINTR) return (fs_err)n;
    fs_err err = fs_poll(fd, process, POLLOUT, fs_left(deadline));
    if (err < 0 && err != -EINTR) return err;
  }
}

union fs_cmsg {
  struct cmsghdr align;
  char bytes[CMSG_SPACE(FS_HO_COUNT * sizeof(int))];
};

/* Takes all descriptors out of a message, so that none leaks, and closes those beyond FS_HO_COUNT.
   Returns how many there were: the kernel rounds the room for them up, so one more may come. */
static unsigned fs_take_fds(struct msghdr *msg, int fds[FS_HO_COUNT]) {
  unsigned n = 0;
  for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
      if (n < FS_HO_COUNT)
        fds[n] = fd;
      else
        fs_sys_close(fd);
      n++;
    }
  }
  return n;
}

static fs_err fs_check_welcome(long n, const struct fs_welcome *w, unsigned fds, bool truncated) {
  if (n == 0) return -ECONNREFUSED;
  if (n < (long)offsetof(struct fs_welcome, err) || w->magic != FS_HELLO_MAGIC) return -EPROTO;
  if (w->version != FS_IPC_VERSION) return -EPROTONOSUPPORT;
  if (n != sizeof(*w)) return -EPROTO;
  if (w->err != 0) return w->err < 0 && w->err > -4096 ? w->err : -EPROTO;
  return fds == FS_HO_COUNT && !truncated ? 0 : -EPROTO;
}

static fs_err fs_receive_welcome(int fd, pid_t process, uint64_t deadline, struct fs_handover *out) {
  struct fs_welcome welcome;
  union fs_cmsg control;
  struct iovec iov = {&welcome, sizeof(welcome)};
  struct msghdr msg;
  long n;
  do {
    msg = (struct msghdr){
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)};
    n = fs_as(process, SYS_recvmsg, fd, &msg, MSG_CMSG_CLOEXEC, 0);
    if (n != -EAGAIN && n != -EINTR) break;
    fs_err err = fs_poll(fd, process, POLLIN, fs_left(deadline));
    if (err < 0 && err != -EINTR) return err;
  } while (true);
  if (n < 0) return (fs_err)n;
  unsigned fds = fs_take_fds(&msg, out->fd);
  fs_err err = fs_check_welcome(n, &welcome, fds, (msg.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0);
  out->version = err == 0 || err == -EPROTONOSUPPORT ? welcome.version : 0;
  for (unsigned i = 0; err < 0 && i < FS_MIN(fds, (unsigned)FS_HO_COUNT); i++) fs_sys_close(out->fd[i]);
  if (err == 0) memcpy(out->size, welcome.size, sizeof(out->size));
  return err;
}

fs_err fs_handover_connect(const char *socket_path, uint64_t timeout_ns, struct fs_handover *out) {
  uint64_t deadline = fs_now_ns() + timeout_ns;
  pid_t process = fs_sys_getpid();
  FS_AUTO_CLOSE int fd = (int)FS_SYS3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return fd;
  fs_err err = fs_connect_to(fd, process, socket_path, deadline);
  if (err == 0) err = fs_check_peer(fd);
  if (err == 0) err = fs_send_hello(fd, process, deadline);
  if (err == 0) err = fs_receive_welcome(fd, process, deadline, out);
  if (err < 0) return err;
  out->socket = FS_MOVE_FD(fd);
  return 0;
}
