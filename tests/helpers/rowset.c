/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packs a flat directory so that every kind of row of the table of codecs is used, whether it pays or not:
 *   rowset SOURCE DATASET MOUNT
 * The files, sorted by name, take the rows in turn: rows 1 to 11 are lz4 and zstd, plain, with a dictionary, with a
 * byte shuffle, and with both. One dictionary is plain bytes, the other is trained by zstd, both on the files
 * themselves. The blocks have 64 KiB and go round 4 partitions. Prints each file's name and row.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zdict.h>

#include "codec/encode.h"
#include "format/manifest.h"
#include "index/builder.h"
#include "util/sys.h"
#include "util/util.h"

#define BLOCK (64u << 10)
#define PARTS 4u
#define PART_ROOM (32u << 20)
#define DICT (16u << 10)
#define SAMPLE 1024u

#define MUST(x)                                                                                                        \
  do {                                                                                                                 \
    if (!(x)) {                                                                                                        \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                                          \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

struct file {
  char name[256];
  struct stat st;
  uint8_t *data;
};

static struct file *files;
static size_t nfiles;
static uint8_t *part[PARTS], plain_dict[DICT], trained_dict[DICT];
static uint64_t part_size[PARTS];
static size_t trained;

/* The rows after the first two, which every dataset has. */
static struct fs_encoding rows[] = {
    {.family = FS_FAMILY_ZSTD, .element = 1, .level = 3},
    {.family = FS_FAMILY_LZ4, .element = 1, .level = 0, .dict = plain_dict},
    {.family = FS_FAMILY_LZ4, .element = 1, .level = 9, .dict = trained_dict},
    {.family = FS_FAMILY_ZSTD, .element = 1, .level = 3, .dict = plain_dict},
    {.family = FS_FAMILY_ZSTD, .element = 1, .level = 19, .dict = trained_dict},
    {.family = FS_FAMILY_LZ4, .element = 4, .level = 0},
    {.family = FS_FAMILY_ZSTD, .element = 2, .level = 3},
    {.family = FS_FAMILY_ZSTD, .element = 8, .level = 3},
    {.family = FS_FAMILY_LZ4, .element = 8, .level = 9, .dict = plain_dict},
    {.family = FS_FAMILY_ZSTD, .element = 4, .level = 9, .dict = trained_dict},
    {.family = FS_FAMILY_ZSTD, .element = 2 + FS_ELEMENT_DELTA, .level = 3},
    {.family = FS_FAMILY_LZ4, .element = 4 + 2 * FS_ELEMENT_DELTA, .level = 0, .dict = plain_dict},
};
static const struct fs_encoding lz4 = {.family = FS_FAMILY_LZ4, .element = 1};

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct file *)a)->name, ((const struct file *)b)->name);
}

static void load(const char *source) {
  char path[PATH_MAX];
  DIR *dir = opendir(source);
  MUST(dir != NULL);
  for (struct dirent *d; (d = readdir(dir)) != NULL;) {
    if (fs_is_dot(d->d_name)) continue;
    files = realloc(files, (nfiles + 1) * sizeof(*files));
    struct file *f = &files[nfiles++];
    snprintf(f->name, sizeof(f->name), "%s", d->d_name);
    snprintf(path, sizeof(path), "%s/%s", source, d->d_name);
    FILE *in = fopen(path, "rb");
    MUST(in != NULL && fstat(fileno(in), &f->st) == 0 && S_ISREG(f->st.st_mode));
    f->data = malloc((size_t)f->st.st_size + 1);
    MUST(fread(f->data, 1, (size_t)f->st.st_size, in) == (size_t)f->st.st_size);
    fclose(in);
  }
  closedir(dir);
  qsort(files, nfiles, sizeof(*files), by_name);
}

/* Fills the dictionaries from the beginnings of the files, and gives them to the rows. */
static void make_dictionaries(void) {
  size_t used = 0, *sizes = calloc(nfiles, sizeof(*sizes));
  uint8_t *samples = calloc(nfiles, SAMPLE);
  for (size_t i = 0; i < nfiles; i++) {
    sizes[i] = FS_MIN((size_t)files[i].st.st_size, (size_t)SAMPLE);
    memcpy(samples + used, files[i].data, sizes[i]);
    used += sizes[i];
  }
  for (size_t at = 0; at < DICT; at++) plain_dict[at] = samples[at % used];
  trained = ZDICT_trainFromBuffer(trained_dict, DICT, samples, sizes, (unsigned)nfiles);
  MUST(!ZDICT_isError(trained));
  for (size_t i = 0; i < FS_ARRAY_LEN(rows); i++) {
    if (rows[i].dict) rows[i].dict_len = rows[i].dict == trained_dict ? (uint32_t)trained : DICT;
    MUST(fs_encoding_prepare(&rows[i]) == 0);
  }
  free(samples);
  free(sizes);
}

static struct fs_built_block store(struct fs_encoder *encoder, uint32_t row, const uint8_t *plain, size_t n,
                                   uint32_t p) {
  uint8_t *to = part[p] + part_size[p];
  MUST(part_size[p] + n <= PART_ROOM);
  fs_ssize put = fs_encode(encoder, row < 2 ? &lz4 : &rows[row - 2], plain, n, to, n);
  MUST(put > 0 || put == -ENOSPC);
  if (put < 0) memcpy(to, plain, n), put = (fs_ssize)n;
  struct fs_built_block b = {part_size[p], fs_xxh3(to, (size_t)put), (uint32_t)put, p};
  part_size[p] += (uint64_t)put;
  return b;
}

static void add_files(struct fs_builder *b) {
  struct fs_encoder *encoder = fs_encoder_new();
  for (size_t i = 0; i < nfiles; i++) {
    const struct file *f = &files[i];
    const uint64_t size = (uint64_t)f->st.st_size, n = (size + BLOCK - 1) / BLOCK;
    uint32_t row = 1 + (uint32_t)(i % (FS_ARRAY_LEN(rows) + 1));
    struct fs_built_block *blocks = calloc(n + 1, sizeof(*blocks));
    for (uint64_t k = 0; k < n; k++)
      blocks[k] = store(encoder, row, f->data + k * BLOCK, (size_t)FS_MIN(size - k * BLOCK, BLOCK),
                        (uint32_t)((i + k) % PARTS));
    struct fs_build_file file = {.path = f->name,
                                 .mode = f->st.st_mode,
                                 .mtime_sec = f->st.st_mtim.tv_sec,
                                 .mtime_nsec = (uint32_t)f->st.st_mtim.tv_nsec,
                                 .size = size,
                                 .codec = row,
                                 .blocks = blocks,
                                 .nblocks = n};
    MUST(fs_builder_add(b, &file) == 0);
    printf("%s %u\n", f->name, row);
    free(blocks);
  }
  fs_encoder_free(encoder);
}

static void write_file(const char *dir, const char *name, const void *data, size_t n) {
  char path[PATH_MAX];
  snprintf(path, sizeof(path), "%s/%s", dir, name);
  FILE *f = fopen(path, "wb");
  MUST(f != NULL && fwrite(data, 1, n, f) == n && fclose(f) == 0);
}

static void finish(struct fs_builder *b, const char *dataset, const char *mount) {
  struct fs_part_rec rec[PARTS] = {0};
  char why[256] = "", name[FS_PART_NAME_SIZE], text[4 * PATH_MAX];
  void *index;
  uint64_t size;
  for (uint32_t p = 0; p < PARTS; p++) {
    rec[p].size = fs_round_up(part_size[p], FS_ALIGN);
    rec[p].xxh3 = fs_xxh3(part[p] + FS_PART_HEADER_SIZE, rec[p].size - FS_PART_HEADER_SIZE);
    MUST(fs_builder_part(b, &rec[p]) == 0);
  }
  if (fs_builder_finish(b, &index, &size, why, sizeof(why)) < 0) {
    fprintf(stderr, "rowset: %s\n", why);
    exit(1);
  }
  const struct fs_index_header *h = index;
  for (uint32_t p = 0; p < PARTS; p++) {
    fs_part_header_make(part[p], p, &rec[p], h->dataset_id);
    write_file(dataset, fs_part_name(p, name), part[p], rec[p].size);
  }
  struct fs_manifest m = {.version = FS_FORMAT_VERSION, .codec = "rowset", .block_size = BLOCK, .partitions = PARTS};
  memcpy(m.dataset_id, h->dataset_id, sizeof(m.dataset_id));
  snprintf(m.mount, sizeof(m.mount), "%s", mount);
  m.files = h->files, m.dirs = h->dirs, m.plain_bytes = h->plain_bytes, m.stored_bytes = h->stored_bytes;
  m.index_size = size, m.index_xxh3 = fs_xxh3(index, size);
  fs_ssize n = fs_manifest_format(&m, text, sizeof(text));
  MUST(n > 0);
  write_file(dataset, "index", index, size);
  write_file(dataset, "manifest", text, (size_t)n);
  fs_builder_release(index, size);
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  struct stat st;
  struct fs_builder *b = fs_builder_new(BLOCK, FS_ALIGN);
  MUST(stat(argv[1], &st) == 0 && mkdir(argv[2], 0777) == 0);
  load(argv[1]);
  make_dictionaries();
  for (uint32_t p = 0; p < PARTS; p++) part[p] = calloc(1, PART_ROOM), part_size[p] = FS_PART_HEADER_SIZE;
  for (size_t i = 0; i < FS_ARRAY_LEN(rows); i++)
    MUST(fs_builder_codec(b, &(struct fs_build_codec){rows[i].family, rows[i].element, rows[i].dict,
                                                      rows[i].dict_len}) == (int)(i + FS_CODEC_ROWS_MIN));
  struct fs_build_file root = {.path = "", .mode = st.st_mode, .mtime_sec = st.st_mtim.tv_sec};
  root.mtime_nsec = (uint32_t)st.st_mtim.tv_nsec;
  MUST(fs_builder_add(b, &root) == 0);
  add_files(b);
  finish(b, argv[2], argv[3]);
  fs_builder_free(b);
  return 0;
}
