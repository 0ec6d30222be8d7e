/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes datasets a source of blocks (source.h). For this node's clients, the owners of the partition
 * are tried in the placement's order; this node's own copy comes first. For other nodes, the MPI
 * thread reads what the page cache has, or sends it from there (partitions.h), and leaves the rest
 * to the I/O pool. All of it is the MPI thread's.
 */
#include <sys/uio.h>

#include "daemon/blocks/disk.h"
#include "daemon/blocks/partitions.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_TRIED_LOCAL (1u << 31) /* the other bits of `tried`: owners in the placement's order */
#define FS_TRIED_DISK (1u << 30)

/* ---- a client's block ---- */

static const struct fs_placement *fs_dataset_place(const struct fs_daemon *d, const struct fs_fetch *f) {
  return &d->data[f->want.dataset].place[f->want.block.partition];
}

static fs_err fs_dataset_resolve(const struct fs_daemon *d, uint64_t key, struct fs_wanted *w) {
  uint32_t dataset = FS_CACHE_KEY_DATASET(key);
  if (dataset >= d->datasets || FS_CACHE_KEY(dataset, FS_CACHE_KEY_BLOCK(key)) != key) return -EINVAL;
  const struct fs_dataset *ds = &d->data[dataset];
  struct fs_block b;
  fs_err err = fs_index_block_by_key(&ds->stage.index, FS_CACHE_KEY_BLOCK(key), &b);
  if (err < 0) return err;
  if (b.partition >= ds->partitions || b.stored_len == 0 || b.stored_len > ds->max_stored) return -EINVAL;
  uint16_t type = b.stored_len >= FS_WIRE_BARE_LEAST ? FS_WIRE_READ_BARE : FS_WIRE_READ;
  *w = (struct fs_wanted){.block = b, .type = type, .dataset = dataset};
  return 0;
}

static uint32_t fs_dataset_chances(const struct fs_daemon *d, const struct fs_fetch *f) {
  const struct fs_placement *p = fs_dataset_place(d, f);
  uint32_t n = 1;
  for (uint32_t i = 0; i < p->owners; i++) {
    if (!(f->tried & 1u << i) && p->owner[i] != d->net->rank && fs_peer_prompt(d, p->owner[i])) n++;
  }
  return n;
}

static void fs_dataset_own_done(struct fs_io *io) {
  struct fs_fetch *f = FS_ITEM(io, struct fs_fetch, io);
  struct fs_daemon *d = f->d;
  d->fetcher->reading--;
  if (io->err == 0 && fs_fetch_intact(d, io->buf, f->want.block.stored_len, f->want.block.xxh3)) {
    fs_cache_publish(d->cache, f->line, fs_fetch_awaited(f));
    fs_fetch_finish(d, f, 0, f->line);
  } else {
    fs_cache_abort(d->cache, f->line);
    fs_fetch_route(d, f);
  }
}

/* Begins to read a block of the node's own partitions, which the client could not read by itself.
   Returns false if there is none. */
static bool fs_dataset_own(struct fs_daemon *d, struct fs_fetch *f) {
  void *buf;
  const struct fs_block *b = &f->want.block;
  const struct fs_dataset *ds = &d->data[f->want.dataset];
  if (f->tried & FS_TRIED_LOCAL || !(fs_dataset_place(d, f)->flags & FS_PLACE_LOCAL)) return false;
  f->tried |= FS_TRIED_LOCAL;
  int64_t line = fs_cache_alloc(d->cache, f->key, b->stored_len, &buf);
  if (line < 0) {
    fs_fetch_finish(d, f, (fs_err)line, 0);
    return true;
  }
  f->line = (uint32_t)line;
  f->io = (struct fs_io){.fd = ds->fd[b->partition],
                         .dir = ds->stage.local,
                         .part = b->partition,
                         .len = b->stored_len,
                         .off = b->offset,
                         .buf = (char *)buf + FS_CACHE_HEADROOM,
                         .done = fs_dataset_own_done};
  d->fetcher->reading++;
  fs_iopool_submit(&d->pool, &f->io);
  return true;
}

static bool fs_dataset_disk(struct fs_daemon *d, struct fs_fetch *f) {
  if (f->tried & FS_TRIED_DISK) return false;
  f->tried |= FS_TRIED_DISK;
  return fs_disk_fetch(d, f);
}

/* Asks another owner that is `good`. Returns false if there is none. */
static bool fs_dataset_ask(struct fs_daemon *d, struct fs_fetch *f, bool (*good)(const struct fs_daemon *, uint32_t)) {
  const struct fs_placement *p = fs_dataset_place(d, f);
  for (uint32_t i = 0; i < p->owners; i++) {
    if ((f->tried & 1u << i) || p->owner[i] == d->net->rank || !good(d, p->owner[i])) continue;
    f->tried |= 1u << i;
    fs_peer_enqueue(d, p->owner[i], f);
    return true;
  }
  return false;
}

static void fs_dataset_route(struct fs_daemon *d, struct fs_fetch *f) {
  if (fs_dataset_own(d, f) || fs_dataset_disk(d, f)) return;
  if (fs_dataset_ask(d, f, fs_peer_prompt) || (f->patient && fs_dataset_ask(d, f, fs_peer_usable))) return;
  fs_fetch_finish(d, f, -EREMOTEIO, 0);
}

/* ---- another node's request: into a buffer ---- */

/* Reads the block if that does not block. Returns false if it would, or on an error. */
static bool fs_dataset_read_now(const struct fs_daemon *d, struct fs_block_read *r, int fd) {
  const struct fs_wire_req *q = &r->req;
  struct iovec iov = {.iov_base = r->buf, .iov_len = q->length};
  if (fd < 0) return false;
  if (fs_parts_in_memory(d, q->dataset)) return fs_pread_full(fd, r->buf, q->length, q->offset) == 0;
  return preadv2(fd, &iov, 1, (off_t)q->offset, RWF_NOWAIT) == (ssize_t)iov.iov_len;
}

static void fs_dataset_read_done(struct fs_io *io) {
  struct fs_block_read *r = FS_ITEM(io, struct fs_block_read, io);
  if (io->err < 0) fs_part_failed(r->d, r->req.dataset, r->req.partition, io->err);
  fs_serve_done(r, io->err);
}

static void fs_dataset_read(struct fs_daemon *d, struct fs_block_read *r) {
  const struct fs_wire_req *q = &r->req;
  const struct fs_dataset *ds = &d->data[q->dataset];
  int fd = ds->fd[q->partition];
  if (fs_dataset_read_now(d, r, fd)) {
    fs_serve_done(r, 0);
    return;
  }
  r->io = (struct fs_io){.fd = fd,
                         .dir = ds->stage.local,
                         .part = q->partition,
                         .len = q->length,
                         .off = q->offset,
                         .buf = r->buf,
                         .done = fs_dataset_read_done};
  fs_iopool_submit(&d->pool, &r->io);
}

static void fs_dataset_copy(struct fs_daemon *d, struct fs_block_read *r) {
  if (fs_serve_room(r)) fs_dataset_read(d, r);
}

/* ---- another node's request: out of the partition itself ---- */

static void fs_dataset_mapped_done(struct fs_io *io) {
  struct fs_block_read *r = FS_ITEM(io, struct fs_block_read, io);
  const struct fs_wire_req *q = &r->req;
  fs_part_read(r->d, q->dataset, q->partition, io->span, io->err);
  if (io->err < 0)
    fs_dataset_copy(r->d, r);
  else
    fs_serve_bytes(r, fs_part_bytes(r->d, q->dataset, q->partition, q->offset));
}

static fs_err fs_dataset_check(const struct fs_daemon *d, const struct fs_wire_req *q) {
  if (q->dataset >= d->datasets) return -EINVAL;
  const struct fs_dataset *ds = &d->data[q->dataset];
  if (q->partition >= ds->partitions || !ds->have[q->partition]) return -ENOENT;
  uint64_t size = ds->stage.index.parts[q->partition].size;
  if (q->length == 0 || q->length > ds->max_stored || q->length > size || q->offset > size - q->length) return -EINVAL;
  return 0;
}

static void fs_dataset_serve(struct fs_daemon *d, struct fs_block_read *r) {
  const struct fs_wire_req *q = &r->req;
  fs_err bad = fs_dataset_check(d, q);
  if (bad < 0) {
    fs_serve_done(r, bad);
    return;
  }
  const void *bytes = q->type == FS_WIRE_READ_BARE ? fs_part_bytes(d, q->dataset, q->partition, q->offset) : NULL;
  if (!bytes) {
    fs_dataset_copy(d, r);
  } else if (fs_pages_resident(bytes, q->length)) {
    fs_serve_bytes(r, bytes);
  } else {
    r->io = (struct fs_io){.span = fs_part_missing(d, q->dataset, q->partition, q->offset, q->length),
                           .done = fs_dataset_mapped_done};
    if (r->io.span.len > 0)
      fs_iopool_submit(&d->pool, &r->io);
    else
      fs_dataset_copy(d, r); /* no room: pages read now may be evicted before they are sent */
  }
}

const struct fs_block_source fs_dataset_blocks = {.resolve = fs_dataset_resolve,
                                                  .route = fs_dataset_route,
                                                  .chances = fs_dataset_chances,
                                                  .serve = fs_dataset_serve,
                                                  .read = fs_dataset_read};
