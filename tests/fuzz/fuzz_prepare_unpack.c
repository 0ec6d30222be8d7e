/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A dataset made to do harm: the input is its index, or what is different from a good one, and all checksums are made
 * right, down to those of the blocks.
 * Verified and unpacked as fs-prepare does it. Nothing may appear or change beside DIR, whatever names, links and
 * parents say: its symlinks lead to a file and a directory there, which are looked at after each run. What is not
 * damaged, unpack restores.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../../fs-prepare/prepare.h"
#include "../unit/index_fixture.h"
#include "format/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SONG "sings"

static char top[200], far[300]; /* what symlinks of the dataset lead to lies beside DIR, in ../yard */
static uint8_t part[FIX_PART_SIZE], *good;
static uint64_t good_size;
static struct stat before[2]; /* of the yard and of its canary */

static void make_good(void) {
  static const struct fs_built_block small = {40000, 0, 5, 0},
                                     two[2] = {{65536, 0, FIX_BLOCK, 1}, {65536 + FIX_BLOCK, 0, 100, 1}};
  static const struct fs_build_file files[] = {
      FIX_DIR(""),
      FIX_DIR("a"),
      FIX_DIR("a/b"),
      FIX_FILE("a/b/small", 5, .blocks = &small, .nblocks = 1),
      FIX_FILE("a/large", FIX_BLOCK + 100, .flags = FS_ENTRY_CONTIG | FS_ENTRY_ALIGNED, .blocks = two, .nblocks = 2,
               .inode_group = 7),
      FIX_FILE("hard", FIX_BLOCK + 100, .flags = FS_ENTRY_CONTIG | FS_ENTRY_ALIGNED, .blocks = two, .nblocks = 2,
               .inode_group = 7),
      FIX_FILE("empty", 0),
      {.path = "c", .mode = S_IFLNK | 0777, .target = "../yard"},
      {.path = "d", .mode = S_IFLNK | 0777, .target = far},
      {.path = "zy", .mode = S_IFLNK | 0777, .target = "../yard/canary"},
      FIX_FILE("zz", 5, .blocks = &small, .nblocks = 1)};
  const struct fs_part_rec rec = {.size = FIX_PART_SIZE};
  struct fs_builder *b = fs_builder_new(FIX_BLOCK, FS_ALIGN);
  void *out;
  for (size_t i = 0; i < FS_ARRAY_LEN(files); i++)
    if (fs_builder_add(b, &files[i]) < 0) abort();
  if (fs_builder_part(b, &rec) < 0 || fs_builder_part(b, &rec) < 0) abort();
  if (fs_builder_finish(b, &out, &good_size, NULL, 0) < 0) abort();
  fs_builder_free(b);
  good = out;
}

/* One of: an index as it is; a good one, with eight bytes here and there over it. Malloced, for the sanitizer. */
static uint8_t *make_index(const uint8_t *data, size_t *size) {
  if (*size > 0 && data[0] & 1) return memcpy(malloc(*size), data, *size);
  uint8_t *copy = memcpy(malloc(good_size), good, good_size);
  for (size_t i = 1; i + 10 <= *size; i += 10) {
    uint16_t at;
    memcpy(&at, data + i, sizeof(at));
    memcpy(copy + at % (good_size - 7), data + i + 2, data[0] & 2 ? 8 : 1);
  }
  *size = good_size;
  return copy;
}

static void path_of(char *out, size_t size, const char *name) {
  if (snprintf(out, size, "%s/%s", top, name) >= (int)size) abort();
}

static void write_file(const char *name, const void *bytes, size_t n) {
  char path[300];
  path_of(path, sizeof(path), name);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || write(fd, bytes, n) != (ssize_t)n) abort();
  close(fd);
}

static void look_at(const char *name, struct stat *st) {
  char path[300];
  path_of(path, sizeof(path), name);
  if (lstat(path, st) < 0) abort();
}

static bool same(const struct stat *a, const struct stat *b) {
  return a->st_ino == b->st_ino && a->st_mode == b->st_mode && a->st_nlink == b->st_nlink && a->st_size == b->st_size &&
         memcmp(&a->st_mtim, &b->st_mtim, sizeof(a->st_mtim)) == 0 &&
         memcmp(&a->st_ctim, &b->st_ctim, sizeof(a->st_ctim)) == 0;
}

/* Nothing has been made in the yard, and the canary has neither been written to, nor linked to, nor changed. */
static bool yard_untouched(void) {
  char path[300], song[2 * sizeof(SONG)];
  struct stat now[2];
  for (unsigned i = 0; i < 2; i++) look_at(i == 0 ? "yard" : "yard/canary", &now[i]);
  path_of(path, sizeof(path), "yard/canary");
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = read(fd, song, sizeof(song));
  close(fd);
  return same(&now[0], &before[0]) && same(&now[1], &before[1]) && n == sizeof(SONG) - 1 && memcmp(song, SONG, n) == 0;
}

static void start(void) {
  const char *tmp = getenv("TMPDIR");
  const struct rlimit limit = {8 << 20, 8 << 20}; /* of a file: sparse ones of exabytes take no place, but time */
  char path[300];
  snprintf(top, sizeof(top), "%.150s/fuzz-unpack-XXXXXX", tmp ? tmp : "/tmp");
  if (!mkdtemp(top) || setrlimit(RLIMIT_FSIZE, &limit) < 0 || signal(SIGXFSZ, SIG_IGN) == SIG_ERR) abort();
  path_of(path, sizeof(path), "ds");
  if (mkdir(path, 0700) < 0) abort();
  for (uint32_t i = 0; i < sizeof(part); i++) part[i] = (uint8_t)(i / 64 * 7 + i);
  path_of(path, sizeof(path), "yard");
  if (mkdir(path, 0700) < 0) abort();
  memset(far, '/', sizeof(far) - 1); /* always as long: inputs say where in the index */
  strcpy(far + sizeof(far) - 1 - strlen(path), path);
  write_file("yard/canary", SONG, sizeof(SONG) - 1);
  for (unsigned i = 0; i < 2; i++) look_at(i == 0 ? "yard" : "yard/canary", &before[i]);
  make_good();
}

/* As an honest writer would: the blocks' checksums are those of the bytes. */
static void right_blocks(const struct fs_index *ix) {
  for (uint64_t n = 0; n < FS_MIN(ix->nentries, 1000u); n++) {
    struct fs_entry *e = (struct fs_entry *)(uintptr_t)&ix->entries[n];
    if (S_ISREG(e->mode) && e->data < sizeof(part) && e->stored_len <= sizeof(part) - e->data)
      e->xxh3 = fs_xxh3(part + e->data, e->stored_len);
  }
  for (uint64_t n = 0; n < FS_MIN(ix->nparts, 3u); n++) {
    struct fs_part_rec *p = (struct fs_part_rec *)(uintptr_t)&ix->parts[n];
    p->xxh3 = fs_xxh3(part + FS_PART_HEADER_SIZE, sizeof(part) - FS_PART_HEADER_SIZE);
  }
  for (uint64_t n = 0; n < FS_MIN(ix->nblocks, 1000u); n++) {
    struct fs_block_rec *b = (struct fs_block_rec *)(uintptr_t)&ix->blocks[n];
    if (b->offset < sizeof(part) && b->stored_len <= sizeof(part) - b->offset)
      b->xxh3 = fs_xxh3(part + b->offset, b->stored_len);
  }
}

/* And each entry is found by the name that it has now. */
static void right_buckets(const struct fs_index *ix) {
  uint64_t *buckets = (uint64_t *)(uintptr_t)ix->buckets;
  struct fs_index_header *h = (struct fs_index_header *)(uintptr_t)ix->hdr;
  char path[PATH_MAX];
  if (ix->nentries > ix->bucket_mask / 2 || ix->nentries > 1000) return;
  memset(buckets, 0, (ix->bucket_mask + 1) * sizeof(*buckets));
  h->max_probe = (uint32_t)FS_MIN(ix->bucket_mask + 1, FS_PROBE_MAX);
  for (uint64_t n = 0; n < ix->nentries; n++) {
    fs_ssize len = fs_index_path(ix, (uint32_t)n, path, sizeof(path));
    if (len < 0) continue;
    uint64_t hash = fs_xxh3(path, (size_t)len), at = hash & ix->bucket_mask;
    while (buckets[at] != 0) at = (at + 1) & ix->bucket_mask;
    buckets[at] = hash >> 32 << 32 | (n + 1);
  }
}

static void make_dataset(const uint8_t *index, size_t size, const struct fs_index *ix) {
  struct fs_manifest m = {.version = FS_FORMAT_VERSION, .codec = "auto", .mount = "/mnt", .index_size = size};
  char text[8192], name[64], part_name[FS_PART_NAME_SIZE];
  memcpy(m.dataset_id, ix->hdr->dataset_id, sizeof(m.dataset_id));
  m.block_size = ix->block_size;
  m.partitions = (uint32_t)ix->nparts;
  m.files = ix->hdr->files;
  m.dirs = ix->hdr->dirs;
  m.symlinks = ix->hdr->symlinks;
  m.plain_bytes = ix->hdr->plain_bytes;
  m.stored_bytes = ix->hdr->stored_bytes;
  m.index_xxh3 = fs_xxh3(index, size);
  fs_ssize n = fs_manifest_format(&m, text, sizeof(text));
  if (n < 0) return;
  write_file("ds/manifest", text, (size_t)n);
  write_file("ds/index", index, size);
  for (uint32_t p = 0; p < FS_MIN(ix->nparts, 3u); p++) {
    fs_part_header_make(part, p, &ix->parts[p], ix->hdr->dataset_id);
    snprintf(name, sizeof(name), "ds/%s", fs_part_name(p, part_name));
    write_file(name, part, sizeof(part));
  }
}

static unsigned names_in(const char *name) {
  char path[300];
  unsigned n = 0;
  path_of(path, sizeof(path), name);
  DIR *d = opendir(path);
  for (const struct dirent *e; d && (e = readdir(d));) n += !fs_is_dot(e->d_name);
  if (d) closedir(d);
  return n;
}

static int command(int (*fn)(int, char **), const char *name, const char *dir) {
  char ds[300], out[300], text[20];
  path_of(ds, sizeof(ds), "ds");
  path_of(out, sizeof(out), "out");
  snprintf(text, sizeof(text), "%s", name);
  char jobs[] = "-j1", *argv[] = {text, jobs, ds, dir ? out : NULL, NULL};
  return fn(dir ? 4 : 3, argv);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fs_index ix;
  char out[300];
  if (top[0] == '\0') start();
  if (size > 0 && data[0] & 1 && size < sizeof(struct fs_index_header)) return 0;
  bool untouched = size < 11 && (size == 0 || !(data[0] & 1));
  uint8_t *copy = make_index(data, &size);
  struct fs_index_header *h = (struct fs_index_header *)copy;
  h->magic = FS_INDEX_MAGIC;
  h->version = FS_FORMAT_VERSION;
  h->header_size = sizeof(*h);
  h->feature_incompat = 0;
  h->file_size = size;
  fix_checksums(copy, size, true);
  if (fs_index_attach(copy, size, &ix, NULL, 0) == 0 && ix.nparts > 0) {
    right_blocks(&ix);
    right_buckets(&ix);
    fix_checksums(copy, size, true);
    make_dataset(copy, size, &ix);
    int verified = command(fs_prep_verify, "verify", NULL), status = command(fs_prep_unpack, "unpack", "out");
    if ((status != 0 && status != 1) || (verified != 0 && verified != 1)) abort();
    if (untouched && (status != 0 || verified != 0)) abort();
    if (status == 0 && names_in("out") > 100) abort();
    if (names_in(".") > 3 || !yard_untouched()) abort(); /* ds, yard, out */
    path_of(out, sizeof(out), "out");
    (void)fs_remove_tree(out);
    if (names_in(".") != 2 || !yard_untouched()) abort();
  }
  free(copy);
  return 0;
}
