/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A slow disk, by LD_PRELOAD: a pread of a mebibyte, which is how whole files are copied, touches $STUCK_READ.in and
 * returns only when $STUCK_READ.go exists, or after a minute.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

ssize_t pread(int fd, void *buf, size_t n, off_t off) {
  static ssize_t (*real)(int, void *, size_t, off_t);
  const char *name = getenv("STUCK_READ");
  char in[4096], go[4096];
  if (!real) real = (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread");
  if (name && n == 1u << 20) {
    snprintf(in, sizeof(in), "%s.in", name);
    snprintf(go, sizeof(go), "%s.go", name);
    close(open(in, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    for (int i = 0; i < 6000 && access(go, F_OK) < 0; i++) usleep(10000);
  }
  return real(fd, buf, n, off);
}
