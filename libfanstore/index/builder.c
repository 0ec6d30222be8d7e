/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first half of the builder: checks the added entries and keeps them in an arena. Used by
 * fs-prepare and tests. One thread at a time.
 */
#include "index/builder.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "index/build.h"
#include "util/grow.h"
#include "util/util.h"

#define FS_ARENA_CHUNK (1u << 20)

struct fs_arena_chunk {
  struct fs_arena_chunk *next;
  size_t used, room;
  alignas(8) char bytes[];
};

static void *fs_arena_get(struct fs_builder *b, size_t n) {
  struct fs_arena_chunk *c = b->arena;
  n = (size_t)fs_round_up(n, 8);
  if (!c || c->room - c->used < n) {
    size_t room = FS_MAX(n, (size_t)FS_ARENA_CHUNK);
    c = malloc(sizeof(*c) + room);
    if (!c) return NULL;
    *c = (struct fs_arena_chunk){.next = b->arena, .room = room};
    b->arena = c;
  }
  void *p = c->bytes + c->used;
  c->used += n;
  return p;
}

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
  for (struct fs_arena_chunk *c = b->arena, *next; c; c = next) {
    next = c->next;
    free(c);
  }
  free(b->nodes);
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
  void *copy = fs_arena_get(b, c->dict_len);
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

/* Returns n bytes as they are if they stay, or a copy, or NULL. */
static const void *fs_kept(struct fs_builder *b, bool stays, const void *bytes, size_t n) {
  void *copy = stays ? NULL : fs_arena_get(b, n);
  return stays ? bytes : copy ? memcpy(copy, bytes, n) : NULL;
}

/* Sets the node's path. Returns -EINVAL unless the path is relative, normalised and short enough. */
static fs_err fs_node_path(struct fs_builder *b, struct fs_node *node, const struct fs_build_file *f) {
  const char *path = f->path;
  size_t len = strlen(path);
  if (len >= PATH_MAX) return -EINVAL;
  for (const char *p = path; *p != '\0';) {
    size_t n = strcspn(p, "/");
    bool dots = (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.');
    if (n == 0 || n > FS_NAME_MAX || dots || (p[n] == '/' && p[n + 1] == '\0')) return -EINVAL;
    node->name_len = (uint8_t)n;
    node->depth++;
    p += p[n] == '/' ? n + 1 : n;
  }
  node->path = fs_kept(b, f->stays, path, len + 1);
  node->path_len = (uint16_t)len;
  return node->path ? 0 : -ENOMEM;
}

static fs_err fs_node_target(struct fs_builder *b, struct fs_node *node, const struct fs_build_file *f) {
  size_t len = f->target ? strlen(f->target) : 0;
  if (len == 0 || len >= PATH_MAX) return -EINVAL;
  node->target = fs_kept(b, f->stays, f->target, len);
  node->size = len;
  return node->target ? 0 : -ENOMEM;
}

static fs_err fs_node_content(struct fs_builder *b, struct fs_node *node, const struct fs_build_file *f) {
  if (b->block_size == 0) return -EINVAL;
  uint64_t want = f->size == 0 ? 0 : (f->size - 1) / b->block_size + 1;
  if (f->size > INT64_MAX || f->nblocks != want || f->codec >= b->nrows) return -EINVAL;
  if (f->flags & ~(uint32_t)(FS_ENTRY_CONTIG | FS_ENTRY_ALIGNED)) return -EINVAL;
  if (f->flags != 0 && (f->codec != FS_CODEC_RAW || !(f->flags & FS_ENTRY_CONTIG))) return -EINVAL;
  node->size = f->size;
  node->codec = (uint8_t)f->codec;
  if (want == 0) return 0;
  node->flags = (uint8_t)(f->flags | (want > 1 ? FS_ENTRY_BLOCKS : 0));
  for (uint64_t i = 0; i < want; i++) {
    uint64_t plain = FS_MIN(f->size - i * b->block_size, (uint64_t)b->block_size);
    uint32_t stored = f->blocks[i].stored_len;
    if (stored == 0 || stored > plain || (f->codec == FS_CODEC_RAW && stored != plain)) return -EINVAL;
  }
  node->blocks = fs_kept(b, f->stays, f->blocks, want * sizeof(*f->blocks));
  return node->blocks ? 0 : -ENOMEM;
}

fs_err fs_builder_add(struct fs_builder *b, const struct fs_build_file *f) {
  struct fs_node node = {
      .mode = f->mode, .mtime_sec = f->mtime_sec, .mtime_nsec = f->mtime_nsec, .group = f->inode_group};
  if ((f->mode & ~(uint32_t)(S_IFMT | 07777)) || f->mtime_nsec >= 1000000000u) return -EINVAL;
  fs_err err = fs_grow(&b->nodes, &b->nodes_room, b->nnodes, sizeof(node));
  if (err == 0) err = fs_node_path(b, &node, f);
  if (err < 0) return err;
  if (S_ISREG(f->mode))
    err = fs_node_content(b, &node, f);
  else if (S_ISLNK(f->mode))
    err = fs_node_target(b, &node, f);
  else if (!S_ISDIR(f->mode) || f->inode_group != 0)
    err = -EINVAL;
  if (err == 0) b->nodes[b->nnodes++] = node;
  return err;
}

fs_err fs_builder_part(struct fs_builder *b, const struct fs_part_rec *part) {
  if (b->nparts >= FS_MAX_PARTITIONS || part->size % FS_ALIGN != 0 || part->size < FS_PART_HEADER_SIZE) return -EINVAL;
  fs_err err = fs_grow(&b->parts, &b->parts_room, b->nparts, sizeof(*part));
  if (err < 0) return err;
  b->parts[b->nparts++] = *part;
  return 0;
}
