/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies a partition or the index to the node, from shared storage or from another node, in pieces
 * of 4 MiB. Each piece is hashed on the way, while the next is read ahead and the last is written
 * back. If the other node fails, the rest comes from shared storage. The copy gets its name only
 * when it is complete, correct and on the disk. One thread; the caller of fs_stage_partition may
 * stop it at every piece.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/staging/dir.h"
#include "util/sys.h"

#define FS_STAGE_PIECE (4u << 20)

struct stage_copy {
  struct fs_stage *s;
  const struct fs_stage_item *item;
  int from, to;               /* from: -1 while the bytes come from a peer */
  bool existing;              /* only checks an existing copy: `to` is -1 */
  struct fs_stage_peer *peer; /* NULL: none, or it has failed */
  fs_stage_progress_fn *progress;
  void *ctx;
  bool stopped; /* the callback said so */
  char *why;
  size_t why_size;
};

static void cleanup_xxh3(struct fs_xxh3_stream **x) {
  fs_xxh3_free(*x);
}

/* Writes a line about the source, or about the copy if that is what is read. */
static fs_err copy_bad(const struct stage_copy *c, fs_err err, const char *text) {
  char shown[512];
  const char *dir = c->existing ? c->s->local : c->s->source;
  snprintf(c->why, c->why_size, "%s/%s: %s", fs_printable(dir, strlen(dir), shown, sizeof(shown)), c->item->name, text);
  return err;
}

static fs_err copy_fail(const struct stage_copy *c, fs_err err, bool reading) {
  return fs_stage_why(err, c->why, c->why_size, reading && !c->existing ? c->s->source : c->s->local, c->item->name);
}

static fs_err copy_check_size(const struct stage_copy *c) {
  struct stat st;
  char text[160];
  if (fstat(c->from, &st) < 0) return copy_fail(c, -errno, true);
  if (!S_ISREG(st.st_mode)) return copy_bad(c, -EBADMSG, "not a regular file");
  if ((uint64_t)st.st_size == c->item->size) return 0;
  snprintf(text, sizeof(text), "%s: it has %llu bytes, the %s says %llu",
           (uint64_t)st.st_size < c->item->size ? "truncated" : "damaged", (unsigned long long)st.st_size,
           c->item->number == FS_STAGE_INDEX ? "manifest" : "index", (unsigned long long)c->item->size);
  return copy_bad(c, -EBADMSG, text);
}

/* Checks the header page, which the checksum does not cover, against the index. */
static fs_err copy_check_header(const struct stage_copy *c, const char *page, size_t n) {
  char text[256] = "";
  if (c->item->number == FS_STAGE_INDEX) return 0;
  fs_err err = fs_part_header_check(page, n, c->item->number, &c->s->index.parts[c->item->number], text, sizeof(text));
  return err < 0 ? copy_bad(c, err, text[0] ? text : strerror(-err)) : 0;
}

static fs_err copy_open_source(struct stage_copy *c) {
  char path[PATH_MAX];
  int n = snprintf(path, sizeof(path), "%s/%s", c->s->source, c->item->name);
  if (n < 0 || (size_t)n >= sizeof(path)) return copy_fail(c, -ENAMETOOLONG, true);
  c->from = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (c->from < 0) return fs_stage_why(-errno, c->why, c->why_size, c->s->source, c->item->name);
  fs_err err = copy_check_size(c);
  posix_fadvise(c->from, 0, 0, POSIX_FADV_SEQUENTIAL);
  return err;
}

/* Reads a piece from the peer, or else from the file. */
static fs_err copy_read(struct stage_copy *c, char *buf, size_t n, uint64_t off) {
  if (c->peer && !c->existing) {
    fs_err err = c->peer->read(c->peer->ctx, buf, n, off);
    if (err == 0) c->peer->bytes += n;
    if (err == 0 || err == -ECANCELED) return err;
    c->peer = NULL;
    err = copy_open_source(c);
    if (err < 0) return err;
  }
  posix_fadvise(c->from, (off_t)(off + n), FS_STAGE_PIECE, POSIX_FADV_WILLNEED);
  return fs_pread_full(c->from, buf, n, off);
}

/* Copies one piece. *hash continues over the bytes from item->checked on. */
static fs_err copy_piece(struct stage_copy *c, char *buf, uint64_t off, struct fs_xxh3_stream *hash) {
  size_t n = (size_t)FS_MIN((uint64_t)FS_STAGE_PIECE, c->item->size - off);
  fs_err err = copy_read(c, buf, n, off);
  if (err < 0) return copy_fail(c, err, true);
  size_t skip = off == 0 ? (size_t)FS_MIN((uint64_t)n, c->item->checked) : 0;
  if (off == 0) err = copy_check_header(c, buf, n);
  if (err < 0) return err;
  fs_xxh3_update(hash, buf + skip, n - skip);
  if (c->existing) return 0;
  err = fs_pwrite_full(c->to, buf, n, off);
  if (err < 0) return copy_fail(c, err, false);
  sync_file_range(c->to, (off_t)off, (off_t)n, SYNC_FILE_RANGE_WRITE); /* starts the write-back, does not wait */
  return 0;
}

static fs_err copy_progress(struct stage_copy *c, uint64_t done) {
  fs_err err = c->progress ? c->progress(c->ctx, done) : 0;
  c->stopped = err < 0;
  return err;
}

static fs_err copy_bytes(struct stage_copy *c) {
  FS_AUTO_FREE char *buf = malloc(FS_STAGE_PIECE);
  __attribute__((cleanup(cleanup_xxh3))) struct fs_xxh3_stream *hash = fs_xxh3_new();
  if (!buf || !hash) return copy_fail(c, -ENOMEM, false);
  fs_err err = 0;
  for (uint64_t off = 0; err == 0 && off < c->item->size; off += FS_STAGE_PIECE) {
    err = copy_piece(c, buf, off, hash);
    if (err == 0) err = copy_progress(c, FS_MIN(off + FS_STAGE_PIECE, c->item->size));
  }
  if (err < 0) return copy_fail(c, err, false);
  if (fs_xxh3_digest(hash) != c->item->xxh3) return copy_bad(c, -EBADMSG, "damaged: its checksum is wrong");
  return 0;
}

/* Copies to the temporary file. The space is reserved first, so that a full disk is known at
   once; if that is not supported, the writes tell. The file is read-only: a later write by
   mistake is refused, also if no lease is to be had. */
static fs_err copy_to_temporary(struct stage_copy *c) {
  unlinkat(c->s->dir_fd, c->item->temporary, 0);
  FS_AUTO_CLOSE int to =
      openat(c->s->dir_fd, c->item->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
  if (to < 0) return copy_fail(c, -errno, false);
  c->to = to;
  fs_err err = fallocate(to, 0, 0, (off_t)c->item->size) < 0 ? -errno : 0;
  err = err == -ENOSPC || err == -EDQUOT || err == -EFBIG ? copy_fail(c, -ENOSPC, false) : 0;
  if (err == 0) err = copy_bytes(c);
  if (err == 0 && fsync(to) < 0) err = copy_fail(c, -errno, false);
  c->to = -1;
  return err == -EDQUOT ? -ENOSPC : err;
}

static fs_err copy_anew(struct stage_copy *c) {
  fs_err err = c->peer ? 0 : copy_open_source(c);
  if (err == 0) {
    fs_stamp_remove(c->s->dir_fd, c->item);
    unlinkat(c->s->dir_fd, c->item->name, 0); /* an old copy that does not fit: its room is needed */
    err = copy_to_temporary(c);
  }
  if (err == 0 && renameat(c->s->dir_fd, c->item->temporary, c->s->dir_fd, c->item->name) < 0)
    err = copy_fail(c, -errno, false);
  if (err < 0) unlinkat(c->s->dir_fd, c->item->temporary, 0);
  fs_cleanup_close(&c->from);
  c->from = -1;
  return err;
}

/* Copies from the peer, if there is one. If its bytes are wrong, copies from the source. */
static fs_err copy_from(struct stage_copy *c) {
  struct fs_stage_peer *peer = c->peer;
  fs_err err = copy_anew(c);
  bool wrong = err == -EBADMSG || err == -EPFNOSUPPORT || err == -EPROTONOSUPPORT;
  if (!peer || !wrong) return err;
  peer->wrong = true;
  peer->bytes = 0;
  c->peer = NULL;
  c->why[0] = '\0';
  return copy_anew(c);
}

/* Checks a copy whose stamp is missing or does not fit. A copy of another user gets no stamp, as
   that user can write to it. */
static fs_err copy_check_existing(struct stage_copy *c) {
  struct stat st;
  FS_AUTO_CLOSE int fd = openat(c->s->dir_fd, c->item->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return -errno;
  if (fstat(fd, &st) < 0) return -errno;
  if (st.st_uid != geteuid()) return -EPERM;
  c->from = fd;
  c->existing = true;
  fs_err err = copy_check_size(c);
  if (err == 0) err = copy_bytes(c);
  if (err == 0 && fsync(fd) < 0) err = -errno;
  c->from = -1;
  c->existing = false;
  if (err < 0) c->why[0] = '\0'; /* no message for the user: it is copied again */
  return err;
}

/* The caller holds .staging. */
static fs_err copy_item_locked(struct stage_copy *c, bool *fresh) {
  int dir = c->s->dir_fd;
  if (fs_stamp_fits(dir, c->item)) return 0; /* another job was faster */
  *fresh = true;
  fs_err err = copy_check_existing(c);
  if (c->stopped) return copy_fail(c, err, false);
  if (err < 0) err = copy_from(c);
  if (err < 0) return err;
  err = fs_stamp_write(dir, c->item, true);
  return err < 0 ? copy_fail(c, err, false) : 0;
}

static fs_err copy_item(struct stage_copy *c, bool *fresh) {
  int dir = c->s->dir_fd;
  c->why[0] = '\0';
  *fresh = false;
  if (dir < 0) return copy_fail(c, -EBADF, false);
  if (fs_stamp_fits(dir, c->item)) return 0;
  FS_AUTO_CLOSE int lock = fs_stage_lock_staging(dir, c->progress, c->ctx);
  if (lock < 0) return copy_fail(c, lock, false);
  int was = FS_STAGE_IDLE;
  if (!atomic_compare_exchange_strong(&c->s->copying, &was, FS_STAGE_COPYING)) return copy_fail(c, -ECANCELED, false);
  fs_err err = copy_item_locked(c, fresh);
  was = FS_STAGE_COPYING;
  /* If the process ends now, the ending thread removes incomplete copies. The lock stays until
     that is done, or another job could take it. */
  if (!atomic_compare_exchange_strong(&c->s->copying, &was, FS_STAGE_IDLE))
    while (atomic_load(&c->s->copying) != FS_STAGE_ABANDONED) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  return err;
}

fs_err fs_stage_index(struct fs_stage *s, char *why, size_t why_size) {
  struct fs_stage_item item = fs_stage_item_index(s);
  struct stage_copy c = {.s = s, .item = &item, .from = -1, .to = -1, .why = why, .why_size = why_size};
  bool fresh;
  fs_err err = copy_item(&c, &fresh);
  if (err < 0) return err;
  err = fs_stage_use_local_index(s, fresh, why, why_size);
  if (err < 0) { /* right checksum but wrong content: do not trust it next time */
    fs_stamp_remove(s->dir_fd, &item);
    unlinkat(s->dir_fd, item.name, 0);
  }
  return err;
}

fs_err fs_stage_partition(struct fs_stage *s, uint32_t p, struct fs_stage_peer *peer, fs_stage_progress_fn *progress,
                          void *ctx, char *why, size_t why_size) {
  if (p >= s->index.nparts) return -EINVAL;
  struct fs_stage_item item = fs_stage_item_part(s, p);
  struct stage_copy c = {.s = s,
                         .item = &item,
                         .from = -1,
                         .to = -1,
                         .peer = peer,
                         .progress = progress,
                         .ctx = ctx,
                         .why = why,
                         .why_size = why_size};
  bool fresh;
  return copy_item(&c, &fresh);
}
