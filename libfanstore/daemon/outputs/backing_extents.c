/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that processes of several nodes write (docs/internals/several-writers.md). A segment is a
 * backing file without a name, on the node of the process that wrote it. The home keeps the extent
 * map: which bytes are in which segment, sorted and without overlaps. All other bytes are in home's
 * own backing file. If two writes overlap, the last published wins. backing.c calls this in the MPI
 * thread.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/metadata/ns_priv.h"
#include "daemon/outputs/backing.h"
#include "daemon/outputs/left.h"
#include "daemon/outputs/node_segment.h"
#include "daemon/outputs/replicate.h"
#include "daemon/outputs/source.h"

fs_err fs_backing_scattered(const struct fs_backing_file *f, struct fs_scattered *to) {
  uint32_t count;
  const struct fs_output_extent *e = fs_extents_all(f->extents, &count);
  *to = (struct fs_scattered){.changes = f->changes, .linked = f->in != NULL};
  if (count == 0) return 0;
  to->extent = malloc(count * sizeof(*e));
  if (!to->extent) return -ENOMEM;
  memcpy(to->extent, e, count * sizeof(*e));
  to->count = count;
  return 0;
}

/* The ranges of an extent map's last changes. Home's backing file has no valid bytes where a
   segment has them. So home must not give them to a reader that knows an older map. */
#define FS_BACKING_RECENT 64u
struct fs_backing_recent {
  struct {
    uint64_t off, end;
  } change[FS_BACKING_RECENT]; /* change n is at n % FS_BACKING_RECENT */
};

static void fs_backing_changed(struct fs_backing_file *f, uint64_t off, uint64_t end) {
  f->changes++;
  if (!f->recent) f->recent = calloc(1, sizeof(*f->recent));
  if (!f->recent) return;
  f->recent->change[f->changes % FS_BACKING_RECENT].off = off;
  f->recent->change[f->changes % FS_BACKING_RECENT].end = end;
}

bool fs_backing_same_map(const struct fs_daemon *d, uint64_t id, uint64_t list, uint64_t off, uint64_t len) {
  const struct fs_backing_file *f = list == 0 ? NULL : fs_backing_find(d, id);
  uint64_t now = f ? fs_backing_map(d, f) : list;
  if (f && fs_extents_any(f->extents) && fs_backing_cutting(d, id)) return false;
  if (list == now) return true;
  if (list > now || now - list > FS_MIN(FS_BACKING_RECENT, f->changes) || !f->recent) return false;
  for (uint64_t n = f->changes - (now - list) + 1; n <= f->changes; n++) {
    uint64_t from = f->recent->change[n % FS_BACKING_RECENT].off, end = f->recent->change[n % FS_BACKING_RECENT].end;
    if (from < off + len && off < end) return false;
  }
  return true;
}

fs_err fs_backing_put(struct fs_daemon *d, struct fs_backing_file *f, struct fs_output_extent e) {
  fs_err err = fs_extents_put(&f->extents, e);
  fs_maps_changed(d);
  if (err != 0) return err;
  if (!f->split) fs_left_split(d, f->id);
  f->split = true;
  fs_backing_changed(f, e.off, e.off + e.len);
  fs_copy_listed(d, f, e);
  return 0;
}

void fs_backing_cut(struct fs_daemon *d, struct fs_backing_file *f, uint64_t size) {
  if (!f->extents) return;
  fs_extents_truncate(f->extents, size);
  fs_maps_changed(d);
  fs_backing_changed(f, size, UINT64_MAX);
  fs_copy_listed(d, f, (struct fs_output_extent){.off = size});
}

uint64_t fs_backing_map(const struct fs_daemon *d, const struct fs_backing_file *f) {
  return (d->net->rank + 1ull) << 40 | (f->changes & ((1ull << 40) - 1));
}

/* ---- segments that are not needed any more ---- */

static int fs_extent_by_segment(const void *a, const void *b) {
  const struct fs_output_extent *x = a, *y = b;
  return x->segment < y->segment ? -1 : x->segment > y->segment;
}

static void fs_backing_drop_at(struct fs_daemon *d, uint32_t rank, uint64_t id) {
  const struct fs_names_call c = {.op = FS_NAMES_DROP, .drop.id = id};
  if (rank == d->net->rank)
    fs_backing_dropped(d, id);
  else if (rank < d->net->nodes)
    fs_ns_ask(d->ns, rank, &c, NULL, NULL);
}

/* Drops the segments of all nodes that wrote the file, also those that the map names no more. */
static void fs_backing_drop_written(struct fs_daemon *d, const struct fs_backing_file *f) {
  for (uint32_t rank = 0; f->reported && rank < d->net->nodes; rank++) {
    if (!fs_backing_writes(d, f, rank)) continue;
    if (rank == d->net->rank)
      fs_node_segment_useless(d, f->id);
    else
      fs_backing_drop_at(d, rank, f->id);
  }
}

void fs_backing_drop_segments(struct fs_daemon *d, struct fs_backing_file *f) {
  fs_backing_drop_written(d, f);
  struct fs_extents *x = f->extents;
  uint32_t count;
  struct fs_output_extent *e = fs_extents_all(x, &count);
  f->extents = NULL;
  if (!x) return;
  qsort(e, count, sizeof(*e), fs_extent_by_segment);
  for (uint32_t i = 0; i < count; i++) {
    if (i > 0 && e[i].segment == e[i - 1].segment) continue;
    uint64_t segment = e[i].segment;
    fs_backing_drop_at(d, FS_OUTPUT_ID_RANK(segment) < d->net->nodes ? fs_home_of(d, segment) : FS_NO_RANK, segment);
  }
  free(x);
}

/* ---- the calls ---- */

struct fs_extending {
  struct fs_daemon *d;
  struct fs_asked asked;
  bool lost; /* the caller's appends at the former home are lost */
  fs_err err;
};

static void fs_extended_told(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_extending *e = ctx;
  (void)body, (void)n;
  if (e->err < 0) err = e->err;
  if (err == 0 && e->lost) err = -EIO;
  fs_ns_answer(e->d->ns, e->asked, err, NULL, 0);
  free(e);
}

static void fs_extended(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_extending *e = ctx;
  (void)body, (void)n;
  e->err = err == -ENOENT ? 0 : err;
  fs_maps_report(e->d, fs_extended_told, e);
}

/* Makes home's backing file as long as the whole file, so that appends come after all bytes. If
   bytes were written, sets its mtime, too. The file only grows here: home's own programs may
   append at this moment. */
static fs_err fs_extents_reach(const struct fs_daemon *d, const struct fs_backing_file *f, bool written) {
  static const struct timespec now[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
  char name[FS_BACKING_NAME_SIZE];
  struct stat st;
  off_t end = (off_t)fs_extents_end(f->extents);
  fs_backing_name(f->id, name);
  if (written && utimensat(d->backing_fd, name, now, AT_SYMLINK_NOFOLLOW) < 0) return -errno;
  if (fstatat(d->backing_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) return -errno;
  if (st.st_size >= end) return 0;
  FS_AUTO_CLOSE fs_fd fd = fs_backing_file_open(d, f->id, O_WRONLY);
  if (fd < 0) return fd;
  if (fallocate(fd, 0, end - 1, 1) == 0) return 0;
  return errno == EOPNOTSUPP && ftruncate(fd, end) == 0 ? 0 : -errno; /* no fallocate here */
}

bool fs_extents_none(struct fs_daemon *d, struct fs_asked a, const struct fs_backing_file *f, uint64_t id) {
  char name[FS_BACKING_NAME_SIZE];
  if (f && !f->gone) return false;
  /* EIO: the first home has failed and left no replica here; or CREATE had no answer, but there
     is a backing file. */
  bool successor = FS_OUTPUT_ID_RANK(id) != d->net->rank;
  bool lost = !f && (successor || faccessat(d->backing_fd, fs_backing_name(id, name), F_OK, 0) == 0);
  fs_ns_answer(d->ns, a, lost ? -EIO : -ENOENT, NULL, 0);
  return true;
}

/* Adds a segment's ranges to the extent map, then publishes the file's size. */
void fs_extents_extend(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f,
                       const struct fs_names_call *c) {
  if (fs_extents_none(d, a, f, c->extend.id)) return;
  const char *ranges = fs_call_tail(c);
  const uint64_t changes = f->changes;
  struct fs_extending *e = malloc(sizeof(*e));
  fs_err err = e ? 0 : -ENOMEM;
  if (err == 0 && c->tail_len > 0 && FS_OUTPUT_ID_RANK(c->extend.segment) != a.from) err = -EINVAL;
  /* The caller was evicted while it was stopped: its segments have another home now. */
  if (err == 0 && c->tail_len > 0 && fs_home_of(d, c->extend.segment) != a.from) err = -EIO;
  if (err == 0 && c->tail_len > 0) err = fs_backing_writer(d, f, a.from);
  for (uint32_t i = 0; err == 0 && i < c->tail_len / sizeof(struct fs_range); i++) {
    struct fs_range r;
    memcpy(&r, ranges + i * sizeof(r), sizeof(r));
    err = fs_backing_put(d, f, (struct fs_output_extent){.off = r.off, .len = r.len, .segment = c->extend.segment});
  }
  if (f->reported) f->reported->loose = true;
  if (err == 0) err = fs_extents_reach(d, f, c->tail_len > 0);
  if (err < 0 && f->changes == changes) {
    free(e);
    fs_ns_answer(d->ns, a, err, NULL, 0);
    return;
  }
  *e = (struct fs_extending){.d = d,
                             .asked = a,
                             .err = err,
                             .lost = c->extend.appended_home != 0 && c->extend.appended_home - 1 != d->net->rank &&
                                     c->extend.appended > f->adopted};
  if (err < 0)
    fs_maps_report(d, fs_extended_told, e);
  else if (c->tail_len > 0 || c->extend.appended_home == 0)
    fs_backing_publish_map(d, c->extend.id, c->flags & FS_EXTEND_OPEN, fs_extended, e);
  else
    fs_backing_publish(d, c->extend.id, fs_extended, e);
}

void fs_extents_asked(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f,
                      const struct fs_names_call *c) {
  if (fs_extents_none(d, a, f, c->extents.id)) return;
  struct {
    struct fs_extent_map_head head;
    struct fs_output_extent at[(FS_NAMES_BODY - sizeof(struct fs_extent_map_head)) / sizeof(struct fs_output_extent)];
  } said = {.head = {.list = fs_backing_map(d, f), .end = fs_extents_end(f->extents)}};
  uint32_t count, i = fs_extents_first(f->extents, c->extents.off);
  const struct fs_output_extent *e = fs_extents_all(f->extents, &count);
  uint32_t n = FS_MIN(count - i, (uint32_t)FS_ARRAY_LEN(said.at));
  if (n > 0) memcpy(said.at, &e[i], n * sizeof(*e));
  fs_maps_asked(d, a.from);
  fs_ns_answer(d->ns, a, 0, &said, sizeof(said.head) + n * sizeof(*e));
}
