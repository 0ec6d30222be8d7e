/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes of the index's sections, for the files of this directory that read, check and write them.
   No state. */
#ifndef FS_INDEX_SECTION_H
#define FS_INDEX_SECTION_H

#include "fanstore/format.h"

/* Bytes of one record of each section. */
static const uint32_t fs_record_sizes[FS_SEC_COUNT] = {
    [FS_SEC_ENTRIES] = sizeof(struct fs_entry),    [FS_SEC_BUCKETS] = sizeof(uint64_t),
    [FS_SEC_BLOCKS] = sizeof(struct fs_block_rec), [FS_SEC_LINKS] = sizeof(struct fs_link_rec),
    [FS_SEC_PARTS] = sizeof(struct fs_part_rec),   [FS_SEC_STRINGS] = 1,
};

/* Returns the bytes of a section. The caller has checked the section's bounds. */
static inline uint64_t fs_section_bytes(const struct fs_index_header *h, int id) {
  return h->section[id].count * fs_record_sizes[id];
}

#endif
