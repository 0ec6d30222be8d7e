/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first half of the builder: checks the entries, and keeps those that are added in an arena. Used
 * by fs-prepare and tests. One thread at a time.
 */
#include "index/builder.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "index/build.h"
#include "util/grow.h"
#include "util/util.h"

struct fs_builder *fs_builder_new(uint32_t block_size, uint32_t align) {
  struct fs_builder *b = calloc(1, sizeof(*b));
  if (!b) return NULL;
  b->block_size = block_size;
  b->align = align;
  b->nrows = FS_CODEC_ROWS_MIN;
  b->rows[FS_CODEC_RAW] = (struct fs_codec_rec){.family = FS_FAMILY_RAW, .element = 1};
  b->rows[FS_CODEC_LZ4] = (struct fs_codec_rec){.family = FS_FAMILY_LZ4, .element = 1};
  return b;
}

void fs_builder_free(struct fs_builder *b) {
  if (!b) return;
  fs_arena_free(&b->arena);
  free(b->added);
  free(b->parts);
  free(b);
}

/* Gives the row a copy of its dictionary, or the place of an equal one. */
static fs_err fs_row_dict(struct fs_builder *b, struct fs_codec_rec *row, const struct fs_build_codec *c) {
  for (uint32_t i = 0; i < b->nrows; i++) {
    if (!b->dicts[i] || b->rows[i].dict_len != c->dict_len || memcmp(b->dicts[i], c->dict, c->dict_len) != 0) continue;
    row->dict = b->rows[i].dict;
    return 0;
  }
  void *copy = fs_arena_get(&b->arena, c->dict_len);
  if (!copy) return -ENOMEM;
  b->dicts[b->nrows] = memcpy(copy, c->dict, c->dict_len);
  row->dict = b->dicts_size;
  b->dicts_size += fs_round_up(c->dict_len, 8);
  return 0;
}

int fs_builder_codec(struct fs_builder *b, const struct fs_build_codec *c) {
  struct fs_codec_rec *row = &b->rows[b->nrows];
  bool element = fs_element_known(c->element);
  if (b->nrows == FS_CODEC_ROWS_MAX) return -ENOSPC;
  if ((c->family != FS_FAMILY_LZ4 && c->family != FS_FAMILY_ZSTD) || !element) return -EINVAL;
  if (c->dict_len > FS_DICT_MAX || (c->dict_len > 0) != (c->dict != NULL)) return -EINVAL;
  *row = (struct fs_codec_rec){.family = c->family, .element = c->element, .dict_len = c->dict_len};
  fs_err err = c->dict ? fs_row_dict(b, row, c) : 0;
  return err < 0 ? err : (int)b->nrows++;
}

/* Returns true if the path is relative, normalised and short enough. */
static bool fs_path_ok(const char *path) {
  const char *p = path;
  while (*p != '\0') {
    size_t n = strcspn(p, "/");
    bool dots = (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.');
    if (n == 0 || n > FS_NAME_MAX || dots || (p[n] == '/' && p[n + 1] == '\0')) return false;
    p += p[n] == '/' ? n + 1 : n;
  }
  return p - path < PATH_MAX;
}

static bool fs_content_ok(const struct fs_builder *b, const struct fs_build_file *f) {
  if (b->block_size == 0) return false;
  uint64_t want = f->size == 0 ? 0 : (f->size - 1) / b->block_size + 1;
  if (f->size > INT64_MAX || f->nblocks != want || f->codec >= b->nrows) return false;
  if (f->flags & ~(uint32_t)(FS_ENTRY_CONTIG | FS_ENTRY_ALIGNED)) return false;
  if (f->flags != 0 && (f->codec != FS_CODEC_RAW || !(f->flags & FS_ENTRY_CONTIG))) return false;
  for (uint64_t i = 0; i < want; i++) {
    uint64_t plain = FS_MIN(f->size - i * b->block_size, (uint64_t)b->block_size);
    uint32_t stored = f->blocks[i].stored_len;
    if (stored == 0 || stored > plain || (f->codec == FS_CODEC_RAW && stored != plain)) return false;
  }
  return true;
}

const char *fs_builder_refuses(const struct fs_builder *b, const struct fs_build_file *f) {
  size_t target = S_ISLNK(f->mode) && f->target ? strlen(f->target) : 0;
  if ((f->mode & ~(uint32_t)(S_IFMT | 07777)) || f->mtime_nsec >= 1000000000u) return "has an impossible mode or time";
  if (!fs_path_ok(f->path)) return "has an impossible path";
  if (S_ISREG(f->mode)) return fs_content_ok(b, f) ? NULL : "has an impossible size, codec or block";
  if (S_ISLNK(f->mode)) return target > 0 && target < PATH_MAX ? NULL : "has an impossible target";
  return S_ISDIR(f->mode) && f->inode_group == 0 ? NULL : "has an impossible type";
}

fs_err fs_builder_add(struct fs_builder *b, const struct fs_build_file *f) {
  struct fs_build_file own = *f;
  fs_err err = fs_builder_refuses(b, f) ? -EINVAL : fs_grow(&b->added, &b->added_room, b->n, sizeof(own));
  if (err < 0) return err;
  own.path = fs_arena_text(&b->arena, f->path, strlen(f->path));
  if (!own.path) return -ENOMEM;
  if (S_ISREG(f->mode) && f->nblocks > 0) {
    void *blocks = fs_arena_get(&b->arena, f->nblocks * sizeof(*f->blocks));
    if (!blocks) return -ENOMEM;
    own.blocks = memcpy(blocks, f->blocks, f->nblocks * sizeof(*f->blocks));
  }
  if (S_ISLNK(f->mode)) {
    own.target = fs_arena_text(&b->arena, f->target, strlen(f->target));
    if (!own.target) return -ENOMEM;
  }
  if (!S_ISREG(f->mode)) own.nblocks = own.size = 0;
  b->added[b->n++] = own;
  return 0;
}

void fs_builder_entries(struct fs_builder *b, uint64_t n, fs_build_get_fn *get, void *ctx) {
  b->n = n;
  b->get = get;
  b->ctx = ctx;
}

fs_err fs_builder_part(struct fs_builder *b, const struct fs_part_rec *part) {
  if (b->nparts >= FS_MAX_PARTITIONS || part->size % FS_ALIGN != 0 || part->size < FS_PART_HEADER_SIZE) return -EINVAL;
  fs_err err = fs_grow(&b->parts, &b->parts_room, b->nparts, sizeof(*part));
  if (err < 0) return err;
  b->parts[b->nparts++] = *part;
  return 0;
}
