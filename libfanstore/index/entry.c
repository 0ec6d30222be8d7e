/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads one entry: its blocks, symlink target and attributes. Each field is checked before use. The
 * client calls this for every open, read and stat, daemons for every request. Read-only; no locks,
 * no allocation.
 */
#include <limits.h>
#include <string.h>

#include "codec/codec.h"
#include "index/index.h"

#define FS_FIRST_INO 2u       /* of the root; 0 means "none", 1 is the bad-blocks inode */
#define FS_DIR_STAT_SIZE 4096 /* a directory's st_size */
#define FS_SHORT_LINK 60      /* ext4 keeps shorter targets in the inode */

fs_err fs_index_target(const struct fs_index *ix, const struct fs_entry *e, const char **target, uint64_t *len) {
  if (!S_ISLNK(e->mode)) return -EINVAL;
  if (e->size == 0 || e->size >= PATH_MAX) return -EUCLEAN;
  if (e->data > ix->strings_size || e->size > ix->strings_size - e->data) return -EUCLEAN;
  *target = ix->strings + e->data;
  *len = e->size;
  return 0;
}

uint64_t fs_index_block_count(const struct fs_index *ix, const struct fs_entry *e) {
  if (!S_ISREG(e->mode) || e->size == 0) return 0;
  return ((e->size - 1) >> ix->block_shift) + 1;
}

/* Returns true if [offset, offset + n) lies in the partition, behind its header. */
static bool fs_in_part(const struct fs_index *ix, uint32_t partition, uint64_t offset, uint64_t n) {
  if (partition >= ix->nparts) return false;
  uint64_t size = ix->parts[partition].size;
  return size <= INT64_MAX && offset >= FS_PART_HEADER_SIZE && offset <= size && n <= size - offset;
}

/* Stores the unchecked record of block i of a file with `count` blocks. Returns false if the entry
   contradicts itself. */
static bool fs_stored_block(const struct fs_index *ix, const struct fs_entry *e, uint64_t i, uint64_t count,
                            struct fs_block_rec *rec) {
  bool many = FS_NAME_FLAGS(e->name) & FS_ENTRY_BLOCKS;
  if (many != (count > 1)) return false;
  if (!many) {
    *rec = (struct fs_block_rec){e->data, e->stored_len, e->partition, e->xxh3};
    return true;
  }
  if (e->data >= ix->nblocks || count > ix->nblocks - e->data) return false;
  *rec = ix->blocks[e->data + i];
  return true;
}

/*
 * Checks block i of a contiguous file. Readers take the place of the whole file from one block and,
 * if the file is aligned, map all of it. So each block is checked against the first block, and the
 * first against the whole file.
 */
static bool fs_contig_ok(const struct fs_index *ix, const struct fs_entry *e, uint64_t i, uint64_t count,
                         const struct fs_block_rec *rec) {
  struct fs_block_rec first;
  bool aligned = FS_NAME_FLAGS(e->name) & FS_ENTRY_ALIGNED;
  if (FS_NAME_CODEC(e->name) != FS_CODEC_RAW || !fs_stored_block(ix, e, 0, count, &first)) return false;
  if (e->size > INT64_MAX - FS_ALIGN) return false;
  if (aligned && first.offset % FS_ALIGN != 0) return false;
  uint64_t room = aligned ? fs_round_up(e->size, FS_ALIGN) : e->size;
  return fs_in_part(ix, first.partition, first.offset, room) && rec->partition == first.partition &&
         rec->offset == first.offset + (i << ix->block_shift);
}

fs_err fs_index_block(const struct fs_index *ix, uint32_t entry, uint64_t i, struct fs_block *out) {
  const struct fs_entry *e = fs_index_entry(ix, entry);
  struct fs_block_rec rec;
  if (!e) return -EINVAL;
  uint64_t count = fs_index_block_count(ix, e);
  uint32_t codec = FS_NAME_CODEC(e->name), flags = FS_NAME_FLAGS(e->name);
  if (i >= count) return -EINVAL;
  uint32_t plain = (uint32_t)FS_MIN(e->size - (i << ix->block_shift), (uint64_t)ix->block_size);
  if (!fs_stored_block(ix, e, i, count, &rec) || !fs_codec_known(&ix->codecs, codec)) return -EUCLEAN;
  if (rec.stored_len == 0 || rec.stored_len > plain || (codec == FS_CODEC_RAW && rec.stored_len != plain))
    return -EUCLEAN;
  if (!fs_in_part(ix, rec.partition, rec.offset, rec.stored_len)) return -EUCLEAN;
  if ((flags & FS_ENTRY_ALIGNED) && !(flags & FS_ENTRY_CONTIG)) return -EUCLEAN;
  if ((flags & FS_ENTRY_CONTIG) && !fs_contig_ok(ix, e, i, count, &rec)) return -EUCLEAN;
  *out = (struct fs_block){.partition = rec.partition,
                           .codec = codec,
                           .stored_len = rec.stored_len,
                           .plain_len = plain,
                           .offset = rec.offset,
                           .xxh3 = rec.xxh3,
                           .key = flags & FS_ENTRY_BLOCKS ? FS_KEY_BLOCK | (e->data + i) : entry};
  return 0;
}

/* Makes the checks of fs_index_block for the most common entry: a raw file of one block. */
static inline bool fs_plain_ok(const struct fs_index *ix, const struct fs_entry *e) {
  uint32_t flags = FS_NAME_FLAGS(e->name);
  if (!S_ISREG(e->mode) || FS_NAME_CODEC(e->name) != FS_CODEC_RAW || (flags & FS_ENTRY_BLOCKS)) return false;
  if (e->size == 0 || e->size > ix->block_size || e->stored_len != e->size) return false;
  if (!(flags & FS_ENTRY_ALIGNED)) return fs_in_part(ix, e->partition, e->data, e->size);
  return (flags & FS_ENTRY_CONTIG) && e->data % FS_ALIGN == 0 &&
         fs_in_part(ix, e->partition, e->data, fs_round_up(e->size, FS_ALIGN));
}

bool fs_index_place(const struct fs_index *ix, uint32_t entry, uint32_t *partition, uint64_t *offset) {
  const struct fs_entry *e = fs_index_entry(ix, entry);
  struct fs_block b;
  if (FS_LIKELY(e != NULL && fs_plain_ok(ix, e))) {
    *partition = e->partition;
    *offset = e->data;
    return true;
  }
  if (e == NULL || FS_NAME_CODEC(e->name) != FS_CODEC_RAW) return false;
  if ((FS_NAME_FLAGS(e->name) & (FS_ENTRY_BLOCKS | FS_ENTRY_CONTIG)) == FS_ENTRY_BLOCKS) return false;
  if (fs_index_block(ix, entry, 0, &b) < 0) return false;
  *partition = b.partition;
  *offset = b.offset;
  return true;
}

fs_err fs_index_block_by_key(const struct fs_index *ix, uint64_t key, struct fs_block *out) {
  if (key & ~FS_KEY_MASK) return -EINVAL;
  if (!(key & FS_KEY_BLOCK)) {
    const struct fs_entry *e = fs_index_entry(ix, key);
    if (!e || (FS_NAME_FLAGS(e->name) & FS_ENTRY_BLOCKS)) return -EINVAL;
    return fs_index_block(ix, (uint32_t)key, 0, out);
  }
  uint64_t number = key & ~FS_KEY_BLOCK;
  if (number >= ix->nblocks) return -EINVAL;
  const struct fs_block_rec *rec = &ix->blocks[number];
  if (rec->stored_len == 0 || rec->stored_len > ix->block_size) return -EUCLEAN;
  if (!fs_in_part(ix, rec->partition, rec->offset, rec->stored_len)) return -EUCLEAN;
  *out = (struct fs_block){
      .partition = rec->partition, .stored_len = rec->stored_len, .offset = rec->offset, .xxh3 = rec->xxh3, .key = key};
  return 0;
}

uint64_t fs_index_ino(const struct fs_index *ix, uint32_t entry) {
  const struct fs_entry *e = fs_index_entry(ix, entry);
  uint64_t low = 0, high = ix->nlinks;
  if (!e || !(FS_NAME_FLAGS(e->name) & FS_ENTRY_LINKED)) return (uint64_t)entry + FS_FIRST_INO;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (ix->links[middle].entry < entry)
      low = middle + 1;
    else
      high = middle;
  }
  bool found = low < ix->nlinks && ix->links[low].entry == entry;
  return (uint64_t)(found ? ix->links[low].inode : entry) + FS_FIRST_INO;
}

void fs_index_stat(const struct fs_index *ix, uint32_t entry, struct stat *st) {
  const struct fs_entry *e = fs_index_entry(ix, entry);
  memset(st, 0, sizeof(*st));
  if (!e) return;
  uint64_t size = S_ISDIR(e->mode) ? FS_DIR_STAT_SIZE : FS_MIN(e->size, (uint64_t)INT64_MAX);
  st->st_mode = e->mode;
  st->st_ino = fs_index_ino(ix, entry);
  st->st_nlink = e->nlink;
  st->st_size = (off_t)size;
  /* A small file is one read. A larger block would make stdio and Python allocate a large
     buffer. */
  st->st_blksize = (blksize_t)FS_MIN((uint64_t)ix->block_size, FS_MAX(4096, fs_round_up((uint64_t)st->st_size, 4096)));
  /* Count whole pages for ls and du, like most file systems. A short symlink takes none. */
  bool inside = S_ISLNK(e->mode) && size < FS_SHORT_LINK;
  st->st_blocks = inside ? 0 : (blkcnt_t)(fs_round_up(size, 4096) / 512);
  st->st_mtim.tv_sec = e->mtime_sec;
  st->st_mtim.tv_nsec = FS_MIN(e->mtime_nsec, 999999999u);
  st->st_atim = st->st_ctim = st->st_mtim;
}
