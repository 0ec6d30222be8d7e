/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small dataset with files of every shape, written into a temporary directory, and scenarios that run in a process
 * of their own: the client reads its environment once. Shared by the tests of the client's data path.
 */
#ifndef FS_TEST_DATA_FIXTURE_H
#define FS_TEST_DATA_FIXTURE_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/data_priv.h"
#include "codec_fixture.h"
#include "format/manifest.h"
#include "index/builder.h"
#include "tools_fixture.h"
#include "util/util.h"

#define FIX_BS 65536u
#define FIX_PARTS 2u
#define FIX_MOUNT "/fanstore-test/mount"
#define FIX_PART_ROOM (8u << 20)

enum fix_id {
  FIX_EMPTY,
  FIX_SMALL,
  FIX_MID,
  FIX_BIG,
  FIX_SCATTER,
  FIX_SMALL_LZ4,
  FIX_BIG_LZ4,
  FIX_SMALL_DICT,
  FIX_BIG_ZSTD,
  FIX_SHUFFLED,
  FIX_ALL_OF_IT,
  FIX_COUNT
};

struct fix_file {
  const char *path;
  uint64_t size;
  uint32_t codec; /* a row of codec_rows */
  uint32_t flags;
  int part; /* -1: blocks go round the partitions */
};

static const struct fix_file fix_table[FIX_COUNT] = {
    [FIX_EMPTY] = {"empty", 0, FS_CODEC_RAW, 0, 0},
    [FIX_SMALL] = {"d/small", 3000, FS_CODEC_RAW, 0, 0},
    [FIX_MID] = {"d/mid", 20000, FS_CODEC_RAW, FS_ENTRY_CONTIG | FS_ENTRY_ALIGNED, 1},
    [FIX_BIG] = {"d/big", 5 * FIX_BS + 777, FS_CODEC_RAW, FS_ENTRY_CONTIG | FS_ENTRY_ALIGNED, 0},
    [FIX_SCATTER] = {"scatter", 11 * FIX_BS + 1, FS_CODEC_RAW, 0, -1},
    [FIX_SMALL_LZ4] = {"d/small.lz4", 5000, FS_CODEC_LZ4, 0, 0},
    [FIX_BIG_LZ4] = {"big.lz4", 20 * FIX_BS + 123, FS_CODEC_LZ4, 0, -1},
    [FIX_SMALL_DICT] = {"d/small.zst", 2000, CODEC_ZSTD_DICT, 0, 1},
    [FIX_BIG_ZSTD] = {"big.zst", 7 * FIX_BS + 321, CODEC_ZSTD, 0, 1},
    [FIX_SHUFFLED] = {"shuffled", 5 * FIX_BS + 3, CODEC_LZ4_SHUFFLE4, 0, 1},
    [FIX_ALL_OF_IT] = {"all", 3 * FIX_BS + 77, CODEC_ZSTD_ALL, 0, 1},
};

struct fix {
  char dir[256];     /* of everything */
  char dataset[300]; /* DIR/dataset */
  uint8_t *plain[FIX_COUNT];
  uint8_t *part[FIX_PARTS];
  uint64_t part_size[FIX_PARTS];
};

#define CHECK(x)                                                                                                       \
  do {                                                                                                                 \
    if (!(x)) {                                                                                                        \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                                          \
      _exit(1);                                                                                                        \
    }                                                                                                                  \
  } while (0)

/* Bytes that lz4 can shrink a little, different in each file and block. */
static inline void fix_plain(uint8_t *p, uint64_t n, unsigned seed) {
  uint32_t x = seed * 2654435761u + 12345;
  for (uint64_t i = 0; i < n; i++) {
    if (i % 7 == 0) x = x * 1664525u + 1013904223u;
    p[i] = (uint8_t)(x >> 24);
  }
}

static inline void fix_store(struct fix *f, const struct fix_file *t, const uint8_t *plain, uint32_t n, uint64_t i,
                             struct fs_built_block *b) {
  b->partition = t->part < 0 ? (uint32_t)(i % FIX_PARTS) : (uint32_t)t->part;
  uint64_t *end = &f->part_size[b->partition];
  if ((t->flags & FS_ENTRY_ALIGNED) && i == 0) *end = fs_round_up(*end, FS_ALIGN);
  uint8_t *to = f->part[b->partition] + *end;
  fs_ssize stored = -ENOSPC;
  if (t->codec != FS_CODEC_RAW)
    stored = codec_encode(t->codec, codec_rows[t->codec].family == FS_FAMILY_ZSTD, plain, n, to, n);
  if (stored < 0) {
    memcpy(to, plain, n);
    stored = n;
  }
  b->offset = *end;
  b->stored_len = (uint32_t)stored;
  b->xxh3 = fs_xxh3(to, (size_t)stored);
  *end += (uint64_t)stored;
  if (t->flags & FS_ENTRY_ALIGNED && n < FIX_BS) *end = fs_round_up(*end, FS_ALIGN);
}

static inline void fix_add(struct fix *f, struct fs_builder *b, unsigned id) {
  const struct fix_file *t = &fix_table[id];
  struct fs_built_block blocks[32];
  uint64_t n = (t->size + FIX_BS - 1) / FIX_BS;
  f->plain[id] = malloc(t->size + 1);
  fix_plain(f->plain[id], t->size, id + 1);
  for (uint64_t i = 0; i < n; i++)
    fix_store(f, t, f->plain[id] + i * FIX_BS, (uint32_t)FS_MIN(t->size - i * FIX_BS, FIX_BS), i, &blocks[i]);
  struct fs_build_file file = {.path = t->path,
                               .mode = S_IFREG | 0644,
                               .size = t->size,
                               .codec = t->codec,
                               .flags = t->flags,
                               .blocks = blocks,
                               .nblocks = n};
  assert_int_equal(fs_builder_add(b, &file), 0);
}

static inline void fix_write(const char *dir, const char *name, const void *bytes, size_t n) {
  char path[1024];
  snprintf(path, sizeof(path), "%s/%s", dir, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, bytes, n), n);
  close(fd);
}

static inline void fix_finish(struct fix *f, struct fs_builder *b) {
  struct fs_part_rec rec[FIX_PARTS] = {0};
  struct fs_index ix;
  char why[256] = "", text[8192], name[FS_PART_NAME_SIZE];
  void *out;
  uint64_t size;
  for (uint32_t p = 0; p < FIX_PARTS; p++) {
    f->part_size[p] = rec[p].size = fs_round_up(f->part_size[p], FS_ALIGN);
    rec[p].xxh3 = fs_xxh3(f->part[p] + FS_PART_HEADER_SIZE, rec[p].size - FS_PART_HEADER_SIZE);
    assert_int_equal(fs_builder_part(b, &rec[p]), 0);
  }
  if (fs_builder_finish(b, &out, &size, why, sizeof(why)) < 0) fail_msg("%s", why);
  assert_int_equal(fs_index_attach(out, size, &ix, NULL, 0), 0);
  if (fs_index_verify(&ix, why, sizeof(why)) < 0) fail_msg("%s", why);
  for (uint32_t p = 0; p < FIX_PARTS; p++) {
    fs_part_header_make(f->part[p], p, &rec[p], ix.hdr->dataset_id);
    fix_write(f->dataset, fs_part_name(p, name), f->part[p], f->part_size[p]);
  }
  struct fs_manifest m = {.version = FS_FORMAT_VERSION,
                          .mount = FIX_MOUNT,
                          .codec = "auto",
                          .block_size = FIX_BS,
                          .partitions = FIX_PARTS,
                          .index_size = size,
                          .index_xxh3 = fs_xxh3(out, size)};
  memcpy(m.dataset_id, ix.hdr->dataset_id, 16);
  fs_ssize len = fs_manifest_format(&m, text, sizeof(text));
  assert_true(len > 0);
  fix_write(f->dataset, "index", out, size);
  fix_write(f->dataset, "manifest", text, (size_t)len);
  fs_builder_release(out, size);
}

/* An empty dataset directory and its builder: what fix_end makes a dataset of. */
static inline struct fix *fix_begin(struct fs_builder **b) {
  struct fix *f = calloc(1, sizeof(*f));
  const char *tmp = getenv("TMPDIR");
  snprintf(f->dir, sizeof(f->dir), "%.200s/fanstore-test-XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(f->dir));
  snprintf(f->dataset, sizeof(f->dataset), "%s/dataset", f->dir);
  assert_int_equal(mkdir(f->dataset, 0700), 0);
  *b = fs_builder_new(FIX_BS, FS_ALIGN);
  codec_setup(NULL);
  for (uint32_t i = FS_CODEC_ROWS_MIN; i < CODEC_ROWS; i++) {
    const struct fs_codec_rec *r = &codec_rows[i];
    const void *dict = r->dict_len > 0 ? codec_dict + r->dict : NULL;
    assert_int_equal(fs_builder_codec(*b, &(struct fs_build_codec){r->family, r->element, dict, r->dict_len}), i);
  }
  for (uint32_t p = 0; p < FIX_PARTS; p++) {
    f->part[p] = calloc(1, FIX_PART_ROOM);
    f->part_size[p] = FS_PART_HEADER_SIZE;
  }
  return f;
}

static inline int fix_end(struct fix *f, struct fs_builder *b, void **state) {
  for (unsigned id = 0; id < FIX_COUNT; id++) fix_add(f, b, id);
  fix_finish(f, b);
  fs_builder_free(b);
  *state = f;
  return 0;
}

static inline int fix_setup(void **state) {
  static const char *const dirs[] = {"", "d"};
  struct fs_builder *b;
  struct fix *f = fix_begin(&b);
  for (unsigned i = 0; i < FS_ARRAY_LEN(dirs); i++)
    assert_int_equal(fs_builder_add(b, &(struct fs_build_file){.path = dirs[i], .mode = S_IFDIR | 0755}), 0);
  return fix_end(f, b, state);
}

static inline int fix_teardown(void **state) {
  struct fix *f = *state;
  fs_remove_tree(f->dir);
  for (unsigned i = 0; i < FIX_COUNT; i++) free(f->plain[i]);
  for (unsigned i = 0; i < FIX_PARTS; i++) free(f->part[i]);
  codec_teardown(NULL);
  free(f);
  return 0;
}

/* ---- in the scenario's process ---- */

static inline uint32_t fix_entry(unsigned id) {
  fs_err err;
  const struct fs_index *ix = fs_mount_index(0, &err);
  CHECK(ix != NULL);
  int64_t e = fs_index_lookup(ix, fix_table[id].path, strlen(fix_table[id].path));
  CHECK(e >= 0);
  return (uint32_t)e;
}

/* Reads [off, off + n) of a file and compares, with guard bytes around the buffer. */
static inline void fix_read(const struct fix *f, unsigned id, uint64_t off, size_t n) {
  uint64_t size = fix_table[id].size, want = off >= size ? 0 : FS_MIN(n, size - off);
  uint8_t *buf = malloc(n + 16);
  memset(buf, 0xa5, n + 16);
  fs_data_opened(0, fix_entry(id));
  fs_ssize got = fs_data_read(0, fix_entry(id), buf + 8, n, off, NULL);
  if (got != (fs_ssize)want)
    fprintf(stderr, "%s: %ld of %ld at %ld\n", fix_table[id].path, (long)got, (long)want, (long)off);
  CHECK(got == (fs_ssize)want);
  CHECK(memcmp(buf + 8, f->plain[id] + off, want) == 0);
  for (size_t i = 0; i < 8; i++) CHECK(buf[i] == 0xa5 && buf[n + 8 + i] == 0xa5);
  free(buf);
}

/* Every pattern of a file: whole, beyond the end, around the blocks' borders, pieces of several sizes. */
static inline void fix_read_patterns(const struct fix *f, unsigned id) {
  static const size_t steps[] = {997, 4096, 40000, FIX_BS, 3 * FIX_BS + 5};
  uint64_t size = fix_table[id].size;
  fix_read(f, id, 0, size);
  fix_read(f, id, 0, size + 5000);
  fix_read(f, id, size, 10);
  fix_read(f, id, size + 10 * FIX_BS, 10);
  for (uint64_t b = 0; b <= size; b += FIX_BS) {
    for (uint64_t off = b > 3 ? b - 3 : b; off < b + 3; off++) {
      for (size_t n = 0; n < 8; n++) fix_read(f, id, off, n);
      fix_read(f, id, off, FIX_BS);
    }
  }
  for (unsigned s = 0; s < FS_ARRAY_LEN(steps); s++) {
    for (uint64_t off = 0; off < size; off += steps[s]) fix_read(f, id, off, steps[s]);
  }
}

static inline void fix_read_all(const struct fix *f) {
  for (unsigned id = 0; id < FIX_COUNT; id++) fix_read_patterns(f, id);
}

/* Runs fn in a child whose environment names the dataset; its exit status must be 0. stderr goes to text. */
typedef void fix_fn(const struct fix *f);
static inline void fix_run_text(struct fix *f, fix_fn *fn, char *text, size_t size) {
  char path[320];
  int status;
  snprintf(path, sizeof(path), "%s/stderr", f->dir);
  pid_t pid = fork();
  if (pid == 0) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    if (text) dup2(fd, 2);
    close(fd);
    alarm(120);
    if (!getenv("FANSTORE_DATASET")) setenv("FANSTORE_DATASET", f->dataset, 1);
    fn(f);
    _exit(0);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  if (text) {
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, text, size - 1);
    text[n > 0 ? n : 0] = '\0';
    close(fd);
    if (status != 0) fprintf(stderr, "%s", text);
  }
  assert_int_equal(status, 0);
}
static inline void fix_run(void **state, fix_fn *fn) {
  fix_run_text(*state, fn, NULL, 0);
}

#endif
