/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encodes a batch of chunks: reads each, chooses the codec, encodes block by block, computes
 * checksums. Called by the pipeline's threads. All chunks of a large file have one codec, which is
 * chosen once, from samples, under a mutex. Buffers are reused: they stay in the processor's
 * caches, and new memory would cost as much as compressing a quarter of it.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"
#include "pack.h"

enum { CHOICE_OPEN, CHOICE_RAW, CHOICE_LZ4 };
#define SAMPLES 8u       /* sampled blocks of a large file, evenly spread */
#define SMALL_FILE 4096u /* up to this a file must halve, to be worth the decoding */

static pthread_mutex_t choice_lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns true if `stored` instead of `plain` bytes are worth the decoding. */
static bool worth(const struct fs_pack_options *o, uint64_t file_size, uint64_t plain, uint64_t stored) {
  if (o->codec != FS_CHOOSE_AUTO) return stored < plain;
  return file_size <= SMALL_FILE ? stored <= plain / 2 : stored <= plain - plain / 8;
}

static int level_of(const struct fs_pack_options *o) {
  return o->codec == FS_CHOOSE_LZ4 ? 0 : o->level;
}

/*
 * Encodes one block into out, which has room for its bound. Returns the stored length; n means that
 * the block was copied. With auto, a block that the fast level does not shrink (JPEG, for example)
 * is not tried with the slow level.
 */
static size_t encode_block(const struct fs_plan *plan, const uint8_t *plain, size_t n, uint8_t *out) {
  const struct fs_codec *codec = fs_codec_by_id(FS_CODEC_LZ4);
  const size_t room = codec->bound(n);
  fs_ssize stored = (fs_ssize)n;
  if (plan->opts->codec == FS_CHOOSE_AUTO) stored = codec->encode(plain, n, out, room, 0);
  bool hopeless = plan->opts->codec == FS_CHOOSE_AUTO && (stored < 0 || (size_t)stored > n - n / 32);
  if (!hopeless) stored = codec->encode(plain, n, out, room, level_of(plan->opts));
  if (!hopeless && stored > 0 && (size_t)stored < n) return (size_t)stored;
  memcpy(out, plain, n);
  return n;
}

/* Encodes n bytes into out, with room for n and one block's bound. Returns the stored bytes. */
static uint64_t encode_blocks(const struct fs_plan *plan, const uint8_t *plain, uint64_t n, uint8_t *out,
                              struct fs_chunk_block *blocks) {
  uint64_t used = 0, block_size = plan->opts->block_size;
  for (uint64_t at = 0; at < n; at += block_size) {
    size_t stored = encode_block(plan, plain + at, (size_t)FS_MIN(n - at, block_size), out + used);
    blocks[at / block_size].stored_len = (uint32_t)stored;
    used += stored;
  }
  return used;
}

static size_t room_for(const struct fs_plan *plan, uint64_t n) {
  size_t block = plan->opts->block_size;
  return (size_t)n + fs_codec_by_id(FS_CODEC_LZ4)->bound(block) - block;
}

/* Reads SAMPLES blocks of a large file and encodes them. Returns CHOICE_* or a negative errno. */
static int choose_by_samples(const struct fs_plan *plan, const struct fs_item *item, int fd) {
  const uint64_t block = plan->opts->block_size, nblocks = (item->size + block - 1) / block;
  const uint64_t k = FS_MIN((uint64_t)SAMPLES, nblocks);
  FS_AUTO_FREE uint8_t *plain = malloc(block);
  FS_AUTO_FREE uint8_t *out = malloc(room_for(plan, block));
  if (plain == NULL || out == NULL) return -ENOMEM;
  uint64_t all = 0, stored = 0;
  for (uint64_t i = 0; i < k; i++) {
    uint64_t at = (k == 1 ? 0 : i * (nblocks - 1) / (k - 1)) * block;
    size_t n = (size_t)FS_MIN(block, item->size - at);
    fs_err err = fs_pread_full(fd, plain, n, at);
    if (err < 0) return err;
    all += n;
    stored += encode_block(plan, plain, n, out);
  }
  return worth(plan->opts, item->size, all, stored) ? CHOICE_LZ4 : CHOICE_RAW;
}

static int choice_of(const struct fs_plan *plan, struct fs_item *item, int fd) {
  int choice = atomic_load(&item->choice);
  if (choice != CHOICE_OPEN) return choice;
  pthread_mutex_lock(&choice_lock);
  choice = atomic_load(&item->choice);
  if (choice == CHOICE_OPEN) choice = choose_by_samples(plan, item, fd);
  if (choice > CHOICE_OPEN) atomic_store(&item->choice, choice);
  pthread_mutex_unlock(&choice_lock);
  return choice;
}

static void set_raw(const struct fs_plan *plan, struct fs_chunk *c, struct fs_chunk_block *blocks) {
  const uint64_t block = plan->opts->block_size;
  for (uint32_t i = 0; i < c->nblocks; i++) blocks[i].stored_len = (uint32_t)FS_MIN(block, c->plain_len - i * block);
  c->codec = FS_CODEC_RAW;
  c->stored_len = c->plain_len;
}

/* Writes the stored form of the plain bytes to `out`. */
static void encode(const struct fs_plan *plan, struct fs_chunk *c, const uint8_t *plain, int choice, uint8_t *out,
                   struct fs_chunk_block *blocks) {
  const uint64_t n = c->plain_len, stored = encode_blocks(plan, plain, n, out, blocks);
  if (choice == CHOICE_LZ4 || worth(plan->opts, plan->tree->items[c->item].size, n, stored)) {
    c->codec = FS_CODEC_LZ4;
    c->stored_len = stored;
    return;
  }
  if (stored < n) memcpy(out, plain, n); /* else each block was copied */
  set_raw(plan, c, blocks);
}

static void checksum(const struct fs_chunk *c, struct fs_chunk_block *blocks) {
  const uint8_t *p = c->stored;
  for (uint32_t i = 0; i < c->nblocks; i++) {
    blocks[i].xxh3 = fs_xxh3(p, blocks[i].stored_len);
    p += blocks[i].stored_len;
  }
}

/* Reads the chunk's plain bytes. Returns -ESTALE if the item changed meanwhile. */
static fs_err read_plain(int fd, const struct fs_item *item, const struct fs_chunk *c, uint8_t *plain) {
  fs_err err = fs_pread_full(fd, plain, (size_t)c->plain_len, c->offset);
  fs_err changed = fs_item_check(fd, item);
  return changed < 0 ? changed : err;
}

/* Fills one chunk. `out` and `blocks` are the chunk's part of the batch's buffers. */
static fs_err fill(const struct fs_plan *plan, struct fs_chunk *c, uint8_t *plain, uint8_t *out,
                   struct fs_chunk_block *blocks) {
  struct fs_item *item = &plan->tree->items[c->item];
  const uint64_t block = plan->opts->block_size;
  const bool raw = plan->opts->codec == FS_CHOOSE_RAW;
  FS_AUTO_CLOSE int fd = fs_item_open(plan->tree, item);
  if (fd < 0) return fd;
  c->nblocks = (uint32_t)((c->plain_len + block - 1) / block);
  c->blocks = blocks;
  c->stored = out;
  fs_err err = read_plain(fd, item, c, raw ? out : plain);
  if (err < 0) return err;
  int choice = raw ? CHOICE_RAW : c->whole ? CHOICE_OPEN : choice_of(plan, item, fd);
  if (choice < 0) return choice;
  if (choice == CHOICE_RAW) {
    if (!raw) memcpy(out, plain, (size_t)c->plain_len);
    set_raw(plan, c, blocks);
  } else {
    encode(plan, c, plain, choice, out, blocks);
  }
  checksum(c, blocks);
  return 0;
}

fs_err fs_batch_room(const struct fs_plan *plan, struct fs_batch *batch) {
  const uint64_t most = FS_MAX(plan->chunk, (uint64_t)FS_BATCH_BYTES);
  if (batch->stored == NULL) batch->stored = malloc(room_for(plan, most));
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

void fs_encode_batch(const struct fs_plan *plan, struct fs_batch *batch, uint8_t *plain) {
  uint8_t *out = batch->stored;
  struct fs_chunk_block *blocks = batch->blocks;
  for (uint32_t i = 0; i < batch->n; i++) {
    struct fs_chunk *c = &batch->chunk[i];
    batch->err = fill(plan, c, plain, out, blocks);
    if (batch->err < 0) batch->n = i + 1;
    out += c->stored_len;
    blocks += c->nblocks;
  }
}
