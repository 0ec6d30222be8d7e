/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What single system calls cost: trapcost FILE DIRECTORY. Linked statically, so that the preloaded library has no part
 * in it. Run on a plain directory, then under fanstore-static on a path outside and one below the mount
 * (bench/static.sh), it tells what the supervisor costs a call. Prints one line a call: its name and the nanoseconds of
 * the fastest of several rounds.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"

#define ROUNDS 9
#define CALLS 2000

static const char *file, *directory;
static int fd, dir_fd;
static char buffer[4096];

static int call_getppid(void) {
  return syscall(SYS_getppid) < 0;
}
static int call_pread(void) {
  return pread(fd, buffer, 256, 0) < 0;
}
static int call_stat(void) {
  struct stat st;
  return stat(file, &st);
}
static int call_missing(void) {
  struct stat st;
  char path[4096];
  snprintf(path, sizeof(path), "%s/no such name", directory);
  return stat(path, &st) == 0;
}
static int call_fstat(void) {
  struct stat st;
  return fstat(fd, &st);
}
static int call_open(void) {
  int f = open(file, O_RDONLY | O_CLOEXEC);
  return f < 0 || close(f);
}
static int call_relative(void) {
  struct stat st;
  return fstatat(dir_fd, ".", &st, 0);
}
static int call_getdents(void) {
  return lseek(dir_fd, 0, SEEK_SET) < 0 || syscall(SYS_getdents64, dir_fd, buffer, sizeof(buffer)) < 0;
}

static void measure(const char *name, int (*call)(void)) {
  uint64_t best = UINT64_MAX;
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t start = now();
    for (int i = 0; i < CALLS; i++) {
      if (call() == 0) continue;
      perror(name);
      exit(1);
    }
    uint64_t t = now() - start;
    if (t < best) best = t;
  }
  printf("%s %" PRIu64 "\n", name, best / CALLS);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  file = argv[1];
  directory = argv[2];
  fd = open(file, O_RDONLY | O_CLOEXEC);
  dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 || dir_fd < 0) {
    perror("trapcost: open");
    return 1;
  }
  measure("getppid", call_getppid);
  measure("pread", call_pread);
  measure("stat", call_stat);
  measure("stat-missing", call_missing);
  measure("fstatat", call_relative);
  measure("fstat", call_fstat);
  measure("open+close", call_open);
  measure("lseek+getdents64", call_getdents);
  return 0;
}
