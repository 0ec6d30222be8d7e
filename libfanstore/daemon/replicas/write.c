/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes what a file's home has sent to this node's disk. A thread of the pool does it, for each
 * file one at a time and in the order of arrival. A replica has the name that a backing file of
 * this node would have, as ids differ between ranks. It gets the file's mode only when this node
 * becomes its home, so that it stays writable until then.
 */
#include <fcntl.h>
#include <unistd.h>

#include "daemon/replicas/replicas.h"
#include "util/sys.h"
#include "util/util.h"

/* Makes a hole, in place of any data from before. */
static fs_err fs_replica_hole(int fd, uint64_t begin, uint64_t n) {
  static const char zeros[65536];
  struct stat st;
  if (fstat(fd, &st) < 0) return -errno;
  uint64_t end = FS_MIN(begin + n, (uint64_t)st.st_size);
  if (begin >= end) return 0;
  if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)begin, (off_t)(end - begin)) == 0) return 0;
  if (errno != EOPNOTSUPP) return -errno;
  fs_err err = 0;
  for (uint64_t at = begin; err == 0 && at < end; at += sizeof(zeros))
    err = fs_pwrite_full(fd, zeros, FS_MIN(end - at, sizeof(zeros)), at);
  return err;
}

/* Writes a block. A write that makes the file longer fails at the output limit, as a program's
   write does. */
static fs_err fs_replica_put(const struct fs_daemon *d, int fd, const struct fs_replica_block *b) {
  struct stat st;
  if (b->head.hole > 0) return fs_replica_hole(fd, b->head.offset, b->head.hole);
  if (fs_xxh3(b->bytes, b->head.length) != b->head.xxh3) return -EILSEQ;
  if (fs_space_full(d) && fstat(fd, &st) == 0 && b->head.offset + b->head.length > (uint64_t)st.st_size) return -EDQUOT;
  return fs_pwrite_full(fd, b->bytes, b->head.length, b->head.offset);
}

/* Completes a file: sets its size and times, and syncs it if a program waits for its disk. */
static fs_err fs_replica_settle(int fd, const struct fs_names_call *c) {
  struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = c->replica.mtime, .tv_nsec = c->replica.mtime_ns}};
  if (ftruncate(fd, (off_t)c->replica.size) < 0 || futimens(fd, times) < 0) return -errno;
  return (c->flags & FS_REPLICA_DURABLE) && fsync(fd) < 0 ? -errno : 0;
}

fs_err fs_replica_write(struct fs_io *io) {
  struct fs_replica *r = FS_ITEM(io, struct fs_replica, io);
  char name[FS_BACKING_NAME_SIZE];
  FS_AUTO_CLOSE int fd = openat(r->d->backing_fd, fs_backing_name(r->id, name), FS_BACKING_WRITE | O_CREAT, 0600);
  fs_err err = fd >= 0 ? 0 : errno == EAGAIN ? -EIO : -errno; /* EAGAIN would make home ask again */
  for (struct fs_chain *l = r->writing.next; err == 0 && l != &r->writing; l = l->next)
    err = fs_replica_put(r->d, fd, FS_ITEM(l, struct fs_replica_block, chain));
  if (err == 0 && r->settling && r->last) err = fs_replica_put(r->d, fd, r->last);
  if (err == 0 && r->settling) err = fs_replica_settle(fd, &r->call);
  return err;
}
