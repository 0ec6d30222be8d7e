/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The partitions at a checkpoint: writes all that they have to disk, and goes back to what was
 * there. What a buffer has is written as whole pages, and the buffer goes on; so the next write of
 * it writes the same bytes again, and more. Called by the journal. One thread, and several for the
 * waits for the disk.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pack.h"

#define AT_ONCE 8u
#define PIECE (1u << 20)

struct work {
  struct fs_parts *parts;
  const struct fs_plan *plan;
  struct fs_part_state *out;
  const struct fs_part_state *in;
  _Atomic fs_err err;
};

static fs_err sync_part(struct fs_part_out *o, struct fs_part_state *state) {
  if (o->buf != NULL) {
    size_t pages = (size_t)fs_round_up(o->buf->used, FS_ALIGN);
    fs_parts_hash_buffer(o);
    memset(o->buf->data + o->buf->used, 0, pages - o->buf->used);
    fs_err err = fs_write_pages(o->fd, o->buf->data, pages, o->buf->at);
    if (err < 0) return err;
  }
  *state = (struct fs_part_state){o->size, fs_xxh3_digest(o->hash)};
  return fdatasync(o->fd) < 0 ? -errno : 0;
}

static void sync_one(void *ctx, uint64_t k) {
  struct work *w = ctx;
  struct fs_part_out *o = &w->parts->out[fs_parts_new(w->plan, (uint32_t)k)];
  if (o->fd < 0 || atomic_load(&w->err) < 0) return;
  fs_err err = sync_part(o, &w->out[k]);
  if (err < 0) atomic_store(&w->err, err);
}

fs_err fs_parts_sync(struct fs_parts *p, const struct fs_plan *plan, struct fs_part_state *state) {
  struct work w = {.parts = p, .plan = plan, .out = state};
  fs_err err = p->writer != NULL ? fs_writer_wait(p->writer, NULL) : 0;
  if (err < 0) return err;
  fs_prep_parallel(AT_ONCE, p->nnew, sync_one, &w);
  return atomic_load(&w.err);
}

/* Computes the checksum of the bytes up to `size` in o->hash. */
static fs_err hash_file(struct fs_part_out *o, int fd, uint64_t size) {
  FS_AUTO_FREE uint8_t *piece = malloc(PIECE);
  if (piece == NULL) return -ENOMEM;
  for (uint64_t at = FS_PART_HEADER_SIZE; at < size; at += PIECE) {
    size_t n = (size_t)FS_MIN(size - at, (uint64_t)PIECE);
    if (fs_prep_signal != 0) return -EINTR;
    fs_err err = fs_pread_full(fd, piece, n, at);
    if (err < 0) return err;
    fs_xxh3_update(o->hash, piece, n);
  }
  return 0;
}

static fs_err resume_part(struct fs_parts *p, uint32_t i, const struct fs_part_state *state) {
  struct fs_part_out *o = &p->out[i];
  char name[FS_PART_NAME_SIZE];
  struct stat st;
  o->size = state->size;
  if (o->fd < 0) return 0; /* another node has it */
  /* The partition's own descriptor reads only whole pages. */
  FS_AUTO_CLOSE int fd = fs_sys_openat(p->dir, fs_part_name(i, name), O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
  if (fd < 0) return fd;
  if (state->size < FS_PART_HEADER_SIZE) return -EBADMSG;
  fs_err err = fs_sys_fstat(fd, &st);
  if (err == 0 && (uint64_t)st.st_size < state->size && state->size > FS_PART_HEADER_SIZE) err = -EBADMSG;
  /* A staged copy may be a link to the file, and no byte of it may change: only the zeros at its end are
     written again. */
  if (err == 0 && st.st_nlink > 1 && (uint64_t)st.st_size > state->size + p->align) err = -EBADMSG;
  if (err == 0) err = hash_file(o, fd, state->size);
  if (err == 0 && fs_xxh3_digest(o->hash) != state->xxh3) err = -EBADMSG;
  if (err == 0 && ftruncate(o->fd, (off_t)state->size) < 0) err = -errno;
  return err;
}

static void resume_one(void *ctx, uint64_t k) {
  struct work *w = ctx;
  if (atomic_load(&w->err) < 0) return;
  fs_err err = resume_part(w->parts, fs_parts_new(w->plan, (uint32_t)k), &w->in[k]);
  if (err < 0) atomic_store(&w->err, err);
}

/* Reads the part of a partition's last page into its buffer: only whole pages are written. */
static fs_err fill_buffer(struct fs_parts *p, uint32_t i) {
  struct fs_part_out *o = &p->out[i];
  char name[FS_PART_NAME_SIZE];
  const size_t n = (size_t)(o->size % FS_ALIGN);
  if (n == 0 || o->fd < 0) return 0;
  FS_AUTO_CLOSE int fd = fs_sys_openat(p->dir, fs_part_name(i, name), O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);
  fs_err err = fd < 0 ? fd : fs_writer_get(p->writer, &o->buf);
  if (err < 0) return err;
  o->buf->fd = o->fd;
  o->buf->at = o->size - n;
  o->buf->pending = &o->pending;
  o->buf->used = o->hashed = n;
  return fs_pread_full(fd, o->buf->data, n, o->buf->at);
}

fs_err fs_parts_resume(struct fs_parts *p, const struct fs_plan *plan, const struct fs_part_state *state) {
  struct work w = {.parts = p, .plan = plan, .in = state};
  fs_prep_parallel(AT_ONCE, p->nnew, resume_one, &w);
  fs_err err = atomic_load(&w.err);
  for (uint32_t k = 0; k < p->nnew && err == 0; k++) err = fill_buffer(p, fs_parts_new(plan, k));
  if (err == 0) fs_parts_order(p);
  return err;
}
