/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listing directories of a dataset. The caller has a real, empty directory open that stands for it; its records are
 * written into the caller's buffer. The number of the next record is the real description's file position: so the
 * kernel keeps it, dup and fork share it, and lseek (rewinddir, seekdir) needs no answer from us. Nothing is locked.
 */
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "static.h"

#define FS_LISTING 32768u
#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif

struct old_dirent {
  unsigned long ino, off;
  unsigned short reclen;
  char name[];
};

/* Of the thread (Linux 6.9), else of its process. */
static fs_fd open_pidfd(const struct fs_call *c) {
  char text[FS_STATUS_HEAD];
  fs_fd fd = (fs_fd)FS_SYS2(SYS_pidfd_open, c->tid, PIDFD_THREAD);
  if (fd >= 0) return fd;
  fs_tracee_status(c, text, sizeof(text));
  const char *line = strstr(text, "\nTgid:");
  return line == NULL ? -ESRCH : (fs_fd)FS_SYS2(SYS_pidfd_open, atoi(line + 6), 0);
}

/* The caller's own open description. */
static fs_fd borrow(const struct fs_call *c, int fd) {
  FS_AUTO_CLOSE int pidfd = open_pidfd(c);
  return pidfd < 0 ? pidfd : (fs_fd)FS_SYS3(SYS_pidfd_getfd, pidfd, fd, 0);
}

/* One record at p, if it fits. Its length, 0 when it does not fit. */
static size_t put_record(char *p, size_t room, const struct fs_dirent_view *v, uint64_t next, bool old) {
  size_t head = old ? offsetof(struct old_dirent, name) : offsetof(struct dirent64, d_name);
  size_t len = fs_round_up(head + v->name_len + (old ? 2 : 1), 8);
  if (len > room) return 0;
  memset(p, 0, len);
  memcpy(p + head, v->name, v->name_len);
  if (old) {
    *(struct old_dirent *)p = (struct old_dirent){v->ino, next, (unsigned short)len};
    p[len - 1] = (char)v->type;
    return len;
  }
  struct dirent64 *d = (struct dirent64 *)p;
  d->d_ino = v->ino;
  d->d_off = (off64_t)next;
  d->d_reclen = (unsigned short)len;
  d->d_type = v->type;
  return len;
}

static fs_ssize put_records(char *buf, size_t n, uint32_t mount, uint32_t dir, uint64_t *at, bool old) {
  struct fs_dirent_view v;
  size_t used = 0;
  for (;; ++*at) {
    fs_err err = fs_dir_record(mount, dir, *at, &v);
    if (err == -ENOENT) return (fs_ssize)used;
    size_t len = err != 0 ? 0 : put_record(buf + used, n - used, &v, *at + 1, old);
    if (len == 0) return used > 0 ? (fs_ssize)used : err != 0 ? err : -EINVAL;
    used += len;
  }
}

static int64_t list(struct fs_call *c, bool old) {
  char buf[FS_LISTING] __attribute__((aligned(8)));
  struct fs_found f;
  struct stat st;
  if (!fs_call_ref(c, (int)c->arg[0], &f.mount, &f.entry)) return FS_PASS;
  if (fs_file_stat(f.mount, f.entry, &st) != 0 || !S_ISDIR(st.st_mode)) return FS_PASS;
  FS_AUTO_CLOSE int fd = borrow(c, (int)c->arg[0]);
  if (fd < 0) return fd == -EPERM ? -EACCES : fd;
  long at = FS_SYS3(SYS_lseek, fd, 0, SEEK_CUR);
  if (at < 0) return at; /* O_PATH: EBADF */
  uint64_t next = (uint64_t)at;
  fs_ssize n = put_records(buf, FS_MIN(c->arg[2] & UINT32_MAX, sizeof(buf)), f.mount, f.entry, &next, old);
  if (n <= 0) return n;
  fs_err err = fs_tracee_write(c, c->arg[1], buf, (size_t)n);
  if (err != 0) return err;
  at = FS_SYS3(SYS_lseek, fd, next, SEEK_SET);
  return at < 0 ? at : n;
}

int64_t fs_on_getdents64(struct fs_call *c, const struct fs_trap *t) {
  (void)t;
  return list(c, false);
}

int64_t fs_on_getdents(struct fs_call *c, const struct fs_trap *t) {
  (void)t;
  return list(c, true);
}
