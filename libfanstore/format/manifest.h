/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The manifest: the text file that makes a directory a dataset. Also the header of a partition. The
 * tools, fs-launch, fanstored and preloaded processes without a daemon read manifests. A parser
 * error comes with one line for the user in `why`. No state.
 */
#ifndef FS_FORMAT_MANIFEST_H
#define FS_FORMAT_MANIFEST_H

#include <limits.h>

#include "fanstore/format.h"
#include "util/base.h"

struct fs_manifest {
  uint32_t version;
  uint8_t dataset_id[16];
  char mount[PATH_MAX]; /* default mount: absolute, normalised */
  char codec[32];       /* as given to --codec */
  uint32_t block_size;
  uint32_t partitions;
  uint64_t files, dirs, symlinks;
  uint64_t plain_bytes, stored_bytes;
  uint64_t index_size; /* of the file "index" */
  uint64_t index_xxh3; /* of all its bytes */
};
/* The index has the sizes and checksums of the partitions (struct fs_part_rec). */

/* Returns 0 if this FanStore can read that format version, -EPROTONOSUPPORT if it is newer,
   -EPFNOSUPPORT if it is older. */
static inline fs_err fs_format_version(uint64_t version) {
  return version > FS_FORMAT_VERSION ? -EPROTONOSUPPORT : version < FS_FORMAT_VERSION_OLDEST ? -EPFNOSUPPORT : 0;
}
#define FS_FORMAT_VERSIONS "versions 1 and 2" /* what a message says that this FanStore reads */
static_assert(FS_FORMAT_VERSION_OLDEST == 1 && FS_FORMAT_VERSION == 2, "FS_FORMAT_VERSIONS says so");
/* Returns advice for the user about an error of fs_format_version. */
static inline const char *fs_format_remedy(fs_err err) {
  return err == -EPFNOSUPPORT ? "pack it again, or use an older FanStore" : "use a newer FanStore";
}

/* Parses n bytes of text. Returns 0 or, with `why`, -EINVAL, -EPROTONOSUPPORT (newer version),
   -EPFNOSUPPORT (older version) or -EBADMSG (checksum). */
fs_err fs_manifest_parse(const char *text, size_t n, struct fs_manifest *m, char *why, size_t why_size);
/* Writes the text form to `out`. Returns its length or -ENOSPC. */
fs_ssize fs_manifest_format(const struct fs_manifest *m, char *out, size_t size);
/* Reads DATASET/manifest. Returns 0, an error of fs_manifest_parse or of the file, or -ENOENT with
   "DATASET: no such dataset ..." in `why`. */
fs_err fs_manifest_load(const char *dataset, struct fs_manifest *m, char *why, size_t why_size);
/* Like fs_manifest_load, from the open manifest of a dataset that `why` names as `shown`. */
fs_err fs_manifest_load_fd(int fd, const char *shown, struct fs_manifest *m, char *why, size_t why_size);

/* Checks the header page of a partition against the index: number, size and checksum. The dataset may
   be a later one than that for which the partition was written. Returns 0, -EBADMSG,
   -EPROTONOSUPPORT or -EPFNOSUPPORT. */
fs_err fs_part_header_check(const void *page, size_t n, uint32_t number, const struct fs_part_rec *rec, char *why,
                            size_t why_size);
/* Returns true if none of the dataset's partitions is in its directory: pack --nodes-only. */
bool fs_part_only_nodes(const char *dataset, uint64_t parts);
/* Fills a header page of FS_PART_HEADER_SIZE bytes. */
void fs_part_header_make(void *page, uint32_t number, const struct fs_part_rec *rec, const uint8_t dataset_id[16]);

#endif
