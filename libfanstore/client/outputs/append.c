/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes to files of other nodes that go to the home at once (outputs.h): appends, and what is
 * written to a file that a process has locked. The home's own programs see these bytes in the
 * backing file, also by a descriptor that they have open.
 */
#include <errno.h>
#include <string.h>

#include "client/data_priv.h"
#include "client/outputs/segment.h"

static fs_err append(const struct fs_call_append *to, const void *buf, uint32_t flags, struct fs_appended *at) {
  struct fs_names_call c = {
      .op = FS_NAMES_APPEND, .flags = flags, .tail_len = (uint16_t)(buf ? to->bytes : 0), .append = *to};
  size_t got;
  fs_err err = fs_names_call(&c, buf, "", at, sizeof(*at), &got);
  return err == 0 && got != sizeof(*at) ? -EIO : err;
}

static void note_appended(struct fs_output_writer *w, const struct fs_appended *at, size_t n) {
  uint64_t was = atomic_load(&w->appended);
  while (!atomic_compare_exchange_weak(&w->appended, &was, fs_appended_more(was, at, n))) {
  }
}

/* ---- under a lock ---- */

/* Returns the bytes written before the first error, or the error. */
static fs_ssize write_home(struct fs_output_writer *w, uint32_t entry, const char *buf, size_t n, uint64_t off) {
  size_t done = 0;
  fs_err err = 0;
  while (err == 0 && done < n) {
    struct fs_appended at;
    struct fs_call_append to = {
        .id = fs_output_id(entry), .bytes = FS_MIN(n - done, (size_t)FS_APPEND_DATA), .off = off + done};
    err = append(&to, buf + done, FS_APPEND_AT, &at);
    if (err != 0) break;
    at.off = to.off;
    note_appended(w, &at, to.bytes);
    done += to.bytes;
  }
  if (done > 0) fs_output_changed(entry);
  return done > 0 ? (fs_ssize)done : err;
}

fs_ssize fs_output_write(uint32_t entry, const void *buf, size_t n, uint64_t off) {
  const struct fs_output_node *node = fs_output_node(entry);
  struct fs_output_writer *w;
  if (FS_LIKELY(node == NULL || atomic_load_explicit(&node->locked, memory_order_relaxed) == 0) || n == 0)
    return fs_output_write_segment(entry, buf, n, off, true);
  if (off > (uint64_t)INT64_MAX - n) return -EFBIG;
  fs_err err = FS_UNLIKELY(fs_output_full()) ? -EDQUOT : fs_output_writer_of(entry, &w);
  if (err != 0) return err;
  fs_ssize put = write_home(w, entry, buf, n, off);
  if (put > 0) put = fs_output_ending(entry, put);
  fs_output_writer_finish(entry);
  return put == -EREMCHG ? fs_output_write_segment(entry, buf, n, off, true) : put;
}

/* ---- O_APPEND ---- */

static void gather(char *to, size_t n, const struct iovec *iov, int count) {
  for (int i = 0; i < count && n > 0; i++) {
    size_t len = FS_MIN(iov[i].iov_len, n);
    memcpy(to, iov[i].iov_base, len);
    to += len;
    n -= len;
  }
}

static fs_ssize scatter(uint32_t entry, size_t n, const struct iovec *iov, int count, uint64_t off) {
  size_t done = 0;
  for (int i = 0; i < count && done < n; i++) {
    size_t len = FS_MIN(iov[i].iov_len, n - done);
    fs_ssize put = fs_output_write_segment(entry, iov[i].iov_base, len, off + done, false);
    if (put < 0) return done > 0 ? (fs_ssize)done : put;
    done += (size_t)put;
    if ((size_t)put < len) break;
  }
  return (fs_ssize)done;
}

static fs_err append_bytes(const struct fs_call_append *to, const struct iovec *iov, int count,
                           struct fs_appended *at) {
  char buf[FS_APPEND_DATA];
  gather(buf, to->bytes, iov, count);
  return append(to, buf, 0, at);
}

/* Appends. Home writes a log line at once. For more bytes, home says where they go. */
static fs_ssize append_by(struct fs_output_writer *w, uint32_t entry, const struct iovec *iov, int count, size_t n,
                          uint64_t *off) {
  struct fs_appended at;
  bool data = n <= FS_APPEND_DATA;
  n = FS_MIN(n, FS_APPEND_MAX);
  const struct fs_call_append to = {.id = fs_output_id(entry), .bytes = n};
  fs_err err = 0;
  /* Home must know what was written beyond the end, or it would append before that. */
  if (atomic_exchange(&w->placed, 0) != 0 && (err = fs_output_flush(entry, false)) != 0) atomic_store(&w->placed, 1);
  if (err == 0) err = data ? append_bytes(&to, iov, count, &at) : append(&to, NULL, 0, &at);
  if (err == 0 && !data && at.off == FS_APPEND_UNKNOWN) err = append(&to, NULL, 0, &at);
  if (err != 0) return err;
  *off = at.off;
  if (!data) return *off == FS_APPEND_UNKNOWN ? -EIO : scatter(entry, n, iov, count, *off);
  note_appended(w, &at, n);
  fs_output_changed(entry);
  return fs_output_ending(entry, (fs_ssize)n);
}

/* Appends to a file that is locked, in as many parts as it takes: the lock keeps others away, and a
   segment would hide the bytes from the home's programs. */
static fs_ssize append_locked(struct fs_output_writer *w, uint32_t entry, const struct iovec *iov, int count,
                              uint64_t *off) {
  size_t total = 0;
  fs_ssize put = 0;
  for (int i = 0; i < count; i++) {
    for (size_t done = 0; done < iov[i].iov_len; done += (size_t)put) {
      struct iovec one = {.iov_base = (char *)iov[i].iov_base + done,
                          .iov_len = FS_MIN(iov[i].iov_len - done, (size_t)FS_APPEND_DATA)};
      put = append_by(w, entry, &one, 1, one.iov_len, off);
      if (put < 0) return total > 0 ? (fs_ssize)total : put;
      if (*off != FS_APPEND_UNKNOWN) *off -= FS_MIN(*off, total); /* where the first part would be */
      total += (size_t)put;
    }
  }
  return (fs_ssize)total;
}

fs_ssize fs_output_append(uint32_t entry, const struct iovec *iov, int count, size_t n, uint64_t *off) {
  struct fs_output_writer *w;
  fs_err err = fs_output_writer_of(entry, &w);
  if (err != 0) return err;
  const struct fs_output_node *node = fs_output_node(entry);
  bool locked = node != NULL && atomic_load_explicit(&node->locked, memory_order_relaxed) != 0;
  bool parts = locked && n > FS_APPEND_DATA;
  fs_ssize put = parts ? append_locked(w, entry, iov, count, off) : append_by(w, entry, iov, count, n, off);
  fs_output_writer_finish(entry);
  return put;
}
