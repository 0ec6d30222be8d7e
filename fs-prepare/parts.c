/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The partition files being written: append only, so that each one's checksum is made while it grows. Two heaps, of
 * the ordinary and of the replicated partitions, tell which one is smallest. One thread, but for the last syncs.
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

/* A partition grew: moves it down in its heap. */
static void heap_sift(struct fs_parts *p, uint32_t part) {
  uint32_t base = part < p->nordinary ? 0 : p->nordinary;
  uint32_t n = part < p->nordinary ? p->nordinary : p->n - p->nordinary;
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

static fs_err create_one(struct fs_parts *p, uint32_t i, int first_fd) {
  struct fs_part_out *o = &p->out[i];
  char name[FS_PART_NAME_SIZE];
  if (i == 0)
    o->fd = (int)fs_sys_fcntl(first_fd, F_DUPFD_CLOEXEC, 0);
  else
    o->fd = fs_sys_openat(p->dir, fs_part_name(i, name), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (o->fd < 0) return o->fd;
  o->size = FS_PART_HEADER_SIZE;
  o->hash = fs_xxh3_new();
  heap_put(p, i, i); /* all are equal: in order of the numbers this is a heap */
  return o->hash != NULL ? 0 : -ENOMEM;
}

fs_err fs_parts_create(struct fs_parts *p, int dir, int first_fd, const struct fs_plan *plan) {
  *p = (struct fs_parts){
      .dir = dir, .align = plan->opts->align, .n = plan->nparts + plan->nreplicated, .nordinary = plan->nparts};
  p->out = calloc(p->n, sizeof *p->out);
  p->heap = calloc(p->n, sizeof *p->heap);
  if (p->out == NULL || p->heap == NULL) return -ENOMEM;
  for (uint32_t i = 0; i < p->n; i++) p->out[i].fd = -1;
  fs_prep_open_files(p->n + 64ull + plan->opts->jobs);
  fs_err err = 0;
  for (uint32_t i = 0; i < p->n && err == 0; i++) err = create_one(p, i, first_fd);
  return err;
}

/* The gap is a hole in the file, zeros in the checksum. */
fs_err fs_parts_pad(struct fs_parts *p, uint32_t part, uint64_t align) {
  static const uint8_t zeros[65536];
  struct fs_part_out *o = &p->out[part];
  uint64_t gap = fs_round_up(o->size, align) - o->size;
  if (gap == 0) return 0;
  fs_xxh3_update(o->hash, zeros, (size_t)gap); /* align is 64 KiB at most */
  o->size += gap;
  heap_sift(p, part);
  return 0;
}

fs_err fs_parts_append(struct fs_parts *p, uint32_t part, const void *data, uint64_t n, uint64_t align,
                       uint64_t *offset) {
  struct fs_part_out *o = &p->out[part];
  fs_err err = fs_parts_pad(p, part, align);
  if (err == 0) err = fs_pwrite_full(o->fd, data, (size_t)n, o->size);
  if (err < 0) return err;
  fs_xxh3_update(o->hash, data, (size_t)n);
  *offset = o->size;
  o->size += n;
  heap_sift(p, part);
  return 0;
}

fs_err fs_parts_finish(struct fs_parts *p) {
  for (uint32_t i = 0; i < p->n; i++) {
    struct fs_part_out *o = &p->out[i];
    fs_err err = fs_parts_pad(p, i, p->align);
    if (err == 0 && ftruncate(o->fd, (off_t)o->size) < 0) err = -errno;
    if (err < 0) return err;
    o->rec = (struct fs_part_rec){
        .size = o->size, .xxh3 = fs_xxh3_digest(o->hash), .flags = i < p->nordinary ? 0 : FS_PART_REPLICATE};
  }
  return 0;
}

struct seal {
  struct fs_parts *parts;
  const uint8_t *dataset_id;
  _Atomic fs_err err;
};

static fs_err seal_part(const struct fs_part_out *o, uint32_t number, const uint8_t dataset_id[16]) {
  alignas(8) uint8_t page[FS_PART_HEADER_SIZE];
  if (fs_prep_signal != 0) return -EINTR;
  fs_part_header_make(page, number, &o->rec, dataset_id);
  fs_err err = fs_pwrite_full(o->fd, page, sizeof page, 0);
  return err == 0 && fsync(o->fd) < 0 ? -errno : err;
}

static void seal_one(void *ctx, uint64_t i) {
  struct seal *s = ctx;
  fs_err err = atomic_load(&s->err);
  if (err == 0) err = seal_part(&s->parts->out[i], (uint32_t)i, s->dataset_id);
  if (err < 0) atomic_store(&s->err, err);
}

/* Several at once: a sync waits for the disk, and most of them can wait together. */
fs_err fs_parts_seal(struct fs_parts *p, const uint8_t dataset_id[16]) {
  struct seal s = {.parts = p, .dataset_id = dataset_id};
  fs_prep_parallel(8, p->n, seal_one, &s);
  return atomic_load(&s.err);
}

void fs_parts_close(struct fs_parts *p) {
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
