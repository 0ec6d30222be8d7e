/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of what an index's header says: of the hash table in one of many names, of all fields of a small one; and of
 * its entries. How the builder counts stored bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "index_fixture.h"

/* A table of which each look-up would go over all must not be believed. */
static void test_probe_bound(void **state) {
  char name[16], why[256] = "";
  struct fs_index ix;
  void *out;
  uint64_t size;
  struct fs_builder *b = fs_builder_new(FIX_BLOCK, FS_ALIGN);
  (void)state;
  assert_int_equal(fs_builder_add(b, &(struct fs_build_file){.path = "", .mode = S_IFDIR | 0755}), 0);
  for (unsigned i = 0; i < 5000; i++) {
    snprintf(name, sizeof(name), "f%u", i);
    assert_int_equal(fs_builder_add(b, &(struct fs_build_file){.path = name, .mode = S_IFREG | 0644}), 0);
  }
  assert_int_equal(fs_builder_finish(b, &out, &size, why, sizeof(why)), 0);
  struct fs_index_header *h = out;
  assert_true(h->section[FS_SEC_BUCKETS].count > FS_PROBE_MAX && h->max_probe < 200);
  h->max_probe = FS_PROBE_MAX;
  fix_checksums(out, size, false);
  assert_int_equal(fs_index_attach(out, size, &ix, why, sizeof(why)), 0);
  h->max_probe = FS_PROBE_MAX + 1;
  fix_checksums(out, size, false);
  assert_int_equal(fs_index_attach(out, size, &ix, why, sizeof(why)), -EBADMSG);
  assert_non_null(strstr(why, "hash table"));
  fs_builder_release(out, size);
  fs_builder_free(b);
}

static uint64_t rotated(uint64_t x, unsigned n) {
  n %= 64;
  return n == 0 ? x : x << n | x >> (64 - n);
}

/* Returns the 64 bits from which XXH3 makes this hash of 8 bytes: its steps backwards. */
static uint64_t unhash(uint64_t h) {
  uint64_t inverse = 1;
  for (int i = 0; i < 6; i++) inverse *= 2 - 0x9FB21C651E98DF25u * inverse;
  h ^= h >> 28 ^ h >> 56;
  h *= inverse;
  h ^= (h >> 35) + 8;
  h *= inverse;
  for (unsigned i = 1; i < 64; i *= 2) h ^= rotated(h, 49 * i) ^ rotated(h, 24 * i); /* all 6: 63 times one */
  return h;
}

static uint64_t halves_of(const char *name) {
  uint32_t half[2];
  memcpy(half, name, sizeof(half));
  return (uint64_t)half[0] << 32 | half[1];
}

static fs_err put_nothing(void *ctx, uint64_t at, const void *data, size_t n) {
  (void)ctx, (void)at, (void)data, (void)n;
  return 0;
}

/* Names that were chosen to have one place in the hash table are refused at the first one that is too far from it. */
static void test_chosen_names(void **state) {
  const uint64_t flip = halves_of("FanStore") ^ unhash(fs_xxh3("FanStore", 8));
  char why[256] = "";
  struct fs_index_header h;
  struct fs_builder *b = fs_builder_new(FIX_BLOCK, FS_ALIGN);
  unsigned count = 0;
  (void)state;
  assert_int_equal(fs_builder_add(b, &(struct fs_build_file){.path = "", .mode = S_IFDIR | 0755}), 0);
  for (uint64_t i = 1; count < 20000; i++) {
    const uint64_t halves = unhash(i << 32) ^ flip;
    const uint32_t half[2] = {(uint32_t)(halves >> 32), (uint32_t)halves};
    char name[9] = "";
    memcpy(name, half, sizeof(half));
    if (strlen(name) != 8 || strchr(name, '/')) continue;
    assert_int_equal(fs_xxh3(name, 8), i << 32);
    assert_int_equal(fs_builder_add(b, &(struct fs_build_file){.path = name, .mode = S_IFREG | 0644}), 0);
    count++;
  }
  assert_int_equal(fs_builder_write(b, put_nothing, NULL, &h, why, sizeof(why)), -EINVAL);
  assert_string_equal(why, "too many names have the same hash");
  assert_int_equal(h.max_probe, FS_PROBE_MAX + 1);
  fs_builder_free(b);
}

static void refused(const uint8_t *good, uint64_t size, size_t field, size_t n, uint64_t value, const char *expect) {
  char why[256] = "";
  struct fs_index ix;
  uint8_t *bytes = memcpy(malloc(size), good, size);
  memcpy(bytes + field, &value, n);
  fix_checksums(bytes, size, false);
  assert_int_equal(fs_index_attach(bytes, size, &ix, why, sizeof(why)), -EBADMSG);
  if (!strstr(why, expect)) print_error("'%s' does not say '%s'\n", why, expect);
  assert_non_null(strstr(why, expect));
  free(bytes);
}
#define REFUSED(field, value, expect)                                                                                  \
  refused(bytes, size, offsetof(struct fs_index_header, field), sizeof(h->field), value, expect)

static void test_impossible_headers(void **state) {
  uint64_t size;
  void *bytes = fix_build(false, &size);
  const struct fs_index_header *h = bytes;
  const struct fs_section *s = h->section;
  (void)state;
  assert_true(s[FS_SEC_BUCKETS].count < FS_PROBE_MAX && size % 64 == 0);
  REFUSED(header_size, sizeof(*h) + 64, "its header says");
  REFUSED(file_size, size + 64, "its header says");
  REFUSED(section[FS_SEC_BLOCKS].offset, s[FS_SEC_BLOCKS].offset + 8, "'blocks' does not lie");
  REFUSED(section[FS_SEC_BLOCKS].offset, sizeof(*h) - 64, "'blocks' does not lie");
  REFUSED(section[FS_SEC_BLOCKS].offset, UINT64_MAX - 63, "'blocks' does not lie");
  REFUSED(section[FS_SEC_STRINGS].count, size - s[FS_SEC_STRINGS].offset + 1, "'strings' does not lie");
  REFUSED(section[FS_SEC_PARTS].count, 1ull << 60, "'partitions' does not lie");
  REFUSED(section[FS_SEC_ENTRIES].count, 0, "number of entries");
  REFUSED(section[FS_SEC_BUCKETS].count, 0, "hash table");
  REFUSED(section[FS_SEC_BUCKETS].count, s[FS_SEC_BUCKETS].count - 1, "hash table");
  REFUSED(max_probe, s[FS_SEC_BUCKETS].count + 1, "hash table");
  REFUSED(section[FS_SEC_LINKS].count, s[FS_SEC_ENTRIES].count + 1, "number of hard links");
  REFUSED(block_size, FS_BLOCK_SIZE_MIN / 2, "block size");
  REFUSED(block_size, 2 * FS_BLOCK_SIZE_MAX, "block size");
  REFUSED(block_size, FS_BLOCK_SIZE_MIN + 4096, "block size");
  REFUSED(align, FS_ALIGN / 2, "alignment");
  REFUSED(align, FS_ALIGN + 1, "alignment");
  REFUSED(align, 2 * FS_BLOCK_SIZE_MAX, "alignment");
  REFUSED(samples, h->samples + 4, "samples");
  REFUSED(samples, s[FS_SEC_STRINGS].count + 8, "samples");
  fs_builder_release(bytes, size);
}

/* ---- entries that contradict themselves ---- */

static struct fs_entry *entry_of(uint8_t *bytes, const struct fs_index *ix, const char *path) {
  int64_t n = fs_index_lookup(ix, path, strlen(path));
  assert_true(n >= 0);
  return (struct fs_entry *)(bytes + ix->hdr->section[FS_SEC_ENTRIES].offset) + n;
}

static fs_err block_of(const struct fs_index *ix, const struct fs_entry *e) {
  struct fs_block b;
  return fs_index_block(ix, (uint32_t)(e - ix->entries), 0, &b);
}

static void test_impossible_files(void **state) {
  uint64_t size;
  uint8_t *bytes = fix_build(false, &size);
  struct fs_index ix;
  (void)state;
  assert_int_equal(fs_index_attach(bytes, size, &ix, NULL, 0), 0);
  struct fs_entry *e = entry_of(bytes, &ix, "train/cat/small"), good = *e;
  assert_int_equal(block_of(&ix, e), 0);
  e->name = good.name | FS_NAME_MAKE(0, 0, 9, 0); /* a codec that there is not */
  assert_int_equal(block_of(&ix, e), -EUCLEAN);
  e->name = good.name | FS_NAME_MAKE(0, 0, 0, FS_ENTRY_ALIGNED); /* and not in one piece */
  assert_int_equal(block_of(&ix, e), -EUCLEAN);
  *e = good;
  struct fs_part_rec *part = (struct fs_part_rec *)(bytes + ix.hdr->section[FS_SEC_PARTS].offset) + e->partition;
  part->size = 1ull << 63;
  assert_int_equal(block_of(&ix, e), -EUCLEAN);
  fs_builder_release(bytes, size);
}

/* What goes down a tree ends: children come after their directory. */
static void test_impossible_directories(void **state) {
  uint64_t size, count;
  uint8_t *bytes = fix_build(false, &size);
  struct fs_index ix;
  uint32_t first;
  (void)state;
  assert_int_equal(fs_index_attach(bytes, size, &ix, NULL, 0), 0);
  struct fs_entry *e = entry_of(bytes, &ix, "train/cat");
  uint32_t n = (uint32_t)(e - ix.entries);
  assert_int_equal(fs_index_children(&ix, n, &first, &count), 0);
  e->size = 1;
  for (e->data = 0; e->data <= n; e->data++) assert_int_equal(fs_index_children(&ix, n, &first, &count), -EUCLEAN);
  assert_int_equal(fs_index_children(&ix, n, &first, &count), 0);
  fs_builder_release(bytes, size);
}

/* Who reads a target has room for PATH_MAX bytes. */
static void test_target_lengths(void **state) {
  static char text[2 * PATH_MAX];
  const struct fs_index ix = {.strings = text, .strings_size = sizeof(text)};
  struct fs_entry e = {.mode = S_IFLNK | 0777, .size = PATH_MAX - 1, .data = 1};
  const char *target;
  uint64_t len;
  (void)state;
  assert_int_equal(fs_index_target(&ix, &e, &target, &len), 0);
  assert_true(target == text + 1 && len == PATH_MAX - 1);
  e.size = PATH_MAX;
  assert_int_equal(fs_index_target(&ix, &e, &target, &len), -EUCLEAN);
  e.size = 0;
  assert_int_equal(fs_index_target(&ix, &e, &target, &len), -EUCLEAN);
  e.size = 2;
  e.data = sizeof(text) - 1;
  assert_int_equal(fs_index_target(&ix, &e, &target, &len), -EUCLEAN);
  e.data = UINT64_MAX;
  assert_int_equal(fs_index_target(&ix, &e, &target, &len), -EUCLEAN);
}

/* The table of codecs: what the builder was given, out of bounds, and as a version 1 index, which has none. */
static void test_codecs(void **state) {
  (void)state;
  uint64_t size;
  void *made = fix_build(false, &size);
  char why[256] = "";
  struct fs_index ix;
  struct fs_block block;
  uint8_t *bytes = memcpy(malloc(size), made, size);
  struct fs_index_header *h = (struct fs_index_header *)bytes;
  assert_int_equal(fs_index_attach(bytes, size, &ix, why, sizeof(why)), 0);
  uint32_t zstd = (uint32_t)fs_index_lookup(&ix, "train/zstd", 10);
  assert_int_equal(ix.codecs.n, 5);
  assert_int_equal(fs_index_block(&ix, zstd, 0, &block), 0);
  assert_string_equal(fs_codec_name(&ix.codecs, block.codec), "zstd+dict+shuffle2");
  for (uint32_t i = 2; i < 5; i++) { /* one dictionary for all */
    assert_int_equal(ix.codecs.rows[i].dict, ix.codecs.rows[2].dict);
    assert_memory_equal(ix.codecs.strings + ix.codecs.rows[i].dict, "a dictionary", 12);
  }
  const uint64_t places[] = {h->codecs + 4, ix.strings_size - 8, UINT64_MAX - 7}, good = h->codecs;
  for (size_t i = 0; i < FS_ARRAY_LEN(places); i++) {
    h->codecs = places[i];
    fix_checksums(bytes, size, false);
    assert_int_equal(fs_index_attach(bytes, size, &ix, why, sizeof(why)), -EBADMSG);
    assert_non_null(strstr(why, "impossible table of codecs"));
  }
  h->codecs = good, h->codec_rows = UINT32_MAX;
  fix_checksums(bytes, size, false);
  assert_int_equal(fs_index_attach(bytes, size, &ix, why, sizeof(why)), -EBADMSG);
  h->version = 1;
  fix_checksums(bytes, size, false);
  assert_int_equal(fs_index_attach(bytes, size, &ix, why, sizeof(why)), 0);
  assert_int_equal(ix.codecs.n, FS_CODEC_ROWS_MIN);
  assert_int_equal(fs_index_block(&ix, (uint32_t)fs_index_lookup(&ix, "train/cat!/lz4", 14), 0, &block), 0);
  assert_int_equal(fs_index_block(&ix, zstd, 0, &block), -EUCLEAN);
  assert_int_equal(fs_index_verify(&ix, why, sizeof(why)), -EUCLEAN);
  assert_non_null(strstr(why, "codec is not known"));
  free(bytes);
  fs_builder_release(made, size);
}

enum { SMALL = 900000, SMALL_BYTES = 10, LARGE = 1000, LARGE_BYTES = 8 << 20 };

struct uneven {
  struct fs_built_block *block;
  unsigned calls; /* for the small blocks */
};

static void get_uneven(void *ctx, uint64_t i, struct fs_build_file *f) {
  static const struct fs_build_file root = {.path = "", .mode = S_IFDIR | 0755};
  struct uneven *u = ctx;
  *f = (struct fs_build_file){.path = "a", .mode = S_IFREG | 0644, .codec = FS_CODEC_LZ4, .blocks = u->block};
  if (i == 2) f->path = "b", f->blocks = u->block + SMALL;
  f->nblocks = i == 2 ? LARGE : SMALL;
  f->size = f->nblocks * LARGE_BYTES;
  if (i == 0) *f = root;
  u->calls += i == 1;
}

static fs_err drop(void *ctx, uint64_t at, const void *data, size_t n) {
  (void)ctx, (void)at, (void)data, (void)n;
  return 0;
}

/* More blocks than the table of places holds, at a small part of the places: a few passes count them all. */
static void test_stored_bytes_of_uneven_blocks(void **state) {
  struct uneven u = {.block = malloc((SMALL + LARGE) * sizeof(*u.block))};
  struct fs_index_header h;
  char why[256] = "";
  uint64_t at = FS_PART_HEADER_SIZE;
  (void)state;
  for (unsigned i = 0; i < SMALL + LARGE; i++) {
    const uint32_t n = i < SMALL ? SMALL_BYTES : LARGE_BYTES;
    u.block[i] = (struct fs_built_block){.offset = at, .stored_len = n};
    at += n;
  }
  u.block[1] = u.block[0]; /* a shared block counts once */
  struct fs_builder *b = fs_builder_new(LARGE_BYTES, FS_ALIGN);
  const struct fs_part_rec part = {.size = (at + FS_ALIGN - 1) / FS_ALIGN * FS_ALIGN};
  assert_int_equal(fs_builder_part(b, &part), 0);
  fs_builder_entries(b, 3, get_uneven, &u);
  assert_int_equal(fs_builder_write(b, drop, NULL, &h, why, sizeof(why)), 0);
  assert_int_equal(h.stored_bytes, at - FS_PART_HEADER_SIZE - SMALL_BYTES);
  print_message("%u calls\n", u.calls);
  assert_true(u.calls < 100);
  fs_builder_free(b);
  free(u.block);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_probe_bound),
                                     cmocka_unit_test(test_impossible_headers),
                                     cmocka_unit_test(test_chosen_names),
                                     cmocka_unit_test(test_impossible_files),
                                     cmocka_unit_test(test_impossible_directories),
                                     cmocka_unit_test(test_target_lengths),
                                     cmocka_unit_test(test_codecs),
                                     cmocka_unit_test(test_stored_bytes_of_uneven_blocks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
