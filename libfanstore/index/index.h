/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Read-only view of a dataset's index, mapped by every process. Nothing here allocates after opening, takes a lock
 * or makes a system call; all functions may be called from any thread and from signal handlers, and after fork.
 *
 * Opening checks the header's checksum and that every section lies inside the file, in constant time. Every other
 * field is checked where it is used: a damaged index gives -EUCLEAN, never an access outside the mapping.
 * fs_index_verify checks everything, once per node (staging) or on demand (fs-prepare verify).
 */
#ifndef FS_INDEX_INDEX_H
#define FS_INDEX_INDEX_H

#include <sys/stat.h>

#include "fanstore/format.h"
#include "util/base.h"

struct fs_index {
  const struct fs_index_header *hdr;
  const struct fs_entry *entries;
  const uint64_t *buckets;
  const struct fs_block_rec *blocks;
  const struct fs_link_rec *links;
  const struct fs_part_rec *parts;
  const char *strings;
  const uint64_t *samples; /* of the names' offsets, or NULL: see fs_name_prefetch */
  uint64_t nentries, bucket_mask, nblocks, nlinks, nparts, strings_size;
  uint32_t block_size, block_shift;
  void *map; /* from fs_index_open; NULL when attached to memory of the caller's */
  uint64_t map_size;
  uint64_t inode; /* of the file; 0 without one */
  int64_t mtime;  /* its, in ns */
};

/* A stored block, resolved and bounds-checked against its partition's size. */
struct fs_block {
  uint32_t partition;
  uint32_t codec;
  uint32_t stored_len;
  uint32_t plain_len;
  uint64_t offset; /* in the partition */
  uint64_t xxh3;
  uint64_t key; /* unique in the dataset: FS_KEY_BLOCK | number of the fs_block_rec, or the entry number */
};
#define FS_KEY_BLOCK (1ull << 40)
#define FS_KEY_MASK ((1ull << 41) - 1)

/* 0; -EBADMSG (checksum, size), -EPROTONOSUPPORT (newer version or unknown feature), -EPFNOSUPPORT (older version), or
   the open's errno. `why` (may be NULL) gets one line without the path. */
fs_err fs_index_open(const char *path, struct fs_index *ix, char *why, size_t why_size);
fs_err fs_index_attach(const void *base, uint64_t size, struct fs_index *ix, char *why, size_t why_size);
void fs_index_close(struct fs_index *ix);
/* Whether the index is what was written: the checksums of all sections. 28 GB/s by AVX2; no allocation, no system
   call. 0, -EBADMSG or -EUCLEAN. */
fs_err fs_index_check(const struct fs_index *ix, char *why, size_t why_size);
/* Everything: section checksums, every entry, name, hash, block. O(entries). 0 or -EUCLEAN / -EBADMSG. */
fs_err fs_index_verify(const struct fs_index *ix, char *why, size_t why_size);

/* The entry of a relative path (no leading, trailing or double slash, no . or ..; "" is the root): its number,
   -ENOENT, or -EUCLEAN when it contradicts itself. Does not follow symlinks: a path through one is -ENOENT here. */
int64_t fs_index_lookup(const struct fs_index *ix, const char *path, size_t len);
/* The child of a directory by name: its number, -ENOENT, -ENOTDIR or -EUCLEAN. */
int64_t fs_index_child(const struct fs_index *ix, uint32_t dir, const char *name, size_t len);

static inline const struct fs_entry *fs_index_entry(const struct fs_index *ix, uint64_t n) {
  return n < ix->nentries ? &ix->entries[n] : NULL;
}
/* Name of an entry (not NUL-terminated; "" for the root). */
fs_err fs_index_name(const struct fs_index *ix, const struct fs_entry *e, const char **name, uint32_t *len);
/* Path relative to the root into buf, NUL-terminated. Its length, -ENAMETOOLONG or -EUCLEAN. */
fs_ssize fs_index_path(const struct fs_index *ix, uint32_t entry, char *buf, size_t size);
/* Directory: first child and count, inside the entries. */
fs_err fs_index_children(const struct fs_index *ix, uint32_t dir, uint32_t *first, uint64_t *count);
/* Symlink: target (not NUL-terminated). */
fs_err fs_index_target(const struct fs_index *ix, const struct fs_entry *e, const char **target, uint64_t *len);

/* Number of the file's blocks: 0 for an empty file. */
uint64_t fs_index_block_count(const struct fs_index *ix, const struct fs_entry *e);
/* Block i of a file. 0, -EINVAL (no such block) or -EUCLEAN. */
fs_err fs_index_block(const struct fs_index *ix, uint32_t entry, uint64_t i, struct fs_block *out);
/* Where a raw file begins, if it lies in one piece. */
bool fs_index_place(const struct fs_index *ix, uint32_t entry, uint32_t *partition, uint64_t *offset);
/* The block with this key (see fs_block.key): -EINVAL when there is none. plain_len and codec are not known from a
   FS_KEY_BLOCK key: they are 0. For daemons, which only move stored bytes. */
fs_err fs_index_block_by_key(const struct fs_index *ix, uint64_t key, struct fs_block *out);

/* What stat shows: mode, size, times, ino, nlink, blksize, blocks. uid, gid and dev are the caller's to set. */
void fs_index_stat(const struct fs_index *ix, uint32_t entry, struct stat *st);
uint64_t fs_index_ino(const struct fs_index *ix, uint32_t entry);

#endif
