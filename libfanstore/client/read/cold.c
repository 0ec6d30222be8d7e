/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large reads of local partitions that are not in memory, although there is room for all of them. A
 * read waits for its own bytes alone. They are asked for in pieces, so that the first is copied
 * while the others come. After that, what is likely to be read next is asked for, and nobody waits
 * for it: it comes while the program copies, decodes and computes. local.c alone calls this. No
 * locks: the words may have any value.
 */
#include <sys/mman.h>

#include "client/data_priv.h"
#include "util/util.h"

#define FS_COLD_PIECE (256u << 10)   /* one request: long enough for the device's full rate */
#define FS_COLD_AHEAD (2 * FS_CHUNK) /* under way of a long read, or behind chunks in a row */
#define FS_COLD_ALONE (FS_CHUNK / 4) /* larger reads leave little of a chunk to ask for */
#define FS_COLD_SHARE 4u             /* once a quarter of a chunk was read, the rest is likely to be */
#define FS_COLD_LOOKS 16u
#define FS_COLD_LATE_NS 20000000ull /* by then the bytes have come, or will not */

static _Atomic uintptr_t g_asked;    /* the last page that was asked for and not waited for */
static _Atomic uint64_t g_asked_for; /* until then it is looked for */

static void fs_cold_ask(int fd, uint64_t begin, uint64_t end) {
  while (begin < end) {
    uint64_t step = FS_MIN(FS_COLD_PIECE - begin % FS_COLD_PIECE, end - begin);
    FS_SYS4(SYS_fadvise64, fd, begin, step, POSIX_FADV_WILLNEED);
    begin += step;
  }
}

/* Finds whether so much of chunk c was read that the rest is likely to be. Only some pages are
   looked at, because all would cost a tenth of a read. */
void fs_cold_look(const uint8_t *map, uint64_t size, uint64_t c, struct fs_cold *cold) {
  uint64_t at = c << FS_CHUNK_SHIFT, end = FS_MIN(size, at + FS_CHUNK);
  uint32_t looks = 0, there = 0;
  cold->last = NULL;
  for (; at < end; at += FS_CHUNK / FS_COLD_LOOKS, looks++) {
    if (fs_pages_resident(map + at, 1))
      there++;
    else
      cold->last = map + at;
  }
  cold->likely = there * FS_COLD_SHARE >= looks && there < looks;
}

void fs_cold_before(struct fs_dataset *ds, uint32_t p, const struct fs_cold_read *r) {
  bool temporary;
  fs_fd fd = fs_local_fd(ds, p, &temporary);
  if (fd < 0) return;
  fs_cold_ask(fd, r->off, FS_MIN(r->end, r->off + FS_COLD_AHEAD));
  if (temporary) fs_sys_close(fd);
}

void fs_cold_follow(struct fs_dataset *ds, uint32_t p, uint64_t c) {
  struct fs_part *part = &ds->part[p];
  uint64_t end = (c + 1) << FS_CHUNK_SHIFT, size = ds->ix.parts[p].size, until = FS_MIN(end + FS_COLD_AHEAD, size);
  uint64_t to = atomic_load_explicit(&part->asked_to, memory_order_relaxed);
  uint64_t before = atomic_exchange_explicit(&part->taken_to, end, memory_order_relaxed);
  bool ahead = to >= end - FS_CHUNK && to <= until;
  bool temporary;
  if (!ahead && before != end - FS_CHUNK) return;
  if (!ahead || to < end) to = end;
  if (to >= until || (until - to < FS_COLD_AHEAD / 2 && until < size)) return;
  fs_fd fd = fs_local_fd(ds, p, &temporary);
  if (fd < 0) return;
  atomic_store_explicit(&part->asked_to, until, memory_order_relaxed);
  fs_cold_ask(fd, to, until);
  if (temporary) fs_sys_close(fd);
}

/* Asks for one chunk's rest at a time in each process: the next read waits behind it. */
void fs_cold_rest(struct fs_dataset *ds, uint32_t p, const struct fs_cold_read *r, const struct fs_cold *cold) {
  uint64_t begin = r->off & ~(FS_CHUNK - 1), now = fs_now_ns();
  const void *asked = (const void *)atomic_load_explicit(&g_asked, memory_order_relaxed);
  bool temporary;
  if (r->end - r->begin >= FS_COLD_ALONE) return;
  if (asked && now < atomic_load_explicit(&g_asked_for, memory_order_relaxed) && !fs_pages_resident(asked, 1)) return;
  fs_fd fd = fs_local_fd(ds, p, &temporary);
  if (fd < 0) return;
  atomic_store_explicit(&g_asked, (uintptr_t)cold->last, memory_order_relaxed);
  atomic_store_explicit(&g_asked_for, now + FS_COLD_LATE_NS, memory_order_relaxed);
  fs_cold_ask(fd, begin, FS_MIN(begin + FS_CHUNK, ds->ix.parts[p].size));
  if (temporary) fs_sys_close(fd);
}
