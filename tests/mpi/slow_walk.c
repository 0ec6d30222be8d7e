/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file system whose metadata is far away, by LD_PRELOAD (pack_walk.sh, bench/walk.sh): each fstatat, and
 * each hundredth readdir, first sleeps SLOW_WALK_US microseconds. If a directory is named "vanishing", it is removed
 * after its fstatat, and a file of this name before it.
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

#define NAMES 100 /* that one answer of a server has */

static void nap(void) {
  const char *us = getenv("SLOW_WALK_US");
  long ns = us ? atol(us) * 1000 : 0;
  nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
}

int fstatat(int dir, const char *name, struct stat *st, int flags) {
  static int (*real)(int, const char *, struct stat *, int);
  if (!real) real = (int (*)(int, const char *, struct stat *, int))dlsym(RTLD_NEXT, "fstatat");
  int vanishing = strcmp(name, "vanishing") == 0;
  if (vanishing) unlinkat(dir, name, 0); /* if it is a file */
  nap();
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
  if (names++ % NAMES == 0) nap();
  return real(dir);
}
