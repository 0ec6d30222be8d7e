/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last step of the builder: writes the sorted and numbered entries as an index in memory.
 * Called by fs-prepare and tests. One thread. The same input gives the same bytes: nothing depends
 * on addresses, time or the order of adding.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "index/build.h"
#include "index/section.h"
#include "util/sys.h"
#include "util/util.h"

/* Returns where the dictionaries begin in the strings: behind the table of codecs. */
static uint64_t fs_dicts_at(const struct fs_layout *l) {
  return l->hdr.codecs + l->hdr.codec_rows * sizeof(struct fs_codec_rec);
}

/* Places the sections in the order of their ids, and computes the file's size. */
static void fs_place_sections(struct fs_layout *l) {
  struct fs_index_header *h = &l->hdr;
  uint64_t at = sizeof(*h), buckets = 2;
  while (buckets * 3 < l->n * 4) buckets *= 2; /* at most three quarters are used */
  h->feature_compat = FS_FEATURE_SAMPLES;
  h->samples = fs_round_up(l->names_size + l->targets_size, sizeof(uint64_t));
  h->codecs = h->samples + FS_SAMPLE_COUNT(l->n) * sizeof(uint64_t);
  h->codec_rows = l->b->nrows;
  uint64_t strings = fs_dicts_at(l) + l->b->dicts_size;
  const uint64_t counts[FS_SEC_COUNT] = {l->n, buckets, l->nblocks, l->nlinks, l->b->nparts, strings};
  for (int i = 0; i < FS_SEC_COUNT; i++) {
    h->section[i] = (struct fs_section){.offset = at, .count = counts[i]};
    at = fs_round_up(at + fs_section_bytes(h, i), 64);
  }
  h->magic = FS_INDEX_MAGIC;
  h->version = FS_FORMAT_VERSION;
  h->header_size = sizeof(*h);
  h->block_size = l->b->block_size;
  h->align = l->b->align;
  h->file_size = at;
}

static void *fs_section_at(const struct fs_layout *l, char *out, enum fs_section_id id) {
  return out + l->hdr.section[id].offset;
}

static struct fs_entry fs_make_entry(const struct fs_layout *l, const struct fs_node *node, uint64_t name_off) {
  struct fs_entry e = {.size = node->size,
                       .mtime_sec = node->mtime_sec,
                       .mtime_nsec = node->mtime_nsec,
                       .mode = node->mode,
                       .parent = node->parent,
                       .nlink = node->nlink,
                       .data = node->first};
  e.name = FS_NAME_MAKE(name_off, node->name_len, node->codec, node->flags);
  if (S_ISLNK(node->mode)) e.data += l->names_size;
  if (fs_node_nblocks(l->b, node) == 1) {
    e.data = node->blocks[0].offset;
    e.xxh3 = node->blocks[0].xxh3;
    e.stored_len = node->blocks[0].stored_len;
    e.partition = node->blocks[0].partition;
  }
  return e;
}

/* Makes the entry of a further hard link. All except name and parent is copied from the first link,
   whatever the node says. */
static struct fs_entry fs_make_link(const struct fs_entry *first, const struct fs_node *node, uint64_t name_off) {
  struct fs_entry e = *first;
  uint32_t codec = FS_NAME_CODEC(first->name), flags = FS_NAME_FLAGS(first->name) | FS_ENTRY_LINKED;
  e.name = FS_NAME_MAKE(name_off, node->name_len, codec, flags);
  e.parent = node->parent;
  return e;
}

static void fs_emit_entries(const struct fs_layout *l, char *out) {
  struct fs_entry *entries = fs_section_at(l, out, FS_SEC_ENTRIES);
  struct fs_link_rec *link = fs_section_at(l, out, FS_SEC_LINKS);
  char *strings = fs_section_at(l, out, FS_SEC_STRINGS);
  uint64_t used = 0;
  for (uint64_t i = 0; i < l->n; i++) {
    const struct fs_node *node = l->sorted[i];
    memcpy(strings + used, node->path + node->path_len - node->name_len, node->name_len);
    if (node->inode == i) {
      entries[i] = fs_make_entry(l, node, used);
      if (S_ISLNK(node->mode)) memcpy(strings + entries[i].data, node->target, node->size);
    } else {
      entries[i] = fs_make_link(&entries[node->inode], node, used);
      *link++ = (struct fs_link_rec){(uint32_t)i, node->inode};
    }
    used += node->name_len;
  }
}

static void fs_emit_samples(const struct fs_layout *l, char *out) {
  const struct fs_entry *entries = fs_section_at(l, out, FS_SEC_ENTRIES);
  uint64_t *sample = (uint64_t *)(void *)((char *)fs_section_at(l, out, FS_SEC_STRINGS) + l->hdr.samples);
  for (uint64_t i = 0; i < l->n; i += 1ull << FS_SAMPLE_SHIFT) *sample++ = FS_NAME_OFF(entries[i].name);
  *sample = l->names_size;
}

static void fs_emit_codecs(const struct fs_layout *l, char *out) {
  char *strings = fs_section_at(l, out, FS_SEC_STRINGS);
  struct fs_codec_rec *rows = (struct fs_codec_rec *)(void *)(strings + l->hdr.codecs);
  for (uint32_t i = 0; i < l->b->nrows; i++) {
    rows[i] = l->b->rows[i];
    if (rows[i].dict_len == 0) continue;
    rows[i].dict += fs_dicts_at(l);
    if (l->b->dicts[i]) memcpy(strings + rows[i].dict, l->b->dicts[i], rows[i].dict_len);
  }
}

static void fs_emit_buckets(struct fs_layout *l, char *out) {
  uint64_t *buckets = fs_section_at(l, out, FS_SEC_BUCKETS);
  uint64_t mask = l->hdr.section[FS_SEC_BUCKETS].count - 1;
  for (uint64_t i = 0; i < l->n; i++) {
    uint64_t hash = fs_xxh3(l->sorted[i]->path, l->sorted[i]->path_len), at = hash & mask;
    uint32_t probes = 1;
    for (; buckets[at] != 0; probes++) at = (at + 1) & mask;
    buckets[at] = hash >> 32 << 32 | (i + 1);
    l->hdr.max_probe = FS_MAX(l->hdr.max_probe, probes);
  }
}

static void fs_emit_blocks(const struct fs_layout *l, char *out) {
  struct fs_block_rec *rec = fs_section_at(l, out, FS_SEC_BLOCKS);
  for (uint64_t i = 0; i < l->n; i++) {
    const struct fs_node *node = l->sorted[i];
    if (!fs_node_has_records(l->b, node) || node->inode != i || !node->blocks) continue;
    for (uint64_t k = 0; k < fs_node_nblocks(l->b, node); k++) {
      const struct fs_built_block *block = &node->blocks[k];
      *rec++ = (struct fs_block_rec){block->offset, block->stored_len, block->partition, block->xxh3};
    }
  }
}

/* Computes the checksums from the inside out: sections, dataset id, header. */
static void fs_emit_header(struct fs_layout *l, char *out) {
  struct fs_index_header *h = &l->hdr;
  uint64_t sums[FS_SEC_COUNT];
  for (int i = 0; i < FS_SEC_COUNT; i++) {
    h->section[i].xxh3 = fs_xxh3(out + h->section[i].offset, fs_section_bytes(h, i));
    sums[i] = h->section[i].xxh3;
  }
  fs_xxh3_128(sums, sizeof(sums), h->dataset_id);
  h->header_xxh3 = fs_xxh3(h, offsetof(struct fs_index_header, header_xxh3));
  memcpy(out, h, sizeof(*h));
}

static fs_err fs_check_limits(const struct fs_layout *l) {
  const char *bad = NULL;
  const struct fs_builder *b = l->b;
  if (!fs_is_pow2(b->block_size) || b->block_size < FS_BLOCK_SIZE_MIN || b->block_size > FS_BLOCK_SIZE_MAX)
    bad = "the block size is not a power of two from 16K to 16M";
  else if (!fs_is_pow2(b->align) || b->align < FS_ALIGN || b->align > FS_BLOCK_SIZE_MAX)
    bad = "the alignment is not a power of two from 4K to 16M";
  else if (l->n > FS_MAX_ENTRIES)
    bad = "too many files";
  if (!bad) return 0;
  if (l->why) snprintf(l->why, l->why_size, "%s", bad);
  return -EINVAL;
}

fs_err fs_builder_finish(struct fs_builder *b, void **out, uint64_t *size, char *why, size_t why_size) {
  struct fs_layout l = {.b = b, .n = b->nnodes, .why = why, .why_size = why_size};
  FS_AUTO_FREE struct fs_node **sorted = l.sorted = malloc((b->nnodes + 1) * sizeof(*sorted));
  if (why && why_size > 0) *why = '\0';
  fs_err err = sorted ? fs_check_limits(&l) : -ENOMEM;
  if (err == 0) err = fs_layout_tree(&l);
  if (err == 0) err = fs_layout_data(&l);
  if (err < 0) return err;
  fs_place_sections(&l);
  char *map = fs_sys_mmap(NULL, l.hdr.file_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fs_sys_mmap_failed(map)) return -ENOMEM;
  fs_emit_entries(&l, map);
  fs_emit_samples(&l, map);
  fs_emit_codecs(&l, map);
  fs_emit_buckets(&l, map);
  if (l.hdr.max_probe > FS_PROBE_MAX) { /* only with names chosen for this; never by chance */
    fs_sys_munmap(map, l.hdr.file_size);
    if (why) snprintf(why, why_size, "too many names have the same hash");
    return -EINVAL;
  }
  fs_emit_blocks(&l, map);
  if (b->nparts > 0) memcpy(fs_section_at(&l, map, FS_SEC_PARTS), b->parts, b->nparts * sizeof(*b->parts));
  fs_emit_header(&l, map);
  *out = map;
  *size = l.hdr.file_size;
  return 0;
}

void fs_builder_release(void *out, uint64_t size) {
  if (out) fs_sys_munmap(out, size);
}
