/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs share that make calls on a directory, whose path they are given, and on its mount. */
#ifndef FS_TEST_CALLS_H
#define FS_TEST_CALLS_H

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static const char *base;
static int failures;

/* A call that must come true, and one that must fail with this error. */
#define OK(x)                                                                                                          \
  do {                                                                                                                 \
    errno = 0;                                                                                                         \
    if (!(x)) failures++, printf("%s:%d: %s (errno %s)\n", __FILE__, __LINE__, #x, strerrorname_np(errno));            \
  } while (0)
#define ERR(e, x)                                                                                                      \
  do {                                                                                                                 \
    errno = 0;                                                                                                         \
    if ((long)(x) != -1 || errno != (e))                                                                               \
      failures++, printf("%s:%d: %s: %s, expected %s\n", __FILE__, __LINE__, #x, strerrorname_np(errno), #e);          \
  } while (0)

/* A path below the directory; a few are valid at a time. */
static const char *P(const char *name) {
  static char path[8][PATH_MAX * 2];
  static int next;
  char *p = path[next++ % 8];
  snprintf(p, sizeof(path[0]), "%s/%s", base, name);
  return p;
}

/* Hands a descriptor over by a socket: 1, as sendmsg says. */
static int send_fd(int to, int fd) {
  char byte = 'x', room[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec iov = {&byte, 1};
  struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(c), &fd, sizeof(int));
  return (int)sendmsg(to, &m, 0);
}

static int receive_fd(int from) {
  char byte, room[CMSG_SPACE(sizeof(int))];
  struct iovec iov = {&byte, 1};
  struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
  int fd = -1;
  if (recvmsg(from, &m, 0) == 1 && CMSG_FIRSTHDR(&m) != NULL) memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
  return fd;
}

#endif
