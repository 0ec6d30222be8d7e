/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes and checks the header page of a partition. Called by fs-prepare and by all that open
   partitions. No state. */
#include <stdio.h>
#include <string.h>

#include "format/manifest.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_WHY(...) (why ? (void)snprintf(why, why_size, __VA_ARGS__) : (void)0)

static uint64_t fs_part_header_sum(const struct fs_part_header *h) {
  return fs_xxh3(h, offsetof(struct fs_part_header, header_xxh3));
}

fs_err fs_part_header_check(const void *page, size_t n, uint32_t number, const struct fs_part_rec *rec, char *why,
                            size_t why_size) {
  struct fs_part_header h;
  fs_err err = -EBADMSG;
  if (n < sizeof(h)) {
    FS_WHY("partition %u is truncated", number);
    return err;
  }
  memcpy(&h, page, sizeof(h));
  if (h.magic != FS_PART_MAGIC) {
    FS_WHY("partition %u is no FanStore partition (wrong magic number)", number);
  } else if (fs_format_version(h.version) < 0) {
    err = fs_format_version(h.version);
    FS_WHY("partition %u has format version %u, this FanStore reads " FS_FORMAT_VERSIONS ": %s", number, h.version,
           fs_format_remedy(err));
  } else if (h.header_xxh3 != fs_part_header_sum(&h)) {
    FS_WHY("partition %u has a damaged header (checksum differs)", number);
  } else if (h.feature_incompat & ~FS_FEATURE_INCOMPAT_KNOWN) {
    err = -EPROTONOSUPPORT;
    FS_WHY("partition %u uses features that this FanStore does not know: %s", number, fs_format_remedy(err));
  } else if (h.number != number || h.size != rec->size || h.xxh3 != rec->xxh3) {
    FS_WHY("partition %u is not the one that the index describes", number);
  } else {
    err = 0;
  }
  return err;
}

void fs_part_header_make(void *page, uint32_t number, const struct fs_part_rec *rec, const uint8_t dataset_id[16]) {
  struct fs_part_header h = {
      .magic = FS_PART_MAGIC, .version = FS_FORMAT_VERSION, .number = number, .size = rec->size, .xxh3 = rec->xxh3};
  memcpy(h.dataset_id, dataset_id, sizeof(h.dataset_id));
  h.header_xxh3 = fs_part_header_sum(&h);
  memset(page, 0, FS_PART_HEADER_SIZE);
  memcpy(page, &h, sizeof(h));
}

bool fs_part_only_nodes(const char *dataset, uint64_t parts) {
  for (uint32_t p = 0; p < parts; p++) {
    char path[PATH_MAX + FS_PART_NAME_SIZE + 1], name[FS_PART_NAME_SIZE];
    struct stat st = {0};
    snprintf(path, sizeof(path), "%s/%s", dataset, fs_part_name(p, name));
    const bool there = fs_sys_fstatat(AT_FDCWD, path, &st, 0) != -ENOENT;
    /* such a pack may be killed before it has removed an empty first one */
    if (there && (p > 0 || st.st_size > 0)) return false;
  }
  return parts > 0;
}
