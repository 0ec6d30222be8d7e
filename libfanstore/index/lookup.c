/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds entries by path, and paths of entries. fs_index_lookup is the hot path of each open and
 * stat: one hash, one bucket and one entry in the common case, then one name comparison for each
 * component. Reads the mapping only; no locks, no allocation. Hostile data cannot make a look-up
 * long: it ends after max_probe buckets, and parents have lower numbers.
 */
#include <string.h>

#include "index/index.h"
#include "util/xxh.h"

/* Returns true if the names of entry n and its ancestors, joined by '/', are this path. */
static bool fs_path_is(const struct fs_index *ix, uint64_t n, const char *path, size_t len) {
  for (;;) {
    const struct fs_entry *e = &ix->entries[n];
    uint64_t off = FS_NAME_OFF(e->name);
    uint32_t name_len = FS_NAME_LEN(e->name);
    if (n == FS_ROOT) return false; /* the path is longer than the entry's */
    if (name_len == 0 || name_len > len || off > ix->strings_size || name_len > ix->strings_size - off) return false;
    len -= name_len;
    if (memcmp(ix->strings + off, path + len, name_len) != 0) return false;
    if (e->parent >= n) return false;
    if (len == 0) return e->parent == FS_ROOT;
    if (path[--len] != '/') return false;
    n = e->parent;
  }
}

/*
 * Returns true if the entry's type and size are consistent. Without this check a damaged type or a
 * damaged size of 0 would read as an empty file. All fields are in the cache line of the name
 * field.
 */
static bool fs_entry_sound(const struct fs_index *ix, const struct fs_entry *e) {
  if (!S_ISREG(e->mode)) return S_ISDIR(e->mode) || S_ISLNK(e->mode);
  bool many = FS_NAME_FLAGS(e->name) & FS_ENTRY_BLOCKS;
  return many == (e->size > ix->block_size) && (many || (e->stored_len != 0) == (e->size != 0));
}

/*
 * Prefetches the entry's name from its approximate place, which the samples give. The exact offset
 * is in the entry, which may take as long to arrive from memory as the name; so both arrive
 * together. A wrong guess costs only time. always_inline is needed: gcc thinks that a function that
 * only prefetches has no effect, and drops its calls.
 */
static inline __attribute__((always_inline)) void fs_name_prefetch(const struct fs_index *ix, uint64_t n) {
  if (FS_UNLIKELY(!ix->samples)) return;
  const uint64_t *s = ix->samples + (n >> FS_SAMPLE_SHIFT);
  uint64_t part = n & ((1u << FS_SAMPLE_SHIFT) - 1), at = s[0] + ((s[1] - s[0]) * part >> FS_SAMPLE_SHIFT);
  if (FS_UNLIKELY(at >= ix->strings_size)) return;
  __builtin_prefetch(ix->strings + at);
  __builtin_prefetch(ix->strings + FS_MIN(at + 32, ix->strings_size));
}

int64_t fs_index_lookup(const struct fs_index *ix, const char *path, size_t len) {
  if (len == 0) return FS_ROOT;
  uint64_t hash = XXH3_64bits(path, len);
  uint64_t at = hash & ix->bucket_mask;
  for (uint32_t probe = ix->hdr->max_probe; probe > 0; probe--, at = (at + 1) & ix->bucket_mask) {
    uint64_t bucket = ix->buckets[at];
    if (bucket == 0) break;
    if (bucket >> 32 != hash >> 32) continue;
    uint64_t n = (uint32_t)bucket - 1ull; /* a low half of 0 gives a number beyond all entries */
    if (n >= ix->nentries) continue;
    fs_name_prefetch(ix, n);
    if (fs_path_is(ix, n, path, len)) return fs_entry_sound(ix, &ix->entries[n]) ? (int64_t)n : -EUCLEAN;
  }
  return -ENOENT;
}

fs_err fs_index_name(const struct fs_index *ix, const struct fs_entry *e, const char **name, uint32_t *len) {
  uint64_t off = FS_NAME_OFF(e->name);
  uint32_t name_len = FS_NAME_LEN(e->name);
  if (off > ix->strings_size || name_len > ix->strings_size - off) return -EUCLEAN;
  *name = ix->strings + off;
  *len = name_len;
  return 0;
}

fs_err fs_index_children(const struct fs_index *ix, uint32_t dir, uint32_t *first, uint64_t *count) {
  const struct fs_entry *e = fs_index_entry(ix, dir);
  if (!e) return -EUCLEAN;
  if (!S_ISDIR(e->mode)) return -ENOTDIR;
  *first = 0;
  *count = e->size;
  if (e->size == 0) return 0;
  if (e->data <= dir || e->data >= ix->nentries || e->size > ix->nentries - e->data) return -EUCLEAN;
  *first = (uint32_t)e->data;
  return 0;
}

static int fs_name_compare(const char *a, size_t a_len, const char *b, size_t b_len) {
  int order = memcmp(a, b, FS_MIN(a_len, b_len));
  return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

int64_t fs_index_child(const struct fs_index *ix, uint32_t dir, const char *name, size_t len) {
  uint32_t first, have_len;
  uint64_t low = 0, high;
  fs_err err = fs_index_children(ix, dir, &first, &high);
  if (err < 0) return err;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    const struct fs_entry *e = &ix->entries[first + middle];
    const char *have;
    err = fs_index_name(ix, e, &have, &have_len);
    if (err < 0) return err;
    int order = fs_name_compare(name, len, have, have_len);
    if (order == 0) return e->parent == dir && fs_entry_sound(ix, e) ? (int64_t)(first + middle) : -EUCLEAN;
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return -ENOENT;
}

/* Returns the length of the entry's path, -EUCLEAN, or -ENAMETOOLONG as soon as that is known,
   however deep a damaged chain of parents is. */
static fs_ssize fs_path_length(const struct fs_index *ix, uint32_t n, size_t size) {
  size_t total = 0;
  while (n != FS_ROOT) {
    const struct fs_entry *e = fs_index_entry(ix, n);
    const char *name;
    uint32_t len;
    if (!e || fs_index_name(ix, e, &name, &len) < 0 || len == 0 || e->parent >= n) return -EUCLEAN;
    total += len + (total > 0);
    if (total >= size) return -ENAMETOOLONG;
    n = e->parent;
  }
  return size > 0 ? (fs_ssize)total : -ENAMETOOLONG;
}

fs_ssize fs_index_path(const struct fs_index *ix, uint32_t entry, char *buf, size_t size) {
  fs_ssize total = fs_path_length(ix, entry, size);
  if (total < 0) return total;
  size_t at = (size_t)total;
  buf[at] = '\0';
  for (uint32_t n = entry; n != FS_ROOT; n = ix->entries[n].parent) {
    uint32_t len = FS_NAME_LEN(ix->entries[n].name);
    if (at < (size_t)total) buf[--at] = '/';
    at -= len;
    memcpy(buf + at, ix->strings + FS_NAME_OFF(ix->entries[n].name), len);
  }
  return total;
}
