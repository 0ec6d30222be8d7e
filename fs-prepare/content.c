/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares contents of files of datasets, for pack --update and diff. Any thread. */
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"
#include "prepare.h"

/* Memory for the blocks of one file. */
struct room {
  uint8_t *stored, *plain;
  void *work; /* for decoding */
};

static fs_err room_make(const struct fs_dataset *ds, struct room *room) {
  const size_t block = ds->ix.block_size;
  *room = (struct room){.stored = malloc(2 * block), .work = fs_dataset_work(ds)};
  room->plain = room->stored + block;
  return room->stored != NULL && room->work != NULL ? 0 : -ENOMEM;
}

static void room_free(struct room *room) {
  free(room->stored);
  free(room->work);
}

/* Reads and decodes block i of a file. Returns the number of plain bytes, or a negative errno:
   -EBADMSG if damaged. */
static fs_ssize read_block(struct fs_dataset *ds, uint32_t entry, uint64_t i, const struct room *room) {
  struct fs_block b;
  if (fs_index_block(&ds->ix, entry, i, &b) < 0) return -EBADMSG;
  const int part = fs_dataset_part(ds, b.partition);
  if (part < 0) return part == -EMFILE || part == -ENFILE ? part : -EBADMSG;
  fs_err err = fs_pread_full(part, room->stored, b.stored_len, b.offset);
  fs_dataset_part_done(ds, b.partition, part);
  if (err < 0 || fs_xxh3(room->stored, b.stored_len) != b.xxh3) return -EBADMSG;
  err = fs_block_decode(&ds->ix.codecs, b.codec, room->stored, b.stored_len, room->plain, b.plain_len, room->work);
  return err == 0 ? (fs_ssize)b.plain_len : err == -ENOMEM ? err : -EBADMSG;
}

struct other {
  fs_content_read_fn *read;
  void *ctx;
  uint8_t *buf;
};

static int equal_to_other(struct fs_dataset *ds, uint32_t entry, const struct room *room, const struct other *o) {
  const uint64_t n = fs_index_block_count(&ds->ix, fs_index_entry(&ds->ix, entry));
  for (uint64_t i = 0; i < n; i++) {
    const fs_ssize plain = read_block(ds, entry, i, room);
    if (plain < 0) return (int)plain;
    fs_err err = o->read(o->ctx, o->buf, (size_t)plain, i * ds->ix.block_size);
    if (err < 0) return err;
    if (memcmp(room->plain, o->buf, (size_t)plain) != 0) return 0;
  }
  return 1;
}

int fs_content_equal(struct fs_dataset *ds, uint32_t entry, fs_content_read_fn *read, void *ctx) {
  struct room room;
  FS_AUTO_FREE uint8_t *buf = malloc(ds->ix.block_size);
  int equal = room_make(ds, &room);
  if (equal == 0) equal = buf != NULL ? equal_to_other(ds, entry, &room, &(struct other){read, ctx, buf}) : -ENOMEM;
  room_free(&room);
  return equal;
}

/* Compares the plain bytes of two files of the same size, in steps of the smaller block. */
static int equal_plain(struct fs_dataset *a, uint32_t x, struct fs_dataset *b, uint32_t y, const struct room room[2]) {
  const uint64_t p = a->ix.block_size, q = b->ix.block_size, step = FS_MIN(p, q);
  const uint64_t size = fs_index_entry(&a->ix, x)->size;
  for (uint64_t at = 0; at < size; at += step) {
    fs_ssize n = 0;
    if (at % p == 0) n = read_block(a, x, at / p, &room[0]);
    if (n >= 0 && at % q == 0) n = read_block(b, y, at / q, &room[1]);
    if (n < 0) return (int)n;
    if (memcmp(room[0].plain + at % p, room[1].plain + at % q, (size_t)FS_MIN(step, size - at)) != 0) return 0;
  }
  return 1;
}

/* Returns true if blocks of these rows decode equally. */
static bool same_row(const struct fs_codec_set *a, uint32_t x, const struct fs_codec_set *b, uint32_t y) {
  if (x >= a->n || y >= b->n) return false;
  const struct fs_codec_rec *p = &a->rows[x], *q = &b->rows[y];
  return p->family == q->family && p->element == q->element && p->dict_len == q->dict_len &&
         (p->dict_len == 0 || memcmp(a->strings + p->dict, b->strings + q->dict, p->dict_len) == 0);
}

/* Returns true if both files are stored in the same way, and so are equal. */
static bool stored_alike(const struct fs_dataset *a, uint32_t x, const struct fs_dataset *b, uint32_t y) {
  const uint64_t n = fs_index_block_count(&a->ix, fs_index_entry(&a->ix, x));
  struct fs_block p, q;
  if (a->ix.block_size != b->ix.block_size) return false;
  for (uint64_t i = 0; i < n; i++) {
    if (fs_index_block(&a->ix, x, i, &p) < 0 || fs_index_block(&b->ix, y, i, &q) < 0) return false;
    if (i == 0 && !same_row(&a->ix.codecs, p.codec, &b->ix.codecs, q.codec)) return false;
    if (p.stored_len != q.stored_len || p.xxh3 != q.xxh3) return false;
  }
  return true;
}

int fs_content_equal_in(struct fs_dataset *a, uint32_t x, struct fs_dataset *b, uint32_t y) {
  struct room room[2] = {{0}};
  if (stored_alike(a, x, b, y)) return 1;
  int equal = room_make(a, &room[0]);
  if (equal == 0) equal = room_make(b, &room[1]);
  if (equal == 0) equal = equal_plain(a, x, b, y, room);
  room_free(&room[0]);
  room_free(&room[1]);
  return equal;
}
