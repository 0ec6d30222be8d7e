/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads open files of a dataset. The offset lies in shared memory, where dup and fork share it. A
 * read claims its range by compare and swap, copies, and gives back what it did not get. Lock-free,
 * no system call for data at hand.
 */
#include <limits.h>
#include <unistd.h>

#include "client/fd/fdreal.h"
#include "client/files/files.h"
#include "client/files/trace.h"
#include "client/outputs/outputs.h"

#define FS_IO_MAX 0x7ffff000ull /* the kernel's limit for one call */

/* Sets the size. An output file may have grown, so its home is asked if less than `need` is
   known. */
static fs_err file_size(const struct fs_slot *s, uint64_t need, uint64_t *size) {
  fs_err err;
  const struct fs_index *ix = fs_mount_ix(s->mount, &err);
  const struct fs_entry *e = ix == NULL ? NULL : fs_index_entry(ix, s->entry);
  if (FS_UNLIKELY(e == NULL)) return fs_is_output(s->entry) ? fs_output_size(s->entry, need, size) : -EIO;
  *size = S_ISREG(e->mode) ? e->size : 0;
  return 0;
}

/* Sets the size of a file that is to be read. */
static inline fs_err read_size(const struct fs_slot *s, uint64_t need, uint64_t *size) {
  if (fs_is_output(s->entry) && fs_slot_access(s) == O_WRONLY) return -EBADF;
  return file_size(s, need, size);
}

/* Records a read or write. */
static void trace(const struct fs_slot *s, enum fs_trace_call call, unsigned place, uint64_t off, uint64_t n,
                  uint64_t begin, fs_ssize result) {
  struct fs_traced c = {.call = call, .place = place, .handle = fs_slot_number(s), .off = off, .n = n};
  fs_trace_add(&c, begin, result);
}

/* Reads and counts the file by the place of its first read. While a trace is written, no slot becomes
   FS_SLOT_COUNTED, so that each read comes here. */
static __attribute__((noinline)) fs_ssize read_counting(struct fs_slot *s, void *buf, size_t n, uint64_t off) {
  enum fs_place place = FS_PLACE_COUNT;
  bool tracing = fs_tracing();
  uint64_t begin = tracing ? fs_now_ns() : 0;
  fs_ssize got = fs_data_read(s->mount, s->entry, buf, n, off, &place);
  bool known = (unsigned)place < FS_PLACE_COUNT;
  if (tracing) trace(s, FS_TRACE_READ, known ? place : FS_TRACE_NO_PLACE, off, n, begin, got);
  if (got > 0 && known && atomic_exchange(&s->counted, tracing ? FS_SLOT_TRACED : FS_SLOT_COUNTED) == 0)
    fs_count(FS_C_FILES + place, 1);
  return got;
}

static fs_ssize read_at(struct fs_slot *s, void *buf, size_t n, uint64_t off) {
  if (atomic_load_explicit(&s->counted, memory_order_relaxed) == FS_SLOT_COUNTED)
    return fs_data_read(s->mount, s->entry, buf, n, off, NULL);
  return read_counting(s, buf, n, off);
}

fs_ssize fs_file_pread(struct fs_slot *s, void *buf, size_t n, int64_t off) {
  uint64_t size;
  fs_err err = fs_slot_readable(s);
  if (FS_UNLIKELY(off < 0)) return -EINVAL;
  if (FS_UNLIKELY(fs_bad_memory(buf, n)) && err != -EBADF) return -EFAULT;
  if (FS_UNLIKELY(n > (uint64_t)(INT64_MAX - off)) && err != -EBADF) return -EINVAL;
  if (err == 0) err = read_size(s, (uint64_t)off + n, &size);
  if (err != 0) return err;
  if ((uint64_t)off >= size || n == 0) return 0;
  return read_at(s, buf, FS_MIN(n, FS_IO_MAX), (uint64_t)off);
}

/* Moves the offset over what will be read and returns the length of that range. */
static uint64_t claim(struct fs_slot *s, uint64_t size, uint64_t n, uint64_t *off) {
  uint64_t at = atomic_load_explicit(&s->offset, memory_order_relaxed);
  uint64_t take;
  do {
    if (at >= size) return 0;
    take = FS_MIN(n, size - at);
  } while (
      !atomic_compare_exchange_weak_explicit(&s->offset, &at, at + take, memory_order_relaxed, memory_order_relaxed));
  *off = at;
  return take;
}

static void unclaim(struct fs_slot *s, uint64_t end, uint64_t real_end) {
  atomic_compare_exchange_strong(&s->offset, &end, real_end);
}

fs_ssize fs_file_read(struct fs_slot *s, void *buf, size_t n) {
  uint64_t size, off;
  fs_err err = fs_slot_readable(s);
  if (FS_UNLIKELY(fs_bad_memory(buf, n)) && err != -EBADF) return -EFAULT;
  if (FS_LIKELY(err == 0)) err = read_size(s, (atomic_load(&s->offset) & FS_OFFSET_MASK) + n, &size);
  if (FS_UNLIKELY(err != 0)) return err;
  uint64_t take = claim(s, size, FS_MIN(n, FS_IO_MAX), &off);
  if (take == 0) return fs_slot_is_real(s) ? FS_E_REAL : 0;
  fs_ssize got = read_at(s, buf, take, off);
  if (FS_UNLIKELY(got < (fs_ssize)take)) unclaim(s, off + take, off + (uint64_t)FS_MAX(got, 0));
  return got;
}

/* Checks all vectors before anything is read. Returns their bytes in all, or -EINVAL or -EFAULT. */
static fs_ssize check_vectors(const struct iovec *iov, int count) {
  uint64_t total = 0;
  if (count < 0 || count > IOV_MAX) return -EINVAL;
  if (count > 0 && fs_bad_address(iov)) return -EFAULT;
  for (int i = 0; i < count; i++)
    if (iov[i].iov_len > INT64_MAX) return -EINVAL;
  for (int i = 0; i < count; i++) {
    if (fs_bad_memory(iov[i].iov_base, iov[i].iov_len)) return -EFAULT;
    total = FS_MIN(total + iov[i].iov_len, FS_IO_MAX);
  }
  return (fs_ssize)total;
}

static fs_ssize one_vector(struct fs_slot *s, const struct iovec *v, int64_t off, bool write) {
  if (write)
    return off < 0 ? fs_file_write(s, v->iov_base, v->iov_len) : fs_file_pwrite(s, v->iov_base, v->iov_len, off);
  return off < 0 ? fs_file_read(s, v->iov_base, v->iov_len) : fs_file_pread(s, v->iov_base, v->iov_len, off);
}

/* Reads or writes the vectors one after the other, until one is not done whole. */
static fs_ssize each_vector(struct fs_slot *s, const struct iovec *iov, int count, int64_t off, bool write) {
  fs_ssize total = 0;
  for (int i = 0; i < count; i++) {
    fs_ssize done = one_vector(s, &iov[i], off < 0 ? off : off + total, write);
    if (done < 0) return total > 0 ? total : done;
    total += done;
    if ((size_t)done < iov[i].iov_len) break;
  }
  return total;
}

fs_ssize fs_file_readv(struct fs_slot *s, const struct iovec *iov, int count, int64_t off) {
  fs_err err = fs_slot_readable(s);
  if (err == -EBADF) return err;
  fs_ssize n = off < -1 ? -EINVAL : check_vectors(iov, count);
  if (n <= 0) return n;
  if (off > INT64_MAX - n) return -EINVAL;
  if (err != 0) return err;
  return each_vector(s, iov, count, off, false);
}

/* ---- writing, to outputs that are not one of the kernel's files ---- */

static fs_err to_write(const struct fs_slot *s) {
  fs_err err = fs_slot_writable(s);
  return err != 0 ? err : fs_output_at_home(s->entry);
}

static bool appends(const struct fs_slot *s) {
  return atomic_load_explicit(&s->flags, memory_order_relaxed) & O_APPEND;
}

static fs_ssize write_at(struct fs_slot *s, const void *buf, size_t n, uint64_t off) {
  uint64_t begin = fs_trace_begin();
  fs_ssize put = fs_output_write(s->entry, buf, n, off);
  if (FS_UNLIKELY(begin != 0)) trace(s, FS_TRACE_WRITE, FS_TRACE_NO_PLACE, off, n, begin, put);
  return put;
}

/* Appends. Linux does so for pwrite too. */
static fs_ssize append_all(struct fs_slot *s, const struct iovec *iov, int count, size_t n, bool move) {
  uint64_t off;
  if (FS_UNLIKELY(fs_slot_is_real(s))) return FS_E_REAL;
  uint64_t begin = fs_trace_begin();
  fs_ssize put = fs_output_append(s->entry, iov, count, n, &off);
  if (FS_UNLIKELY(begin != 0)) trace(s, FS_TRACE_WRITE, FS_TRACE_NO_PLACE, put > 0 ? off : 0, n, begin, put);
  if (move && put > 0 && off != FS_APPEND_UNKNOWN) atomic_store(&s->offset, off + (uint64_t)put);
  return put;
}

fs_ssize fs_file_pwrite(struct fs_slot *s, const void *buf, size_t n, int64_t off) {
  fs_err err = to_write(s);
  const struct iovec one = {.iov_base = (void *)(uintptr_t)buf, .iov_len = n};
  if (off < 0 && err == 0) err = -EINVAL;
  if (err == 0 && fs_bad_memory(buf, n)) err = -EFAULT;
  if (err != 0 || n == 0) return err;
  n = FS_MIN(n, FS_IO_MAX);
  return appends(s) ? append_all(s, &one, 1, n, false) : write_at(s, buf, n, (uint64_t)off);
}

fs_ssize fs_file_write(struct fs_slot *s, const void *buf, size_t n) {
  uint64_t off;
  fs_err err = to_write(s);
  const struct iovec one = {.iov_base = (void *)(uintptr_t)buf, .iov_len = n};
  n = FS_MIN(n, FS_IO_MAX);
  if (err == 0 && fs_bad_memory(buf, n)) err = -EFAULT;
  if (err != 0 || n == 0) return err;
  if (appends(s)) return append_all(s, &one, 1, n, true);
  if (FS_UNLIKELY(fs_slot_is_real(s))) return FS_E_REAL;
  off = atomic_fetch_add(&s->offset, n);
  if (FS_UNLIKELY(off & FS_OFFSET_REAL)) {
    atomic_fetch_sub(&s->offset, n);
    return FS_E_REAL;
  }
  fs_ssize put = write_at(s, buf, n, off);
  if (put < (fs_ssize)n) unclaim(s, off + n, off + (uint64_t)FS_MAX(put, 0));
  return put;
}

fs_ssize fs_file_writev(struct fs_slot *s, const struct iovec *iov, int count, int64_t off) {
  fs_err err = to_write(s);
  if (err != 0) return err;
  fs_ssize n = off < -1 ? -EINVAL : check_vectors(iov, count);
  if (n <= 0) return n;
  return appends(s) ? append_all(s, iov, count, (size_t)n, off < 0) : each_vector(s, iov, count, off, true);
}

static int64_t directory_seek(struct fs_slot *s, int64_t off, int whence) {
  if (whence == SEEK_CUR) off += (int64_t)atomic_load(&s->offset);
  if ((whence != SEEK_SET && whence != SEEK_CUR) || off < 0) return -EINVAL;
  atomic_store(&s->offset, (uint64_t)off);
  return off;
}

static int64_t seek_target(uint64_t now, int64_t off, int whence, int64_t size) {
  int64_t base = 0;
  switch (whence) {
  case SEEK_SET:
    break;
  case SEEK_CUR:
    base = (int64_t)now;
    break;
  case SEEK_END:
    base = size;
    break;
  case SEEK_DATA:
    return off < 0 || off >= size ? -ENXIO : off;
  case SEEK_HOLE:
    return off < 0 || off >= size ? -ENXIO : size;
  default:
    return -EINVAL;
  }
  int64_t to;
  return __builtin_add_overflow(base, off, &to) || to < 0 ? -EINVAL : to;
}

/* Changes the offset by compare and swap only, because other processes may move it into a real file
   meanwhile. */
static int64_t seek_shared(struct fs_slot *s, int64_t off, int whence, int64_t size) {
  uint64_t now = atomic_load(&s->offset);
  for (;;) {
    if (now & FS_OFFSET_REAL) return FS_E_REAL;
    int64_t to = seek_target(now, off, whence, size);
    if (to < 0 || atomic_compare_exchange_weak(&s->offset, &now, (uint64_t)to)) return to;
  }
}

int64_t fs_file_lseek(struct fs_slot *s, int64_t off, int whence) {
  uint64_t size;
  uint8_t kind = atomic_load_explicit(&s->kind, memory_order_relaxed);
  if (kind == FS_SLOT_DIR) return directory_seek(s, off, whence);
  if (kind != FS_SLOT_FILE) return -EBADF;
  fs_err err = file_size(s, whence == SEEK_END ? UINT64_MAX : 0, &size);
  if (err != 0) return err;
  if (FS_UNLIKELY(atomic_load_explicit(&s->shared, memory_order_relaxed)))
    return seek_shared(s, off, whence, (int64_t)size);
  uint64_t now = atomic_load_explicit(&s->offset, memory_order_relaxed);
  int64_t to = seek_target(now, off, whence, (int64_t)size);
  if (to >= 0) atomic_store_explicit(&s->offset, (uint64_t)to, memory_order_relaxed);
  return to;
}

fs_ssize fs_file_send(struct fs_slot *s, int out, int64_t *off, size_t n) {
  char buf[32768];
  fs_ssize total = 0;
  fs_err err = fs_slot_readable(s);
  if (err != 0) return err == -EISDIR ? -EINVAL : err;
  if (off == NULL && fs_slot_is_real(s)) return FS_E_REAL;
  while ((size_t)total < n) {
    int64_t at = off != NULL ? *off : (int64_t)atomic_load(&s->offset);
    fs_ssize got = fs_file_pread(s, buf, FS_MIN(n - (size_t)total, sizeof(buf)), at);
    fs_ssize put = got > 0 ? fs_sys_write(out, buf, (size_t)got) : got;
    if (put <= 0) return total > 0 ? total : put;
    if (off != NULL)
      *off = at + put;
    else
      atomic_store(&s->offset, (uint64_t)(at + put));
    total += put;
    if (put < got) break;
  }
  return total;
}
