/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * FanStore's on-disk structures, format versions 1 and 2. FanStore writes version 2 and reads both.
 *
 * A dataset is a directory that holds
 *     manifest      text, written last: a directory with a manifest is a dataset
 *     index         one file: header, entries, hash buckets, blocks, links, parts, strings
 *     part-00000    partitions: each has a header page, then stored blocks
 *
 * All integers are little-endian. All structures are naturally aligned and have no padding. Offsets
 * and lengths are in bytes. A reader trusts nothing here until libfanstore/index has checked its
 * bounds. docs/internals/format.md is the specification in prose; the two must agree.
 */
#ifndef FANSTORE_FORMAT_H
#define FANSTORE_FORMAT_H

#include <assert.h>
#include <stdint.h>

#define FS_FORMAT_VERSION 2u        /* what is written */
#define FS_FORMAT_VERSION_OLDEST 1u /* what is still read */

#define FS_INDEX_MAGIC 0x5845444e49534600ull /* "\0FSINDEX" read as a little-endian u64 */
#define FS_PART_MAGIC 0x5452415053465300ull  /* "\0SFSPART" */

/* A reader may ignore unknown compat features. It refuses a file with an unknown incompat
   feature. */
#define FS_FEATURE_SAMPLES 0x1ull /* compat: fs_index_header.samples is set */
#define FS_FEATURE_INCOMPAT_KNOWN 0ull

#define FS_PROBE_MAX 4096u            /* largest max_probe: limits a malicious hash table */
#define FS_NAME_MAX 255u              /* bytes in one name */
#define FS_ALIGN 4096u                /* default alignment of large raw files in a partition */
#define FS_RAW_ALIGN_MIN 16384u       /* larger or equal raw files are aligned and padded */
#define FS_BLOCK_SIZE_MIN (16u << 10) /* --block-size: a power of two in this range */
#define FS_BLOCK_SIZE_MAX (16u << 20)
#define FS_BLOCK_SIZE_DEFAULT (256u << 10)
#define FS_MAX_PARTITIONS 65536u
#define FS_MAX_ENTRIES 0xff000000u
#define FS_ROOT 0u /* entry number of the dataset's root directory */

/*
 * How a block is stored: one row of the dataset's table of codecs. An entry's codec is the number of
 * a row. Rows 0 and 1 are the same in every dataset, and version 1 has only these. A block whose
 * stored length equals its plain length is stored raw, whatever its row is.
 */
enum fs_codec_family { FS_FAMILY_RAW = 0, FS_FAMILY_LZ4 = 1, FS_FAMILY_ZSTD = 2 };
enum fs_codec_row { FS_CODEC_RAW = 0, FS_CODEC_LZ4 = 1 };
#define FS_CODEC_ROWS_MIN 2u
#define FS_CODEC_ROWS_MAX 256u
#define FS_DICT_MAX (1u << 20) /* bytes of a dictionary */

struct fs_codec_rec {
  uint8_t family;  /* enum fs_codec_family; raw in row 0 only */
  uint8_t element; /* 1, or 2, 4, 8: bytes of the elements that were shuffled before encoding; with FS_ELEMENT_DELTA */
  uint16_t reserved;
  uint32_t dict_len; /* bytes of the dictionary, or 0 */
  uint64_t dict;     /* its offset in strings, or 0 */
};
static_assert(sizeof(struct fs_codec_rec) == 16, "fs_codec_rec is 16 bytes");
#define FS_ELEMENT_DELTA 0x10u /* added once or twice: so many times, differences were taken before the shuffle */
#define FS_ELEMENT_BYTES(element) ((element)&0x0fu)
#define FS_ELEMENT_DELTAS(element) ((element) >> 4)
static inline int fs_element_known(uint8_t element) {
  const uint8_t bytes = FS_ELEMENT_BYTES(element);
  return element == 1 || ((bytes == 2 || bytes == 4 || bytes == 8) && FS_ELEMENT_DELTAS(element) <= 2);
}

/* fs_entry.flags */
#define FS_ENTRY_LINKED 0x01u  /* the inode number is in the links section */
#define FS_ENTRY_BLOCKS 0x02u  /* more than one block: `data` is the number of the first fs_block_rec */
#define FS_ENTRY_CONTIG 0x04u  /* raw; all bytes of the file are adjacent in one partition */
#define FS_ENTRY_ALIGNED 0x08u /* with CONTIG: aligned and zero-padded to FS_ALIGN, so mmap works */

/*
 * One file, directory or symlink. Entry 0 is the root. The children of a directory are consecutive
 * entries, sorted by the bytes of their names (memcmp; a prefix sorts first), so readdir returns a
 * slice.
 */
struct fs_entry {
  uint64_t size; /* file: plain bytes; directory: number of children; symlink: bytes of the target */
  int64_t mtime_sec;
  uint32_t mtime_nsec; /* < 1e9 */
  uint32_t mode;       /* S_IFREG, S_IFDIR or S_IFLNK, and the permission bits (07777) */
  uint32_t parent;     /* entry number, less than this entry's; the root is its own parent */
  uint32_t nlink;
  uint64_t name;       /* bits 0-39 offset in strings; 40-47 length; 48-55 codec; 56-63 flags */
  uint64_t data;       /* file of one block: offset in the partition; of more: first fs_block_rec;
                          directory: entry number of the first child; symlink: offset of the target in strings */
  uint64_t xxh3;       /* file of one block: XXH3-64 of the stored bytes */
  uint32_t stored_len; /* file of one block: stored bytes */
  uint32_t partition;  /* file of one block */
};
static_assert(sizeof(struct fs_entry) == 64, "fs_entry is 64 bytes");

#define FS_NAME_OFF(n) ((n)&0xffffffffffull)
#define FS_NAME_LEN(n) ((uint32_t)((n) >> 40) & 0xffu)
#define FS_NAME_CODEC(n) ((uint32_t)((n) >> 48) & 0xffu)
#define FS_NAME_FLAGS(n) ((uint32_t)((n) >> 56) & 0xffu)
#define FS_NAME_MAKE(off, len, codec, flags)                                                                           \
  ((uint64_t)(off) | (uint64_t)(len) << 40 | (uint64_t)(codec) << 48 | (uint64_t)(flags) << 56)

/* One stored block of a file that has several. Its plain length follows from the file's size and
   the block size. */
struct fs_block_rec {
  uint64_t offset; /* in the partition */
  uint32_t stored_len;
  uint32_t partition;
  uint64_t xxh3; /* of the stored bytes */
};
static_assert(sizeof(struct fs_block_rec) == 24, "fs_block_rec is 24 bytes");

/* A hard link. The records are sorted by `entry`. `inode` is the lowest entry number of the group;
   all entries of the group have its inode number. */
struct fs_link_rec {
  uint32_t entry;
  uint32_t inode;
};
static_assert(sizeof(struct fs_link_rec) == 8, "fs_link_rec is 8 bytes");

#define FS_PART_REPLICATE 0x1u /* holds files of --replicate: belongs on every node */

struct fs_part_rec {
  uint64_t size; /* of the partition file with its header; a multiple of FS_ALIGN */
  uint64_t xxh3; /* of the bytes [FS_PART_HEADER_SIZE, size) */
  uint32_t flags;
  uint32_t reserved;
};
static_assert(sizeof(struct fs_part_rec) == 24, "fs_part_rec is 24 bytes");

/* One section of the index file. Offsets are multiples of 64. */
struct fs_section {
  uint64_t offset;
  uint64_t count; /* records, or bytes for strings */
  uint64_t xxh3;  /* of the section's bytes */
};
static_assert(sizeof(struct fs_section) == 24, "fs_section is 24 bytes");

enum fs_section_id {
  FS_SEC_ENTRIES,
  FS_SEC_BUCKETS,
  FS_SEC_BLOCKS,
  FS_SEC_LINKS,
  FS_SEC_PARTS,
  FS_SEC_STRINGS,
  FS_SEC_COUNT
};

/*
 * The hash section has `count` buckets of u64; `count` is a power of two. The hash h of a path is
 * XXH3-64 of the path relative to the root, without a leading or trailing '/'; the root's path is
 * "". A look-up starts at bucket h & (count - 1) and goes on to the next bucket, wrapping around.
 * It ends at a 0 bucket or after max_probe buckets. A bucket is (h >> 32) << 32 | (entry + 1).
 * Equal hashes are harmless: the reader compares the names of the entry and its ancestors with the
 * path.
 */
#define FS_SAMPLE_SHIFT 6u /* one sample for 64 entries */
#define FS_SAMPLE_COUNT(entries) ((((uint64_t)(entries)-1) >> FS_SAMPLE_SHIFT) + 2)

struct fs_index_header {
  uint64_t magic;
  uint32_t version;
  uint32_t header_size; /* sizeof(struct fs_index_header) */
  uint64_t feature_compat;
  uint64_t feature_incompat;
  uint64_t file_size; /* of the whole index */
  uint32_t block_size;
  uint32_t align;
  uint32_t max_probe;    /* longest probe sequence in buckets */
  uint32_t max_depth;    /* components in the deepest path */
  uint64_t plain_bytes;  /* sum over the files; each hard-link group counts once */
  uint64_t stored_bytes; /* sum over the stored blocks; each counts once */
  uint64_t files, dirs, symlinks;
  struct fs_section section[FS_SEC_COUNT];
  uint8_t dataset_id[16]; /* XXH3-128 (canonical, big-endian) of all section checksums, in order */
  uint64_t samples;       /* with FS_FEATURE_SAMPLES: offset in strings of u64[FS_SAMPLE_COUNT(entries)], a
                             multiple of 8: where the names of entries 0, 64, 128... begin, then
                             where the last name ends */
  uint64_t codecs;        /* version 2: offset in strings of fs_codec_rec[codec_rows], a multiple of 8 */
  uint32_t codec_rows;    /* version 2: FS_CODEC_ROWS_MIN to FS_CODEC_ROWS_MAX */
  uint8_t reserved[100];
  uint64_t header_xxh3; /* of all header bytes before this field */
};
static_assert(sizeof(struct fs_index_header) == 384, "fs_index_header is 384 bytes");

/* A partition begins with a page that holds this header and zeros. The blocks follow. */
#define FS_PART_HEADER_SIZE 4096u
struct fs_part_header {
  uint64_t magic;
  uint32_t version;
  uint32_t number;
  uint64_t feature_compat;
  uint64_t feature_incompat;
  uint8_t dataset_id[16]; /* of the dataset for which it was written first; a later one may keep it */
  uint64_t size;          /* of the partition file */
  uint64_t xxh3;          /* as in fs_part_rec */
  uint64_t header_xxh3;   /* of all header bytes before this field */
};
static_assert(sizeof(struct fs_part_header) == 72, "fs_part_header is 72 bytes");

#endif
