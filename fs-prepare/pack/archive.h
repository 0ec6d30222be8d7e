/* SPDX-License-Identifier: BSD-3-Clause */
/* What both passes over an archive share (archive.c, archive_read.c). */
#ifndef FS_PREPARE_ARCHIVE_H
#define FS_PREPARE_ARCHIVE_H

#include <archive.h>
#include <archive_entry.h>

#include "pack.h"

/* Opens an archive from its begin. Returns NULL if out of memory or if the file cannot be read. */
struct archive *fs_archive_open(const struct fs_source *src);
/* Reads the next header. Returns 1, 0 at the end, -EBADMSG if the member is unusable, or -EIO if the
   archive is. */
int fs_archive_next(struct archive *a, struct archive_entry **entry);
/* Returns libarchive's text for the last error. */
const char *fs_archive_why(struct archive *a);

/* Reads the next n bytes of a member. No member before it can be read after that. Returns 0, or a negative
   errno: -EBADMSG if the member is damaged, which fs_stream_why explains. One thread. */
fs_err fs_stream_next(struct fs_stream *s, const struct fs_item *item, uint8_t *out, size_t n);
const char *fs_stream_why(const struct fs_stream *s);

/* archive_test.c: `gzip -t` and the like, beside the first pass. */
struct fs_archive_test {
  const char *tool; /* NULL: none is needed */
  pid_t pid;        /* -1: nothing runs */
};
struct fs_archive_test fs_archive_test_start(const struct fs_source *src);
/* Waits for the end, or if the result is not `wanted`, ends it. Returns false if the tool refused the
   archive. */
bool fs_archive_test_end(const struct fs_archive_test *t, bool wanted);

#endif
