/* SPDX-License-Identifier: BSD-3-Clause */
/* A daemon that is still copying: fsync of a partition that is not whole (or of a file with TEST_NAME in its path) does
 * not return as long as the file named by TEST_HOLD is there, a minute at most; nor does it get to its second piece,
 * with TEST_PIECE_MS, and each takes so long then. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void hold(int fd) {
  const char *file = getenv("TEST_HOLD"), *name = getenv("TEST_NAME");
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof(path) - 1);
  path[n < 0 ? 0 : n] = '\0';
  if (!file || !strstr(path, name ? name : "/.new-part-")) return;
  for (int i = 0; i < 6000 && access(file, F_OK) == 0; i++) usleep(10000);
}

int sync_file_range(int fd, off_t offset, off_t bytes, unsigned flags) {
  const char *ms = getenv("TEST_PIECE_MS");
  (void)offset, (void)bytes, (void)flags;
  if (!ms) return 0;
  hold(fd);
  usleep((useconds_t)atoi(ms) * 1000);
  return 0;
}

int fsync(int fd) {
  int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  hold(fd);
  return next(fd);
}
