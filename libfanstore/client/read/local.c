/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partitions staged on this node: the hot path of all reads. Each is opened once and mapped whole.
 * Bytes are copied from the mapping, chunk by chunk, if its pages are in this process's page tables
 * already, else by pread. The first touch of a mapped page costs more than a pread, and a cold one
 * would be read page by page. chunk.c decides which chunks the process has, and when it takes one.
 * No locks.
 */
#include <sys/mman.h>

#include "client/data_priv.h"
#include "client/fd/fdtab.h"
#include "util/util.h"

#define FS_LOCAL_BIG 65536u    /* a larger read's own request is as good as a chunk's */
#define FS_LOCAL_USUAL 131072u /* what the kernel reads in one request unless told otherwise */

static _Atomic uint32_t g_no_nowait; /* RWF_NOWAIT cannot tell what is in the page cache */

/* ---- opening ---- */

/* Returns whether it is the file that the daemon has checked, unchanged since. Another file may
   have its name by now: no lease prevents that. */
static bool fs_local_same(const struct fs_dataset *ds, uint32_t p, const struct stat *st) {
  const struct fs_placement *place = &ds->placement[p];
  return place->inode == 0 || (place->inode == st->st_ino && place->mtime == fs_mtime_ns(st));
}

fs_fd fs_local_open(struct fs_dataset *ds, uint32_t p, int more) {
  char path[PATH_MAX], name[FS_PART_NAME_SIZE];
  struct stat st;
  fs_err err = fs_join(path, ds->local, fs_part_name(p, name));
  if (err < 0) return err;
  FS_AUTO_CLOSE fs_fd fd = fs_open_read_as(path, more);
  if (fd < 0) return fd;
  err = fs_sys_fstat(fd, &st);
  if (err < 0) return err;
  if (st.st_uid != (uid_t)FS_SYS1(SYS_geteuid, 0)) {
    FS_NOTE(path, ": the staged partition belongs to another user; it is read from elsewhere");
    return -EUCLEAN;
  }
  if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != ds->ix.parts[p].size) {
    FS_NOTE(path, ": the staged partition does not have the size that the index says; it is read from elsewhere");
    return -EUCLEAN;
  }
  if (!fs_local_same(ds, p, &st)) {
    FS_NOTE(path, ": the staged partition was replaced or written to; it is read from elsewhere");
    return -EUCLEAN;
  }
  return FS_MOVE_FD(fd);
}

fs_fd fs_local_fd(struct fs_dataset *ds, uint32_t p, bool *temporary) {
  int32_t fd = atomic_load_explicit(&ds->part[p].local_fd, memory_order_acquire), none = 0;
  *temporary = false;
  if (FS_LIKELY(fd > 0 && fs_vfork_depth == 0)) return fd - 1;
  if (fd < 0) return -ENOENT;
  fs_fd low = fs_local_open(ds, p, 0);
  if (low == -ENOENT || low == -EUCLEAN) atomic_compare_exchange_strong(&ds->part[p].local_fd, &none, -1);
  if (low < 0) return low;
  return fs_own_publish(&ds->part[p].local_fd, low, temporary);
}

const uint8_t *fs_local_map(struct fs_dataset *ds, uint32_t p) {
  void *map = atomic_load_explicit(&ds->part[p].map, memory_order_acquire);
  if (FS_LIKELY(map != NULL)) return map;
  bool temporary;
  uint64_t size = ds->ix.parts[p].size;
  fs_fd fd = fs_local_fd(ds, p, &temporary);
  if (fd < 0) return NULL;
  void *mine = fs_mem_map_fd(fd, size, PROT_READ);
  if (temporary) fs_sys_close(fd);
  if (mine && !fs_own_still(&ds->part[p].local_fd, fd, temporary)) {
    fs_mem_unmap(mine, size);
    return NULL;
  }
  if (mine) fs_local_mapped(mine, size);
  if (mine && !fs_publish_ptr(&ds->part[p].map, mine, &map)) fs_mem_unmap(mine, size);
  return map;
}

/* Returns the chunks' states, in memory that a forked child finds cleared: it does not inherit the
   page tables of file mappings. */
static _Atomic uint16_t *fs_local_chunks(struct fs_dataset *ds, uint32_t p) {
  void *chunk = atomic_load_explicit(&ds->part[p].chunk, memory_order_acquire);
  if (FS_LIKELY(chunk != NULL)) return chunk;
  size_t bytes = (size_t)((ds->ix.parts[p].size >> FS_CHUNK_SHIFT) + 1) * sizeof(uint16_t);
  void *mine = fs_mem_map_wiped(bytes);
  if (mine && !fs_publish_ptr(&ds->part[p].chunk, mine, &chunk)) fs_mem_unmap(mine, bytes);
  return mine ? chunk : NULL;
}

/* ---- reading ---- */

static fs_err fs_local_pread(struct fs_dataset *ds, uint32_t p, void *dst, size_t n, uint64_t off) {
  for (;;) {
    bool temporary;
    fs_fd fd = fs_local_fd(ds, p, &temporary);
    if (fd < 0) return fd;
    fs_err err = fs_pread_full(fd, dst, n, off);
    if (temporary) fs_sys_close(fd);
    if (FS_LIKELY(fs_own_still(&ds->part[p].local_fd, fd, temporary))) return err;
  }
}

/* Reads what is in the page cache at the beginning of the range. Returns the bytes, or 0, also if
   that cannot be told apart. */
static size_t fs_local_pread_cached(struct fs_dataset *ds, uint32_t p, void *dst, size_t n, uint64_t off) {
  struct iovec v = {.iov_base = dst, .iov_len = n};
  bool temporary;
  if (atomic_load_explicit(&g_no_nowait, memory_order_relaxed)) return 0;
  fs_fd fd = fs_local_fd(ds, p, &temporary);
  if (fd < 0) return 0;
  fs_ssize got = FS_SYS6(SYS_preadv2, fd, &v, 1, off, 0, RWF_NOWAIT);
  if (temporary) fs_sys_close(fd);
  if (got == -EOPNOTSUPP || got == -EINVAL || got == -ENOSYS)
    atomic_store_explicit(&g_no_nowait, 1, memory_order_relaxed);
  return got > 0 && fs_own_still(&ds->part[p].local_fd, fd, temporary) ? FS_MIN((size_t)got, n) : 0;
}

/* Asks the kernel to begin to read. */
static void fs_local_ask(struct fs_dataset *ds, uint32_t p, uint64_t off, uint64_t n) {
  bool temporary;
  fs_fd fd = fs_local_fd(ds, p, &temporary);
  if (fd < 0) return;
  FS_SYS4(SYS_fadvise64, fd, off, n, POSIX_FADV_WILLNEED);
  if (temporary) fs_sys_close(fd);
}

void fs_local_willneed(struct fs_dataset *ds, const struct fs_block *b) {
  fs_local_ask(ds, b->partition, b->offset, b->stored_len);
}

/* Makes a large read of a chunk that is not in the page tables. */
static fs_err fs_local_copy_large(struct fs_dataset *ds, uint32_t p, _Atomic uint16_t *word, void *dst,
                                  const struct fs_cold_read *r) {
  const uint8_t *map = fs_local_map(ds, p);
  uint64_t c = r->off >> FS_CHUNK_SHIFT, end = r->off + r->n;
  uint64_t before = atomic_exchange_explicit(&ds->part[p].read_to, end, memory_order_relaxed);
  struct fs_cold cold = {0};
  size_t got = 0;
  bool nowait = !atomic_load_explicit(&g_no_nowait, memory_order_relaxed);
  if (map && fs_chunk_likely(map, r->off, r->n) && (nowait || fs_pages_resident(map + r->off, r->n))) {
    bool mapped = fs_chunk_read_big(ds, p, word, c, r->n);
    uint64_t began = fs_now_ns();
    if (mapped) {
      fs_copy(dst, map + r->off, r->n);
      fs_chunk_copied(began, r->n);
      return 0;
    }
    got = fs_local_pread_cached(ds, p, dst, r->n, r->off);
    if (got == 0 && !nowait) {
      fs_err err = fs_local_pread(ds, p, dst, r->n, r->off);
      if (err < 0) return err;
      got = r->n;
    }
    if (got == r->n) fs_chunk_preaded(began, got);
  }
  if (got == r->n) return 0;
  fs_timing_slow(fs_now_ns());
  if (!map || !fs_chunk_room(p, c)) {
    /* The kernel alone would make several requests of it, one after the other. Each chunk of a
       large read asks for all the rest: the kernel begins with no more than its readahead at a
       time, and so keeps ahead. */
    if (r->end - r->off > FS_LOCAL_USUAL) fs_local_ask(ds, p, r->off, r->end - r->off);
  } else if (before != r->off) { /* else it goes on where the last one ended: the kernel knows how to read ahead */
    fs_cold_look(map, ds->ix.parts[p].size, c, &cold);
    fs_cold_before(ds, p, r);
  }
  fs_err err = fs_local_pread(ds, p, (uint8_t *)dst + got, r->n - got, r->off + got);
  if (cold.likely && end == r->end) fs_cold_rest(ds, p, r, &cold);
  return err;
}

/* Reads from a chunk that is not in the page tables, and perhaps is after this. */
static __attribute__((noinline)) fs_err fs_local_copy_absent(struct fs_dataset *ds, uint32_t p, _Atomic uint16_t *word,
                                                             void *dst, const struct fs_cold_read *r) {
  const uint8_t *map = NULL;
  if (fs_chunk_direct(ds, p, r->off >> FS_CHUNK_SHIFT)) {
    fs_err err = fs_direct_read(ds, p, dst, r);
    if (err != -EAGAIN) return err;
  }
  if (r->end - r->begin >= FS_LOCAL_BIG) return fs_local_copy_large(ds, p, word, dst, r);
  size_t got = fs_local_pread_cached(ds, p, dst, r->n, r->off);
  bool cold = got < r->n && !atomic_load_explicit(&g_no_nowait, memory_order_relaxed);
  if (cold) fs_timing_slow(fs_now_ns());
  if (fs_chunk_read(ds, p, word, r->off >> FS_CHUNK_SHIFT, r->n, cold)) map = fs_local_map(ds, p);
  if (got == r->n) return 0;
  if (!map) return fs_local_pread(ds, p, (uint8_t *)dst + got, r->n - got, r->off + got);
  fs_copy((uint8_t *)dst + got, map + r->off + got, r->n - got);
  return 0;
}

/* Counts a use of a chunk. Returns whether its pages are in this process's page tables. */
static inline bool fs_chunk_use(struct fs_dataset *ds, uint32_t p, _Atomic uint16_t *word, uint64_t c) {
  uint32_t w = atomic_load_explicit(word, memory_order_relaxed);
  if (FS_UNLIKELY((w & FS_CHUNK_KIND) != FS_CHUNK_PRESENT)) return false;
  if (FS_UNLIKELY((w & FS_CHUNK_COUNT) >= FS_CHUNK_LOOK_AT)) return fs_chunk_look(ds, p, word, c);
  atomic_store_explicit(word, (uint16_t)(w + 1), memory_order_relaxed);
  return true;
}

fs_err fs_local_copy(struct fs_dataset *ds, uint32_t p, void *dst, size_t n, uint64_t off, uint64_t file,
                     uint64_t file_end) {
  _Atomic uint16_t *chunk = fs_local_chunks(ds, p);
  const uint8_t *map = atomic_load_explicit(&ds->part[p].map, memory_order_acquire);
  uint8_t *to = dst;
  uint64_t begin = off;
  if (off > ds->ix.parts[p].size || n > ds->ix.parts[p].size - off) return -EUCLEAN;
  if (!chunk) return fs_local_pread(ds, p, dst, n, off);
  while (n > 0) {
    uint64_t c = off >> FS_CHUNK_SHIFT;
    size_t step = FS_MIN(n, (size_t)(FS_CHUNK - (off & (FS_CHUNK - 1))));
    if (FS_LIKELY(map && fs_chunk_use(ds, p, &chunk[c], c))) {
      fs_copy(to, map + off, step);
    } else {
      const struct fs_cold_read r = {step, off, begin, off + n, file, file_end};
      fs_err err = fs_local_copy_absent(ds, p, &chunk[c], to, &r);
      if (err < 0) return err;
      map = atomic_load_explicit(&ds->part[p].map, memory_order_acquire);
    }
    to += step;
    off += step;
    n -= step;
  }
  return 0;
}

const void *fs_local_ptr(struct fs_dataset *ds, uint32_t p, size_t n, uint64_t off) {
  if (off > ds->ix.parts[p].size || n > ds->ix.parts[p].size - off) return NULL;
  const uint8_t *map = fs_local_map(ds, p);
  _Atomic uint16_t *chunk = fs_local_chunks(ds, p);
  if (!map || !chunk || n == 0) return NULL;
  bool present = true;
  for (uint64_t c = off >> FS_CHUNK_SHIFT; c <= (off + n - 1) >> FS_CHUNK_SHIFT; c++)
    present &= fs_chunk_use(ds, p, &chunk[c], c) || fs_chunk_read(ds, p, &chunk[c], c, n, false);
  return present ? map + off : NULL;
}

/* ---- whole blocks ---- */

void fs_local_failed(struct fs_dataset *ds, uint32_t p) {
  static const char text[] = ": the staged partition cannot be read (input/output error, or too short); what it does "
                             "not give is read from elsewhere";
  char name[FS_PART_NAME_SIZE];
  if (atomic_exchange(&ds->part[p].told, 1) == 0) FS_NOTE(ds->local, "/", fs_part_name(p, name), text);
}

fs_err fs_local_check(struct fs_dataset *ds, const struct fs_block *b, const void *stored,
                      const struct fs_scratch *in) {
  char name[FS_PART_NAME_SIZE];
  fs_err err = fs_check_block(ds, FS_CHECK_LOCAL, b, stored, in);
  if (err == -EBADMSG) {
    if (atomic_exchange(&ds->part[b->partition].told, 1) == 0)
      FS_NOTE(ds->local, "/", fs_part_name(b->partition, name),
              ": the staged partition is damaged (a checksum differs); what is damaged is read from elsewhere");
  }
  return err;
}

fs_err fs_local_stored(struct fs_dataset *ds, const struct fs_block *b, struct fs_stored *out) {
  *out = (struct fs_stored){.bytes = fs_local_ptr(ds, b->partition, b->stored_len, b->offset)};
  fs_err err = 0;
  if (!out->bytes) {
    err = fs_scratch_get(ds, b->stored_len, &out->scratch);
    if (err < 0) return err;
    out->bytes = out->scratch.buf;
    err = fs_local_copy(ds, b->partition, out->scratch.buf, b->stored_len, b->offset, b->offset,
                        b->offset + b->stored_len);
  }
  if (err == 0) err = fs_local_check(ds, b, out->bytes, &out->scratch);
  if (err < 0) fs_local_stored_end(out);
  return err;
}

void fs_local_stored_end(struct fs_stored *s) {
  if (s->scratch.buf) fs_scratch_put(&s->scratch, FS_KEY_NONE, 0);
}
