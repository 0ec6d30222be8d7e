/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A disk that is slow or out of order, by LD_PRELOAD: with STUCK_FSYNC=TAG an fsync, with STUCK_READ=TAG a pread of a
 * mebibyte, which is how whole files are copied, and with STUCK_CACHE=TAG, once TAG.on exists, a pread of a file
 * without a name touches TAG.in and returns only when TAG.go exists, or after a minute.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
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

static int stuck_cache(int fd) {
  char on[4096];
  struct stat st;
  if (!getenv("STUCK_CACHE")) return 0;
  snprintf(on, sizeof(on), "%s.on", getenv("STUCK_CACHE"));
  return access(on, F_OK) == 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 0;
}

ssize_t pread(int fd, void *buf, size_t n, off_t off) {
  static ssize_t (*real)(int, void *, size_t, off_t);
  if (!real) real = (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread");
  if (n == 1u << 20) stuck(getenv("STUCK_READ"));
  if (stuck_cache(fd)) stuck(getenv("STUCK_CACHE"));
  return real(fd, buf, n, off);
}
