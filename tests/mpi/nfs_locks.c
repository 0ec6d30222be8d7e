/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks as Linux has them on NFS (fs/nfs/file.c, nfs_flock), by LD_PRELOAD: a file must be open for writing to be
 * locked exclusively, and what is locked of a directory no other host sees, which each process is here.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int flock(int fd, int op) {
  struct stat st;
  int known = fstat(fd, &st) == 0, flags = fcntl(fd, F_GETFL);
  if (known && S_ISDIR(st.st_mode)) return 0;
  if (known && S_ISREG(st.st_mode) && (op & LOCK_EX) && flags >= 0 && (flags & O_ACCMODE) == O_RDONLY) {
    errno = EBADF;
    return -1;
  }
  return (int)syscall(SYS_flock, fd, op);
}
