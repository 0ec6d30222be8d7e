/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens backing files even if their mode forbids it (docs/internals/output-bytes.md). Programs set
 * the mode, and the kernel applies it to the daemon, too, unless it runs as root. A program that
 * has such a file open may go on, on any node. So the daemon adds the permission to the mode while
 * it opens the file. Called by the MPI thread and the I/O pool's threads.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "daemon/outputs/backing.h"

static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER; /* held to change a mode */

static mode_t needed(int flags) {
  int how = flags & O_ACCMODE;
  return (how != O_WRONLY ? S_IRUSR : 0) | (how != O_RDONLY ? S_IWUSR : 0);
}

/* Opens `file` again, with a changed mode. Goes through /proc, so a change of its name has no
   effect. If a program sets the mode meanwhile, its mode stays. */
static fs_fd open_changed(int file, int flags) {
  char path[40];
  struct stat st, now;
  if (fstat(file, &st) < 0) return -errno;
  if (!S_ISREG(st.st_mode) || st.st_uid != geteuid()) return -EACCES;
  mode_t was = st.st_mode & 07777, with = was | needed(flags);
  snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
  if (was == with || chmod(path, with) < 0) return -EACCES;
  fs_fd fd = open(path, flags | O_CLOEXEC);
  if (fd < 0) fd = -errno;
  if (fstat(file, &now) == 0 && (now.st_mode & 07777) == with) (void)chmod(path, was);
  return fd;
}

int fs_backing_written(const struct fs_daemon *d, uint64_t id, struct stat *st) {
  char name[FS_BACKING_NAME_SIZE];
  st->st_mode = 0;
  FS_AUTO_CLOSE int fd = openat(d->backing_fd, fs_backing_name(id, name), FS_BACKING_READ);
  if (fd < 0) return errno == ENOENT ? 0 : -1;
  int written = fcntl(fd, F_SETLEASE, F_RDLCK) == 0 ? 0 : errno == EAGAIN ? 1 : -1;
  if (fstat(fd, st) < 0) st->st_mode = 0; /* after the lease: what is written before the close is in it */
  return written;
}

fs_fd fs_backing_file_open(const struct fs_daemon *d, uint64_t id, int flags) {
  char name[FS_BACKING_NAME_SIZE];
  fs_backing_name(id, name);
  flags |= O_NONBLOCK;
  fs_fd fd = openat(d->backing_fd, name, flags | O_NOFOLLOW | O_CLOEXEC);
  if (fd >= 0 || errno != EACCES) return fd < 0 ? -errno : fd;
  FS_AUTO_CLOSE int file = openat(d->backing_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return -errno;
  pthread_mutex_lock(&changing);
  fd = open_changed(file, flags);
  pthread_mutex_unlock(&changing);
  return fd;
}

/* The MPI thread calls this, so it takes only what the page cache has. tmpfs has everything in memory,
   and before Linux 6.6 knows no RWF_NOWAIT. */
size_t fs_backing_small(const struct fs_daemon *d, const struct fs_opened *held, char bytes[FS_OPEN_BYTES_MOST]) {
  char name[FS_BACKING_NAME_SIZE];
  struct iovec v = {.iov_base = bytes, .iov_len = FS_OPEN_BYTES_MOST};
  struct statfs fs;
  if (held->own == 0 || held->own > FS_OPEN_BYTES_MOST || held->own != held->size || held->segments != 0) return 0;
  FS_AUTO_CLOSE int fd = openat(d->backing_fd, fs_backing_name(held->id, name), FS_BACKING_READ);
  if (fd < 0) return 0;
  ssize_t n = preadv2(fd, &v, 1, 0, RWF_NOWAIT);
  if (n < 0 && errno == EOPNOTSUPP && fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC)
    n = pread(fd, bytes, FS_OPEN_BYTES_MOST, 0);
  return n == (ssize_t)held->own ? (size_t)n : 0;
}
