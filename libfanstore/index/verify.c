/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The full check of an index: every checksum, and every promise of docs/internals/format.md. Called once per
 * node at staging, and by fs-prepare. Takes O(entries) time and no memory. Stops at the first fault
 * and names it.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "index/index.h"
#include "index/section.h"
#include "util/util.h"

struct fs_verify {
  const struct fs_index *ix;
  uint64_t next_child; /* where the next run of children must begin */
  uint64_t linked;     /* entries with FS_ENTRY_LINKED so far */
  uint64_t files, dirs, symlinks, plain_bytes;
  uint32_t max_depth;
  char *why;
  size_t why_size;
};

static FS_PRINTF(2, 3) fs_err fs_fault(const struct fs_verify *v, const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (v->why) vsnprintf(v->why, v->why_size, format, args);
  va_end(args);
  return -EUCLEAN;
}

static fs_err fs_entry_fault(const struct fs_verify *v, uint32_t n, const char *text) {
  char path[PATH_MAX], shown[512];
  fs_ssize len = fs_index_path(v->ix, n, path, sizeof(path));
  if (len < 0) return fs_fault(v, "index is damaged: entry %u: %s", n, text);
  fs_printable(path, (size_t)len, shown, sizeof(shown));
  return fs_fault(v, "index is damaged: entry %u, '%s': %s", n, shown, text);
}

static fs_err fs_verify_sections(const struct fs_verify *v) {
  const struct fs_index_header *h = v->ix->hdr;
  uint64_t sums[FS_SEC_COUNT], at = sizeof(*h);
  uint8_t id[16];
  for (int i = 0; i < FS_SEC_COUNT; i++) {
    const struct fs_section *s = &h->section[i];
    if (s->offset != at) return fs_fault(v, "index is damaged: section %d is not where it belongs", i);
    if (fs_xxh3((const char *)h + s->offset, fs_section_bytes(h, i)) != s->xxh3) {
      fs_fault(v, "index is damaged: the checksum of section %d differs", i);
      return -EBADMSG;
    }
    sums[i] = s->xxh3;
    at = fs_round_up(at + fs_section_bytes(h, i), 64);
  }
  if (at != h->file_size) return fs_fault(v, "index is damaged: bytes after the last section");
  fs_xxh3_128(sums, sizeof(sums), id);
  if (memcmp(id, h->dataset_id, sizeof(id)) != 0) return fs_fault(v, "index is damaged: wrong dataset id");
  return 0;
}

static fs_err fs_verify_samples(const struct fs_verify *v) {
  const struct fs_index *ix = v->ix;
  uint64_t last = FS_SAMPLE_COUNT(ix->nentries) - 1, end;
  if (!ix->samples) return 0;
  const struct fs_entry *e = &ix->entries[ix->nentries - 1];
  end = FS_NAME_OFF(e->name) + FS_NAME_LEN(e->name);
  for (uint64_t i = 0; i <= last; i++)
    if (ix->samples[i] != (i < last ? FS_NAME_OFF(ix->entries[i << FS_SAMPLE_SHIFT].name) : end))
      return fs_fault(v, "index is damaged: a sample of the names' offsets is wrong");
  return 0;
}

static fs_err fs_verify_codecs(const struct fs_verify *v) {
  const struct fs_codec_set *set = &v->ix->codecs;
  for (uint32_t i = 0; i < set->n; i++) {
    const struct fs_codec_rec *r = &set->rows[i];
    if (r->reserved != 0 || (r->dict_len == 0 && r->dict != 0))
      return fs_fault(v, "index is damaged: row %u of its table of codecs is impossible", i);
  }
  return 0;
}

static fs_err fs_verify_parts(const struct fs_verify *v) {
  for (uint64_t i = 0; i < v->ix->nparts; i++) {
    const struct fs_part_rec *p = &v->ix->parts[i];
    if (p->size < FS_PART_HEADER_SIZE || p->size > INT64_MAX || p->size % FS_ALIGN != 0)
      return fs_fault(v, "index is damaged: partition %u has an impossible size", (unsigned)i);
  }
  return 0;
}

static bool fs_name_legal(const char *name, uint32_t len) {
  if (len == 0 || (len <= 2 && memcmp(name, "..", len) == 0)) return false;
  return !memchr(name, '/', len) && !memchr(name, '\0', len);
}

/* Checks the name and its place: each name of a directory is greater than the one before. */
static fs_err fs_verify_name(const struct fs_verify *v, uint32_t n) {
  const struct fs_entry *e = &v->ix->entries[n], *before = e - 1;
  const char *name, *other;
  uint32_t len, other_len;
  if (fs_index_name(v->ix, e, &name, &len) < 0) return fs_entry_fault(v, n, "its name lies outside the index");
  if (n == FS_ROOT) return len == 0 ? 0 : fs_entry_fault(v, n, "the root has a name");
  if (!fs_name_legal(name, len)) return fs_entry_fault(v, n, "illegal name");
  if (n == 1 || before->parent != e->parent || fs_index_name(v->ix, before, &other, &other_len) < 0) return 0;
  int order = memcmp(other, name, FS_MIN(other_len, len));
  if (order > 0 || (order == 0 && other_len >= len)) return fs_entry_fault(v, n, "names are not in order");
  return 0;
}

/* Checks that the entry's own path leads to the entry. Also records the depth. */
static fs_err fs_verify_path(struct fs_verify *v, uint32_t n) {
  char path[PATH_MAX];
  uint32_t depth = n != FS_ROOT;
  fs_ssize len = fs_index_path(v->ix, n, path, sizeof(path));
  if (len < 0) return fs_fault(v, "index is damaged: entry %u has no path shorter than %d bytes", n, PATH_MAX);
  for (fs_ssize i = 0; i < len; i++) depth += path[i] == '/';
  v->max_depth = FS_MAX(v->max_depth, depth);
  int64_t found = fs_index_lookup(v->ix, path, (size_t)len);
  if (found == -EUCLEAN) return fs_entry_fault(v, n, "impossible type or size");
  if (found != (int64_t)n) return fs_entry_fault(v, n, "its path does not lead to it");
  return 0;
}

static fs_err fs_verify_dir(struct fs_verify *v, uint32_t n) {
  const struct fs_entry *e = &v->ix->entries[n];
  uint32_t first, subdirs = 0;
  uint64_t count;
  v->dirs++;
  if (FS_NAME_FLAGS(e->name) != 0) return fs_entry_fault(v, n, "a directory with flags of a file");
  if (fs_index_children(v->ix, n, &first, &count) < 0) return fs_entry_fault(v, n, "its children are no entries");
  if (count > 0 && first != v->next_child) return fs_entry_fault(v, n, "its children are not where they belong");
  for (uint64_t i = 0; i < count; i++) {
    const struct fs_entry *child = &v->ix->entries[first + i];
    if (child->parent != n) return fs_entry_fault(v, (uint32_t)(first + i), "its parent does not know it");
    subdirs += S_ISDIR(child->mode);
  }
  if (e->nlink != 2 + subdirs) return fs_entry_fault(v, n, "wrong number of subdirectories");
  v->next_child += count;
  return 0;
}

static fs_err fs_verify_file(struct fs_verify *v, uint32_t n) {
  const struct fs_entry *e = &v->ix->entries[n];
  const uint32_t known = FS_ENTRY_LINKED | FS_ENTRY_BLOCKS | FS_ENTRY_CONTIG | FS_ENTRY_ALIGNED;
  uint32_t flags = FS_NAME_FLAGS(e->name);
  uint64_t count = fs_index_block_count(v->ix, e);
  struct fs_block block;
  v->files++;
  if (count > 0 && !fs_codec_known(&v->ix->codecs, FS_NAME_CODEC(e->name)))
    return fs_entry_fault(v, n, "its codec is not known; use a newer FanStore");
  v->plain_bytes += flags & FS_ENTRY_LINKED ? 0 : e->size;
  if ((flags & ~known) || (count == 0 && (flags & ~FS_ENTRY_LINKED))) return fs_entry_fault(v, n, "unknown flags");
  if (e->size > INT64_MAX) return fs_entry_fault(v, n, "impossible size");
  for (uint64_t i = 0; i < count; i++) {
    if (fs_index_block(v->ix, n, i, &block) < 0) return fs_entry_fault(v, n, "a block of it is not in any partition");
  }
  return 0;
}

static fs_err fs_verify_symlink(struct fs_verify *v, uint32_t n) {
  const struct fs_entry *e = &v->ix->entries[n];
  const char *target;
  uint64_t len;
  v->symlinks++;
  if (FS_NAME_FLAGS(e->name) & ~FS_ENTRY_LINKED) return fs_entry_fault(v, n, "a symlink with flags of a file");
  if (fs_index_target(v->ix, e, &target, &len) < 0) return fs_entry_fault(v, n, "its target lies outside the index");
  return memchr(target, '\0', len) ? fs_entry_fault(v, n, "its target holds a NUL") : 0;
}

/* Checks that a hard link equals its inode's entry in everything except name and parent. */
static fs_err fs_verify_inode(struct fs_verify *v, uint32_t n) {
  const struct fs_index *ix = v->ix;
  const struct fs_entry *e = &ix->entries[n];
  if (!(FS_NAME_FLAGS(e->name) & FS_ENTRY_LINKED)) return 0;
  if (v->linked >= ix->nlinks || ix->links[v->linked].entry != n)
    return fs_entry_fault(v, n, "a hard link without its record");
  const struct fs_link_rec *link = &ix->links[v->linked++];
  if (link->inode >= n) return fs_entry_fault(v, n, "a hard link to a later entry");
  const struct fs_entry *to = &ix->entries[link->inode];
  if ((FS_NAME_FLAGS(to->name) | FS_ENTRY_LINKED) != FS_NAME_FLAGS(e->name) ||
      FS_NAME_FLAGS(to->name) & FS_ENTRY_LINKED || FS_NAME_CODEC(to->name) != FS_NAME_CODEC(e->name) ||
      to->size != e->size || to->mode != e->mode || to->mtime_sec != e->mtime_sec || to->mtime_nsec != e->mtime_nsec ||
      to->nlink != e->nlink || to->data != e->data || to->xxh3 != e->xxh3 || to->stored_len != e->stored_len ||
      to->partition != e->partition)
    return fs_entry_fault(v, n, "differs from the file that it is a hard link to");
  return 0;
}

static fs_err fs_verify_entry(struct fs_verify *v, uint32_t n) {
  const struct fs_entry *e = &v->ix->entries[n];
  if (n != FS_ROOT && e->parent >= n) return fs_fault(v, "index is damaged: entry %u precedes its parent", n);
  if (n == FS_ROOT && e->parent != FS_ROOT) return fs_fault(v, "index is damaged: the root has a parent");
  if (n != FS_ROOT && n >= v->next_child) return fs_fault(v, "index is damaged: entry %u is in no directory", n);
  if ((e->mode & ~(uint32_t)(S_IFMT | 07777)) || e->mtime_nsec >= 1000000000u || e->nlink == 0)
    return fs_entry_fault(v, n, "impossible attributes");
  fs_err err = fs_verify_name(v, n);
  if (err == 0) err = fs_verify_path(v, n);
  if (err == 0) err = fs_verify_inode(v, n);
  if (err < 0) return err;
  if (S_ISDIR(e->mode)) return fs_verify_dir(v, n);
  if (S_ISREG(e->mode)) return fs_verify_file(v, n);
  if (S_ISLNK(e->mode)) return fs_verify_symlink(v, n);
  return fs_entry_fault(v, n, "unknown file type");
}

static fs_err fs_verify_totals(const struct fs_verify *v) {
  const struct fs_index *ix = v->ix;
  const struct fs_index_header *h = ix->hdr;
  uint64_t used = 0;
  for (uint64_t i = 0; i <= ix->bucket_mask; i++) used += ix->buckets[i] != 0;
  if (used != ix->nentries) return fs_fault(v, "index is damaged: the hash table does not hold each entry once");
  if (v->linked != ix->nlinks) return fs_fault(v, "index is damaged: hard-link records of no entry");
  if (v->files != h->files || v->dirs != h->dirs || v->symlinks != h->symlinks || v->max_depth != h->max_depth ||
      v->plain_bytes != h->plain_bytes)
    return fs_fault(v, "index is damaged: the totals in its header are wrong");
  return 0;
}

fs_err fs_index_check(const struct fs_index *ix, char *why, size_t why_size) {
  struct fs_verify v = {.ix = ix, .why = why, .why_size = why_size};
  return fs_verify_sections(&v);
}

fs_err fs_index_verify(const struct fs_index *ix, char *why, size_t why_size) {
  struct fs_verify v = {.ix = ix, .next_child = 1, .why = why, .why_size = why_size};
  if (why && why_size > 0) *why = '\0';
  fs_err err = fs_verify_sections(&v);
  if (err == 0) err = fs_verify_parts(&v);
  if (err == 0) err = fs_verify_samples(&v);
  if (err == 0) err = fs_verify_codecs(&v);
  for (uint64_t n = 0; err == 0 && n < ix->nentries; n++) err = fs_verify_entry(&v, (uint32_t)n);
  return err < 0 ? err : fs_verify_totals(&v);
}
