/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists directories below a mount. The caller has a real, empty directory open that stands for the
 * listed one, and the records are written into the caller's buffer. The number of the next record
 * is the file position of that open directory: the kernel keeps it, dup and fork share it, and
 * lseek (rewinddir, seekdir) needs no answer from us. No locks.
 */
#include <assert.h>
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/names/nodelocal.h"
#include "client/outputs/outputs.h"
#include "static.h"

#define FS_LISTING 32768u
#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif

/* Where the parts of a listing begin in the kernel's positions. Not every file system accepts
   larger positions for directories: tmpfs of Linux 6.6 to 6.9 none above UINT32_MAX, some ext4 none
   above 2^34. */
#define FS_KERNEL_OUTSIDE (1ll << 30)
#define FS_KERNEL_NL (3ll << 30)
#define FS_NL_CUT 10u
static_assert(FS_KERNEL_NL + (int64_t)((FS_RECORD_SEQ_MAX - 1) >> FS_NL_CUT) <= UINT32_MAX, "32 bits are enough");

/* Opens a pidfd of the caller's thread (Linux 6.9) or else of its process. */
static fs_fd open_pidfd(const struct fs_call *c) {
  char text[FS_STATUS_HEAD];
  fs_fd fd = (fs_fd)FS_SYS2(SYS_pidfd_open, c->tid, PIDFD_THREAD);
  if (fd >= 0) return fd;
  fs_tracee_status(c, text, sizeof(text));
  const char *line = strstr(text, "\nTgid:");
  return line == NULL ? -ESRCH : (fs_fd)FS_SYS2(SYS_pidfd_open, atoi(line + 6), 0);
}

/* Returns a descriptor of the caller's own open description. */
static fs_fd borrow(const struct fs_call *c, int fd) {
  FS_AUTO_CLOSE int pidfd = open_pidfd(c);
  return pidfd < 0 ? pidfd : (fs_fd)FS_SYS3(SYS_pidfd_getfd, pidfd, fd, 0);
}

/* Returns the kernel's position for a position of the client, or -EOVERFLOW. Positions of
   node-local names lose their lower bits. Before the first of them is the last one of outputs. */
static int64_t to_kernel(uint64_t at) {
  if (at == FS_NL_AT) return FS_KERNEL_NL - 1;
  if (at >= FS_NL_AT) return FS_KERNEL_NL + (int64_t)((at - FS_NL_AT - 1) >> FS_NL_CUT);
  uint64_t first = at < FS_OUTPUT_AT ? 0 : FS_OUTPUT_AT,
           room = at < FS_OUTPUT_AT ? FS_KERNEL_OUTSIDE : FS_KERNEL_NL - FS_KERNEL_OUTSIDE;
  if (at - first >= room) return -EOVERFLOW;
  return (int64_t)(at - first) + (at < FS_OUTPUT_AT ? 0 : FS_KERNEL_OUTSIDE);
}

static uint64_t from_kernel(int64_t at) {
  if (at < FS_KERNEL_OUTSIDE) return (uint64_t)at;
  if (at < FS_KERNEL_NL) return FS_OUTPUT_AT + (uint64_t)(at - FS_KERNEL_OUTSIDE);
  return FS_NL_AT + ((uint64_t)(at - FS_KERNEL_NL + 1) << FS_NL_CUT);
}

/* Converts a record to the older form: the type is behind the name, and the length is equal. */
static void make_old(struct dirent64 *d) {
  char *record = (char *)d, type = (char)d->d_type;
  size_t head = offsetof(struct dirent64, d_name) - 1;
  memmove(record + head, d->d_name, strlen(d->d_name) + 1);
  record[d->d_reclen - 1] = type;
}

/* Converts records for the caller. Returns their length, up to the first whose position the kernel
   cannot keep. Sets *at to the position after them. */
static fs_ssize convert(char *buf, fs_ssize n, int64_t *at, bool old) {
  for (fs_ssize used = 0; used < n;) {
    struct dirent64 *d = (struct dirent64 *)(void *)(buf + used);
    int64_t next = to_kernel((uint64_t)d->d_off);
    if (next < 0) return used > 0 ? used : next;
    d->d_off = *at = next;
    used += d->d_reclen;
    if (old) make_old(d);
  }
  return n;
}

/* Checks only that the entry is a directory, which needs no daemon. If no daemon answers, the
   listing must fail and not show the empty real directory. */
static fs_err must_list(uint32_t mount, uint32_t entry) {
  struct stat st = {0};
  const struct fs_output_node *n = fs_output_node(entry);
  if (n != NULL) st.st_mode = atomic_load_explicit(&n->mode, memory_order_relaxed);
  fs_err err = n != NULL ? 0 : fs_file_stat(mount, entry, &st);
  return err != 0 || S_ISDIR(st.st_mode) ? err : -ENOTDIR;
}

static int64_t list(struct fs_call *c, bool old) {
  char buf[FS_LISTING] __attribute__((aligned(8))) = {0};
  struct fs_found f;
  if (!fs_call_ref(c, (int)c->arg[0], &f.mount, &f.entry)) return FS_PASS;
  fs_err err = must_list(f.mount, f.entry);
  if (err != 0) return err == -ENOTDIR ? FS_PASS : err;
  FS_AUTO_CLOSE int fd = borrow(c, (int)c->arg[0]);
  if (fd < 0) return fd == -EPERM ? -EACCES : fd;
  int64_t at = FS_SYS3(SYS_lseek, fd, 0, SEEK_CUR);
  if (at < 0) return at; /* O_PATH: EBADF */
  uint64_t next = from_kernel(at);
  fs_ssize n = fs_dir_list(f.mount, f.entry, &next, buf, FS_MIN(c->arg[2] & UINT32_MAX, sizeof(buf)));
  if (n > 0) n = convert(buf, n, &at, old);
  if (n <= 0) return n;
  err = fs_tracee_write(c, c->arg[1], buf, (size_t)n);
  if (err != 0) return err;
  at = FS_SYS3(SYS_lseek, fd, at, SEEK_SET);
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
