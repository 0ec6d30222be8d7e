/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A disk that is slow or out of order, by LD_PRELOAD: with STUCK_FSYNC=TAG an fsync, with STUCK_READ=TAG a pread of a
 * mebibyte, which is how whole files are copied, touches TAG.in and returns only when TAG.go exists, or after a minute.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void stuck(const char *tag) {
  char in[4096], go[4096];
  if (!tag) return;
  snprintf(in, sizeof(in), "%s.in", tag);
  snprintf(go, sizeof(go), "%s.go", tag);
  close(open(in, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  for (int i = 0; i < 6000 && access(go, F_OK) < 0; i++) usleep(10000);
}

int fsync(int fd) {
  static int (*real)(int);
  if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  stuck(getenv("STUCK_FSYNC"));
  return real(fd);
}

ssize_t pread(int fd, void *buf, size_t n, off_t off) {
  static ssize_t (*real)(int, void *, size_t, off_t);
  if (!real) real = (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread");
  if (n == 1u << 20) stuck(getenv("STUCK_READ"));
  return real(fd, buf, n, off);
}
