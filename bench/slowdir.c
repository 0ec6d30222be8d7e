/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A slow directory, by LD_PRELOAD in the daemons that copy to it (checkpoint.sh): each pwrite to a file below SLOW_DIR
 * is followed by a sleep, so that one writer gets SLOW_RATE bytes a second there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool is_below(int fd, const char *dir) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof(path));
  size_t len = strlen(dir);
  return n > (ssize_t)len && memcmp(path, dir, len) == 0 && path[len] == '/';
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t off) {
  static ssize_t (*real)(int, const void *, size_t, off_t);
  const char *dir = getenv("SLOW_DIR"), *rate = getenv("SLOW_RATE");
  if (!real) real = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
  ssize_t put = real(fd, buf, n, off);
  if (put <= 0 || !dir || !rate || !is_below(fd, dir)) return put;
  double seconds = (double)put / strtod(rate, NULL);
  struct timespec nap = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&nap, NULL);
  return put;
}
