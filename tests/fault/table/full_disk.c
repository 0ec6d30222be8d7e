/* SPDX-License-Identifier: BSD-3-Clause */
/* For disks.sh, by LD_PRELOAD into daemons: the disk becomes full, by $FAULTS_FULL on it, when a daemon stages its
 * second file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_int files;

static void fill(const char *path) {
  static char block[1 << 16];
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  for (size_t n = sizeof(block); n > 0; n /= 2)
    while (write(fd, block, n) > 0) {
    }
  close(fd);
}

/* With which a partition's copy begins. */
int fallocate(int fd, int mode, off_t at, off_t length) {
  int (*next)(int, int, off_t, off_t) = dlsym(RTLD_NEXT, "fallocate");
  const char *filler = getenv("FAULTS_FULL");
  if (filler && atomic_fetch_add(&files, 1) == 1) fill(filler);
  return next(fd, mode, at, length);
}
