/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The node's copy of a file that is mapped and cannot be mapped from a local partition
 * (materialize.c). All processes of the node share one sparse file. Each fills the chunks that its
 * mapping covers and that nobody has filled. A second file has a byte for each chunk, which says
 * that the chunk is filled. The process that fills a chunk holds a lock on that byte; the kernel
 * drops the lock when the process dies. All writers write the same bytes, so a chunk that two fill
 * is right too: the locks only save work.
 */
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include "client/outputs/outputs.h"
#include "client/real/making.h"
#include "util/dirents.h"

#define FS_COPY_CHUNK (2u << 20)
#define FS_MARKS_AT_ONCE 512u

struct fs_copies {
  struct fs_making *m;
  const char *dir;
  uint64_t chunk, first, end; /* bytes of a chunk; numbers of the chunks that are wanted */
  bool memory;                /* its file system is in memory */
  int32_t marks;
};

/* ---- claims ---- */

static fs_err claim_as(int fd, uint64_t byte, short type) {
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};
  fs_err err = (fs_err)fs_sys_fcntl(fd, F_OFD_SETLK, (long)&lock);
  return err == -EACCES ? -EAGAIN : err;
}

fs_err fs_claim(int fd, uint64_t byte) {
  return claim_as(fd, byte, F_WRLCK);
}

void fs_unclaim(int fd, uint64_t byte) {
  (void)claim_as(fd, byte, F_UNLCK);
}

void fs_claim_nap(void) {
  FS_SYS2(SYS_nanosleep, (&(struct timespec){.tv_nsec = FS_CLAIM_NAP_NS}), NULL);
}

/* ---- room ---- */

/* Returns how many bytes the copies in a directory take, by the kernel's account. What a dead
   process had meant to write is not in it. */
static uint64_t copies_bytes(const char *dir) {
  uint64_t bytes = 0;
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  struct fs_dirents names = {.fd = fd};
  for (const struct dirent64 *e; (e = fs_dirents_next(&names)) != NULL;) {
    size_t len = strlen(e->d_name);
    struct stat st;
    if (len < 3 || e->d_name[len - 2] != '.') continue;
    if (e->d_name[len - 1] != FS_MADE_WHOLE && e->d_name[len - 1] != FS_MADE_MAPPED) continue;
    if (fs_sys_fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0) bytes += (uint64_t)st.st_blocks * 512;
  }
  return bytes;
}

/* The copies of a node may take half of the memory that there would be without them. */
static fs_err memory_room(const struct fs_node *node, const char *dir, uint64_t bytes) {
  FS_AUTO_CLOSE fs_fd fd = fs_open_read(FS_MEMINFO);
  uint64_t have = fs_mem_available(fd), taken = copies_bytes(dir);
  uint64_t most = have > 0 ? (have + taken) / 2 : UINT64_MAX; /* 0: not known */
  if (node && node->ctl->memory_limit > 0) most = FS_MIN(most, node->ctl->memory_limit / 2);
  return bytes <= most && taken <= most - bytes ? 0 : -ENOSPC;
}

static bool in_memory(const struct statfs *fs) {
  return (uint32_t)fs->f_type == TMPFS_MAGIC || (uint32_t)fs->f_type == RAMFS_MAGIC;
}

fs_err fs_copies_room(const struct fs_node *node, const char *dir, uint64_t bytes) {
  struct statfs fs;
  fs_err err = (fs_err)FS_SYS2(SYS_statfs, dir, &fs);
  if (err < 0) return err;
  /* A file system without a size (ramfs, tmpfs of size=0) has no blocks. */
  if (fs.f_blocks > 0 && fs.f_bsize > 0 && bytes / (uint64_t)fs.f_bsize >= fs.f_bavail) return -ENOSPC;
  return in_memory(&fs) ? memory_room(node, dir, bytes) : 0;
}

/* ---- which chunks are filled ---- */

/* Returns the first chunk from i on that is not marked as filled, or c->end. A mark beyond the
   file's end counts as not filled. */
static uint64_t unfilled(const struct fs_copies *c, uint64_t i) {
  uint8_t mark[FS_MARKS_AT_ONCE];
  while (i < c->end) {
    size_t want = FS_MIN(sizeof(mark), c->end - i);
    fs_ssize n = fs_sys_pread(c->marks, mark, want, i);
    for (fs_ssize k = 0; k < n; k++)
      if (mark[k] != 1) return i + (uint64_t)k;
    if (n <= 0) return i;
    i += (uint64_t)n;
  }
  return c->end;
}

static uint64_t chunk_end(const struct fs_copies *c, uint64_t i) {
  return FS_MIN(c->m->size, (i + 1) * c->chunk);
}

static uint64_t missing(const struct fs_copies *c) {
  uint64_t bytes = 0;
  for (uint64_t i = unfilled(c, c->first); i < c->end; i = unfilled(c, i + 1)) bytes += chunk_end(c, i) - i * c->chunk;
  return bytes;
}

/* Fills a chunk. The mark comes last: if a process dies before it, the next one fills the chunk
   again. */
static fs_err fill_chunk(const struct fs_copies *c, int fd, uint64_t i) {
  static const uint8_t mark = 1;
  uint64_t from = i * c->chunk, to = chunk_end(c, i);
  fs_err err = c->memory ? memory_room(c->m->ds->node, c->dir, to - from) : 0;
  if (err == 0) err = (fs_err)FS_SYS4(SYS_fallocate, fd, 0, from, to - from);
  if (fs_is_full(err)) return err;
  err = fs_making_fill(c->m, fd, from, to);
  return err < 0 ? err : fs_pwrite_full(c->marks, &mark, 1, i);
}

/* Fills the chunks that nobody else fills. Then waits for those that others fill, but not for one
   without progress. */
static fs_err fill_missing(const struct fs_copies *c, int fd) {
  for (uint64_t turns = 0, before = UINT64_MAX;;) {
    uint64_t left = 0;
    for (uint64_t i = unfilled(c, c->first); i < c->end; i = unfilled(c, i + 1)) {
      bool claimed = fs_claim(c->marks, i) != -EAGAIN;
      if (!claimed && turns < FS_CLAIM_TURNS) {
        left++;
        continue;
      }
      fs_err err = unfilled(c, i) == i ? fill_chunk(c, fd, i) : 0;
      if (claimed) fs_unclaim(c->marks, i);
      if (err < 0) return err;
    }
    if (left == 0) return 0;
    turns = left < before ? 0 : turns + 1;
    before = left;
    fs_claim_nap();
  }
}

/* ---- the files ---- */

/* Opens the data file. A process that finds it empty gives it its size, which changes nothing in a
   file that has its size already. */
static fs_fd open_data(const struct fs_making *m, const char *path) {
  struct stat st;
  fs_fd fd = fs_making_open(m, path);
  if (fd >= 0 || (fd != -ENOENT && fd != -EUCLEAN)) return fd;
  const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  FS_AUTO_CLOSE fs_fd rw = fs_sys_openat(AT_FDCWD, path, flags | O_CREAT | O_EXCL, 0600);
  if (rw >= 0) fs_count(FS_C_MATERIALIZED, 1);
  if (rw == -EEXIST) rw = fs_sys_openat(AT_FDCWD, path, flags, 0);
  if (rw < 0) return rw;
  if (fs_sys_fstat(rw, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != (uid_t)FS_SYS1(SYS_geteuid, 0))
    return -EUCLEAN;
  if (st.st_size == 0 && m->size > 0) {
    fs_err err = (fs_err)FS_SYS2(SYS_ftruncate, rw, m->size);
    if (err < 0) return err;
  }
  return fs_making_open(m, path);
}

/* Tells this file from all others that ever had the name: an inode is given to another file when
   its own has gone. */
static struct fs_made_of made_of(int data, const struct stat *st) {
  struct statx x = {.stx_mask = 0};
  (void)FS_SYS5(SYS_statx, data, "", AT_EMPTY_PATH, STATX_BTIME, &x);
  bool known = x.stx_mask & STATX_BTIME;
  return (struct fs_made_of){st->st_ino, known ? (uint64_t)x.stx_btime.tv_sec * 1000000000u + x.stx_btime.tv_nsec : 0};
}

/* Opens the marks of this very copy. Their room is taken at once, so that a full disk shows before
   the fill. */
static fs_fd open_marks(const struct fs_making *m, const char *dir, const struct fs_made_of *of, uint64_t count) {
  char path[PATH_MAX];
  struct stat st;
  fs_err err = fs_making_path(m, dir, of, FS_MADE_MARKS, path);
  if (err < 0) return err;
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (fd < 0) return fd;
  if (fs_sys_fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != (uid_t)FS_SYS1(SYS_geteuid, 0))
    return -EUCLEAN;
  if ((uint64_t)st.st_size < count) err = (fs_err)FS_SYS4(SYS_fallocate, fd, 0, 0, count);
  return fs_is_full(err) ? err : FS_MOVE_FD(fd);
}

/* Opens the copy for writing. Only a process with chunks to fill does so. */
static fs_fd open_write(const char *path, const struct stat *data) {
  struct stat st;
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
  if (fd < 0) return fd;
  if (fs_sys_fstat(fd, &st) != 0 || st.st_ino != data->st_ino || st.st_dev != data->st_dev) return -EUCLEAN;
  return FS_MOVE_FD(fd);
}

fs_fd fs_copies_get(struct fs_making *m, const char *dir, uint64_t from, uint64_t to) {
  char path[PATH_MAX];
  struct stat st;
  struct statfs fs;
  struct fs_copies c = {.m = m, .dir = dir, .chunk = FS_MAX(FS_COPY_CHUNK, m->ds->ix.block_size)};
  fs_err err = fs_making_path(m, dir, NULL, FS_MADE_MAPPED, path);
  if (err < 0) return err;
  FS_AUTO_CLOSE fs_fd data = open_data(m, path);
  if (data < 0) return data;
  if (fs_sys_fstat(data, &st) != 0 || FS_SYS2(SYS_fstatfs, data, &fs) != 0) return -EIO;
  const struct fs_made_of of = made_of(data, &st);
  FS_AUTO_CLOSE fs_fd marks = open_marks(m, dir, &of, (m->size + c.chunk - 1) / c.chunk);
  if (marks < 0) return marks;
  c.marks = marks, c.memory = in_memory(&fs);
  c.first = from / c.chunk;
  c.end = (FS_MIN(to, m->size) + c.chunk - 1) / c.chunk;
  uint64_t bytes = missing(&c);
  if (bytes == 0) return FS_MOVE_FD(data);
  err = fs_copies_room(m->ds->node, dir, bytes);
  if (err < 0) return err;
  FS_AUTO_CLOSE fs_fd write = open_write(path, &st);
  err = write < 0 ? write : fill_missing(&c, write);
  return err < 0 ? err : FS_MOVE_FD(data);
}
