/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The writer's side of the node cache (cache.h): creates the slab, gives out lines and publishes
 * them. keep.c evicts them. Only the daemon's MPI thread calls this; clients read at the same time.
 * cache.h and docs/internals/shared-memory.md explain why that is safe.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cache/cache_priv.h"
#include "util/sys.h"

#define FS_CACHE_LINE_BYTES 4096u /* the cache has one line for this many bytes */
#define FS_CACHE_MIN_LINES 64u
#define FS_WARM_STEP FS_HUGE_PAGE
#define FS_WARM_LEAST (16ull << 20)
#define FS_WARM_MOST (256ull << 20)
#define FS_WARM_LEAD (8ull << 20)
#define FS_WARM_SPARE 64u /* a part of the expected bytes, for headers and gaps */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

/* Makes and maps a memfd of this size, sealed against resizing. With `mine` it is also sealed
   against new writable mappings. */
static fs_err fs_cache_segment(const char *name, uint64_t size, bool mine, int *fd_out, void **map) {
  FS_AUTO_CLOSE int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -errno;
  if (ftruncate(fd, (off_t)size) < 0) return -errno;
  void *p = mmap(fs_map_hint(size), size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) return -errno;
  int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (mine ? F_SEAL_FUTURE_WRITE : 0);
  if (fcntl(fd, F_ADD_SEALS, seals) < 0) {
    fs_err err = -errno;
    munmap(p, size);
    return err;
  }
  *map = p;
  *fd_out = FS_MOVE_FD(fd);
  return 0;
}

static uint32_t fs_cache_buckets(uint32_t lines) {
  uint32_t buckets = 1;
  while (buckets * FS_CACHE_WAYS < 2 * (uint64_t)lines) buckets *= 2;
  return buckets;
}

/* Divides the slab into header, buckets, lines and data. Returns -EINVAL if no block fits. */
static fs_err fs_cache_layout(struct fs_cache_header *h, uint64_t bytes, uint32_t max_stored) {
  uint64_t lines = FS_MAX(bytes / FS_CACHE_LINE_BYTES, FS_CACHE_MIN_LINES);
  lines = FS_MIN(lines, UINT64_C(1) << 28);
  uint32_t buckets = fs_cache_buckets((uint32_t)lines);
  h->lines = (uint32_t)lines;
  h->buckets = buckets;
  h->bucket_off = fs_round_up(sizeof(*h), 64);
  h->line_off = fs_round_up(h->bucket_off + (uint64_t)buckets * FS_CACHE_WAYS * sizeof(uint32_t), 64);
  h->data_off = fs_round_up(h->line_off + lines * sizeof(struct fs_line), 4096);
  h->size = bytes / 4096 * 4096;
  if (h->size < h->data_off + max_stored + FS_CACHE_HEADROOM) return -EINVAL;
  if ((h->size - h->data_off) / FS_SLAB_GRANULE > UINT32_MAX) return -EINVAL;
  return 0;
}

static fs_err fs_cache_build(struct fs_cache *c, const struct fs_cache_header *h, uint32_t max_stored) {
  void *map = NULL;
  fs_err err = fs_cache_segment("fanstore-slab", h->size, true, &c->slab_fd, &map);
  if (err < 0 || !map) return err < 0 ? err : -ENOMEM;
  c->hdr = map;
  c->size = h->size;
  c->heat_size = fs_round_up(h->lines, 4096);
  err = fs_cache_segment("fanstore-heat", c->heat_size, false, &c->heat_fd, &map);
  if (err < 0) return err;
  c->heat = map;
  *c->hdr = *h;
  c->bucket = (_Atomic uint32_t *)((char *)c->hdr + h->bucket_off);
  c->line = (struct fs_line *)((char *)c->hdr + h->line_off);
  c->lines = h->lines;
  c->mask = h->buckets - 1;
  c->free_line = FS_SLAB_NONE;
  c->own = calloc(c->lines, sizeof(*c->own));
  if (!c->own) return -ENOMEM;
  fs_cache_keep_init(c, max_stored);
  return fs_slab_init(&c->slab, (uint32_t)((h->size - h->data_off) / FS_SLAB_GRANULE), c->lines);
}

fs_err fs_cache_new(struct fs_cache **out, uint64_t bytes, uint32_t max_stored, fs_cache_pins_fn *pins, void *ctx) {
  struct fs_cache_header h = {.magic = FS_CACHE_MAGIC, .version = FS_IPC_VERSION};
  fs_err err = fs_cache_layout(&h, bytes, max_stored);
  if (err < 0) return err;
  struct fs_cache *c = calloc(1, sizeof(*c));
  if (!c) return -ENOMEM;
  c->slab_fd = c->heat_fd = -1;
  c->pins = pins;
  c->ctx = ctx;
  err = fs_cache_build(c, &h, max_stored);
  if (err < 0) {
    fs_cache_free(c);
    return err;
  }
  *out = c;
  return 0;
}

void fs_cache_free(struct fs_cache *c) {
  if (!c) return;
  fs_slab_fini(&c->slab);
  free(c->own);
  if (c->heat) munmap((void *)c->heat, c->heat_size);
  if (c->hdr) munmap(c->hdr, c->size);
  if (c->heat_fd >= 0) close(c->heat_fd);
  if (c->slab_fd >= 0) close(c->slab_fd);
  free(c);
}

int fs_cache_slab_fd(const struct fs_cache *c, uint64_t *size) {
  *size = c->size;
  return c->slab_fd;
}

int fs_cache_heat_fd(const struct fs_cache *c, uint64_t *size) {
  *size = c->heat_size;
  return c->heat_fd;
}

_Atomic uint32_t *fs_cache_ways(struct fs_cache *c, uint64_t key) {
  return c->bucket + (size_t)(fs_cache_bucket(key) & c->mask) * FS_CACHE_WAYS;
}

uint32_t fs_cache_size(const struct fs_cache *c, uint32_t l) {
  return FS_MAX(c->slab.extent[c->own[l].extent].size, c->line_share);
}

uint64_t fs_cache_capacity(const struct fs_cache *c) {
  return (c->size - c->hdr->data_off) / FS_SLAB_GRANULE;
}

int64_t fs_cache_find(struct fs_cache *c, uint64_t key) {
  _Atomic uint32_t *ways = fs_cache_ways(c, key);
  for (uint32_t w = 0; w < FS_CACHE_WAYS; w++) {
    uint32_t word = atomic_load_explicit(&ways[w], memory_order_relaxed);
    if (word == 0 || c->own[word - 1].key != key || c->own[word - 1].state != FS_LINE_VALID) continue;
    atomic_store_explicit(&c->heat[word - 1], 1, memory_order_relaxed);
    return word - 1;
  }
  return -ENOENT;
}

/* Returns a way for the key: a free one, else a cold line's, else that of any line without a pin;
   -1 if there is none. */
static int fs_cache_way(struct fs_cache *c, uint64_t key) {
  _Atomic uint32_t *ways = fs_cache_ways(c, key);
  for (int w = 0; w < (int)FS_CACHE_WAYS; w++) {
    if (atomic_load_explicit(&ways[w], memory_order_relaxed) == 0) return w;
  }
  for (int pass = 0; pass < 2; pass++) {
    for (int w = 0; w < (int)FS_CACHE_WAYS; w++) {
      uint32_t l = atomic_load_explicit(&ways[w], memory_order_relaxed) - 1;
      if (c->own[l].state != FS_LINE_VALID) continue;
      if (pass == 0 && atomic_load_explicit(&c->heat[l], memory_order_relaxed) != 0) continue;
      if (fs_cache_evict(c, &l, 1) == 1) return w;
    }
  }
  return -1;
}

int64_t fs_cache_alloc(struct fs_cache *c, uint64_t key, uint32_t len, void **buf) {
  uint32_t granules = (uint32_t)(((uint64_t)len + FS_CACHE_HEADROOM + FS_SLAB_GRANULE - 1) / FS_SLAB_GRANULE);
  uint32_t l = fs_cache_room(c, granules);
  int way = l == FS_SLAB_NONE ? -1 : fs_cache_way(c, key);
  if (way < 0) {
    if (l != FS_SLAB_NONE) {
      fs_slab_release(&c->slab, c->own[l].extent);
      c->own[l].extent = c->free_line;
      c->free_line = l;
    }
    c->stats.alloc_failures++;
    return -ENOBUFS;
  }
  struct fs_own_line *o = &c->own[l];
  uint64_t end = c->hdr->data_off + (c->slab.extent[o->extent].off + (uint64_t)granules) * FS_SLAB_GRANULE;
  if (end > atomic_load_explicit(&c->reached, memory_order_relaxed))
    atomic_store_explicit(&c->reached, end, memory_order_relaxed);
  o->key = key;
  o->way = (uint8_t)way;
  o->state = FS_LINE_FILLING;
  fs_cache_keep(c, l);
  uint64_t off = c->hdr->data_off + (uint64_t)c->slab.extent[o->extent].off * FS_SLAB_GRANULE + FS_CACHE_HEADROOM;
  /* For readers without a pin: they see the cleared tag before the new `uses`, and both before any
     new byte. */
  atomic_fetch_add_explicit(&c->line[l].uses, 1, memory_order_release);
  atomic_thread_fence(memory_order_seq_cst);
  atomic_store_explicit(&c->line[l].off, off, memory_order_relaxed);
  atomic_store_explicit(&c->line[l].len, len, memory_order_relaxed);
  /* This takes the way. A reader that finds the line there sees no valid tag yet. */
  atomic_store_explicit(&fs_cache_ways(c, key)[way], l + 1, memory_order_release);
  c->stats.lines_used++;
  *buf = (char *)c->hdr + off - FS_CACHE_HEADROOM;
  return l;
}

void fs_cache_purge(struct fs_cache *c, bool (*pick)(void *ctx, uint64_t key), void (*stayed)(void *ctx, uint64_t key),
                    void *ctx) {
  uint32_t batch[FS_CACHE_BATCH];
  for (uint32_t l = 0; l < c->made;) {
    uint32_t n = 0;
    for (; l < c->made && n < FS_CACHE_BATCH; l++) {
      if (c->own[l].state == FS_LINE_VALID && pick(ctx, c->own[l].key)) batch[n++] = l;
    }
    if (n > 0) fs_cache_evict(c, batch, n);
    for (uint32_t i = 0; i < n; i++) {
      if (c->own[batch[i]].state == FS_LINE_VALID) stayed(ctx, c->own[batch[i]].key);
    }
  }
}

/* ---- pages ahead of their use ---- */

uint64_t fs_cache_reached(const struct fs_cache *c) {
  return atomic_load_explicit(&c->reached, memory_order_relaxed);
}

/* Makes one huge page, or returns false. A huge page takes half the time of small ones, and clients
   have one page fault and one page table entry instead of 512. MADV_COLLAPSE works without the
   administrator's settings but needs one existing page. A step that is mostly in use already is
   skipped: its pages would have to be copied. */
static bool fs_cache_huge(struct fs_cache *c, uint64_t from, uint64_t to) {
  bool used = to <= fs_cache_reached(c) && from >= c->hdr->data_off;
  if (c->no_huge || used || to - from != FS_HUGE_PAGE) return false;
  if (fallocate(c->slab_fd, 0, (off_t)from, 4096) < 0) return false;
  if (madvise((char *)c->hdr + from, FS_HUGE_PAGE, MADV_COLLAPSE) == 0) return true;
  c->no_huge = errno != EAGAIN && errno != EBUSY;
  return false;
}

uint64_t fs_cache_warm(struct fs_cache *c, uint64_t expected) {
  uint64_t reached = fs_cache_reached(c), want = reached + FS_MIN(reached + FS_WARM_LEAST, FS_WARM_MOST);
  if (expected > 0) expected += expected / FS_WARM_SPARE + c->hdr->data_off;
  if (reached == 0 || reached < expected) want = expected;
  want = FS_MIN(want, c->size);
  if (c->warmed >= want) return c->warmed;
  uint64_t from = c->warmed, to;
  /* Blocks are being received there: both threads would wait for each other. */
  if (reached > 0 && from < reached + FS_WARM_LEAD)
    from = FS_MIN(fs_round_up(reached + FS_WARM_LEAD, FS_WARM_STEP), want);
  to = FS_MIN(fs_round_up(from + 1, FS_WARM_STEP), c->size);
  c->warmed = to;
  if (fs_cache_huge(c, from, to)) return to;
  /* One call for the whole step makes this cheap. Without enough memory, pages come one by one at
     first use. */
  if (fallocate(c->slab_fd, 0, (off_t)from, (off_t)(to - from)) < 0)
    c->warmed = c->size;
  else if (to > reached)
    (void)madvise((char *)c->hdr + from, to - from, MADV_POPULATE_WRITE);
  return c->warmed;
}

void fs_cache_shorten(struct fs_cache *c, uint32_t line, uint32_t len) {
  atomic_store_explicit(&c->line[line].len, len, memory_order_relaxed);
}

void fs_cache_publish(struct fs_cache *c, uint32_t line, bool awaited) {
  c->own[line].state = FS_LINE_VALID;
  fs_cache_kept(c, line, awaited);
  atomic_store_explicit(&c->heat[line], 0, memory_order_relaxed);
  atomic_store_explicit(&c->line[line].tag, c->own[line].key | FS_CACHE_VALID, memory_order_release);
}

void fs_cache_abort(struct fs_cache *c, uint32_t line) {
  fs_cache_drop(c, line);
}

void fs_cache_stats(const struct fs_cache *c, struct fs_cache_stats *out) {
  *out = c->stats;
  out->bytes_used = c->slab.used * FS_SLAB_GRANULE;
}
