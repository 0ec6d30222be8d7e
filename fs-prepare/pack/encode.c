/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encodes a batch of chunks: reads each, encodes it block by block as its kind says or leaves it
 * raw, computes checksums. Called by the pipeline's threads. All chunks of a large file have one
 * codec, which is chosen once, from samples, under a mutex. Buffers are reused: they stay in the processor's
 * caches, and new memory would cost as much as compressing a quarter of it.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "choose.h"
#include "pack.h"

enum { CHOICE_OPEN, CHOICE_RAW, CHOICE_ENCODED, CHOICE_LZ4 };
#define SAMPLES 8u /* sampled blocks of a large file, evenly spread */

static pthread_mutex_t choice_lock = PTHREAD_MUTEX_INITIALIZER;

/* What a thread encodes with. */
struct encoding {
  const struct fs_plan *plan;
  struct fs_encoder *encoder;
  uint8_t row; /* of the file at hand */
};

/* Returns true if `stored` instead of `plain` bytes, in so many blocks, are worth the decoding. */
static bool worth(const struct encoding *e, uint64_t blocks, uint64_t plain, uint64_t stored) {
  const struct fs_pack_options *o = e->plan->opts;
  if (o->codec != FS_CHOOSE_AUTO) return stored < plain;
  return fs_worth(&e->plan->codecs.row[e->row], o->decode_rate, blocks, plain, stored);
}

/*
 * Encodes one block into out, which has room for n bytes. Returns the stored length, -ENOMEM, or n if
 * the block was copied. With auto, a block that lz4's fast level does not shrink is not tried with
 * its slow level.
 */
static fs_ssize encode_block(const struct encoding *e, const uint8_t *plain, size_t n, uint8_t *out) {
  const struct fs_encoding *row = &e->plan->codecs.row[e->row];
  fs_ssize stored = -ENOSPC;
  bool hopeless = false;
  if (e->plan->opts->codec == FS_CHOOSE_AUTO && row->family == FS_FAMILY_LZ4 && row->dict_len == 0) {
    const struct fs_encoding fast = {.family = FS_FAMILY_LZ4, .element = row->element};
    stored = fs_encode(e->encoder, &fast, plain, n, out, n);
    hopeless = stored < 0 || (size_t)stored > n - n / 32;
  }
  if (!hopeless) stored = fs_encode(e->encoder, row, plain, n, out, n);
  if (stored == -ENOMEM || (!hopeless && stored > 0)) return stored;
  memcpy(out, plain, n);
  return (fs_ssize)n;
}

/* Encodes n bytes into out, which has room for n. Returns the stored bytes or -ENOMEM. */
static int64_t encode_blocks(const struct encoding *e, const uint8_t *plain, uint64_t n, uint8_t *out,
                             struct fs_chunk_block *blocks) {
  uint64_t used = 0, block_size = e->plan->opts->block_size;
  for (uint64_t at = 0; at < n; at += block_size) {
    fs_ssize stored = encode_block(e, plain + at, (size_t)FS_MIN(n - at, block_size), out + used);
    if (stored < 0) return stored;
    blocks[at / block_size].stored_len = (uint32_t)stored;
    used += (uint64_t)stored;
  }
  return (int64_t)used;
}

/* Returns true if what is not worth the kind's codec gets lz4, which is in every table and decodes the fastest. */
static bool falls_back(const struct encoding *e) {
  return e->plan->opts->codec == FS_CHOOSE_AUTO && e->row != FS_CODEC_LZ4;
}

/* Reads SAMPLES blocks of a large file and encodes them. Returns 1 if that is worth it, 0, or a negative errno. */
static int samples_worth(const struct encoding *e, const struct fs_item *item, int fd) {
  const struct fs_plan *plan = e->plan;
  const uint64_t block = plan->opts->block_size, nblocks = (item->size + block - 1) / block;
  const uint64_t k = FS_MIN((uint64_t)SAMPLES, nblocks);
  FS_AUTO_FREE uint8_t *plain = malloc(block);
  FS_AUTO_FREE uint8_t *out = malloc(block);
  if (plain == NULL || out == NULL) return -ENOMEM;
  uint64_t all = 0, stored = 0;
  for (uint64_t i = 0; i < k; i++) {
    uint64_t at = (k == 1 ? 0 : i * (nblocks - 1) / (k - 1)) * block;
    size_t n = (size_t)FS_MIN(block, item->size - at);
    fs_err err = fs_item_read(plan->tree, item, fd, plain, n, at);
    if (err < 0) return err;
    fs_ssize put = encode_block(e, plain, n, out);
    if (put < 0) return (int)put;
    all += n;
    stored += (uint64_t)put;
  }
  return worth(e, k, all, stored);
}

/* Returns CHOICE_* or a negative errno. */
static int choose_by_samples(const struct encoding *e, const struct fs_item *item, int fd) {
  struct encoding lz4 = *e;
  lz4.row = FS_CODEC_LZ4;
  int is = samples_worth(e, item, fd);
  if (is != 0) return is < 0 ? is : CHOICE_ENCODED;
  if (falls_back(e)) is = samples_worth(&lz4, item, fd);
  return is < 0 ? is : is > 0 ? CHOICE_LZ4 : CHOICE_RAW;
}

/* As samples_worth, of the bytes at hand. Without memory it is not worth it. */
static bool begin_worth(const struct encoding *e, const uint8_t *plain, size_t n, uint8_t *out) {
  const size_t block = e->plan->opts->block_size;
  uint64_t stored = 0;
  for (size_t at = 0; at < n; at += block) {
    fs_ssize put = encode_block(e, plain + at, FS_MIN(n - at, block), out);
    if (put < 0) return false;
    stored += (uint64_t)put;
  }
  return worth(e, (n + block - 1) / block, n, stored);
}

void fs_choose_by_begin(const struct fs_plan *plan, struct fs_item *item, const uint8_t *plain, size_t n) {
  struct encoding e = {.plan = plan, .row = plan->codecs.of_kind[item->kind], .encoder = fs_encoder_new()};
  FS_AUTO_FREE uint8_t *out = malloc(plan->opts->block_size);
  const bool can = e.encoder != NULL && out != NULL;
  uint8_t choice = can && begin_worth(&e, plain, n, out) ? CHOICE_ENCODED : CHOICE_RAW;
  if (can && choice == CHOICE_RAW && falls_back(&e)) {
    e.row = FS_CODEC_LZ4;
    if (begin_worth(&e, plain, n, out)) choice = CHOICE_LZ4;
  }
  fs_encoder_free(e.encoder);
  atomic_store(&item->choice, choice);
}

void fs_choose_by_samples(const struct fs_plan *plan, struct fs_item *item, struct fs_encoder *encoder) {
  struct encoding e = {.plan = plan, .row = plan->codecs.of_kind[item->kind], .encoder = encoder};
  if (e.row == FS_CODEC_RAW) return;
  FS_AUTO_CLOSE int fd = fs_item_open(plan->tree, item);
  const int choice = fd < 0 ? fd : choose_by_samples(&e, item, fd);
  if (choice > CHOICE_OPEN) atomic_store(&item->choice, (uint8_t)choice);
}

static int choice_of(const struct encoding *e, struct fs_item *item, int fd) {
  int choice = atomic_load(&item->choice);
  if (choice != CHOICE_OPEN) return choice;
  pthread_mutex_lock(&choice_lock);
  choice = atomic_load(&item->choice);
  if (choice == CHOICE_OPEN) choice = choose_by_samples(e, item, fd);
  if (choice > CHOICE_OPEN) atomic_store(&item->choice, (uint8_t)choice);
  pthread_mutex_unlock(&choice_lock);
  return choice;
}

static void set_raw(const struct fs_plan *plan, struct fs_chunk *c, struct fs_chunk_block *blocks) {
  const uint64_t block = plan->opts->block_size;
  for (uint32_t i = 0; i < c->nblocks; i++) blocks[i].stored_len = (uint32_t)FS_MIN(block, c->plain_len - i * block);
  c->codec = FS_CODEC_RAW;
  c->stored_len = c->plain_len;
}

/* Writes the stored form of the plain bytes to `out`: as the kind or the choice says, else by lz4, else raw. Returns 0
   or -ENOMEM. */
static fs_err encode(struct encoding *e, struct fs_chunk *c, const uint8_t *plain, int choice, uint8_t *out,
                     struct fs_chunk_block *blocks) {
  const uint64_t n = c->plain_len;
  if (choice == CHOICE_LZ4) e->row = FS_CODEC_LZ4;
  for (;; e->row = FS_CODEC_LZ4) {
    int64_t stored = encode_blocks(e, plain, n, out, blocks);
    if (stored < 0) return (fs_err)stored;
    if (choice >= CHOICE_ENCODED || worth(e, c->nblocks, n, (uint64_t)stored)) {
      c->codec = e->row;
      c->stored_len = (uint64_t)stored;
      return 0;
    }
    if (!falls_back(e) || (uint64_t)stored == n) break;
  }
  memcpy(out, plain, n);
  set_raw(e->plan, c, blocks);
  return 0;
}

uint64_t fs_second_hash(const struct fs_plan *plan, const void *data, uint64_t n) {
  return fs_xxh3_seeded(data, n, plan->seed);
}

static void checksum(const struct fs_chunk *c, struct fs_chunk_block *blocks) {
  const uint8_t *p = c->stored;
  for (uint32_t i = 0; i < c->nblocks; i++) {
    blocks[i].xxh3 = fs_xxh3(p, blocks[i].stored_len);
    p += blocks[i].stored_len;
  }
}

/* Hashes the plain bytes of a whole file, by which equal files of other kinds are found. */
static void name_content(const struct fs_plan *plan, struct fs_chunk *c, const uint8_t *plain) {
  const bool known = c->codec == FS_CODEC_RAW && c->nblocks == 1;
  c->plain_xxh3 = known ? c->blocks[0].xxh3 : fs_xxh3(plain, c->plain_len);
  if (plan->opts->local_dir != NULL) c->plain_key = fs_second_hash(plan, plain, c->plain_len);
}

/* Reads the chunk's plain bytes. Returns -ESTALE if the item changed meanwhile. */
static fs_err read_plain(const struct fs_tree *tree, int fd, const struct fs_chunk *c, uint8_t *plain) {
  const struct fs_item *item = &tree->items[c->item];
  fs_err err = fs_item_read(tree, item, fd, plain, (size_t)c->plain_len, c->offset);
  fs_err changed = fs_item_check(tree, fd, item);
  return changed < 0 ? changed : err;
}

/* Fills one chunk. `out` and `blocks` are the chunk's part of the batch's buffers. */
static fs_err fill(struct encoding *e, struct fs_chunk *c, uint8_t *plain, uint8_t *out,
                   struct fs_chunk_block *blocks) {
  const struct fs_plan *plan = e->plan;
  struct fs_item *item = &plan->tree->items[c->item];
  const uint64_t block = plan->opts->block_size;
  e->row = plan->codecs.of_kind[item->kind];
  const bool raw = e->row == FS_CODEC_RAW;
  const bool here = fs_item_stream(plan->tree, item) != NULL; /* `plain` has the bytes */
  FS_AUTO_CLOSE int fd = here ? -1 : fs_item_open(plan->tree, item);
  if (fd < 0 && !here) return fd;
  c->nblocks = (uint32_t)((c->plain_len + block - 1) / block);
  c->blocks = blocks;
  c->stored = out;
  fs_err err = here ? 0 : read_plain(plan->tree, fd, c, raw ? out : plain);
  if (err < 0) return err;
  int choice = raw ? CHOICE_RAW : c->whole ? CHOICE_OPEN : choice_of(e, item, fd);
  if (choice < 0) return choice;
  if (choice == CHOICE_RAW) {
    if (!raw || here) memcpy(out, plain, (size_t)c->plain_len);
    set_raw(plan, c, blocks);
  } else {
    err = encode(e, c, plain, choice, out, blocks);
  }
  if (err < 0) return err;
  checksum(c, blocks);
  if (c->whole && plan->opts->codec == FS_CHOOSE_AUTO) name_content(plan, c, raw && !here ? out : plain);
  return 0;
}

fs_err fs_batch_room(const struct fs_plan *plan, struct fs_batch *batch) {
  const uint64_t most = FS_MAX(plan->chunk, (uint64_t)FS_BATCH_BYTES);
  if (batch->stored == NULL) batch->stored = malloc(most);
  if (batch->blocks == NULL)
    batch->blocks = calloc(FS_BATCH_CHUNKS + most / plan->opts->block_size, sizeof *batch->blocks);
  return batch->stored != NULL && batch->blocks != NULL ? 0 : -ENOMEM;
}

void fs_batch_free(struct fs_batch *batch) {
  free(batch->stored);
  free(batch->blocks);
  batch->stored = NULL;
  batch->blocks = NULL;
}

void fs_encode_batch(const struct fs_plan *plan, struct fs_batch *batch, uint8_t *plain, struct fs_encoder *encoder) {
  struct encoding e = {.plan = plan, .encoder = encoder};
  uint8_t *out = batch->stored;
  struct fs_chunk_block *blocks = batch->blocks;
  if (batch->stream != NULL) fs_stream_read(plan, batch, plain);
  const uint32_t n = batch->err < 0 ? batch->n - 1 : batch->n;
  for (uint32_t i = 0; i < n; i++) {
    struct fs_chunk *c = &batch->chunk[i];
    if (c->err == 0) c->err = fill(&e, c, plain, out, blocks);
    if (batch->stream != NULL) plain += c->plain_len;
    if (c->err < 0 && !plan->opts->keep_going) {
      batch->err = c->err;
      batch->n = i + 1;
      return;
    }
    out += c->stored_len;
    blocks += c->nblocks;
  }
}
