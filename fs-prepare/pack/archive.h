/* SPDX-License-Identifier: BSD-3-Clause */
/* What both passes over an archive share (archive.c, archive_read.c). */
#ifndef FS_PREPARE_ARCHIVE_H
#define FS_PREPARE_ARCHIVE_H

#include <archive.h>
#include <archive_entry.h>

#include "pack.h"

/* archive_open.c: an archive that is read from its begin. It must not move. */
struct fs_reader {
  const struct fs_source *src;
  struct archive *a;     /* gives the headers, and the data of the last one */
  struct archive *plain; /* of a compressed tar file: gives its plain bytes */
  uint64_t base;         /* of a tar file: where `a` began in the plain bytes */
  uint64_t header;       /* where the last header began in them */
  const void *bytes;     /* the last ones that `plain` gave */
  size_t n, rest;        /* how many, and how many of them `a` is still to get */
  uint64_t given;        /* plain bytes so far */
  bool ended;            /* `plain` gives no more */
  bool undescribed;      /* the header that describes the next member was damaged */
};
/* Returns 0 or -ENOMEM. */
fs_err fs_reader_open(struct fs_reader *r, const struct fs_source *src);
void fs_reader_close(struct fs_reader *r);
/* Reads the next header. Returns 1, 0 at the end, -EBADMSG if a header is damaged, or -EIO if nothing can be
   read after it. */
int fs_reader_next(struct fs_reader *r, struct archive_entry **entry);
/* Returns how many plain bytes are before what is read next. */
uint64_t fs_reader_at(const struct fs_reader *r);
/* Returns libarchive's text for the last error. */
const char *fs_archive_why(struct archive *a);

/* Reads the next n bytes of a member. No member before it can be read after that. Returns 0, or a negative
   errno: -EBADMSG if the member is damaged, which fs_stream_why explains. One thread. */
fs_err fs_stream_next(struct fs_stream *s, const struct fs_item *item, uint8_t *out, size_t n);

/* archive_test.c: `gzip -t` and the like, beside the first pass. */
struct fs_archive_test {
  const char *tool; /* NULL: none is needed */
  pid_t pid;        /* -1: nothing runs */
};
struct fs_archive_test fs_archive_test_start(const struct fs_source *src);
/* Waits for the end, or if the scan has failed or is stopped, ends it. Returns false if the tool refused the
   archive. */
bool fs_archive_test_end(const struct fs_archive_test *t, const struct fs_scan *scan);

#endif
