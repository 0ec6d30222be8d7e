/* SPDX-License-Identifier: BSD-3-Clause */
/* A daemon that has cut a backing file and does not know it yet, by LD_PRELOAD: ftruncate of one returns 0.2 s late. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int ftruncate(int fd, off_t size) {
  int (*next)(int, off_t) = (int (*)(int, off_t))dlsym(RTLD_NEXT, "ftruncate");
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof(path) - 1);
  path[n < 0 ? 0 : n] = '\0';
  int err = next(fd, size);
  if (strstr(path, "/out/")) usleep(200000);
  return err;
}
