/* SPDX-License-Identifier: BSD-3-Clause */
/* A file system without hard links, by LD_PRELOAD. */
#include <errno.h>
#include <unistd.h>

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) {
  (void)from_dir, (void)from, (void)to_dir, (void)to, (void)flags;
  errno = EPERM;
  return -1;
}
