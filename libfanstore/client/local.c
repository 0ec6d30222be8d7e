/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partitions staged on this node: the hot path of all reads. Each is opened once and mapped whole. Bytes are copied
 * from the mapping where this process has its pages already, chunk by chunk, else with pread: the first touch of a
 * mapped page costs more than a pread, and a cold one would be read page by page. A chunk's pages are taken in
 * one call once the chunk was read often enough and is in the page cache. No locks; the chunks' states are hints.
 */
#include <sys/mman.h>

#include "client/data_priv.h"
#include "client/fdtab.h"
#include "util/util.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

/* State of a chunk: two bits of kind, and a count of reads (weighted by length) since the last look at it. */
#define FS_CHUNK_KIND 0xc000u
#define FS_CHUNK_COLD 0x0000u
#define FS_CHUNK_PRESENT 0x4000u
#define FS_CHUNK_NEVER 0x8000u
#define FS_CHUNK_COUNT 0x3fffu
#define FS_CHUNK_POPULATE_AT                                                                                           \
  16u /* measured: populating 2 MiB costs as much as 4 preads save, or more with small folios */
#define FS_CHUNK_LOOK_AT 4096u /* then see whether the kernel has taken pages back */

static _Atomic uint32_t g_never; /* the kernel has no MADV_POPULATE_READ */

/* ---- opening ---- */

static fs_fd fs_local_open(struct fs_dataset *ds, uint32_t p) {
  char path[PATH_MAX], name[FS_PART_NAME_SIZE];
  struct stat st;
  fs_err err = fs_join(path, ds->local, fs_part_name(p, name));
  if (err < 0) return err;
  FS_AUTO_CLOSE fs_fd fd = fs_open_read(path);
  if (fd < 0) return fd;
  err = fs_sys_fstat(fd, &st);
  if (err < 0) return err;
  if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != ds->ix.parts[p].size) {
    FS_NOTE(path, ": the staged partition does not have the size that the index says; it is read from elsewhere");
    return -EUCLEAN;
  }
  return FS_MOVE_FD(fd);
}

fs_fd fs_local_fd(struct fs_dataset *ds, uint32_t p, bool *temporary) {
  int32_t fd = atomic_load_explicit(&ds->part[p].local_fd, memory_order_acquire), none = 0;
  *temporary = false;
  if (FS_LIKELY(fd > 0 && fs_vfork_depth == 0)) return fd - 1;
  if (fd < 0) return -ENOENT;
  fs_fd low = fs_local_open(ds, p);
  if (low == -ENOENT || low == -EUCLEAN) atomic_compare_exchange_strong(&ds->part[p].local_fd, &none, -1);
  if (low < 0) return low;
  return fs_own_publish(&ds->part[p].local_fd, low, temporary);
}

static const uint8_t *fs_local_map(struct fs_dataset *ds, uint32_t p) {
  void *map = atomic_load_explicit(&ds->part[p].map, memory_order_acquire);
  if (FS_LIKELY(map != NULL)) return map;
  bool temporary;
  uint64_t size = ds->ix.parts[p].size;
  fs_fd fd = fs_local_fd(ds, p, &temporary);
  if (fd < 0) return NULL;
  void *mine = fs_mem_map_fd(fd, size, PROT_READ);
  if (temporary) fs_sys_close(fd);
  if (mine && !fs_own_still(fd, temporary)) {
    fs_mem_unmap(mine, size);
    return NULL;
  }
  if (mine && !fs_publish_ptr(&ds->part[p].map, mine, &map)) fs_mem_unmap(mine, size);
  return map;
}

/* The chunks' states, in memory that a forked child finds cleared: page tables of file mappings are not inherited. */
static _Atomic uint16_t *fs_local_chunks(struct fs_dataset *ds, uint32_t p) {
  void *chunk = atomic_load_explicit(&ds->part[p].chunk, memory_order_acquire);
  if (FS_LIKELY(chunk != NULL)) return chunk;
  size_t bytes = (size_t)((ds->ix.parts[p].size >> FS_CHUNK_SHIFT) + 1) * sizeof(uint16_t);
  void *mine = fs_mem_map_wiped(bytes);
  if (mine && !fs_publish_ptr(&ds->part[p].chunk, mine, &chunk)) fs_mem_unmap(mine, bytes);
  return mine ? chunk : NULL;
}

/* ---- chunks ---- */

static bool fs_resident(const uint8_t *at, uint64_t len) {
  uint8_t page[FS_CHUNK / 4096];
  if (FS_SYS3(SYS_mincore, at, len, page) != 0) return false;
  for (uint64_t i = 0; i < (len + 4095) / 4096; i++) {
    if (!(page[i] & 1)) return false;
  }
  return true;
}

/* Looks at a chunk after enough reads of it, and says what it is from now on. */
static uint16_t fs_chunk_look(struct fs_dataset *ds, uint32_t p, uint64_t c) {
  const uint8_t *map = fs_local_map(ds, p);
  uint64_t begin = c << FS_CHUNK_SHIFT, len = FS_MIN(FS_CHUNK, ds->ix.parts[p].size - begin);
  if (!map || atomic_load_explicit(&g_never, memory_order_relaxed)) return FS_CHUNK_NEVER;
  if (!fs_resident(map + begin, len)) return FS_CHUNK_COLD;
  long err = FS_SYS3(SYS_madvise, map + begin, len, MADV_POPULATE_READ);
  if (err == 0) return FS_CHUNK_PRESENT;
  if (err == -EINVAL) atomic_store_explicit(&g_never, 1, memory_order_relaxed);
  return err == -EINTR || err == -EAGAIN ? FS_CHUNK_COLD : FS_CHUNK_NEVER;
}

/* Counts a read of n bytes in a chunk. True: its pages are in this process's page tables. */
static bool fs_chunk_touch(struct fs_dataset *ds, uint32_t p, _Atomic uint16_t *word, uint64_t c, size_t n) {
  uint32_t w = atomic_load_explicit(word, memory_order_relaxed), kind = w & FS_CHUNK_KIND;
  if (kind == FS_CHUNK_NEVER) return false;
  uint32_t count = (w & FS_CHUNK_COUNT) + 1 + (kind == FS_CHUNK_COLD ? (uint32_t)(n >> 12) : 0);
  if (FS_UNLIKELY(count >= (kind == FS_CHUNK_COLD ? FS_CHUNK_POPULATE_AT : FS_CHUNK_LOOK_AT))) {
    kind = fs_chunk_look(ds, p, c);
    count = 0;
  }
  atomic_store_explicit(word, (uint16_t)(kind | count), memory_order_relaxed);
  return kind == FS_CHUNK_PRESENT;
}

/* ---- reading ---- */

static fs_err fs_local_pread(struct fs_dataset *ds, uint32_t p, void *dst, size_t n, uint64_t off) {
  for (;;) {
    bool temporary;
    fs_fd fd = fs_local_fd(ds, p, &temporary);
    if (fd < 0) return fd;
    fs_err err = fs_pread_full(fd, dst, n, off);
    if (temporary) fs_sys_close(fd);
    if (FS_LIKELY(fs_own_still(fd, temporary))) return err;
  }
}

fs_err fs_local_copy(struct fs_dataset *ds, uint32_t p, void *dst, size_t n, uint64_t off) {
  _Atomic uint16_t *chunk = fs_local_chunks(ds, p);
  const uint8_t *map = atomic_load_explicit(&ds->part[p].map, memory_order_acquire);
  uint8_t *to = dst;
  if (off > ds->ix.parts[p].size || n > ds->ix.parts[p].size - off) return -EUCLEAN;
  if (!chunk) return fs_local_pread(ds, p, dst, n, off);
  while (n > 0) {
    uint64_t c = off >> FS_CHUNK_SHIFT;
    size_t step = FS_MIN(n, (size_t)(FS_CHUNK - (off & (FS_CHUNK - 1))));
    if (fs_chunk_touch(ds, p, &chunk[c], c, step)) {
      if (FS_UNLIKELY(!map)) map = fs_local_map(ds, p);
      fs_copy(to, map + off, step);
    } else {
      fs_err err = fs_local_pread(ds, p, to, step, off);
      if (err < 0) return err;
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
    present &= fs_chunk_touch(ds, p, &chunk[c], c, n);
  if (present) return map + off;
  if (atomic_load_explicit(&g_never, memory_order_relaxed)) return NULL;
  /* Just this block's pages: in one call, and with an error instead of SIGBUS where the medium fails. */
  uint64_t begin = off & ~4095ull;
  long err = FS_SYS3(SYS_madvise, map + begin, fs_round_up(off + n - begin, 4096), MADV_POPULATE_READ);
  if (err == -EINVAL) atomic_store_explicit(&g_never, 1, memory_order_relaxed);
  return err == 0 ? map + off : NULL;
}

void fs_local_willneed(struct fs_dataset *ds, const struct fs_block *b) {
  bool temporary;
  fs_fd fd = fs_local_fd(ds, b->partition, &temporary);
  if (fd < 0) return;
  FS_SYS4(SYS_fadvise64, fd, b->offset, b->stored_len, POSIX_FADV_WILLNEED);
  if (temporary) fs_sys_close(fd);
}
