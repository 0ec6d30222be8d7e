/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What each family of codecs gives: codecs BLOCK FILE... encodes the files block by block with rows of the table of
 * codecs, and decodes each block several times with one thread, as readers do, from memory to memory. A dictionary is
 * made of the files' beginnings. Prints a JSON object: for each row its name and level, plain and stored bytes, and the
 * bytes a second of encoding and of decoding (the best of the repetitions).
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "codec/codec.h"
#include "codec/encode.h"
#include "common.h"

#define REPEAT 5
#define DICT (32u << 10)

struct block {
  uint8_t *plain, *stored;
  size_t n, put;
};

static struct block *blocks;
static size_t nblocks, largest, total;
static char dict[DICT];
static size_t dict_used;

static void load(const char *path, size_t block) {
  FILE *f = fopen(path, "re");
  if (!f) die(path);
  for (;;) {
    uint8_t *plain = malloc(block);
    size_t n = plain ? fread(plain, 1, block, f) : 0;
    if (n == 0) {
      free(plain);
      break;
    }
    blocks = realloc(blocks, (nblocks + 1) * sizeof(*blocks));
    if (!blocks) die("memory");
    blocks[nblocks++] = (struct block){.plain = plain, .stored = malloc(n), .n = n};
    size_t take = FS_MIN(FS_MIN(n, (size_t)1024), DICT - dict_used);
    memcpy(dict + dict_used, plain, take);
    dict_used += take;
    largest = FS_MAX(largest, n);
    total += n;
  }
  fclose(f);
}

static uint64_t encode(const struct fs_encoding *e, size_t *stored) {
  struct fs_encoder *encoder = fs_encoder_new();
  uint64_t t = now();
  *stored = 0;
  for (size_t i = 0; i < nblocks; i++) {
    struct block *b = &blocks[i];
    fs_ssize put = fs_encode(encoder, e, b->plain, b->n, b->stored, b->n);
    if (put < 0) memcpy(b->stored, b->plain, b->n);
    b->put = put < 0 ? b->n : (size_t)put;
    *stored += b->put;
  }
  t = now() - t;
  fs_encoder_free(encoder);
  return t;
}

static uint64_t decode(struct fs_codec_set *set, uint8_t *out, void *work) {
  uint64_t best = UINT64_MAX;
  for (int k = 0; k < REPEAT; k++) {
    uint64_t t = now();
    for (size_t i = 0; i < nblocks; i++)
      if (fs_block_decode(set, 2, blocks[i].stored, blocks[i].put, out, blocks[i].n, work) < 0) die("decode");
    best = FS_MIN(best, now() - t);
  }
  return best;
}

static void measure(const struct fs_encoding *what, const char *before) {
  struct fs_encoding e = *what;
  struct fs_codec_rec rows[3] = {{.element = 1}, {.family = FS_FAMILY_LZ4, .element = 1}, {0}};
  struct fs_codec_set set;
  size_t stored;
  if (e.dict) e.dict_len = (uint32_t)dict_used;
  rows[2] = (struct fs_codec_rec){.family = e.family, .element = e.element, .dict_len = e.dict_len};
  if (fs_codec_set_open(&set, rows, 3, dict, DICT) < 0 || fs_encoding_prepare(&e) < 0) die("row");
  uint8_t *out = malloc(largest);
  void *work = calloc(1, fs_codec_work_size(&set, largest) + FS_CODEC_WORK_HEAD);
  if (!out || !work) die("memory");
  uint64_t encoding = encode(&e, &stored), decoding = decode(&set, out, work);
  printf(
      "%s{\"codec\": \"%s\", \"level\": %d, \"bytes\": %zu, \"stored\": %zu, \"encoded_s\": %.0f, \"decoded_s\": %.0f}",
      before, fs_codec_name(&set, 2), e.level, total, stored, (double)total * 1e9 / (double)encoding,
      (double)total * 1e9 / (double)decoding);
  fs_encoding_release(&e);
  fs_codec_set_close(&set);
  free(out);
  free(work);
}

int main(int argc, char **argv) {
  static const struct fs_encoding kinds[] = {
      {.family = FS_FAMILY_LZ4, .element = 1, .level = 0},
      {.family = FS_FAMILY_LZ4, .element = 1, .level = 9},
      {.family = FS_FAMILY_LZ4, .element = 1, .level = 9, .dict = dict},
      {.family = FS_FAMILY_LZ4, .element = 2, .level = 9},
      {.family = FS_FAMILY_LZ4, .element = 4, .level = 9},
      {.family = FS_FAMILY_LZ4, .element = 8, .level = 9},
      {.family = FS_FAMILY_ZSTD, .element = 1, .level = 1},
      {.family = FS_FAMILY_ZSTD, .element = 1, .level = 3},
      {.family = FS_FAMILY_ZSTD, .element = 1, .level = 9},
      {.family = FS_FAMILY_ZSTD, .element = 1, .level = 19},
      {.family = FS_FAMILY_ZSTD, .element = 1, .level = 3, .dict = dict},
      {.family = FS_FAMILY_ZSTD, .element = 1, .level = 19, .dict = dict},
      {.family = FS_FAMILY_ZSTD, .element = 4, .level = 3},
      {.family = FS_FAMILY_ZSTD, .element = 8, .level = 3},
  };
  size_t block = argc > 2 ? (size_t)strtoul(argv[1], NULL, 10) : 0;
  if (block < 1 || block > FS_BLOCK_SIZE_MAX) {
    fprintf(stderr, "usage: codecs BLOCK FILE...\n");
    return 2;
  }
  for (int i = 2; i < argc; i++) load(argv[i], block);
  if (nblocks == 0) die("no bytes");
  for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) measure(&kinds[i], i == 0 ? "[" : ",\n ");
  printf("]\n");
  return 0;
}
