/* SPDX-License-Identifier: BSD-3-Clause */
/* The index: what is built is found again, and what is damaged is refused or at least harmless. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "index_fixture.h"
#include "util/sys.h"

struct small {
  uint64_t size;
  uint8_t *bytes;
  struct fs_index ix;
};

static int small_open(void **state) {
  static struct small s;
  char why[256] = "";
  s.bytes = fix_build(false, &s.size);
  assert_int_equal(fs_index_attach(s.bytes, s.size, &s.ix, why, sizeof(why)), 0);
  *state = &s;
  return 0;
}

static int small_close(void **state) {
  struct small *s = *state;
  fs_builder_release(s->bytes, s->size);
  return 0;
}

static uint32_t find(const struct fs_index *ix, const char *path) {
  int64_t n = fs_index_lookup(ix, path, strlen(path));
  if (n < 0) print_error("'%s' not found\n", path);
  assert_true(n >= 0);
  return (uint32_t)n;
}

static void test_paths(void **state) {
  const struct small *s = *state;
  char path[PATH_MAX], why[256] = "";
  for (size_t i = 0; i < FS_ARRAY_LEN(fix_files); i++) {
    uint32_t n = find(&s->ix, fix_files[i].path);
    assert_int_equal(s->ix.entries[n].mode, fix_files[i].mode);
    assert_int_equal(fs_index_path(&s->ix, n, path, sizeof(path)), strlen(fix_files[i].path));
    assert_string_equal(path, fix_files[i].path);
    assert_int_equal(fs_index_path(&s->ix, n, path, strlen(path) + 1), strlen(path));
    assert_int_equal(fs_index_path(&s->ix, n, path, strlen(path)), -ENAMETOOLONG);
  }
  static const char *const missing[] = {"x",    "train/",     "/train",          "train//cat",     "train/ca",
                                        "trai", "train/cat/", "train/cat/none/", "link/none",      "cat",
                                        ".",    "..",         "train/.",         "train/cat/nonf", "cat/small"};
  for (size_t i = 0; i < FS_ARRAY_LEN(missing); i++)
    assert_int_equal(fs_index_lookup(&s->ix, missing[i], strlen(missing[i])), -ENOENT);
  assert_int_equal(fs_index_verify(&s->ix, why, sizeof(why)), 0);
  fix_use(&s->ix);
}

static void test_directories(void **state) {
  const struct small *s = *state;
  const char *name, *before = "";
  uint32_t first, len, before_len = 0;
  uint64_t count;
  assert_int_equal(fs_index_children(&s->ix, FS_ROOT, &first, &count), 0);
  assert_int_equal(count, 8);
  for (uint64_t i = 0; i < count; i++) {
    const struct fs_entry *e = fs_index_entry(&s->ix, first + i);
    assert_int_equal(fs_index_name(&s->ix, e, &name, &len), 0);
    int order = memcmp(before, name, FS_MIN(before_len, len));
    assert_true(order < 0 || (order == 0 && before_len < len));
    assert_int_equal(fs_index_child(&s->ix, FS_ROOT, name, len), first + i);
    before = name;
    before_len = len;
  }
  assert_int_equal(fs_index_child(&s->ix, FS_ROOT, "trai", 4), -ENOENT);
  assert_int_equal(fs_index_child(&s->ix, find(&s->ix, "same"), "x", 1), -ENOTDIR);
  assert_int_equal(fs_index_children(&s->ix, find(&s->ix, "empty"), &first, &count), 0);
  assert_int_equal(count, 0);
  assert_int_equal(fs_index_child(&s->ix, find(&s->ix, "empty"), "x", 1), -ENOENT);
}

static void test_stat(void **state) {
  const struct small *s = *state;
  struct stat st;
  fs_index_stat(&s->ix, FS_ROOT, &st);
  assert_int_equal(st.st_mode, S_IFDIR | 0755);
  assert_int_equal(st.st_nlink, 4); /* train, empty */
  assert_int_equal(st.st_ino, 2);
  assert_int_equal(st.st_size, 4096);
  assert_int_equal(st.st_mtim.tv_sec, -5);
  assert_int_equal(st.st_blksize, 4096);
  fs_index_stat(&s->ix, find(&s->ix, "train/raw"), &st);
  assert_int_equal(st.st_size, FIX_BLOCK + 100);
  assert_int_equal(st.st_blocks, (FIX_BLOCK + 4096) / 512); /* whole pages */
  assert_int_equal(st.st_blksize, FIX_BLOCK);
  assert_int_equal(st.st_atim.tv_nsec, 5);
  assert_int_equal(st.st_nlink, 1);
  uint64_t ino = fs_index_ino(&s->ix, find(&s->ix, "zz-linked"));
  assert_int_equal(fs_index_ino(&s->ix, find(&s->ix, "train/linked")), ino);
  assert_int_equal(fs_index_ino(&s->ix, find(&s->ix, "train/cat/linked")), ino);
  fs_index_stat(&s->ix, find(&s->ix, "train/linked"), &st);
  assert_int_equal(st.st_nlink, 3);
  assert_int_equal(st.st_ino, ino);
  assert_true(fs_index_ino(&s->ix, find(&s->ix, "same")) != fs_index_ino(&s->ix, find(&s->ix, "same2")));
  fs_index_stat(&s->ix, find(&s->ix, "link"), &st);
  assert_int_equal(st.st_size, strlen("train/../same"));
}

static void test_targets(void **state) {
  const struct small *s = *state;
  const char *target;
  uint64_t len;
  assert_int_equal(fs_index_target(&s->ix, fs_index_entry(&s->ix, find(&s->ix, "link")), &target, &len), 0);
  assert_int_equal(len, strlen("train/../same"));
  assert_memory_equal(target, "train/../same", len);
  assert_int_equal(fs_index_target(&s->ix, fs_index_entry(&s->ix, FS_ROOT), &target, &len), -EINVAL);
}

/* The short way to a raw file in one piece says what the long way says, and no more. */
static void test_place(void **state) {
  const struct small *s = *state;
  uint32_t partition, found = 0;
  uint64_t offset;
  struct fs_block block;
  for (uint32_t n = 0; n < s->ix.nentries; n++) {
    const struct fs_entry *e = fs_index_entry(&s->ix, n);
    bool whole = S_ISREG(e->mode) && e->size > 0 && FS_NAME_CODEC(e->name) == FS_CODEC_RAW &&
                 (!(FS_NAME_FLAGS(e->name) & FS_ENTRY_BLOCKS) || (FS_NAME_FLAGS(e->name) & FS_ENTRY_CONTIG));
    assert_int_equal(fs_index_place(&s->ix, n, &partition, &offset), whole);
    if (!whole) continue;
    found++;
    assert_int_equal(fs_index_block(&s->ix, n, 0, &block), 0);
    assert_true(block.partition == partition && block.offset == offset);
  }
  assert_true(found > 1);
  assert_false(fs_index_place(&s->ix, (uint32_t)s->ix.nentries, &partition, &offset));
}

static void test_blocks(void **state) {
  const struct small *s = *state;
  struct fs_block block, again;
  uint32_t lz4 = find(&s->ix, "train/cat!/lz4"), small = find(&s->ix, "train/cat/small");
  assert_int_equal(fs_index_block_count(&s->ix, fs_index_entry(&s->ix, lz4)), 3);
  for (uint64_t i = 0; i < 3; i++) {
    assert_int_equal(fs_index_block(&s->ix, lz4, i, &block), 0);
    assert_int_equal(block.offset, fix_lz4_blocks[i].offset);
    assert_int_equal(block.xxh3, fix_lz4_blocks[i].xxh3);
    assert_int_equal(block.partition, fix_lz4_blocks[i].partition);
    assert_int_equal(block.stored_len, fix_lz4_blocks[i].stored_len);
    assert_int_equal(block.plain_len, i < 2 ? FIX_BLOCK : 100);
    assert_int_equal(block.codec, FS_CODEC_LZ4);
    assert_int_equal(fs_index_block_by_key(&s->ix, block.key, &again), 0);
    assert_int_equal(again.offset, block.offset);
    assert_int_equal(again.plain_len, 0);
    assert_int_equal(fs_index_block(&s->ix, find(&s->ix, "train/cat!/copy"), i, &again), 0);
    assert_int_equal(again.key, block.key); /* equal content: the same records */
  }
  assert_int_equal(fs_index_block(&s->ix, lz4, 3, &block), -EINVAL);
  assert_int_equal(fs_index_block(&s->ix, FS_ROOT, 0, &block), -EINVAL);
  assert_int_equal(fs_index_block(&s->ix, find(&s->ix, "train/cat/none"), 0, &block), -EINVAL);
  assert_int_equal(fs_index_block(&s->ix, small, 0, &block), 0);
  assert_int_equal(block.key, small);
  assert_int_equal(block.plain_len, 5);
  assert_int_equal(fs_index_block_by_key(&s->ix, lz4, &block), -EINVAL);
  assert_int_equal(fs_index_block_by_key(&s->ix, FS_KEY_BLOCK | s->ix.nblocks, &block), -EINVAL);
  assert_int_equal(s->ix.nblocks, 5);
}

/* A file in one piece is one: where a block lies elsewhere, or the whole goes beyond its partition, it is not read. */
static void test_one_piece(void **state) {
  const struct small *s = *state;
  static const uint64_t at[][2] = {
      {65536, 65536 + FIX_BLOCK + 8}, {65537, 65537 + FIX_BLOCK}, {FIX_PART_SIZE - FIX_BLOCK, FIX_PART_SIZE}};
  uint32_t n = find(&s->ix, "train/raw"), partition;
  uint64_t offset;
  struct fs_block block;
  struct fs_block_rec *rec = (void *)(uintptr_t)(s->ix.blocks + fs_index_entry(&s->ix, n)->data);
  for (size_t i = 0; i < FS_ARRAY_LEN(at); i++) {
    const struct fs_block_rec good[2] = {rec[0], rec[1]};
    rec[0].offset = at[i][0];
    rec[1].offset = at[i][1];
    assert_int_equal(fs_index_place(&s->ix, n, &partition, &offset), i == 0); /* of the first block it says the truth */
    assert_int_equal(fs_index_block(&s->ix, n, 1, &block), -EUCLEAN);
    memcpy(rec, good, sizeof(good));
  }
  assert_int_equal(fs_index_block(&s->ix, n, 1, &block), 0);
}

static void test_totals(void **state) {
  const struct small *s = *state;
  const struct fs_index_header *h = s->ix.hdr;
  assert_int_equal(h->files, 12);
  assert_int_equal(h->dirs, 5);
  assert_int_equal(h->symlinks, 2);
  assert_int_equal(h->max_depth, 3);
  assert_int_equal(s->ix.nlinks, 2);
  assert_int_equal(h->plain_bytes, 5 + 2 * (2 * FIX_BLOCK + 100) + 2 * (FIX_BLOCK + 100) + 600 + 200);
  assert_int_equal(h->stored_bytes, 5 + (5000 + FIX_BLOCK + 70) + (FIX_BLOCK + 100) + 300 + 90);
}

static void test_order_does_not_matter(void **state) {
  const struct small *s = *state;
  uint64_t size;
  void *other = fix_build(true, &size);
  assert_int_equal(size, s->size);
  assert_memory_equal(other, s->bytes, size);
  fs_builder_release(other, size);
}

/* ---- what the builder refuses ---- */

static void refuse_all(const struct fs_build_file *files, size_t n, const char *expect) {
  char why[256] = "";
  void *out = NULL;
  uint64_t size;
  fs_err err = 0;
  struct fs_builder *b = fs_builder_new(FIX_BLOCK, FS_ALIGN);
  for (size_t i = 0; i < n && err == 0; i++) err = fs_builder_add(b, &files[i]);
  if (expect) {
    assert_int_equal(err, 0);
    err = fs_builder_finish(b, &out, &size, why, sizeof(why));
    if (!strstr(why, expect)) print_error("'%s' does not say '%s'\n", why, expect);
    assert_non_null(strstr(why, expect));
  }
  assert_int_equal(err, -EINVAL);
  fs_builder_free(b);
}
#define REFUSE(expect, ...) /* after the root */                                                                       \
  do {                                                                                                                 \
    const struct fs_build_file files_[] = {FIX_DIR(""), __VA_ARGS__};                                                  \
    refuse_all(files_, FS_ARRAY_LEN(files_), expect);                                                                  \
  } while (0)

static void test_builder_refuses(void **state) {
  (void)state;
  static char long_name[258];
  memset(long_name, 'n', 256);
  refuse_all(NULL, 0, "root");
  REFUSE("added twice", FIX_DIR("a"), FIX_DIR("a"));
  REFUSE("added twice", FIX_DIR(""));
  REFUSE("not added", FIX_FILE("a/b", 0));
  REFUSE("'a/b/c': its directory", FIX_DIR("a"), FIX_DIR("a/b/c"));
  REFUSE("not a directory", FIX_FILE("a", 0), FIX_FILE("a/b", 0));
  REFUSE("hard link", FIX_FILE("a", 0, .inode_group = 1),
         FIX_FILE("b", 5, .blocks = &fix_small_block, .nblocks = 1, .inode_group = 1));
  REFUSE("in no partition", FIX_FILE("a", 5, .blocks = &fix_small_block, .nblocks = 1));
  static const char *const bad_paths[] = {"/a", "a/", "a//b", ".", "..", "a/../b", "a/.", long_name};
  for (size_t i = 0; i < FS_ARRAY_LEN(bad_paths); i++) REFUSE(NULL, FIX_FILE(bad_paths[i], 0));
  REFUSE(NULL, FIX_FILE("a", 5));                                                       /* no blocks */
  REFUSE(NULL, FIX_FILE("a", 4, .blocks = &fix_small_block, .nblocks = 1));             /* stored longer than plain */
  REFUSE(NULL, FIX_FILE("a", 6, .blocks = &fix_small_block, .nblocks = 1));             /* raw, but shorter */
  REFUSE(NULL, FIX_FILE("a", 5, .codec = 9, .blocks = &fix_small_block, .nblocks = 1)); /* unknown codec */
  REFUSE(NULL, {.path = "a", .mode = S_IFLNK | 0777, .target = ""});
  REFUSE(NULL, {.path = "a", .mode = S_IFLNK | 0777});
  REFUSE(NULL, {.path = "a", .mode = S_IFIFO | 0644});
  REFUSE(NULL, {.path = "a", .mode = S_IFDIR | 0755, .inode_group = 1});
}

/* ---- damage ---- */

static void test_other_version(void **state) {
  const struct small *s = *state;
  char why[256] = "";
  struct fs_index ix;
  uint8_t *copy = malloc(s->size);
  struct fs_index_header *h = (struct fs_index_header *)memcpy(copy, s->bytes, s->size);
  h->version = 7;
  assert_int_equal(fs_index_attach(copy, s->size, &ix, why, sizeof(why)), -EPROTONOSUPPORT);
  assert_string_equal(why, "index has format version 7, this FanStore reads versions 1 and 2: use a newer FanStore");
  assert_int_equal(fix_attach_older(copy, s->size), -EPFNOSUPPORT);
  h->version = FS_FORMAT_VERSION;
  h->feature_incompat = 4;
  fix_checksums(copy, s->size, false);
  assert_int_equal(fs_index_attach(copy, s->size, &ix, why, sizeof(why)), -EPROTONOSUPPORT);
  assert_non_null(strstr(why, "0x4 that this FanStore does not know: use a newer"));
  h->feature_incompat = 0, h->feature_compat = 4; /* may be ignored */
  fix_checksums(copy, s->size, false);
  assert_int_equal(fs_index_attach(copy, s->size, &ix, why, sizeof(why)), 0);
  free(copy);
}

static void test_truncated(void **state) {
  const struct small *s = *state;
  char why[256] = "";
  struct fs_index ix;
  for (uint64_t size = 0; size < s->size; size += size < 400 ? 1 : 64) {
    uint8_t *copy = malloc(size + 1);
    memcpy(copy, s->bytes, size);
    assert_int_equal(fs_index_attach(copy, size, &ix, why, sizeof(why)), -EBADMSG);
    free(copy);
  }
}

/* Flips each byte in three ways: as it is, with the header's checksum made right, and with all checksums right. */
static void test_every_byte_flipped(void **state) {
  static const uint8_t flips[] = {0x01, 0x80, 0xff};
  const struct small *s = *state;
  char why[1024];
  struct fs_index ix;
  uint8_t *copy = malloc(s->size); /* of just this size, for the address sanitizer */
  unsigned found = 0, silent = 0;
  for (uint64_t at = 0; at < s->size * FS_ARRAY_LEN(flips) * 3; at++) {
    uint64_t byte = at / (FS_ARRAY_LEN(flips) * 3);
    unsigned how = (unsigned)(at % 3);
    memcpy(copy, s->bytes, s->size);
    copy[byte] ^= flips[at / 3 % FS_ARRAY_LEN(flips)];
    if (how > 0) fix_checksums(copy, s->size, how == 2);
    fs_err err = fs_index_attach(copy, s->size, &ix, why, sizeof(why));
    if (byte < sizeof(struct fs_index_header) && how == 0) assert_true(fix_refused(err));
    if (err < 0) continue;
    fix_use(&ix);
    err = fs_index_verify(&ix, why, sizeof(why));
    err < 0 ? found++ : silent++;
    bool in_section = false;
    for (int i = 0; i < FS_SEC_COUNT; i++) {
      uint64_t start = s->ix.hdr->section[i].offset;
      in_section |= byte >= start && byte < start + fs_section_bytes(s->ix.hdr, i);
    }
    if (in_section && how < 2) assert_true(err == -EBADMSG);
  }
  free(copy);
  print_message("           %u flips found by verify, %u harmless\n", found, silent);
  assert_true(found > silent);
}

/* ---- many entries ---- */

#define MANY 100000u

static void many_path(char *path, size_t size, unsigned i) {
  snprintf(path, size, "d%03u/s%u/file-%06u.jpg", i % 211, i % 7, i);
}

static struct fs_builder *many_builder(void) {
  char path[64];
  struct fs_builder *b = fs_builder_new(FS_BLOCK_SIZE_DEFAULT, FS_ALIGN);
  const struct fs_part_rec part = {.size = 1ull << 40};
  assert_int_equal(fs_builder_part(b, &part), 0);
  for (unsigned i = 0; i < MANY; i++) {
    const struct fs_built_block block = {4096 + (uint64_t)i * 1000, i, 1000, 0};
    const struct fs_build_file file = FIX_FILE(path, 1000, .blocks = &block, .nblocks = 1);
    many_path(path, sizeof(path), i);
    assert_int_equal(fs_builder_add(b, &file), 0);
  }
  for (unsigned i = 0; i < 211 * 8; i++) { /* directories after the files in them */
    const struct fs_build_file dir = FIX_DIR(path);
    snprintf(path, sizeof(path), i % 8 ? "d%03u/s%u" : "d%03u", i / 8, i % 8 - 1);
    assert_int_equal(fs_builder_add(b, &dir), 0);
  }
  const struct fs_build_file root = FIX_DIR("");
  assert_int_equal(fs_builder_add(b, &root), 0);
  return b;
}

static void test_many(void **state) {
  (void)state;
  char path[64], why[256] = "";
  void *out;
  uint64_t size, start = fs_now_ns();
  struct fs_index ix;
  struct fs_builder *b = many_builder();
  assert_int_equal(fs_builder_finish(b, &out, &size, why, sizeof(why)), 0);
  fs_builder_free(b);
  uint64_t built = fs_now_ns();
  assert_int_equal(fs_index_attach(out, size, &ix, why, sizeof(why)), 0);
  assert_int_equal(fs_index_verify(&ix, why, sizeof(why)), 0);
  uint64_t verified = fs_now_ns();
  for (unsigned i = 0; i < MANY; i++) {
    struct fs_block block;
    many_path(path, sizeof(path), i);
    uint32_t n = find(&ix, path);
    assert_int_equal(fs_index_block(&ix, n, 0, &block), 0);
    assert_int_equal(block.xxh3, i);
    path[strlen(path) - 1] = 'x';
    assert_int_equal(fs_index_lookup(&ix, path, strlen(path)), -ENOENT);
  }
  uint64_t found = fs_now_ns();
  print_message("           %u files: built in %llu ms, verified in %llu ms, 2 look-ups each in %llu ms; probe %u\n",
                MANY, (unsigned long long)(built - start) / 1000000, (unsigned long long)(verified - built) / 1000000,
                (unsigned long long)(found - verified) / 1000000, ix.hdr->max_probe);
  fs_builder_release(out, size);
}

/* An entry of no known type, or of a size that its blocks deny, is found by nobody: it would read as an empty file. */
static void test_contradictions(void **state) {
  const struct small *s = *state;
  const char *const paths[] = {"train/cat/small", "train"};
  struct fs_index ix;
  uint8_t *bytes = malloc(s->size);
  assert_non_null(bytes);
  for (size_t i = 0; i < FS_ARRAY_LEN(paths); i++) {
    memcpy(bytes, s->bytes, s->size);
    assert_int_equal(fs_index_attach(bytes, s->size, &ix, NULL, 0), 0);
    uint32_t n = find(&ix, paths[i]);
    struct fs_entry *e = (struct fs_entry *)(bytes + ix.hdr->section[FS_SEC_ENTRIES].offset) + n, good = *e;
    e->mode ^= 010000;
    assert_int_equal(fs_index_lookup(&ix, paths[i], strlen(paths[i])), -EUCLEAN);
    const char *name = strrchr(paths[i], '/') ? strrchr(paths[i], '/') + 1 : paths[i];
    assert_int_equal(fs_index_child(&ix, e->parent, name, strlen(name)), -EUCLEAN);
    *e = good;
    if (S_ISDIR(e->mode)) continue;
    e->size = 0;
    assert_int_equal(fs_index_lookup(&ix, paths[i], strlen(paths[i])), -EUCLEAN);
    e->size = ix.block_size + 1ull;
    assert_int_equal(fs_index_lookup(&ix, paths[i], strlen(paths[i])), -EUCLEAN);
  }
  free(bytes);
}

/* The samples are where they say, a wrong one is found by verify and harms no look-up, and an index may have none. */
static void test_samples(void **state) {
  const struct small *s = *state;
  char why[256] = "";
  struct fs_index ix;
  uint8_t *bytes = memcpy(malloc(s->size), s->bytes, s->size);
  struct fs_index_header *h = (struct fs_index_header *)bytes;
  assert_int_equal(fs_index_attach(bytes, s->size, &ix, why, sizeof(why)), 0);
  assert_non_null(ix.samples);
  assert_int_equal(FS_SAMPLE_COUNT(ix.nentries), 2);
  const struct fs_entry *last = &ix.entries[ix.nentries - 1];
  assert_int_equal(ix.samples[0], FS_NAME_OFF(ix.entries[0].name));
  assert_int_equal(ix.samples[1], FS_NAME_OFF(last->name) + FS_NAME_LEN(last->name));
  ((uint64_t *)(bytes + ((const uint8_t *)ix.samples - bytes)))[1] = UINT64_MAX / 2;
  fix_checksums(bytes, s->size, true);
  assert_int_equal(fs_index_verify(&ix, why, sizeof(why)), -EUCLEAN);
  assert_non_null(strstr(why, "sample"));
  fix_use(&ix);
  h->samples = ix.strings_size - 8;
  fix_checksums(bytes, s->size, true);
  assert_int_equal(fs_index_attach(bytes, s->size, &ix, why, sizeof(why)), -EBADMSG);
  h->feature_compat = 0;
  fix_checksums(bytes, s->size, true);
  assert_int_equal(fs_index_attach(bytes, s->size, &ix, why, sizeof(why)), 0);
  assert_null(ix.samples);
  assert_int_equal(fs_index_verify(&ix, why, sizeof(why)), 0);
  fix_use(&ix);
  free(bytes);
}

/* ---- files ---- */

static void test_open(void **state) {
  const struct small *s = *state;
  char dir[] = "/tmp/fs-test-index-XXXXXX", path[64], why[256] = "";
  struct fs_index ix;
  assert_non_null(mkdtemp(dir));
  snprintf(path, sizeof(path), "%s/index", dir);
  assert_int_equal(fs_index_open(path, &ix, why, sizeof(why)), -ENOENT);
  assert_int_equal(fs_index_open(dir, &ix, NULL, 0), -EBADMSG);
  int fd = open(path, O_CREAT | O_WRONLY, 0600);
  assert_int_equal(fs_write_full(fd, s->bytes, s->size), 0);
  assert_int_equal(fs_index_open(path, &ix, why, sizeof(why)), 0);
  assert_int_equal(fs_index_verify(&ix, why, sizeof(why)), 0);
  find(&ix, "train/cat/small");
  fs_index_close(&ix);
  fs_index_close(&ix);
  assert_int_equal(ftruncate(fd, (off_t)s->size - 1), 0);
  assert_int_equal(fs_index_open(path, &ix, why, sizeof(why)), -EBADMSG);
  close(fd);
  assert_int_equal(fs_remove_tree(dir), 0);
}

/* With FS_FUZZ_SEEDS=DIR the index goes there too, as a seed for tests/fuzz/fuzz_index.c. */
static void test_seed(void **state) {
  const struct small *s = *state;
  const char *dir = getenv("FS_FUZZ_SEEDS");
  char path[PATH_MAX];
  if (!dir) skip();
  snprintf(path, sizeof(path), "%s/index", dir);
  int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
  assert_true(fd >= 0);
  assert_int_equal(fs_write_full(fd, s->bytes, s->size), 0);
  close(fd);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_paths),
      cmocka_unit_test(test_directories),
      cmocka_unit_test(test_stat),
      cmocka_unit_test(test_targets),
      cmocka_unit_test(test_blocks),
      cmocka_unit_test(test_one_piece),
      cmocka_unit_test(test_place),
      cmocka_unit_test(test_totals),
      cmocka_unit_test(test_order_does_not_matter),
      cmocka_unit_test(test_builder_refuses),
      cmocka_unit_test(test_other_version),
      cmocka_unit_test(test_truncated),
      cmocka_unit_test(test_every_byte_flipped),
      cmocka_unit_test(test_contradictions),
      cmocka_unit_test(test_many),
      cmocka_unit_test(test_samples),
      cmocka_unit_test(test_open),
      cmocka_unit_test(test_seed),
  };
  return cmocka_run_group_tests_name("index", tests, small_open, small_close);
}
