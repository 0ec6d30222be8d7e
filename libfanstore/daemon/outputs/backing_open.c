/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening backing files whose mode permits it to nobody: programs have set it, and the kernel holds it against the
 * daemon, too, unless it is root's. Who has such a file open goes on, on any node, so the daemon gives itself the
 * permission for the moment of opening (docs/internals/output-bytes.md). Called by the MPI thread and the I/O pool's.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "daemon/outputs/backing.h"

static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER; /* a mode: none but one thread's opening */

static mode_t needed(int flags) {
  int how = flags & O_ACCMODE;
  return (how != O_WRONLY ? S_IRUSR : 0) | (how != O_RDONLY ? S_IWUSR : 0);
}

/* By the file itself, whatever becomes of its name. What a program sets it to meanwhile stays. */
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
