/* SPDX-License-Identifier: BSD-3-Clause */
/* See source.h. A segment is opened, on this node or on another, when its first byte is read.
   fs_source_same checks at the end that it has not changed. */
#include "daemon/outputs/source.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/outputs/backing.h"
#include "util/sys.h"

struct fs_source_segment {
  uint64_t id;
  bool used;
  struct stat st;        /* if it is on this node */
  struct fs_opened held; /* if it is on another node */
};

static int fs_source_by_id(const void *a, const void *b) {
  const struct fs_source_segment *x = a, *y = b;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* Lists each segment of the extent map once, sorted by id. */
static fs_err fs_source_list(struct fs_source *s) {
  const struct fs_scattered *e = s->scattered;
  if (e->count == 0) return 0;
  s->segment = calloc(e->count, sizeof(*s->segment));
  if (!s->segment) return -ENOMEM;
  for (uint32_t i = 0; i < e->count; i++) s->segment[i].id = e->extent[i].segment;
  qsort(s->segment, e->count, sizeof(*s->segment), fs_source_by_id);
  for (uint32_t i = 0; i < e->count; i++)
    if (s->segments == 0 || s->segment[s->segments - 1].id != s->segment[i].id)
      s->segment[s->segments++] = s->segment[i];
  return 0;
}

/* The kernel gives a read lease only if nobody has the file open for writing. A program that
   opens it meanwhile waits until the lease is given back. The kernel then sends SIGURG, which is
   ignored. */
bool fs_source_written(const struct fs_source *s) {
  if (s->scattered->linked) return false;
  if (fcntl(s->fd, F_SETSIG, SIGURG) < 0 || fcntl(s->fd, F_SETLEASE, F_RDLCK) < 0) return true;
  (void)fcntl(s->fd, F_SETLEASE, F_UNLCK);
  return false;
}

fs_err fs_source_open(struct fs_source *s, const struct fs_daemon *d, struct fs_inside *in, uint64_t id, int flags,
                      const struct fs_scattered *scattered) {
  char name[FS_BACKING_NAME_SIZE];
  *s = (struct fs_source){.d = d, .in = in, .scattered = scattered};
  flags |= O_NONBLOCK | O_CLOEXEC;
  s->fd = scattered->linked ? fs_sys_openat(d->backing_fd, fs_backing_name(id, name), flags, 0)
                            : fs_backing_file_open(d, id, flags);
  if (s->fd < 0) return s->fd;
  fs_err err = fstat(s->fd, &s->st) < 0 ? -errno : S_ISREG(s->st.st_mode) ? 0 : -ENOENT;
  if (err == 0) err = fs_source_list(s);
  s->open = err == 0 && fs_source_written(s);
  s->size = (uint64_t)s->st.st_size;
  for (uint32_t i = 0; err == 0 && i < scattered->count; i++)
    s->size = FS_MAX(s->size, scattered->extent[i].off + scattered->extent[i].len);
  if (err < 0) fs_source_close(s);
  return err;
}

void fs_source_close(struct fs_source *s) {
  for (uint32_t i = 0; i < s->segments; i++)
    if (s->segment[i].used && s->segment[i].held.snapshot != 0) fs_inside_close(s->in, &s->segment[i].held);
  free(s->segment);
  if (s->fd >= 0) close(s->fd);
  s->segment = NULL;
  s->segments = 0;
  s->fd = -1;
}

/* ---- reading ---- */

static bool fs_segment_here(const struct fs_source *s, const struct fs_source_segment *p) {
  return FS_OUTPUT_ID_RANK(p->id) == s->d->net->rank;
}

/* Returns -EHOSTDOWN for every error that means that a segment's bytes cannot be reached. */
static fs_err fs_segment_lost(fs_err err) {
  return err == -ENOENT || err == -EHOSTDOWN || err == -EREMOTEIO || err == -ETIMEDOUT ? -EHOSTDOWN : err;
}

static fs_err fs_segment_read_here(const struct fs_source *s, struct fs_source_segment *p, void *buf, size_t n,
                                   uint64_t at) {
  char name[FS_BACKING_NAME_SIZE];
  FS_AUTO_CLOSE int fd = openat(s->d->backing_fd, fs_backing_name(p->id, name), FS_BACKING_READ);
  if (fd < 0 || (!p->used && fstat(fd, &p->st) < 0)) return errno == ENOENT ? -EIO : -errno;
  p->used = true;
  return fs_pread_full(fd, buf, n, at);
}

static fs_err fs_segment_read_there(struct fs_source *s, struct fs_source_segment *p, void *buf, size_t n,
                                    uint64_t at) {
  if (!s->in) return -EHOSTDOWN;
  fs_err err = p->used ? 0 : fs_inside_open(s->in, p->id, &p->held);
  if (err == 0) p->used = true;
  if (err == 0 && (at > p->held.own || n > p->held.own - at)) err = -EIO; /* the map has more */
  if (err == 0) err = fs_inside_read(s->in, &p->held, buf, n, at);
  return fs_segment_lost(err);
}

static fs_err fs_source_read_segment(struct fs_source *s, uint64_t id, void *buf, size_t n, uint64_t at) {
  struct fs_source_segment key = {.id = id};
  struct fs_source_segment *p = bsearch(&key, s->segment, s->segments, sizeof(key), fs_source_by_id);
  if (!p) return -EINVAL;
  return fs_segment_here(s, p) ? fs_segment_read_here(s, p, buf, n, at) : fs_segment_read_there(s, p, buf, n, at);
}

/* Reads bytes that no segment has: from home's backing file, and zeros beyond its end. Returns
   -EAGAIN if that file has become shorter. */
static fs_ssize fs_source_read_own(const struct fs_source *s, void *buf, size_t n, uint64_t at, bool *hole) {
  uint64_t end = (uint64_t)s->st.st_size;
  struct stat now;
  off_t data = at < end ? lseek(s->fd, (off_t)at, SEEK_DATA) : -1;
  *hole = at >= end || (data < 0 && errno == ENXIO) || data > (off_t)at;
  off_t stop = data > (off_t)at ? data : data == (off_t)at ? lseek(s->fd, data, SEEK_HOLE) : -1;
  if (stop > (off_t)at) end = FS_MIN(end, (uint64_t)stop);
  if (at < end) n = FS_MIN(n, (size_t)(end - at));
  fs_err err = *hole ? 0 : fs_pread_full(s->fd, buf, n, at);
  bool shorter = err == -EIO && fstat(s->fd, &now) == 0 && now.st_size < s->st.st_size;
  return shorter ? -EAGAIN : err < 0 ? err : (fs_ssize)n;
}

fs_ssize fs_source_read(struct fs_source *s, void *buf, size_t n, uint64_t at, bool *hole) {
  const struct fs_output_extent *e = s->scattered->extent;
  uint32_t count = s->scattered->count;
  *hole = false;
  if (s->next > 0 && at < e[s->next - 1].off + e[s->next - 1].len) s->next = 0;
  while (s->next < count && e[s->next].off + e[s->next].len <= at) s->next++;
  uint64_t end = s->next < count && e[s->next].off > at ? e[s->next].off : s->size;
  if (s->next == count || e[s->next].off > at)
    return fs_source_read_own(s, buf, FS_MIN(n, (size_t)(end - at)), at, hole);
  n = FS_MIN(n, (size_t)(e[s->next].off + e[s->next].len - at));
  fs_err err = fs_source_read_segment(s, e[s->next].segment, buf, n, at);
  return err < 0 ? err : (fs_ssize)n;
}

/* ---- changes since the opening ---- */

static fs_err fs_segment_same(struct fs_source *s, const struct fs_source_segment *p) {
  char name[FS_BACKING_NAME_SIZE];
  struct stat st;
  struct fs_opened held;
  if (fs_segment_here(s, p)) {
    if (fstatat(s->d->backing_fd, fs_backing_name(p->id, name), &st, AT_SYMLINK_NOFOLLOW) < 0) return -errno;
    return fs_same_contents(&st, &p->st) ? 0 : -EAGAIN;
  }
  fs_err err = fs_inside_open(s->in, p->id, &held);
  if (err < 0) return fs_segment_lost(err);
  fs_inside_close(s->in, &held);
  return held.version == p->held.version ? 0 : -EAGAIN;
}

fs_err fs_source_same_segments(struct fs_source *s) {
  fs_err err = 0;
  for (uint32_t i = 0; err == 0 && i < s->segments; i++)
    if (s->segment[i].used) err = fs_segment_same(s, &s->segment[i]);
  return err;
}

fs_err fs_source_same(struct fs_source *s) {
  struct stat now;
  if (fstat(s->fd, &now) < 0) return -errno;
  return fs_same_contents(&now, &s->st) ? fs_source_same_segments(s) : -EAGAIN;
}
