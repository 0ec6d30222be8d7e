/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs share that call libc's functions on a plain directory and on mounts, and print what comes. */
#include <aio.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <limits.h>
#include <locale.h>
#include <mntent.h>
#include <nl_types.h>
#include <poll.h>
#include <pty.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/quota.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <utmp.h>
#include <wchar.h>
#include <wordexp.h>

#include "calls.h"
#include "rows.h"

/* Without the directory's own name. */
static const char *cut(const char *path) {
  if (path == NULL) return "NULL";
  return strncmp(path, base, strlen(base)) == 0 ? path + strlen(base) : path;
}

/* As SHOW, for calls whose results are their own: only whether they succeed. */
#define DOES(call)                                                                                                     \
  do {                                                                                                                 \
    errno = 0;                                                                                                         \
    int ok_ = (long)(call) != -1;                                                                                      \
    printf("%s: %s\n", #call, ok_ ? "done" : strerrorname_np(errno));                                                  \
  } while (0)
#define GIVES(call)                                                                                                    \
  do {                                                                                                                 \
    errno = 0;                                                                                                         \
    int err_ = call;                                                                                                   \
    printf("%s: %s\n", #call, strerrorname_np(err_));                                                                  \
  } while (0)
