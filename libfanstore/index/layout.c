/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last step of the builder: writes the numbered entries as an index, section by section from the
 * begin to the end, and then the header. Called by fs-prepare and tests. One thread. The same input
 * gives the same bytes: nothing depends on addresses, time or the order of adding.
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

/* What is being written: a section, through a buffer. */
struct fs_out {
  fs_build_put_fn *put;
  void *ctx;
  uint64_t at; /* of the buffer's bytes in the file */
  size_t used;
  struct fs_xxh3_stream *hash; /* of the section so far */
  fs_err err;                  /* ends all */
  alignas(8) char buf[256 << 10];
};

static void fs_out_flush(struct fs_out *o) {
  fs_xxh3_update(o->hash, o->buf, o->used);
  if (o->err == 0) o->err = o->put(o->ctx, o->at, o->buf, o->used);
  o->at += o->used;
  o->used = 0;
}

static void fs_emit(struct fs_out *o, const void *data, size_t n) {
  while (n > 0) {
    size_t k = FS_MIN(n, sizeof(o->buf) - o->used);
    memcpy(o->buf + o->used, data, k);
    o->used += k;
    data = (const char *)data + k;
    n -= k;
    if (o->used == sizeof(o->buf)) fs_out_flush(o);
  }
}

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

/* ---- entries ---- */

/* Where the entries' writer is. */
struct fs_cursor {
  uint64_t child;         /* the children of directories before this one end here */
  uint64_t names;         /* bytes of the names so far */
  uint64_t targets;       /* bytes of the targets so far */
  struct fs_member *next; /* the next hard link */
};

/* Fills in what a directory's children say. They are the next ones: directories come in the order of
   their children. */
static void fs_count_children(const struct fs_layout *l, uint64_t dir, struct fs_cursor *c, struct fs_entry *e) {
  struct fs_build_file child;
  c->child = FS_MAX(c->child, 1);
  e->nlink = 2;
  e->data = c->child < l->n && l->parent[c->child] == dir ? c->child : 0;
  for (; c->child < l->n && l->parent[c->child] == dir; c->child++) {
    fs_layout_get(l, c->child, &child);
    e->nlink += S_ISDIR(child.mode);
    e->size++;
  }
}

/* Fills in where a file's bytes are. */
static void fs_place_content(const struct fs_layout *l, const struct fs_build_file *f, struct fs_entry *e) {
  e->size = f->size;
  if (f->nblocks == 1) {
    e->data = f->blocks[0].offset;
    e->xxh3 = f->blocks[0].xxh3;
    e->stored_len = f->blocks[0].stored_len;
    e->partition = f->blocks[0].partition;
  }
  if (fs_has_records(f)) e->data = fs_layout_owner(l, f)->first;
}

/* Makes entry i, all but its name. A further hard link is like the first one, whatever itself says. */
static struct fs_entry fs_make_entry(const struct fs_layout *l, uint64_t i, const struct fs_build_file *f,
                                     struct fs_cursor *c, uint32_t *flags) {
  struct fs_entry e = {.mtime_sec = f->mtime_sec, .mtime_nsec = f->mtime_nsec, .mode = f->mode, .nlink = 1};
  e.parent = l->parent[i];
  *flags = S_ISREG(f->mode) && f->nblocks > 0 ? f->flags | (fs_has_records(f) ? FS_ENTRY_BLOCKS : 0) : 0;
  if (S_ISREG(f->mode)) fs_place_content(l, f, &e);
  if (S_ISDIR(f->mode)) fs_count_children(l, i, c, &e);
  if (S_ISLNK(f->mode)) e.size = strlen(f->target);
  struct fs_member *m = c->next;
  const bool member = m < l->members + l->nmembers && m->entry == i;
  if (S_ISLNK(f->mode) && (!member || m->inode == i)) {
    e.data = l->names_size + c->targets;
    c->targets += e.size;
  }
  if (!member) return e;
  c->next++;
  e.nlink = m->nlink;
  if (m->inode != i) {
    *flags |= FS_ENTRY_LINKED;
    e.data = fs_layout_member(l, m->inode)->data;
  }
  m->data = e.data;
  return e;
}

static void fs_emit_entries(const struct fs_layout *l, uint64_t *samples, struct fs_out *o) {
  struct fs_cursor c = {.next = l->members};
  struct fs_build_file f;
  for (uint64_t i = 0; i < l->n && o->err == 0; i++) {
    uint32_t flags;
    fs_layout_get(l, i, &f);
    const uint32_t len = fs_name_len(f.path, strlen(f.path));
    const struct fs_member *m = c.next;
    if (m < l->members + l->nmembers && m->entry == i && m->inode != i) fs_layout_get(l, m->inode, &f);
    struct fs_entry e = fs_make_entry(l, i, &f, &c, &flags);
    e.name = FS_NAME_MAKE(c.names, len, S_ISREG(f.mode) ? f.codec : 0, flags);
    if (i % (1u << FS_SAMPLE_SHIFT) == 0) samples[i >> FS_SAMPLE_SHIFT] = c.names;
    c.names += len;
    fs_emit(o, &e, sizeof(e));
  }
  samples[FS_SAMPLE_COUNT(l->n) - 1] = c.names;
}

/* ---- the other sections ---- */

/* Returns -EOVERFLOW if too many names have the same hash: only if they were chosen for this. It stops at
   the first one that is too far from its place, so that a million of them do not take hours. */
static fs_err fs_emit_buckets(struct fs_layout *l, struct fs_out *o) {
  const uint64_t count = l->hdr.section[FS_SEC_BUCKETS].count, mask = count - 1;
  FS_AUTO_FREE uint64_t *buckets = calloc(count, sizeof(*buckets));
  struct fs_build_file f;
  if (!buckets) return -ENOMEM;
  for (uint64_t i = 0; i < l->n; i++) {
    fs_layout_get(l, i, &f);
    uint64_t hash = fs_xxh3(f.path, strlen(f.path)), at = hash & mask;
    uint32_t probes = 1;
    for (; buckets[at] != 0 && probes <= FS_PROBE_MAX; probes++) at = (at + 1) & mask;
    l->hdr.max_probe = FS_MAX(l->hdr.max_probe, probes);
    if (probes > FS_PROBE_MAX) return -EOVERFLOW;
    buckets[at] = hash >> 32 << 32 | (i + 1);
  }
  fs_emit(o, buckets, count * sizeof(*buckets));
  return 0;
}

static void fs_emit_blocks(const struct fs_layout *l, struct fs_out *o) {
  struct fs_build_file f;
  for (uint64_t i = 0; i < l->nowners; i++) {
    fs_layout_get(l, l->owners[i].entry, &f);
    for (uint64_t k = 0; k < f.nblocks; k++) {
      const struct fs_built_block *b = &f.blocks[k];
      const struct fs_block_rec rec = {b->offset, b->stored_len, b->partition, b->xxh3};
      fs_emit(o, &rec, sizeof(rec));
    }
  }
}

static void fs_emit_links(const struct fs_layout *l, struct fs_out *o) {
  for (const struct fs_member *m = l->members; m < l->members + l->nmembers; m++) {
    const struct fs_link_rec rec = {m->entry, m->inode};
    if (m->inode != m->entry) fs_emit(o, &rec, sizeof(rec));
  }
}

static void fs_emit_names(const struct fs_layout *l, struct fs_out *o) {
  static const char zeros[sizeof(uint64_t)];
  const struct fs_member *m = l->members;
  struct fs_build_file f;
  for (uint64_t i = 0; i < l->n; i++) {
    fs_layout_get(l, i, &f);
    const size_t len = strlen(f.path), name = fs_name_len(f.path, len);
    fs_emit(o, f.path + len - name, name);
  }
  for (uint64_t i = 0; i < l->n && l->targets_size > 0; i++) {
    const bool member = m < l->members + l->nmembers && m->entry == i;
    fs_layout_get(l, i, &f);
    if (S_ISLNK(f.mode) && (!member || m->inode == i)) fs_emit(o, f.target, strlen(f.target));
    m += member;
  }
  fs_emit(o, zeros, l->hdr.samples - l->names_size - l->targets_size);
}

static void fs_emit_codecs(const struct fs_layout *l, struct fs_out *o) {
  static const char zeros[sizeof(uint64_t)];
  for (uint32_t i = 0; i < l->b->nrows; i++) {
    struct fs_codec_rec row = l->b->rows[i];
    if (row.dict_len != 0) row.dict += fs_dicts_at(l);
    fs_emit(o, &row, sizeof(row));
  }
  for (uint32_t i = 0; i < l->b->nrows; i++) {
    const uint32_t len = l->b->rows[i].dict_len;
    if (!l->b->dicts[i]) continue;
    fs_emit(o, l->b->dicts[i], len);
    fs_emit(o, zeros, fs_round_up(len, 8) - len);
  }
}

static fs_err fs_emit_section(struct fs_layout *l, int id, uint64_t *samples, struct fs_out *o) {
  fs_err err = 0;
  o->at = l->hdr.section[id].offset;
  o->hash = fs_xxh3_new();
  if (!o->hash) return -ENOMEM;
  if (id == FS_SEC_ENTRIES) fs_emit_entries(l, samples, o);
  if (id == FS_SEC_BUCKETS) err = fs_emit_buckets(l, o);
  if (id == FS_SEC_BLOCKS) fs_emit_blocks(l, o);
  if (id == FS_SEC_LINKS) fs_emit_links(l, o);
  if (id == FS_SEC_PARTS) fs_emit(o, l->b->parts, l->b->nparts * sizeof(*l->b->parts));
  if (id == FS_SEC_STRINGS) {
    fs_emit_names(l, o);
    fs_emit(o, samples, FS_SAMPLE_COUNT(l->n) * sizeof(*samples));
    fs_emit_codecs(l, o);
  }
  if (o->used > 0) fs_out_flush(o);
  l->hdr.section[id].xxh3 = fs_xxh3_digest(o->hash);
  fs_xxh3_free(o->hash);
  return err < 0 ? err : o->err;
}

/* Writes the sections, then the header, which has their checksums. The last piece of the file may be
   a gap: then its last byte is written. */
static fs_err fs_emit_all(struct fs_layout *l, struct fs_out *o) {
  struct fs_index_header *h = &l->hdr;
  uint64_t sums[FS_SEC_COUNT];
  FS_AUTO_FREE uint64_t *samples = calloc(FS_SAMPLE_COUNT(l->n), sizeof(*samples));
  fs_err err = samples ? 0 : -ENOMEM;
  for (int i = 0; i < FS_SEC_COUNT && err == 0; i++) {
    err = fs_emit_section(l, i, samples, o);
    sums[i] = h->section[i].xxh3;
  }
  if (err < 0) return err;
  if (o->at < h->file_size) err = o->put(o->ctx, h->file_size - 1, "", 1);
  fs_xxh3_128(sums, sizeof(sums), h->dataset_id);
  h->header_xxh3 = fs_xxh3(h, offsetof(struct fs_index_header, header_xxh3));
  return err < 0 ? err : o->put(o->ctx, 0, h, sizeof(*h));
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

/* Numbers the entries and places the sections, so that the index can be written. */
static fs_err fs_layout_make(struct fs_layout *l) {
  if (l->why && l->why_size > 0) *l->why = '\0';
  fs_err err = fs_check_limits(l);
  if (err == 0) err = fs_layout_tree(l);
  if (err == 0) err = fs_layout_data(l);
  if (err == 0) fs_place_sections(l);
  return err;
}

static fs_err fs_layout_write(struct fs_layout *l, fs_build_put_fn *put, void *ctx) {
  struct fs_out *o = calloc(1, sizeof(*o));
  if (!o) return -ENOMEM;
  o->put = put;
  o->ctx = ctx;
  fs_err err = fs_emit_all(l, o);
  free(o);
  if (err != -EOVERFLOW) return err;
  if (l->why) snprintf(l->why, l->why_size, "too many names have the same hash");
  return -EINVAL;
}

static void fs_layout_free(struct fs_layout *l) {
  free(l->sorted);
  free(l->parent);
  free(l->members);
  free(l->owners);
  free(l->slots);
}

fs_err fs_builder_write(struct fs_builder *b, fs_build_put_fn *put, void *ctx, struct fs_index_header *header,
                        char *why, size_t why_size) {
  struct fs_layout l = {.b = b, .n = b->n, .why = why, .why_size = why_size};
  fs_err err = fs_layout_make(&l);
  if (err == 0) err = fs_layout_write(&l, put, ctx);
  *header = l.hdr;
  fs_layout_free(&l);
  return err;
}

static fs_err fs_put_memory(void *ctx, uint64_t at, const void *data, size_t n) {
  memcpy((char *)ctx + at, data, n);
  return 0;
}

fs_err fs_builder_finish(struct fs_builder *b, void **out, uint64_t *size, char *why, size_t why_size) {
  struct fs_layout l = {.b = b, .n = b->n, .why = why, .why_size = why_size};
  fs_err err = fs_layout_make(&l);
  if (err == 0) {
    *size = l.hdr.file_size;
    *out = fs_sys_mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    err = fs_sys_mmap_failed(*out) ? -ENOMEM : fs_layout_write(&l, fs_put_memory, *out);
    if (err < 0 && !fs_sys_mmap_failed(*out)) fs_builder_release(*out, *size);
    if (err < 0) *out = NULL;
  }
  fs_layout_free(&l);
  return err;
}

void fs_builder_release(void *out, uint64_t size) {
  if (out) fs_sys_munmap(out, size);
}
