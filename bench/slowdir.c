/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A slow directory, by LD_PRELOAD in the daemons that copy to it (checkpoint.sh): each pwrite to a file below SLOW_DIR
 * is followed by a sleep, so that one writer gets SLOW_RATE bytes a second there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
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

int sync_file_range(int fd, off_t off, off_t n, unsigned flags) {
  static int (*real)(int, off_t, off_t, unsigned);
  const char *dir = getenv("SLOW_DIR"), *rate = getenv("SLOW_RATE");
  if (!real) real = (int (*)(int, off_t, off_t, unsigned))dlsym(RTLD_NEXT, "sync_file_range");
  int done = real(fd, off, n, flags);
  if (done < 0 || flags != SYNC_FILE_RANGE_WRITE || !dir || !rate || !is_below(fd, dir)) return done;
  double seconds = (double)n / strtod(rate, NULL);
  struct timespec nap = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&nap, NULL);
  return done;
}
