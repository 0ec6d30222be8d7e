/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens an index: maps the file and checks the header and the sections' bounds in constant time.
 * Called by every process that uses a dataset, also inside the preloaded library: raw system calls,
 * no allocation.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "format/manifest.h"
#include "index/index.h"
#include "index/section.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_WHY(...) (why ? (void)snprintf(why, why_size, __VA_ARGS__) : (void)0)

static const char *const fs_section_names[FS_SEC_COUNT] = {"entries", "buckets",    "blocks",
                                                           "links",   "partitions", "strings"};

/* Checks whether this reader can read the rest at all. */
static fs_err fs_check_identity(const struct fs_index_header *h, uint64_t size, char *why, size_t why_size) {
  if (h->magic != FS_INDEX_MAGIC) {
    FS_WHY("not a FanStore index (wrong magic number)");
    return -EBADMSG;
  }
  fs_err err = fs_format_version(h->version);
  if (err < 0) {
    FS_WHY("index has format version %u, this FanStore reads " FS_FORMAT_VERSIONS ": %s", h->version,
           fs_format_remedy(err));
    return err;
  }
  if (h->header_xxh3 != fs_xxh3(h, offsetof(struct fs_index_header, header_xxh3))) {
    FS_WHY("index header is damaged (checksum differs)");
    return -EBADMSG;
  }
  if (h->feature_incompat & ~FS_FEATURE_INCOMPAT_KNOWN) {
    err = -EPROTONOSUPPORT;
    FS_WHY("index uses features 0x%llx that this FanStore does not know: %s",
           (unsigned long long)(h->feature_incompat & ~FS_FEATURE_INCOMPAT_KNOWN), fs_format_remedy(err));
    return err;
  }
  if (h->header_size != sizeof(*h) || h->file_size != size) {
    FS_WHY("index is %llu bytes long, its header says %llu", (unsigned long long)size,
           (unsigned long long)h->file_size);
    return -EBADMSG;
  }
  return 0;
}

static fs_err fs_check_sections(const struct fs_index_header *h, char *why, size_t why_size) {
  for (int i = 0; i < FS_SEC_COUNT; i++) {
    const struct fs_section *s = &h->section[i];
    uint64_t bytes, end;
    if (s->offset % 64 != 0 || s->offset < sizeof(*h) ||
        __builtin_mul_overflow(s->count, (uint64_t)fs_record_sizes[i], &bytes) ||
        __builtin_add_overflow(s->offset, bytes, &end) || end > h->file_size) {
      FS_WHY("index section '%s' does not lie inside the file", fs_section_names[i]);
      return -EBADMSG;
    }
  }
  return 0;
}

static bool fs_samples_inside(const struct fs_index_header *h) {
  uint64_t bytes = FS_SAMPLE_COUNT(h->section[FS_SEC_ENTRIES].count) * sizeof(uint64_t);
  uint64_t room = h->section[FS_SEC_STRINGS].count;
  return h->samples % sizeof(uint64_t) == 0 && h->samples <= room && bytes <= room - h->samples;
}

static fs_err fs_check_counts(const struct fs_index_header *h, char *why, size_t why_size) {
  const struct fs_section *s = h->section;
  uint64_t entries = s[FS_SEC_ENTRIES].count, buckets = s[FS_SEC_BUCKETS].count;
  const char *bad = NULL;
  if (entries == 0 || entries > FS_MAX_ENTRIES)
    bad = "number of entries";
  else if (!fs_is_pow2(buckets) || h->max_probe > FS_MIN(buckets, FS_PROBE_MAX))
    bad = "hash table";
  else if (s[FS_SEC_BLOCKS].count >= FS_KEY_BLOCK)
    bad = "number of blocks";
  else if (s[FS_SEC_LINKS].count > entries)
    bad = "number of hard links";
  else if (s[FS_SEC_PARTS].count > FS_MAX_PARTITIONS)
    bad = "number of partitions";
  else if (!fs_is_pow2(h->block_size) || h->block_size < FS_BLOCK_SIZE_MIN || h->block_size > FS_BLOCK_SIZE_MAX)
    bad = "block size";
  else if (!fs_is_pow2(h->align) || h->align < FS_ALIGN || h->align > FS_BLOCK_SIZE_MAX)
    bad = "alignment";
  else if ((h->feature_compat & FS_FEATURE_SAMPLES) && !fs_samples_inside(h))
    bad = "place for samples of names";
  if (!bad) return 0;
  FS_WHY("index header has an impossible %s", bad);
  return -EBADMSG;
}

/* Finds the table of codecs, which is checked row by row. Version 1 has none. */
static fs_err fs_attach_codecs(struct fs_index *ix, char *why, size_t why_size) {
  const struct fs_index_header *h = ix->hdr;
  const uint64_t bytes = h->codec_rows * sizeof(struct fs_codec_rec);
  fs_err err = 0;
  if (h->version < 2)
    fs_codec_set_first(&ix->codecs);
  else if (h->codecs % alignof(struct fs_codec_rec) != 0 || h->codecs > ix->strings_size ||
           bytes > ix->strings_size - h->codecs)
    err = -EBADMSG;
  else
    err = fs_codec_set_open(&ix->codecs, (const void *)(ix->strings + h->codecs), h->codec_rows, ix->strings,
                            ix->strings_size);
  if (err < 0) FS_WHY("index has an impossible table of codecs");
  return err;
}

fs_err fs_index_attach(const void *base, uint64_t size, struct fs_index *ix, char *why, size_t why_size) {
  const struct fs_index_header *h = base;
  const char *bytes = base;
  memset(ix, 0, sizeof(*ix));
  if ((uintptr_t)base % alignof(struct fs_index_header) != 0) {
    FS_WHY("index is not aligned in memory");
    return -EINVAL;
  }
  if (size < sizeof(*h)) {
    FS_WHY("index is truncated: %llu bytes, less than its header", (unsigned long long)size);
    return -EBADMSG;
  }
  fs_err err = fs_check_identity(h, size, why, why_size);
  if (err == 0) err = fs_check_sections(h, why, why_size);
  if (err == 0) err = fs_check_counts(h, why, why_size);
  if (err < 0) return err;
  const struct fs_section *s = h->section;
  *ix = (struct fs_index){.hdr = h,
                          .entries = (const void *)(bytes + s[FS_SEC_ENTRIES].offset),
                          .buckets = (const void *)(bytes + s[FS_SEC_BUCKETS].offset),
                          .blocks = (const void *)(bytes + s[FS_SEC_BLOCKS].offset),
                          .links = (const void *)(bytes + s[FS_SEC_LINKS].offset),
                          .parts = (const void *)(bytes + s[FS_SEC_PARTS].offset),
                          .strings = bytes + s[FS_SEC_STRINGS].offset,
                          .nentries = s[FS_SEC_ENTRIES].count,
                          .bucket_mask = s[FS_SEC_BUCKETS].count - 1,
                          .nblocks = s[FS_SEC_BLOCKS].count,
                          .nlinks = s[FS_SEC_LINKS].count,
                          .nparts = s[FS_SEC_PARTS].count,
                          .strings_size = s[FS_SEC_STRINGS].count,
                          .block_size = h->block_size,
                          .block_shift = (uint32_t)__builtin_ctz(h->block_size)};
  if (h->feature_compat & FS_FEATURE_SAMPLES) ix->samples = (const void *)(ix->strings + h->samples);
  if (!S_ISDIR(ix->entries[FS_ROOT].mode)) {
    FS_WHY("index is damaged: its root is not a directory");
    return -EBADMSG;
  }
  return fs_attach_codecs(ix, why, why_size);
}

fs_err fs_index_open(const char *path, struct fs_index *ix, char *why, size_t why_size) {
  struct stat st;
  memset(ix, 0, sizeof(*ix));
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
  fs_err err = fd < 0 ? fd : fs_sys_fstat(fd, &st);
  if (err < 0) {
    FS_WHY("cannot open the index: %s", fs_error_text(-err));
    return err;
  }
  if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size < sizeof(struct fs_index_header)) {
    FS_WHY("index is truncated or no regular file");
    return -EBADMSG;
  }
  uint64_t size = (uint64_t)st.st_size;
  void *map = fs_sys_mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
  if (fs_sys_mmap_failed(map)) {
    FS_WHY("cannot map the index: %s", fs_error_text((int)-(long)map));
    return (fs_err)(long)map;
  }
  err = fs_index_attach(map, size, ix, why, why_size);
  if (err < 0) {
    fs_sys_munmap(map, size);
    return err;
  }
  ix->map = map;
  ix->map_size = size;
  ix->inode = st.st_ino;
  ix->mtime = fs_mtime_ns(&st);
  return 0;
}

fs_err fs_index_open_of(const char *dataset, const struct fs_manifest *m, struct fs_index *ix, char *why,
                        size_t why_size) {
  char path[PATH_MAX];
  int n = snprintf(path, sizeof(path), "%s/index", dataset);
  if (why_size > 0) why[0] = '\0';
  if (n < 0 || (size_t)n >= sizeof(path)) return -ENAMETOOLONG;
  fs_err err = fs_index_open(path, ix, why, why_size);
  if (err < 0 || (memcmp(ix->hdr->dataset_id, m->dataset_id, sizeof(m->dataset_id)) == 0 &&
                  ix->nparts == m->partitions && ix->map_size == m->index_size))
    return err;
  fs_index_close(ix);
  FS_WHY("does not belong to the manifest beside it; copy both again from where they were packed");
  return -EBADMSG;
}

void fs_index_close(struct fs_index *ix) {
  fs_codec_set_close(&ix->codecs);
  if (ix->map) fs_sys_munmap(ix->map, ix->map_size);
  memset(ix, 0, sizeof(*ix));
}
