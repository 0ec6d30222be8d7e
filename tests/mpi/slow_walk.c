/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file system that is far away, by LD_PRELOAD (pack_walk.sh, bench/walk.sh): each fstatat, and each hundredth
 * readdir, first sleeps SLOW_WALK_US microseconds, and each read of 256 KiB, as of an archive, SLOW_READ_US. If a
 * directory is named "vanishing", it is removed after its fstatat, and a file of this name before it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAMES 100                /* that one answer of a server has */
#define READ ((size_t)256 << 10) /* of libarchive */

static void nap(const char *setting) {
  const char *us = getenv(setting);
  long ns = us ? atol(us) * 1000 : 0;
  nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
}

int fstatat(int dir, const char *name, struct stat *st, int flags) {
  static int (*real)(int, const char *, struct stat *, int);
  if (!real) real = (int (*)(int, const char *, struct stat *, int))dlsym(RTLD_NEXT, "fstatat");
  int vanishing = strcmp(name, "vanishing") == 0;
  if (vanishing) unlinkat(dir, name, 0); /* if it is a file */
  nap("SLOW_WALK_US");
  int done = real(dir, name, st, flags);
  if (vanishing) unlinkat(dir, name, AT_REMOVEDIR);
  return done;
}

struct dirent *readdir(DIR *dir) {
  static struct dirent *(*real)(DIR *);
  static _Thread_local DIR *last;
  static _Thread_local unsigned names;
  if (!real) real = (struct dirent * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir");
  if (last != dir) names = 0;
  last = dir;
  if (names++ % NAMES == 0) nap("SLOW_WALK_US");
  return real(dir);
}

ssize_t read(int fd, void *out, size_t n) {
  static ssize_t (*real)(int, void *, size_t);
  if (!real) real = (ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
  if (n == READ) nap("SLOW_READ_US");
  return real(fd, out, n);
}
