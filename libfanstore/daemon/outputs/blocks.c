/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes outputs a source of blocks (blocks/source.h). For this node's clients, it gets the contents
 * of a snapshot from the file's home. For other nodes, it reads backing files of this node in the
 * I/O pool. Called in the MPI thread through the table in modules.c.
 */
#include "daemon/outputs/blocks.h"

#include <fcntl.h>

#include "daemon/blocks/fetch.h"
#include "daemon/outputs/backing.h"
#include "daemon/outputs/batch.h"
#include "daemon/outputs/open_files.h"
#include "util/sys.h"
#include "util/util.h"

/* ---- a client's block ---- */

/* Finds a block of the snapshot: its size is the file's size when the client got the snapshot. */
static fs_err fs_output_resolve(const struct fs_daemon *d, uint64_t key, struct fs_wanted *w) {
  if (FS_KEY_OF_BATCH(key)) return fs_batch_resolve(d, key, w);
  const struct fs_snapshot *h = fs_open_files_find(d, FS_OUTPUT_KEY_SNAPSHOT(key));
  uint64_t most = FS_OUTPUT_KEY_BYTES(key), offset = FS_OUTPUT_KEY_BLOCK(key) * most;
  if (!h || offset >= h->size) return -EINVAL;
  *w = (struct fs_wanted){.block = {.offset = offset, .stored_len = (uint32_t)FS_MIN(h->size - offset, most)},
                          .type = FS_WIRE_READ_OUTPUT,
                          .file = h->id,
                          .list = h->list};
  return 0;
}

static void fs_output_begin(struct fs_daemon *d, struct fs_fetch *f) {
  if (!FS_KEY_OF_BATCH(f->key)) fs_open_files_fetch(d, FS_OUTPUT_KEY_SNAPSHOT(f->key), true);
}

static void fs_output_done(struct fs_daemon *d, struct fs_fetch *f) {
  if (!FS_KEY_OF_BATCH(f->key)) fs_open_files_fetch(d, FS_OUTPUT_KEY_SNAPSHOT(f->key), false);
}

/* Asks the file's home, once: no other node has the block. */
static void fs_output_route(struct fs_daemon *d, struct fs_fetch *f) {
  uint32_t home = fs_home_of(d, f->want.file);
  if (f->tried != 0 || !fs_peer_usable(d, home)) {
    fs_fetch_finish(d, f, -EREMOTEIO, 0);
    return;
  }
  f->tried = 1;
  fs_peer_enqueue(d, home, f);
}

/* ---- another node's request ---- */

fs_err fs_output_read_bytes(struct fs_block_read *r, int fd) {
  uint32_t got = 0;
  fs_ssize n = 1;
  while (n > 0 && got < r->req.length) {
    n = fs_sys_pread(fd, (char *)r->buf + got, r->req.length - got, r->req.offset + got);
    if (n == -EINTR)
      n = 1;
    else if (n < 0)
      return (fs_err)n;
    else
      got += (uint32_t)n;
  }
  r->length = got;
  r->xxh3 = fs_xxh3(r->buf, got);
  return 0;
}

void fs_output_read_done(struct fs_block_read *r, fs_err err) {
  const struct fs_wire_req *q = &r->req;
  if (err == 0 && !fs_backing_same_map(r->d, q->file, q->list, q->offset, q->length)) err = -ESTALE;
  fs_serve_done(r, err);
}

static fs_err fs_output_read_work(struct fs_io *io) {
  struct fs_block_read *r = FS_ITEM(io, struct fs_block_read, io);
  FS_AUTO_CLOSE fs_fd fd = fs_backing_file_open(r->d, r->req.file, O_RDONLY | O_NONBLOCK);
  return fd < 0 ? fd : fs_output_read_bytes(r, fd);
}

static void fs_output_worked(struct fs_io *io) {
  fs_output_read_done(FS_ITEM(io, struct fs_block_read, io), io->err);
}

static void fs_output_read(struct fs_daemon *d, struct fs_block_read *r) {
  if (r->req.type == FS_WIRE_READ_BATCH) {
    fs_batch_read(d, r);
    return;
  }
  const struct fs_backing_file *f = fs_backing_find(d, r->req.file);
  if (f && f->in) {
    fs_block_sources[FS_BLOCKS_STAGED_IN]->read(d, r);
    return;
  }
  r->io = (struct fs_io){.work = fs_output_read_work, .done = fs_output_worked};
  fs_iopool_submit(&d->pool, &r->io);
}

static void fs_output_serve(struct fs_daemon *d, struct fs_block_read *r) {
  const struct fs_wire_req *q = &r->req;
  bool sane = q->length > 0 && q->length <= FS_OUTPUT_BLOCK && q->offset <= (uint64_t)INT64_MAX - q->length;
  if (q->type == FS_WIRE_READ_BATCH) sane = fs_batch_sane(q);
  if (!sane || !fs_backing_mine(d, q->file))
    fs_serve_done(r, -EINVAL);
  else if (fs_serve_room(r))
    fs_output_read(d, r);
}

const struct fs_block_source fs_output_blocks = {.resolve = fs_output_resolve,
                                                 .begin = fs_output_begin,
                                                 .done = fs_output_done,
                                                 .route = fs_output_route,
                                                 .sized = true,
                                                 .serve = fs_output_serve,
                                                 .read = fs_output_read};
