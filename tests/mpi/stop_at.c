/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank of a pack that stops itself at a step, by LD_PRELOAD (pack_kill_steps.sh): STOP_AT is "RANK CALL NUMBER
 * PATTERN". At the call of this number whose path fits the pattern of fnmatch, the process stops before the call.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void look(const char *call, int dir, const char *name) {
  static atomic_int calls;
  const char *at = getenv("STOP_AT"), *rank = getenv("OMPI_COMM_WORLD_RANK");
  char is_rank[16], is_call[32], pattern[256], link[64], path[2 * PATH_MAX] = "";
  int number;
  if (!at || !rank || sscanf(at, "%15s %31s %d %255s", is_rank, is_call, &number, pattern) != 4) return;
  if (strcmp(rank, is_rank) != 0 || strcmp(call, is_call) != 0) return;
  snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
  ssize_t n = name && name[0] == '/' ? 0 : readlink(dir == AT_FDCWD ? "/proc/self/cwd" : link, path, PATH_MAX);
  if (n < 0) return;
  snprintf(path + n, sizeof(path) - (size_t)n, "%s%s", name ? "/" : "", name ? name : "");
  if (fnmatch(pattern, path, 0) == 0 && atomic_fetch_add(&calls, 1) + 1 == number) kill(getpid(), SIGSTOP);
}

#define NEXT(call, type) ((type)dlsym(RTLD_NEXT, call))

int mkdirat(int dir, const char *name, mode_t mode) {
  look("mkdir", dir, name);
  return NEXT("mkdirat", int (*)(int, const char *, mode_t))(dir, name, mode);
}

int fsync(int fd) {
  look("fsync", fd, NULL);
  return NEXT("fsync", int (*)(int))(fd);
}

int fdatasync(int fd) {
  look("fdatasync", fd, NULL);
  return NEXT("fdatasync", int (*)(int))(fd);
}

int linkat(int from, const char *name, int to, const char *as, int flags) {
  look("link", to, as);
  return NEXT("linkat", int (*)(int, const char *, int, const char *, int))(from, name, to, as, flags);
}

int renameat(int from, const char *name, int to, const char *as) {
  look("rename", to, as);
  return NEXT("renameat", int (*)(int, const char *, int, const char *))(from, name, to, as);
}

int renameat2(int from, const char *name, int to, const char *as, unsigned flags) {
  look("rename", to, as);
  return NEXT("renameat2", int (*)(int, const char *, int, const char *, unsigned))(from, name, to, as, flags);
}

int unlinkat(int dir, const char *name, int flags) {
  look("unlink", dir, name);
  return NEXT("unlinkat", int (*)(int, const char *, int))(dir, name, flags);
}
