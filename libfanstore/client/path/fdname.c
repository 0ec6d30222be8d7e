/* SPDX-License-Identifier: BSD-3-Clause */
/* Paths that name a descriptor, below /proc and in /dev. Called if the kernel has refused such a
   path. */
#include <string.h>

#include "client/fd/fdtab.h"
#include "util/sys.h"

static const char *skip(const char *path, const char *prefix) {
  size_t n = strlen(prefix);
  return path != NULL && strncmp(path, prefix, n) == 0 ? path + n : NULL;
}

/* Reads decimal digits, at most nine. */
static const char *number(const char *p, int *value) {
  int n = 0;
  *value = 0;
  for (; p != NULL && p[n] >= '0' && p[n] <= '9' && n < 9; n++) *value = *value * 10 + (p[n] - '0');
  return n > 0 ? p + n : NULL;
}

/* Returns what follows "/proc/self/fd/" or another name of that directory. */
static const char *in_fd_directory(const char *path) {
  const char *p = skip(path, "/dev/fd/");
  if (p != NULL || (path = skip(path, "/proc/")) == NULL) return p;
  if ((p = skip(path, "self/fd/")) != NULL || (p = skip(path, "thread-self/fd/")) != NULL) return p;
  int pid;
  p = number(path, &pid);
  return p != NULL && pid == fs_sys_getpid() ? skip(p, "/fd/") : NULL;
}

int fs_fd_of_name(const char *path, const char **rest) {
  static const char *const streams[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
  for (int i = 0; i < 3; i++) {
    const char *end = skip(path, streams[i]);
    if (end == NULL || end[0] != '\0') continue;
    *rest = end;
    return i;
  }
  int fd;
  const char *end = number(in_fd_directory(path), &fd);
  if (end == NULL || (end[0] != '\0' && end[0] != '/')) return -1;
  *rest = end + strspn(end, "/");
  return fd;
}
