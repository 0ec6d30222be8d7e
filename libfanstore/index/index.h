/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Read-only view of a dataset's index, which every process maps. After opening, no function
 * allocates, takes a lock or makes a system call. All functions may be called from any thread, from
 * signal handlers and after fork.
 *
 * Opening takes constant time: it checks the header's checksum, that each section lies inside the
 * file, and the at most 256 rows of the table of codecs. Every other field is checked at its use: a damaged index gives
 * -EUCLEAN, never an access outside the mapping. fs_index_verify checks everything: staging calls it once per node, and
 * fs-prepare on demand.
 */
#ifndef FS_INDEX_INDEX_H
#define FS_INDEX_INDEX_H

#include <sys/stat.h>

#include "codec/codec.h"
#include "fanstore/format.h"
#include "util/base.h"

struct fs_manifest;
struct fs_index {
  const struct fs_index_header *hdr;
  const struct fs_entry *entries;
  const uint64_t *buckets;
  const struct fs_block_rec *blocks;
  const struct fs_link_rec *links;
  const struct fs_part_rec *parts;
  const char *strings;
  const uint64_t *samples; /* samples of the names' offsets, or NULL (fs_name_prefetch) */
  uint64_t nentries, bucket_mask, nblocks, nlinks, nparts, strings_size;
  uint32_t block_size, block_shift;
  struct fs_codec_set codecs;
  void *map; /* from fs_index_open; NULL after fs_index_attach */
  uint64_t map_size;
  uint64_t inode; /* inode of the file; 0 without a file */
  int64_t mtime;  /* mtime of the file in ns */
};

/* A stored block, bounds-checked against its partition's size. */
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

/* Open an index file, or attach to an index that the caller has in memory. Both return 0, -EBADMSG
   (bad checksum or size), -EPROTONOSUPPORT (newer version or unknown feature), -EPFNOSUPPORT (older
   version), or a negative errno of open. `why` (may be NULL) gets one line without the path. */
fs_err fs_index_open(const char *path, struct fs_index *ix, char *why, size_t why_size);
/* Opens DATASET/index. Also returns -EBADMSG if it does not belong to this manifest of the
   dataset. */
fs_err fs_index_open_of(const char *dataset, const struct fs_manifest *m, struct fs_index *ix, char *why,
                        size_t why_size);
fs_err fs_index_attach(const void *base, uint64_t size, struct fs_index *ix, char *why, size_t why_size);
void fs_index_close(struct fs_index *ix);
/* Compares the checksums of all sections, without allocation or system call. Returns 0, -EBADMSG or
   -EUCLEAN. */
fs_err fs_index_check(const struct fs_index *ix, char *why, size_t why_size);
/* Checks everything: section checksums, each entry, name, hash and block, in O(entries). Returns 0,
   -EUCLEAN or -EBADMSG. */
fs_err fs_index_verify(const struct fs_index *ix, char *why, size_t why_size);

/* Returns the entry number of a relative path, -ENOENT, or -EUCLEAN for a contradictory index. The
   path has no leading, trailing or double slash, no "." and no ".."; "" is the root. Symlinks are
   not followed: a path through a symlink gives -ENOENT. */
int64_t fs_index_lookup(const struct fs_index *ix, const char *path, size_t len);
/* Returns the entry number of a directory's child, -ENOENT, -ENOTDIR or -EUCLEAN. */
int64_t fs_index_child(const struct fs_index *ix, uint32_t dir, const char *name, size_t len);

static inline const struct fs_entry *fs_index_entry(const struct fs_index *ix, uint64_t n) {
  return n < ix->nentries ? &ix->entries[n] : NULL;
}
/* Stores the name of an entry, not NUL-terminated; "" for the root. Returns 0 or -EUCLEAN. */
fs_err fs_index_name(const struct fs_index *ix, const struct fs_entry *e, const char **name, uint32_t *len);
/* Writes the path relative to the root to buf, NUL-terminated. Returns its length, -ENAMETOOLONG or
   -EUCLEAN. */
fs_ssize fs_index_path(const struct fs_index *ix, uint32_t entry, char *buf, size_t size);
/* Stores the first child of a directory and the number of children, all inside the entries. Returns
   0 or a negative errno. */
fs_err fs_index_children(const struct fs_index *ix, uint32_t dir, uint32_t *first, uint64_t *count);
/* Stores the target of a symlink, not NUL-terminated. Returns 0 or a negative errno. */
fs_err fs_index_target(const struct fs_index *ix, const struct fs_entry *e, const char **target, uint64_t *len);

/* Returns the number of blocks of a file; 0 for an empty file. */
uint64_t fs_index_block_count(const struct fs_index *ix, const struct fs_entry *e);
/* Stores block i of a file. Returns 0, -EINVAL (no such block) or -EUCLEAN. */
fs_err fs_index_block(const struct fs_index *ix, uint32_t entry, uint64_t i, struct fs_block *out);
/* Returns true, with the place of its first byte, if the entry is a raw file in one piece. */
bool fs_index_place(const struct fs_index *ix, uint32_t entry, uint32_t *partition, uint64_t *offset);
/* Stores the block with this key (fs_block.key), or returns -EINVAL. For daemons, which move only
   stored bytes: after a FS_KEY_BLOCK key, plain_len and codec are 0, because the key does not give
   them. */
fs_err fs_index_block_by_key(const struct fs_index *ix, uint64_t key, struct fs_block *out);

/* Fills in mode, size, times, ino, nlink, blksize and blocks for stat. The caller sets uid, gid and
   dev. */
void fs_index_stat(const struct fs_index *ix, uint32_t entry, struct stat *st);
uint64_t fs_index_ino(const struct fs_index *ix, uint32_t entry);

#endif
