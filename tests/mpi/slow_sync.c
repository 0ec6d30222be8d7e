/* SPDX-License-Identifier: BSD-3-Clause */
/* A daemon that is still copying: fsync of a partition that is not whole does not return as long as the file named by
 * TEST_HOLD is there, a minute at most. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fsync(int fd) {
  int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  char link[64], path[PATH_MAX];
  const char *hold = getenv("TEST_HOLD");
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof(path) - 1);
  path[n < 0 ? 0 : n] = '\0';
  for (int i = 0; hold && strstr(path, "/.new-part-") && i < 6000 && access(hold, F_OK) == 0; i++) usleep(10000);
  return next(fd);
}
