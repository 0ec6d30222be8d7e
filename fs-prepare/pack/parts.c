/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The partition files that are being written. Each is append-only and has a buffer, so its checksum
 * is computed while it grows, and writes are large and page-aligned. Two heaps, of the ordinary and
 * of the replicated partitions, give the smallest one. One thread, except for the writer's threads
 * and the last syncs.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pack.h"

static bool smaller(const struct fs_parts *p, uint32_t a, uint32_t b) {
  return p->out[a].size != p->out[b].size ? p->out[a].size < p->out[b].size : a < b;
}

static void heap_put(struct fs_parts *p, uint32_t at, uint32_t part) {
  p->heap[at] = part;
  p->out[part].heap_at = at;
}

/* Moves a partition that has grown down in its heap. */
static void heap_sift(struct fs_parts *p, uint32_t part) {
  bool ordinary = p->out[part].heap_at < p->nordinary;
  uint32_t base = ordinary ? 0 : p->nordinary;
  uint32_t n = ordinary ? p->nordinary : p->nnew - p->nordinary;
  uint32_t at = p->out[part].heap_at - base;
  for (;;) {
    uint32_t child = at * 2 + 1;
    if (child >= n) break;
    if (child + 1 < n && smaller(p, p->heap[base + child + 1], p->heap[base + child])) child++;
    if (!smaller(p, p->heap[base + child], part)) break;
    heap_put(p, base + at, p->heap[base + child]);
    at = child;
  }
  heap_put(p, base + at, part);
}

uint32_t fs_parts_least(const struct fs_parts *p, bool replicate) {
  return p->heap[replicate ? p->nordinary : 0];
}

void fs_parts_order(struct fs_parts *p) {
  for (uint32_t at = p->nnew; at-- > 0;) heap_sift(p, p->heap[at]);
}

uint32_t fs_parts_new(const struct fs_plan *plan, uint32_t k) {
  return plan->update != NULL ? plan->update->number[k] : k;
}

static fs_err create_empty(struct fs_part_out *o) {
  o->size = FS_PART_HEADER_SIZE;
  o->hash = fs_xxh3_new();
  return o->hash != NULL ? 0 : -ENOMEM;
}

static fs_err create_one(struct fs_parts *p, uint32_t i, bool resume) {
  struct fs_part_out *o = &p->out[i];
  char name[FS_PART_NAME_SIZE];
  o->fd = fs_sys_openat(p->dir, fs_part_name(i, name),
                        O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (resume ? 0 : O_EXCL), 0666);
  return o->fd < 0 ? o->fd : create_empty(o);
}

/* Makes a partition that an update keeps, or an empty one in place of an unused one. If several nodes
   pack, their lead makes them. No file is made of partitions that are on the nodes only: nobody reads
   an empty one. */
static fs_err create_old(struct fs_parts *p, uint32_t i, const struct fs_plan *plan, bool resume) {
  struct fs_part_out *o = &p->out[i];
  o->kind = plan->update->taken == NULL || plan->update->taken[i] ? FS_PART_KEPT : FS_PART_VACANT;
  if (plan->update->taken == NULL) return 0;
  if (o->kind == FS_PART_VACANT) return plan->update->on_nodes ? create_empty(o) : create_one(p, i, resume);
  o->rec = plan->update->old.ix.parts[i];
  o->size = o->rec.size;
  return plan->update->on_nodes ? 0 : fs_update_take(plan->update, p->dir, i);
}

/* Adds the number of files that are being written to *files. */
static fs_err create_files(struct fs_parts *p, const struct fs_plan *plan, bool resume, const bool *here,
                           uint32_t *files) {
  fs_err err = 0;
  for (uint32_t k = 0; k < p->nnew && err == 0; k++) {
    uint32_t i = fs_parts_new(plan, k);
    heap_put(p, k, i); /* all are equal, so the order of the numbers is a heap */
    p->out[i].size = FS_PART_HEADER_SIZE;
    if (here != NULL && !here[k]) continue;
    err = create_one(p, i, resume);
    ++*files;
  }
  if (plan->update == NULL) return err;
  for (uint32_t i = 0, k = 0; i < p->n && err == 0; i++)
    if (k < p->nnew && fs_parts_new(plan, k) == i)
      k++;
    else
      err = create_old(p, i, plan, resume);
  return err;
}

fs_err fs_parts_create(struct fs_parts *p, int dir, const struct fs_plan *plan, bool resume, const bool *here) {
  *p = (struct fs_parts){
      .dir = dir, .align = plan->opts->align, .nnew = plan->nparts + plan->nreplicated, .nordinary = plan->nparts};
  p->n = plan->update != NULL ? plan->update->total : p->nnew;
  p->out = calloc(p->n + 1, sizeof *p->out);
  p->heap = calloc(p->nnew + 1, sizeof *p->heap);
  if (p->out == NULL || p->heap == NULL) return -ENOMEM;
  for (uint32_t i = 0; i < p->n; i++) p->out[i].fd = -1;
  fs_prep_open_files(p->n + 64ull + plan->opts->jobs + plan->tree->nsources);
  uint32_t files = 0;
  fs_err err = create_files(p, plan, resume, here, &files);
  if (err == 0 && files == 0) return 0;
  if (err == 0) p->writer = fs_writer_start(files);
  for (uint32_t i = 0; i < p->n && p->writer != NULL && fs_writer_size(p->writer) >= FS_DIRECT_LEAST; i++)
    if (p->out[i].fd >= 0) fs_write_direct(p->out[i].fd);
  return err < 0 ? err : p->writer != NULL ? 0 : -ENOMEM;
}

/* Returns the room in the buffer. A buffer ends at a multiple of its size in the file, like stripes
   and erase blocks. */
static size_t room_in(const struct fs_parts *p, const struct fs_write *buf) {
  const size_t size = fs_writer_size(p->writer);
  return size - (size_t)(buf->at & (size - 1)) - buf->used;
}

void fs_parts_hash_buffer(struct fs_part_out *o) {
  fs_xxh3_update(o->hash, o->buf->data + o->hashed, o->buf->used - o->hashed);
  o->hashed = o->buf->used;
}

static void flush(struct fs_parts *p, struct fs_part_out *o) {
  fs_parts_hash_buffer(o);
  o->hashed = 0;
  fs_writer_put(p->writer, o->buf);
  o->buf = NULL;
}

/* Appends bytes, or zeros if `data` is NULL. */
static fs_err put(struct fs_parts *p, uint32_t part, const uint8_t *data, uint64_t n) {
  struct fs_part_out *o = &p->out[part];
  if (o->fd < 0) o->size += n;
  while (o->fd >= 0 && n > 0) {
    if (o->buf == NULL) {
      fs_err err = fs_writer_get(p->writer, &o->buf);
      if (err < 0) return err;
      o->buf->fd = o->fd;
      o->buf->at = o->size;
      o->buf->pending = &o->pending;
    }
    size_t k = (size_t)FS_MIN(n, (uint64_t)room_in(p, o->buf));
    if (data != NULL)
      memcpy(o->buf->data + o->buf->used, data, k);
    else
      memset(o->buf->data + o->buf->used, 0, k);
    o->buf->used += k;
    o->size += k;
    if (data != NULL) data += k;
    n -= k;
    if (room_in(p, o->buf) == 0) flush(p, o);
  }
  heap_sift(p, part);
  return 0;
}

fs_err fs_parts_pad(struct fs_parts *p, uint32_t part, uint64_t align) {
  uint64_t size = p->out[part].size;
  return put(p, part, NULL, fs_round_up(size, align) - size);
}

fs_err fs_parts_put(struct fs_parts *p, uint32_t part, uint64_t offset, const void *data, uint64_t n) {
  uint64_t size = p->out[part].size;
  if (offset < size || offset - size >= FS_MAX(p->align, FS_ALIGN)) return -EPROTO;
  fs_err err = put(p, part, NULL, offset - size);
  return err < 0 ? err : put(p, part, data, n);
}

fs_err fs_parts_append(struct fs_parts *p, uint32_t part, const void *data, uint64_t n, uint64_t align,
                       uint64_t *offset) {
  fs_err err = fs_parts_pad(p, part, align);
  *offset = p->out[part].size;
  return err < 0 ? err : put(p, part, data, n);
}

/* Opens a partition for reading, after all that was written is in the file. Its own descriptor reads
   only whole pages. */
static fs_fd open_written(struct fs_parts *p, uint32_t part) {
  char name[FS_PART_NAME_SIZE];
  fs_err err = p->writer != NULL ? fs_writer_wait(p->writer, &p->out[part].pending) : 0;
  return err < 0 ? err : fs_sys_openat(p->dir, fs_part_name(part, name), O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
}

/* Like fs_parts_equal, for bytes in the file. */
static int equal_in_file(struct fs_parts *p, uint32_t part, uint64_t offset, const uint8_t *data, uint64_t n) {
  uint8_t bytes[16384];
  FS_AUTO_CLOSE int fd = open_written(p, part);
  fs_err err;
  if (fd < 0) return fd;
  for (uint64_t at = 0; at < n; at += sizeof bytes) {
    size_t k = (size_t)FS_MIN(n - at, sizeof bytes);
    err = fs_pread_full(fd, bytes, k, offset + at);
    if (err < 0) return err;
    if (memcmp(bytes, data + at, k) != 0) return 0;
  }
  return 1;
}

int fs_parts_equal(struct fs_parts *p, uint32_t part, uint64_t offset, const uint8_t *data, uint64_t n) {
  const struct fs_write *buf = p->out[part].buf;
  uint64_t in_file = n;
  if (buf != NULL && offset + n > buf->at) in_file = offset < buf->at ? buf->at - offset : 0;
  if (in_file < n && memcmp(buf->data + (offset + in_file - buf->at), data + in_file, n - in_file) != 0) return 0;
  return in_file != 0 ? equal_in_file(p, part, offset, data, in_file) : 1;
}

fs_err fs_parts_read(struct fs_parts *p, uint32_t part, uint64_t offset, uint8_t *data, uint64_t n) {
  const struct fs_write *buf = p->out[part].buf;
  uint64_t in_file = n;
  if (buf != NULL && offset + n > buf->at) in_file = offset < buf->at ? buf->at - offset : 0;
  if (in_file < n) memcpy(data + in_file, buf->data + (offset + in_file - buf->at), n - in_file);
  if (in_file == 0) return 0;
  FS_AUTO_CLOSE int fd = open_written(p, part);
  return fd < 0 ? fd : fs_pread_full(fd, data, in_file, offset);
}

fs_err fs_parts_finish(struct fs_parts *p) {
  for (uint32_t i = 0; i < p->n; i++) {
    struct fs_part_out *o = &p->out[i];
    if (o->kind == FS_PART_KEPT) continue;
    fs_err err = o->kind == FS_PART_NEW ? fs_parts_pad(p, i, p->align) : 0;
    if (err < 0) return err;
    if (o->buf != NULL) flush(p, o);
    bool replicate = o->kind == FS_PART_NEW && o->heap_at >= p->nordinary;
    o->rec = (struct fs_part_rec){.size = o->size,
                                  .xxh3 = o->hash != NULL ? fs_xxh3_digest(o->hash) : 0,
                                  .flags = replicate ? FS_PART_REPLICATE : 0};
  }
  fs_err err = p->writer != NULL ? fs_writer_wait(p->writer, NULL) : 0;
  if (err < 0) return err;
  fs_writer_stop(p->writer); /* its buffers make room for the index's tables */
  p->writer = NULL;
  return 0;
}

struct seal {
  struct fs_parts *parts;
  const uint8_t *dataset_id;
  _Atomic fs_err err;
};

static fs_err seal_part(const struct fs_part_out *o, uint32_t number, const uint8_t dataset_id[16]) {
  alignas(FS_PART_HEADER_SIZE) uint8_t page[FS_PART_HEADER_SIZE];
  if (fs_prep_signal != 0) return -EINTR;
  fs_part_header_make(page, number, &o->rec, dataset_id);
  fs_err err = fs_write_pages(o->fd, page, sizeof page, 0);
  return err == 0 && fsync(o->fd) < 0 ? -errno : err;
}

static void seal_one(void *ctx, uint64_t i) {
  struct seal *s = ctx;
  fs_err err = atomic_load(&s->err);
  if (s->parts->out[i].fd < 0 || s->parts->out[i].kind == FS_PART_KEPT) return;
  if (err == 0) err = seal_part(&s->parts->out[i], (uint32_t)i, s->dataset_id);
  if (err < 0) atomic_store(&s->err, err);
}

/* Seals several at once: a sync waits for the disk, and these waits can overlap. */
fs_err fs_parts_seal(struct fs_parts *p, const uint8_t dataset_id[16]) {
  struct seal s = {.parts = p, .dataset_id = dataset_id};
  fs_prep_parallel(8, p->n, seal_one, &s);
  return atomic_load(&s.err);
}

void fs_parts_close(struct fs_parts *p) {
  fs_writer_stop(p->writer); /* before another file gets a descriptor number that it writes to */
  p->writer = NULL;
  for (uint32_t i = 0; p->out != NULL && i < p->n; i++) {
    if (p->out[i].fd >= 0) close(p->out[i].fd);
    p->out[i].fd = -1;
  }
}

void fs_parts_free(struct fs_parts *p) {
  fs_parts_close(p);
  for (uint32_t i = 0; p->out != NULL && i < p->n; i++) fs_xxh3_free(p->out[i].hash);
  free(p->out);
  free(p->heap);
  p->out = NULL;
  p->heap = NULL;
}
