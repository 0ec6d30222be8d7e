/* SPDX-License-Identifier: BSD-3-Clause */
/* fs-prepare/passes.c: all blocks come once and in order, whatever part of them fits into a pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BLOCKS_MORE (8u << 10)
#include "../../fs-prepare/passes.c" /* for passes of fewer blocks: with 128 Ki, this takes ten seconds */
#include "index/builder.h"
#include "tools_fixture.h"
#include "util/util.h"

#define BLOCK FS_BLOCK_SIZE_MIN
#define MANY 20000u /* blocks of a large file: more than two passes hold */
#define PARTS 5u
#define PART_SIZE (64u << 20)
#define STORED 100u
#define ZSTD 2 /* row of the table of codecs */

/* Calls that a partition has got. */
struct part {
  struct seen *seen;
  uint32_t number;
  struct fs_passes_block last;
  uint64_t blocks, begins, ends;
};
struct seen {
  const struct fs_index *ix;
  struct part part[PARTS];
  uint64_t *first; /* block of each entry in `times` */
  _Atomic uint8_t *times;
  _Atomic uint64_t turned; /* blocks of one offset that are not in order */
  uint32_t refuse;         /* partition whose begin fails */
};

static void *on_begin(void *ctx, uint32_t number) {
  struct seen *s = ctx;
  struct part *p = &s->part[number];
  assert_true(number < PARTS);
  p->seen = s;
  p->number = number;
  p->begins++;
  return number == s->refuse ? NULL : p;
}

static void on_block(void *state, const struct fs_passes_block *b) {
  struct part *p = state;
  struct seen *s = p->seen;
  struct fs_block is;
  if (p->begins != 1 || p->ends != 0 || b->partition != p->number || b->offset < p->last.offset) abort();
  if (fs_index_block(s->ix, b->entry, b->index, &is) < 0 || is.offset != b->offset || is.xxh3 != b->xxh3) abort();
  if (is.partition != b->partition || is.stored_len != b->stored_len || is.plain_len != b->plain_len) abort();
  const struct fs_passes_block *last = &p->last;
  const bool after = b->codec != last->codec   ? b->codec > last->codec
                     : b->entry != last->entry ? b->entry > last->entry
                                               : b->index > last->index;
  if (b->offset == last->offset && !after) s->turned++;
  if (fs_passes_same(b, last) != (b->offset == last->offset && b->codec == last->codec)) abort();
  s->times[s->first[b->entry] + b->index]++;
  p->last = *b;
  p->blocks++;
}

static void on_end(void *state) {
  struct part *p = state;
  if (p->begins != 1) abort();
  p->ends++;
}

static const struct fs_passes_calls calls = {on_begin, on_block, on_end};

static void seen_open(struct seen *s, const struct fs_index *ix) {
  uint64_t n = 0;
  *s = (struct seen){.ix = ix, .first = calloc(ix->nentries + 1, sizeof(*s->first)), .refuse = PARTS};
  for (uint64_t e = 0; e < ix->nentries; e++) {
    s->first[e] = n;
    n += fs_index_block_count(ix, &ix->entries[e]);
  }
  s->first[ix->nentries] = n;
  s->times = calloc(n + 1, 1);
}

static void seen_close(struct seen *s) {
  free(s->first);
  free((void *)s->times);
}

/* What is added to the index: the blocks of two large files, and small files. */
struct content {
  struct fs_built_block *scattered, *same;
};

static void content_open(struct content *c) {
  c->scattered = calloc(MANY, sizeof(*c->scattered));
  c->same = calloc(MANY, sizeof(*c->same));
  for (uint32_t i = 0; i < MANY; i++) {
    const uint32_t at = (uint32_t)((uint64_t)i * 7919 % MANY); /* a permutation: 7919 is a prime that does not divide */
    const uint64_t offset = FS_PART_HEADER_SIZE + (uint64_t)(at / (PARTS - 1)) * STORED;
    c->scattered[i] = (struct fs_built_block){offset, offset + at, STORED, at % (PARTS - 1)};
    c->same[i] = (struct fs_built_block){PART_SIZE - 1, 5, 1, 1}; /* the last place of a partition */
  }
}

static void content_close(struct content *c) {
  free(c->scattered);
  free(c->same);
}

static void add_file(struct fs_builder *b, const char *path, uint32_t codec, const struct fs_built_block *blocks,
                     uint64_t n) {
  const struct fs_build_file file = {
      .path = path, .mode = S_IFREG | 0644, .size = n * BLOCK, .codec = codec, .blocks = blocks, .nblocks = n};
  assert_int_equal(fs_builder_add(b, &file), 0);
}

/* Makes an index in memory, which fs_builder_release frees. Partition PARTS - 1 has no blocks, and ends
   before others. */
static void *build(const struct content *c, bool scattered, bool same, uint64_t *size) {
  char why[256] = "";
  void *out = NULL;
  struct fs_builder *b = fs_builder_new(BLOCK, FS_ALIGN);
  const struct fs_build_file dir = {.path = "", .mode = S_IFDIR | 0755};
  assert_int_equal(fs_builder_codec(b, &(struct fs_build_codec){FS_FAMILY_ZSTD, 1, NULL, 0}), ZSTD);
  assert_int_equal(fs_builder_add(b, &dir), 0);
  if (scattered) add_file(b, "a", FS_CODEC_LZ4, c->scattered, MANY);
  if (scattered) add_file(b, "copy", FS_CODEC_LZ4, c->scattered, MANY);
  if (same) add_file(b, "same", ZSTD, c->same, MANY);
  if (same) add_file(b, "same2", FS_CODEC_LZ4, c->same, MANY - 1);
  add_file(b, "small", FS_CODEC_LZ4, &c->scattered[17], 1);
  add_file(b, "small2", FS_CODEC_LZ4, &c->scattered[4711], 1);
  for (uint32_t i = 0; i < PARTS; i++) {
    const uint64_t more = (i + 1) % 2 * FS_ALIGN * 1000;
    const struct fs_part_rec part = {.size = i == PARTS - 1 ? 1u << 20 : PART_SIZE + more, .xxh3 = i};
    assert_int_equal(fs_builder_part(b, &part), 0);
  }
  if (fs_builder_finish(b, &out, size, why, sizeof(why)) < 0) fail_msg("%s", why);
  fs_builder_free(b);
  return out;
}

/* Goes over all blocks, and checks that all blocks of the partitions that are wanted have come once. */
static uint64_t collect_all(const struct fs_index *ix, const uint8_t *only, unsigned jobs) {
  struct seen s;
  struct fs_block b;
  seen_open(&s, ix);
  assert_int_equal(fs_passes(ix, only, jobs, &calls, &s), 0);
  for (uint32_t p = 0; p < PARTS; p++) {
    assert_int_equal(s.part[p].begins, !only || only[p]);
    assert_int_equal(s.part[p].ends, !only || only[p]);
  }
  for (uint64_t e = 0; e < ix->nentries; e++) {
    for (uint64_t i = 0; i < s.first[e + 1] - s.first[e]; i++) {
      assert_int_equal(fs_index_block(ix, (uint32_t)e, i, &b), 0);
      if (s.times[s.first[e] + i] != (!only || only[b.partition])) fail_msg("block %u of %u", (unsigned)i, (unsigned)e);
    }
  }
  const uint64_t turned = s.turned;
  seen_close(&s);
  return turned;
}

static void test_passes(void **state) {
  static const uint8_t some[PARTS] = {1, 0, 0, 1, 1}, none[PARTS] = {0};
  struct content c;
  struct fs_index ix;
  uint64_t size;
  (void)state;
  content_open(&c);
  void *base = build(&c, true, false, &size);
  assert_int_equal(fs_index_attach(base, size, &ix, NULL, 0), 0);
  for (unsigned jobs = fix_slowness() > 1 ? 7 : 1; jobs <= 7; jobs += 2) {
    assert_int_equal(collect_all(&ix, NULL, jobs), 0);
    assert_int_equal(collect_all(&ix, some, jobs), 0);
  }
  collect_all(&ix, none, 2);
  fs_builder_release(base, size);
  content_close(&c);
}

/* Many more blocks of one place than a pass holds, before and behind others. */
static void test_one_place(void **state) {
  static const uint8_t its[PARTS] = {0, 1, 0, 0, 0};
  struct content c;
  struct fs_index ix;
  uint64_t size;
  (void)state;
  content_open(&c);
  for (unsigned last = 0; last < 2; last++) {
    for (uint32_t i = 0; i < MANY; i++) c.same[i].offset = last ? PART_SIZE - 1 : FS_PART_HEADER_SIZE + 50 * STORED;
    for (unsigned with = 0; with < 2; with++) {
      void *base = build(&c, with == 1, true, &size);
      assert_int_equal(fs_index_attach(base, size, &ix, NULL, 0), 0);
      for (unsigned jobs = fix_slowness() > 1 ? 4 : 1; jobs <= 4; jobs += 3) {
        if (collect_all(&ix, NULL, jobs) == 0) fail_msg("one pass held all blocks of one place");
        collect_all(&ix, its, jobs);
      }
      fs_builder_release(base, size);
    }
  }
  content_close(&c);
}

/* Of a file with a damaged block only those before it come. A partition whose begin fails gets no calls. */
static void test_damaged(void **state) {
  struct content c;
  struct fs_index ix;
  struct seen s;
  uint64_t size;
  (void)state;
  content_open(&c);
  void *base = build(&c, true, false, &size);
  assert_int_equal(fs_index_attach(base, size, &ix, NULL, 0), 0);
  const int64_t a = fs_index_lookup(&ix, "a", 1), small = fs_index_lookup(&ix, "small", 5);
  assert_true(a > 0 && small > 0);
  ((struct fs_block_rec *)ix.blocks)[ix.entries[a].data + MANY / 3 * 2].partition = PARTS; /* "copy" has it, too */
  ((struct fs_entry *)ix.entries)[small].data = PART_SIZE + 1000 * FS_ALIGN;
  seen_open(&s, &ix);
  s.refuse = 2;
  assert_int_equal(fs_passes(&ix, NULL, 2, &calls, &s), 0);
  for (uint64_t i = 0; i < MANY; i++) {
    const uint64_t want = i < MANY / 3 * 2 && ix.blocks[ix.entries[a].data + i].partition != s.refuse;
    if (s.times[s.first[a] + i] != want) fail_msg("block %u", (unsigned)i);
  }
  assert_int_equal(s.times[s.first[small]], 0);
  for (uint32_t p = 0; p < PARTS; p++) {
    assert_int_equal(s.part[p].begins, 1);
    assert_int_equal(s.part[p].ends, p != s.refuse);
  }
  assert_int_equal(s.part[s.refuse].blocks, 0);
  seen_close(&s);
  ((struct fs_part_rec *)ix.parts)[3].size = INT64_MAX / 2;
  assert_int_equal(fs_passes(&ix, NULL, 1, &calls, NULL), -EUCLEAN);
  fs_builder_release(base, size);
  content_close(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_passes),
      cmocka_unit_test(test_one_place),
      cmocka_unit_test(test_damaged),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
