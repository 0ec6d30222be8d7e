/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The TCP connections of this process, as a hint for its sleep. MPI has no blocking wait that
 * others could end, but the kernel knows when something arrives over TCP: a thread that sleeps on
 * the connections, too, wakes up for a message. MPI does not tell its connections, so they are
 * searched among the open descriptors; clients' connections are of another family. The thread
 * always sleeps with a deadline, so other transports, and connections not found yet, cost only
 * time. Closed connections leave the set by themselves. Called by net_mpi.c; no state.
 */
#include "daemon/mpi/sockets.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "util/util.h"

static bool fs_socket_option_is(int fd, int option, int value) {
  int is = -1;
  socklen_t len = sizeof(is);
  return getsockopt(fd, SOL_SOCKET, option, &is, &len) == 0 && is == value;
}

static bool fs_socket_is_connection(int fd) {
  if (!fs_socket_option_is(fd, SO_TYPE, SOCK_STREAM) || !fs_socket_option_is(fd, SO_ACCEPTCONN, 0)) return false;
  return fs_socket_option_is(fd, SO_DOMAIN, AF_INET) || fs_socket_option_is(fd, SO_DOMAIN, AF_INET6);
}

int fs_sockets_find(int epoll) {
  DIR *dir = opendir("/proc/self/fd");
  int n = 0;
  if (!dir) return 0;
  for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
    uint64_t number;
    if (fs_parse_u64(e->d_name, 0, INT32_MAX, &number) < 0 || !fs_socket_is_connection((int)number)) continue;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = (int)number};
    n += epoll_ctl(epoll, EPOLL_CTL_ADD, (int)number, &event) == 0;
  }
  closedir(dir);
  return n;
}

void fs_sockets_drop(int epoll) {
  struct epoll_event event[16];
  int n = epoll_wait(epoll, event, (int)FS_ARRAY_LEN(event), 0);
  for (int i = 0; i < n; i++) (void)epoll_ctl(epoll, EPOLL_CTL_DEL, event[i].data.fd, NULL);
}
