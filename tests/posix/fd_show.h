/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs of fd_calls.sh share: each prints every result, to be compared between a directory and its mount.
 */
#ifndef FD_SHOW_H
#define FD_SHOW_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"

/* Prints "what: value" and the error, if there was one, at once: children print, too. */
#define SHOW(call)                                                                                                     \
  do {                                                                                                                 \
    errno = 0;                                                                                                         \
    long v_ = (long)(call);                                                                                            \
    dprintf(1, "%s: %ld%s%s\n", #call, v_, v_ < 0 ? " " : "", v_ < 0 ? strerrorname_np(errno) : "");                   \
  } while (0)

static int in(const char *name) {
  return open(P(name), O_RDONLY);
}

/* The line at a descriptor's offset. */
static void line(const char *what, int fd) {
  char text[80];
  int n = 0;
  errno = 0;
  while (n < 79 && read(fd, text + n, 1) == 1 && text[n++] != '\n') {
  }
  text[n] = '\0';
  dprintf(1, "%s: fd %d: %s%s\n", what, fd, n > 0 ? text : "nothing ", n > 0 ? "" : strerrorname_np(errno));
}

/* Which descriptors from 3 to 40 are open, as far as F_GETFD tells; the flags, too. */
static void map(const char *what) {
  char text[64];
  for (int fd = 3; fd <= 40; fd++) {
    int flags = fcntl(fd, F_GETFD);
    text[fd - 3] = flags < 0 ? '.' : flags == 0 ? 'o' : 'c';
  }
  text[38] = '\0';
  dprintf(1, "%s: %s\n", what, text);
}

static void reap(pid_t pid) {
  int status = -1;
  waitpid(pid, &status, 0);
  dprintf(1, "child: %d\n", status);
}

static void run(const char *program, const char *fd, const char *lines) {
  pid_t pid = fork();
  if (pid == 0) {
    execl(program, program, fd, lines, NULL);
    _exit(9);
  }
  reap(pid);
}

/* The kernel's own calls, which no wrapper sees. */
static long raw(long n, long a, long b, long c) {
#if defined(__x86_64__)
  long r;
  __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return r;
#elif defined(__powerpc64__)
  register long r0 __asm__("r0") = n, r3 __asm__("r3") = a, r4 __asm__("r4") = b, r5 __asm__("r5") = c;
  __asm__ volatile("sc\n\tbns+ 1f\n\tneg %1, %1\n1:"
                   : "+r"(r0), "+r"(r3), "+r"(r4), "+r"(r5)
                   :
                   : "r6", "r7", "r8", "r9", "r10", "r11", "r12", "cr0", "ctr", "xer", "memory");
  return r3;
#else
  register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
#endif
}

struct test {
  const char *name;
  void (*run)(char **argv);
};

/* DIR CASE STATIC DYNAMIC: the last two are programs that print lines of a descriptor. */
static int run_case(const struct test *t, int argc, char **argv) {
  if (argc != 5) return 2;
  base = argv[1];
  for (int fd = 3; fd < 256; fd++) raw(SYS_close, fd, 0, 0);
  for (; t->name != NULL; t++) {
    if (strcmp(argv[2], t->name) != 0) continue;
    t->run(argv);
    dprintf(1, "end of %s\n", t->name);
    return 0;
  }
  return 2;
}

#endif
