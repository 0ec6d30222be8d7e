/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds files whose size is 0 although they have bytes: those of /proc, /sys and FUSE file systems
 * that make their contents at a read. One read finds such a file.
 */
#include <string.h>
#include <unistd.h>

#include "links.h"

const char *fs_pseudo_problem(int dir, const char *name, const struct stat *st, int flags) {
  char byte;
  struct stat now;
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags, 0);
  if (fd < 0) return strerror(-fd);
  if (fs_sys_fstat(fd, &now) < 0 || !S_ISREG(now.st_mode) || now.st_ino != st->st_ino || now.st_size != 0)
    return "changed while SOURCE was being walked";
  ssize_t n = read(fd, &byte, 1);
  return n == 0  ? NULL
         : n > 0 ? "has bytes though its size is 0 (a file of /proc, /sys or the like); pack a copy of it"
                 : strerror(errno);
}
