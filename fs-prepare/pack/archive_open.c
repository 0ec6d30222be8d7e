/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the headers of an archive, from the begin to the end. libarchive gives up if it finds a damaged
 * header in a tar file after one that describes the same member, as pax writes it for times and tar for
 * long names. Then another reader begins after the damaged header. The plain bytes of a compressed tar
 * file come from a reader of their own, which goes on: so nothing is decompressed again, and the bytes
 * that the first reader had not used yet are still there. One thread for each archive.
 */
#include "archive.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define READ_SIZE (256u << 10)
#define BLOCK 512u /* of a tar file */

static bool is_tar(struct archive *a) {
  return (archive_format(a) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_TAR;
}

static void add_filters(struct archive *a) {
  archive_read_support_filter_gzip(a);
  archive_read_support_filter_bzip2(a);
  archive_read_support_filter_xz(a);
  archive_read_support_filter_lzma(a);
  archive_read_support_filter_zstd(a);
  archive_read_support_filter_lz4(a);
}

/* Returns a reader of the whole file, or NULL if out of memory. */
static struct archive *new_whole(bool raw) {
  struct archive *a = archive_read_new();
  if (a == NULL) return NULL;
  add_filters(a);
  if (raw) {
    archive_read_support_format_raw(a);
  } else {
    archive_read_support_format_tar(a);
    archive_read_support_format_zip(a);
  }
  return a;
}

/* Opens it. Returns libarchive's status: if this is bad, the next call fails too. */
static int open_whole(struct archive *a, const struct fs_source *src) {
  return lseek(src->fd, 0, SEEK_SET) == 0 ? archive_read_open_fd(a, src->fd, READ_SIZE) : ARCHIVE_FATAL;
}

int fs_archive_probe(struct fs_source *src, char *why, size_t size) {
  struct archive_entry *entry;
  struct archive *a = new_whole(false);
  if (a == NULL) return -ENOMEM;
  int got = open_whole(a, src);
  if (got == ARCHIVE_OK) got = archive_read_next_header(a, &entry);
  const bool known = got == ARCHIVE_OK || got == ARCHIVE_WARN || archive_format(a) != 0;
  if (!known) snprintf(why, size, "%s", src->st.st_size != 0 ? fs_archive_why(a) : "the file is empty");
  const bool plain = archive_filter_count(a) == 1 && archive_filter_code(a, 0) == ARCHIVE_FILTER_NONE;
  src->tar = is_tar(a);
  src->kind = src->tar && plain ? FS_SOURCE_FLAT : FS_SOURCE_STREAM;
  src->filter = archive_filter_code(a, 0);
  archive_read_free(a);
  return known;
}

/* Gives libarchive the next plain bytes of a compressed tar file. */
static la_ssize_t give(struct archive *a, void *ctx, const void **out) {
  struct fs_reader *r = ctx;
  la_int64_t at;
  while (r->rest == 0 && !r->ended) {
    int got = archive_read_data_block(r->plain, &r->bytes, &r->n, &at);
    r->ended = got != ARCHIVE_OK && got != ARCHIVE_WARN;
    if (r->ended && got != ARCHIVE_EOF) {
      archive_set_error(a, archive_errno(r->plain), "%s", fs_archive_why(r->plain));
      return ARCHIVE_FATAL;
    }
    r->rest = r->ended ? 0 : r->n;
    r->given += r->rest;
  }
  const size_t n = r->rest;
  *out = n != 0 ? (const uint8_t *)r->bytes + r->n - n : NULL;
  r->rest = 0;
  return (la_ssize_t)n;
}

/* Begins to read a tar file at a byte that the caller has seen. Returns false if out of memory. */
static bool begin(struct fs_reader *r, uint64_t at) {
  struct archive *a = archive_read_new();
  if (a == NULL) return false;
  if (r->a != NULL) archive_read_free(r->a);
  r->a = a;
  r->base = at;
  archive_read_set_format(a, ARCHIVE_FORMAT_TAR);
  if (r->plain != NULL)
    archive_read_open(a, r, NULL, give, NULL);
  else if (lseek(r->src->fd, (off_t)at, SEEK_SET) >= 0)
    archive_read_open_fd(a, r->src->fd, READ_SIZE);
  return true;
}

void fs_reader_close(struct fs_reader *r) {
  if (r->a != NULL) archive_read_free(r->a);
  if (r->plain != NULL) archive_read_free(r->plain);
  r->a = r->plain = NULL;
}

fs_err fs_reader_open(struct fs_reader *r, const struct fs_source *src) {
  struct archive_entry *entry;
  *r = (struct fs_reader){.src = src};
  const bool plain = src->tar && src->filter != ARCHIVE_FILTER_NONE;
  if (plain) r->plain = new_whole(true);
  if (r->plain != NULL && open_whole(r->plain, src) == ARCHIVE_OK) archive_read_next_header(r->plain, &entry);
  if (!src->tar) r->a = new_whole(false);
  if (r->a != NULL) open_whole(r->a, src);
  if (src->tar && plain == (r->plain != NULL)) begin(r, 0);
  if (r->a != NULL) return 0;
  fs_reader_close(r);
  return -ENOMEM;
}

uint64_t fs_reader_at(const struct fs_reader *r) {
  return r->base + (uint64_t)archive_filter_bytes(r->a, 0);
}

/* Begins anew after a header that libarchive has given up at. Returns false if no other header can follow. */
static bool go_on(struct fs_reader *r) {
  const uint64_t at = fs_round_up(FS_MAX(fs_reader_at(r), r->header + BLOCK), BLOCK);
  const int why = archive_errno(r->a);
  const bool damage = why == EILSEQ || why == -1 || why == EINVAL; /* as libarchive says on Linux */
  if (!r->src->tar || archive_filter_bytes(r->a, 0) < 0 || !damage) return false;
  if (r->plain == NULL) return at + BLOCK <= (uint64_t)r->src->st.st_size && begin(r, at);
  if (at > r->given || r->given - at > r->n || (r->ended && r->given - at < BLOCK)) return false;
  r->rest = (size_t)(r->given - at);
  return begin(r, at);
}

/* Returns whether the damaged header describes the next member, as pax's and those of long names do. If it
   cannot be read again, it may do so. */
static bool describes(const struct fs_reader *r) {
  uint8_t block[BLOCK];
  const uint64_t back = r->given - r->header; /* from the end of `bytes` */
  if (!r->src->tar) return false;
  if (r->plain == NULL && fs_pread_full(r->src->fd, block, BLOCK, r->header) < 0) return true;
  if (r->plain != NULL && (r->header > r->given || back > r->n || back < BLOCK)) return true;
  if (r->plain != NULL) memcpy(block, (const uint8_t *)r->bytes + r->n - back, BLOCK);
  return memcmp(block + 257, "ustar", 5) == 0 && memchr("xgLK", block[156], 4) != NULL;
}

/* A member whose describing header was damaged counts as damaged, too: its name may be cut. */
int fs_reader_next(struct fs_reader *r, struct archive_entry **entry) {
  int got = archive_read_next_header(r->a, entry);
  const bool undescribed = r->undescribed;
  r->undescribed = false;
  r->header = r->base + (uint64_t)archive_read_header_position(r->a);
  if (got == ARCHIVE_EOF) return 0;
  if (got == ARCHIVE_OK || got == ARCHIVE_WARN) return undescribed ? -EBADMSG : 1;
  r->undescribed = got == ARCHIVE_RETRY && (undescribed || describes(r)); /* its data is no header either */
  return got == ARCHIVE_FATAL && !go_on(r) ? -EIO : -EBADMSG;
}

const char *fs_archive_why(struct archive *a) {
  const char *why = archive_error_string(a);
  return why != NULL ? why : "damaged";
}
