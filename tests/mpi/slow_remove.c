/* SPDX-License-Identifier: BSD-3-Clause */
/* A file system that is slow in removing, by LD_PRELOAD: each of the first ten files whose names are 16 digits takes
 * 0.8 s. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

int unlinkat(int dirfd, const char *name, int flags) {
  static int (*real)(int, const char *, int);
  static unsigned slow;
  if (!real) real = (int (*)(int, const char *, int))dlsym(RTLD_NEXT, "unlinkat");
  if (strlen(name) == 16 && strspn(name, "0123456789abcdef") == 16 && slow++ < 10) usleep(800000);
  return real(dirfd, name, flags);
}
