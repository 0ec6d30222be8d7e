/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads local partitions past the page cache, by O_DIRECT: chunks for which memory has no room, and
 * that are not in the page cache anyway. The bytes go to one of a few buffers of this process, from
 * which the caller gets a copy, and which keeps what was read ahead within the file. local.c alone
 * calls this. A buffer is taken by a try-lock: a thread that finds none reads through the page
 * cache. All buffers are empty in a forked child.
 */
#include <linux/stat.h>
#include <sys/mman.h>

#include "client/data_priv.h"
#include "client/fd/fdtab.h"
#include "util/util.h"

#define FS_BOUNCES 8u                 /* threads that read at a time; others use the page cache */
#define FS_BOUNCE_USUAL 4u            /* the others are taken only if these are busy */
#define FS_BOUNCE_BYTES (256u << 10)  /* one request: long enough for the device's full rate */
#define FS_DIRECT_FIRST (128u << 10)  /* read ahead at the beginning of a file, at most */
#define FS_DIRECT_STREAM (1ull << 20) /* after so much in order, the kernel reads ahead better */
#define FS_DIRECT_GAP FS_ALIGN        /* in order: also if the next file begins at a page */
#define FS_DIRECT_UNIT 4096u          /* if the kernel does not say (before Linux 6.1) */

struct fs_bounce {
  _Atomic int32_t lock;        /* the process that uses it, or 0 */
  _Atomic int32_t owner;       /* the process that filled it; in a child it is empty */
  _Atomic uintptr_t part;      /* struct fs_part: the partition whose bytes it holds */
  _Atomic uint64_t begin, end; /* their range; all of it is changed under the lock only */
  uint32_t last;               /* bytes that its last read was meant to have */
};

struct fs_bounces {
  _Atomic uint32_t hand;
  struct fs_bounce slot[FS_BOUNCES];
};

/* A forked child finds this memory cleared. So it has nothing of its parent's reads, and the kernel
   makes no copy of what the device is writing to. */
static void *_Atomic g_bounces; /* struct fs_bounces */
static void *_Atomic g_bytes;   /* has a huge page: one run is faster for the device */
static_assert(FS_BOUNCES * FS_BOUNCE_BYTES == FS_HUGE_PAGE, "the buffers are a huge page");

struct fs_direct {
  struct fs_dataset *ds;
  uint32_t p;
  struct fs_bounces *all;
  uint8_t *bytes;
  int32_t process;
  int fd;
  bool temporary; /* closed after this read */
  uint32_t unit;  /* of offsets, lengths and addresses */
};

/* ---- the buffers ---- */

static void *fs_bounce_map(void *_Atomic *word, size_t n) {
  void *map = atomic_load_explicit(word, memory_order_acquire);
  if (FS_LIKELY(map != NULL)) return map;
  void *mine = fs_mem_map_wiped(n);
  if (mine && !fs_publish_ptr(word, mine, &map)) fs_mem_unmap(mine, n);
  if (map == mine && n > FS_HUGE_PAGE)
    FS_SYS3(SYS_madvise, fs_round_up((uintptr_t)map, FS_HUGE_PAGE), FS_HUGE_PAGE, MADV_HUGEPAGE);
  return map;
}

static bool fs_bounces(struct fs_direct *d) {
  d->all = fs_bounce_map(&g_bounces, sizeof(*d->all));
  d->bytes = fs_bounce_map(&g_bytes, 2 * FS_HUGE_PAGE);
  if (!d->all || !d->bytes) return false;
  d->bytes = (uint8_t *)fs_round_up((uintptr_t)d->bytes, FS_HUGE_PAGE);
  return true;
}

static uint8_t *fs_bounce_bytes(const struct fs_direct *d, const struct fs_bounce *s) {
  return d->bytes + (size_t)(s - d->all->slot) * FS_BOUNCE_BYTES;
}

static bool fs_bounce_take(const struct fs_direct *d, struct fs_bounce *s) {
  int32_t none = 0;
  return atomic_compare_exchange_strong_explicit(&s->lock, &none, d->process, memory_order_acquire,
                                                 memory_order_relaxed);
}

/* In a child that was forked meanwhile, the buffer is not this read's any more. */
static void fs_bounce_leave(const struct fs_direct *d, struct fs_bounce *s) {
  int32_t own = d->process;
  atomic_compare_exchange_strong_explicit(&s->lock, &own, 0, memory_order_release, memory_order_relaxed);
}

/* Returns whether the buffer has bytes from `off` on, or, with `next`, the ones before. */
static bool fs_bounce_has(const struct fs_direct *d, const struct fs_bounce *s, uint64_t off, bool next) {
  uint64_t end = atomic_load_explicit(&s->end, memory_order_relaxed);
  if (atomic_load_explicit(&s->owner, memory_order_relaxed) != d->process ||
      atomic_load_explicit(&s->part, memory_order_relaxed) != (uintptr_t)&d->ds->part[d->p])
    return false;
  return next ? end == off : end > off && atomic_load_explicit(&s->begin, memory_order_relaxed) <= off;
}

static struct fs_bounce *fs_bounce_find(const struct fs_direct *d, uint64_t off, bool next) {
  for (uint32_t i = 0; i < FS_BOUNCES; i++) {
    struct fs_bounce *s = &d->all->slot[i];
    if (!fs_bounce_has(d, s, off, next) || !fs_bounce_take(d, s)) continue;
    if (fs_bounce_has(d, s, off, next)) return s;
    fs_bounce_leave(d, s);
  }
  return NULL;
}

static struct fs_bounce *fs_bounce_free(const struct fs_direct *d) {
  for (uint32_t tries = 0; tries < FS_BOUNCE_USUAL; tries++) {
    uint32_t i = atomic_fetch_add_explicit(&d->all->hand, 1, memory_order_relaxed) % FS_BOUNCE_USUAL;
    if (fs_bounce_take(d, &d->all->slot[i])) return &d->all->slot[i];
  }
  for (uint32_t i = FS_BOUNCE_USUAL; i < FS_BOUNCES; i++) {
    if (fs_bounce_take(d, &d->all->slot[i])) return &d->all->slot[i];
  }
  return NULL;
}

/* Returns how many bytes were copied, or 0 if no buffer has the first of them. */
static size_t fs_bounce_copy(const struct fs_direct *d, uint8_t *dst, size_t n, uint64_t off) {
  struct fs_bounce *s = fs_bounce_find(d, off, false);
  if (!s) return 0;
  n = FS_MIN(n, (size_t)(s->end - off));
  fs_copy(dst, fs_bounce_bytes(d, s) + (off - s->begin), n);
  fs_bounce_leave(d, s);
  return n;
}

/* ---- the descriptor ---- */

/* Returns the unit of addresses, offsets and lengths, or 0 if the file has no O_DIRECT. */
static uint32_t fs_direct_unit(int fd) {
#ifdef STATX_DIOALIGN
  struct statx st = {0};
  if (FS_SYS5(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) == 0 && (st.stx_mask & STATX_DIOALIGN)) {
    uint32_t unit = FS_MAX(st.stx_dio_mem_align, st.stx_dio_offset_align);
    bool good = st.stx_dio_offset_align > 0 && unit <= FS_DIRECT_UNIT && (unit & (unit - 1)) == 0;
    return good ? FS_MAX(unit, 512u) : 0;
  }
#else
  (void)fd;
#endif
  return FS_DIRECT_UNIT;
}

static bool fs_direct_open(struct fs_direct *d) {
  struct fs_part *part = &d->ds->part[d->p];
  int32_t none = 0;
  d->fd = atomic_load_explicit(&part->direct_fd, memory_order_acquire) - 1;
  d->unit = atomic_load_explicit(&part->direct_unit, memory_order_relaxed);
  if (FS_LIKELY(d->fd >= 0)) return true;
  fs_fd low = fs_local_open(d->ds, d->p, O_DIRECT);
  d->unit = low < 0 ? 0 : fs_direct_unit(low);
  if (d->unit == 0) {
    if (low >= 0 || low == -EINVAL || low == -ENOTSUP) atomic_compare_exchange_strong(&part->direct_fd, &none, -1);
    if (low >= 0) fs_sys_close(low);
    return false;
  }
  /* Another thread that opens it stores the same. */
  atomic_store_explicit(&part->direct_unit, d->unit, memory_order_relaxed);
  d->fd = fs_own_publish(&part->direct_fd, low, &d->temporary);
  return d->fd >= 0;
}

/* ---- reading ---- */

/* Makes one request. Returns its bytes, at least `need`, or -EAGAIN if they are not to be had this
   way. */
static fs_ssize fs_direct_pread(struct fs_direct *d, void *to, size_t n, uint64_t off, size_t need) {
  fs_ssize got;
  fs_timing_slow(fs_now_ns());
  do got = fs_sys_pread(d->fd, to, n, off);
  while (got == -EINTR);
  if (!fs_own_still(&d->ds->part[d->p].direct_fd, d->fd, d->temporary)) return -EAGAIN;
  if (got == -EINVAL || got == -ENOTSUP) { /* an open with O_DIRECT may succeed all the same */
    int32_t word = d->fd + 1;
    if (!d->temporary && atomic_compare_exchange_strong(&d->ds->part[d->p].direct_fd, &word, -1)) fs_own_close(d->fd);
    return -EAGAIN;
  }
  return got < 0 ? got : (size_t)got < need ? -EAGAIN : got;
}

/* Returns how much to read for a piece of a file: the piece, and as much behind it in the file as
   is likely to be read. */
static size_t fs_direct_window(const struct fs_bounce *s, const struct fs_cold_read *r, uint64_t off, size_t n,
                               bool next) {
  size_t want = n;
  if (next)
    want = FS_MAX(n, 2 * (size_t)s->last);
  else if (off == r->file)
    want = FS_MAX(n, FS_MIN(4 * n, (size_t)FS_DIRECT_FIRST));
  return FS_MIN(want, (size_t)(r->file_end - off));
}

/* Reads from the device into a buffer and copies to the caller. Returns the bytes, or a negative
   errno. */
static fs_ssize fs_direct_fill(struct fs_direct *d, uint8_t *dst, size_t n, uint64_t off,
                               const struct fs_cold_read *r) {
  struct fs_bounce *s = fs_bounce_find(d, off, true);
  bool next = s != NULL;
  if (!s) s = fs_bounce_free(d);
  if (!s) return -EAGAIN;
  size_t want = fs_direct_window(s, r, off, n, next);
  uint64_t begin = off & ~(uint64_t)(d->unit - 1), end = fs_round_up(off + want, d->unit);
  end = FS_MIN(end, begin + FS_BOUNCE_BYTES);
  n = FS_MIN(n, (size_t)(end - off));
  uint8_t *bytes = fs_bounce_bytes(d, s);
  atomic_store_explicit(&s->owner, 0, memory_order_relaxed);
  fs_ssize got = fs_direct_pread(d, bytes, (size_t)(end - begin), begin, (size_t)(off + n - begin));
  if (got >= 0) {
    fs_copy(dst, bytes + (off - begin), n);
    s->last = (uint32_t)FS_MIN(want, (size_t)FS_BOUNCE_BYTES);
    atomic_store_explicit(&s->begin, begin, memory_order_relaxed);
    atomic_store_explicit(&s->end, begin + (uint64_t)got, memory_order_relaxed);
    atomic_store_explicit(&s->part, (uintptr_t)&d->ds->part[d->p], memory_order_relaxed);
    atomic_store_explicit(&s->owner, d->process, memory_order_relaxed);
  }
  fs_bounce_leave(d, s);
  return got < 0 ? got : (fs_ssize)n;
}

/* Returns whether the read goes on where the last ones ended, and this has gone on for long. */
static bool fs_direct_stream(struct fs_part *part, const struct fs_cold_read *r) {
  uint64_t before = atomic_exchange_explicit(&part->run_end, r->off + r->n, memory_order_relaxed), run = 0;
  if (r->off >= before && r->off - before < FS_DIRECT_GAP)
    run = atomic_load_explicit(&part->run, memory_order_relaxed) + r->n;
  atomic_store_explicit(&part->run, run, memory_order_relaxed);
  return run >= FS_DIRECT_STREAM;
}

/* Reads what no buffer has. */
static fs_err fs_direct_rest(struct fs_direct *d, uint8_t *dst, const struct fs_cold_read *r, size_t done) {
  fs_ssize got = 0;
  if (!fs_direct_open(d)) return -EAGAIN;
  while (done < r->n) {
    got = fs_direct_fill(d, dst + done, r->n - done, r->off + done, r);
    if (got < 0) break;
    done += (size_t)got;
  }
  if (d->temporary) fs_sys_close(d->fd);
  return got < 0 ? (fs_err)got : 0;
}

fs_err fs_direct_read(struct fs_dataset *ds, uint32_t p, void *dst, const struct fs_cold_read *r) {
  struct fs_direct d = {.ds = ds, .p = p, .process = fs_self_process()};
  size_t done = 0;
  if (atomic_load_explicit(&ds->part[p].direct_fd, memory_order_relaxed) < 0 || fs_vfork_depth > 0) return -EAGAIN;
  bool stream = fs_direct_stream(&ds->part[p], r);
  const uint8_t *map = fs_local_map(ds, p);
  if (d.process <= 0 || !map || !fs_bounces(&d)) return -EAGAIN;
  for (size_t n; done < r->n && (n = fs_bounce_copy(&d, (uint8_t *)dst + done, r->n - done, r->off + done)) > 0;)
    done += n;
  if (done < r->n) {
    if (stream || fs_pages_resident(map + r->off + done, r->n - done)) return -EAGAIN;
    fs_err err = fs_direct_rest(&d, dst, r, done);
    if (err < 0) return err;
  }
  /* A signal handler has forked: the buffers are empty here. */
  if (fs_self_process() != d.process) return -EAGAIN;
  fs_count(FS_C_DIRECT, r->n);
  return 0;
}
