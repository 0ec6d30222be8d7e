/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes batches of this node's small files for other nodes (ipc/batch.h). The MPI thread decides which
 * files are in a batch: those that are published and closed, and not written by other nodes. The I/O
 * pool reads them. A version is taken before the bytes are read. So the bytes are those of this
 * publication or newer.
 */
#include "daemon/outputs/batch.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/outputs/backing.h"
#include "ipc/batch.h"
#include "util/sys.h"

fs_err fs_batch_resolve(const struct fs_daemon *d, uint64_t key, struct fs_wanted *w) {
  uint64_t first = FS_BATCH_FIRST(key);
  uint32_t rank = FS_OUTPUT_ID_RANK(first);
  if (!fs_batch_id(first) || rank >= d->net->nodes || rank == d->net->rank) return -EINVAL;
  *w = (struct fs_wanted){.block.stored_len = FS_BATCH_MOST,
                          .type = FS_WIRE_READ_BATCH,
                          .file = first,
                          .list = atomic_load(&d->ctl->appended)};
  return 0;
}

bool fs_batch_sane(const struct fs_wire_req *q) {
  return q->length == FS_BATCH_MOST && q->offset == 0 && fs_batch_id(q->file) && q->file == FS_BATCH_FIRST(q->file);
}

/* Enters a file as it was published last. Its number is that of this daemon, so another node's file
   that this one has taken over is left out. */
static void fs_batch_enter(const struct fs_daemon *d, uint64_t id, struct fs_batch_file *b) {
  const struct fs_backing_file *f = fs_backing_find(d, id);
  if (!f || FS_OUTPUT_ID_RANK(id) != d->net->rank || f->mode == 0 || f->size > FS_BATCH_SMALL) return;
  if (f->removed || f->gone || f->creating || f->segment || f->split || f->in || f->untold) return;
  if (!fs_chain_empty(&f->open) || fs_extents_any(f->extents) || fs_backing_cutting(d, id)) return;
  *b = (struct fs_batch_file){
      .version = f->number, .mtime = f->mtime, .mtime_ns = f->mtime_ns, .mode = f->mode, .size = (uint32_t)f->size};
}

/* Reads one file. Returns false if it is not what was published: a program has opened it since. */
static bool fs_batch_file(const struct fs_daemon *d, uint64_t id, struct fs_batch_file *b, char *bytes) {
  char name[FS_BACKING_NAME_SIZE];
  struct stat st;
  FS_AUTO_CLOSE int fd = openat(d->backing_fd, fs_backing_name(id, name), FS_BACKING_READ);
  if (fd < 0 || fstat(fd, &st) < 0 || st.st_mode != b->mode || st.st_size != b->size) return false;
  if (st.st_mtim.tv_sec != b->mtime || (uint32_t)st.st_mtim.tv_nsec != b->mtime_ns) return false;
  b->ctime = st.st_ctim.tv_sec;
  b->ctime_ns = (uint32_t)st.st_ctim.tv_nsec;
  return fs_pread_full(fd, bytes, b->size, 0) == 0;
}

static fs_err fs_batch_work(struct fs_io *io) {
  struct fs_block_read *r = FS_ITEM(io, struct fs_block_read, io);
  struct fs_batch *b = r->buf;
  uint32_t at = sizeof(*b);
  for (uint32_t i = 0; i < FS_BATCH_FILES; i++) {
    struct fs_batch_file *f = &b->file[i];
    if (f->version == 0) continue;
    f->at = at;
    if (fs_batch_file(r->d, r->req.file + i, f, (char *)b + at))
      at += f->size;
    else
      *f = (struct fs_batch_file){0};
  }
  r->length = at;
  r->xxh3 = fs_xxh3(b, at);
  return 0;
}

static void fs_batch_worked(struct fs_io *io) {
  fs_serve_done(FS_ITEM(io, struct fs_block_read, io), io->err);
}

void fs_batch_read(struct fs_daemon *d, struct fs_block_read *r) {
  struct fs_batch *b = r->buf;
  *b = (struct fs_batch){.appended = r->req.list};
  for (uint32_t i = 0; i < FS_BATCH_FILES; i++) fs_batch_enter(d, r->req.file + i, &b->file[i]);
  r->io = (struct fs_io){.work = fs_batch_work, .done = fs_batch_worked};
  fs_iopool_submit(&d->pool, &r->io);
}
