/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A directory that is out of order, by LD_PRELOAD: fsync touches $STUCK_FSYNC.in and returns only when $STUCK_FSYNC.go
 * exists, or after a minute.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int fsync(int fd) {
  static int (*real)(int);
  const char *name = getenv("STUCK_FSYNC");
  char in[4096], go[4096];
  if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  if (name) {
    snprintf(in, sizeof(in), "%s.in", name);
    snprintf(go, sizeof(go), "%s.go", name);
    close(open(in, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    for (int i = 0; i < 6000 && access(go, F_OK) < 0; i++) usleep(10000);
  }
  return real(fd);
}
