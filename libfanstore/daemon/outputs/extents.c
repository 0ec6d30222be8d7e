/* SPDX-License-Identifier: BSD-3-Clause */
/* See extents.h. A sorted array with binary search, because most writes come after the existing
   extents. */
#include "daemon/outputs/extents.h"

#include <stdlib.h>
#include <string.h>

struct fs_extents {
  uint32_t count, room;
  struct fs_output_extent at[];
};

uint64_t fs_extents_end(const struct fs_extents *x) {
  return x && x->count > 0 ? x->at[x->count - 1].off + x->at[x->count - 1].len : 0;
}

bool fs_extents_any(const struct fs_extents *x) {
  return x && x->count > 0;
}

struct fs_output_extent *fs_extents_all(struct fs_extents *x, uint32_t *count) {
  *count = x ? x->count : 0;
  return x ? x->at : NULL;
}

uint32_t fs_extents_first(const struct fs_extents *x, uint64_t off) {
  uint32_t low = 0, high = x ? x->count : 0;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (x->at[middle].off + x->at[middle].len <= off)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Makes room for `more` extents. Returns -EFBIG or -ENOMEM. */
static fs_err fs_extents_grow(struct fs_extents **list, uint32_t more) {
  struct fs_extents *x = *list;
  uint32_t count = x ? x->count : 0, room = x ? x->room : 0;
  if (count + more <= room) return 0;
  if (count + more > FS_EXTENTS_MAX) return -EFBIG;
  room = FS_MAX(FS_MIN(2 * room, FS_EXTENTS_MAX), FS_MAX(count + more, 16u));
  struct fs_extents *grown = realloc(x, sizeof(*x) + room * sizeof(x->at[0]));
  if (!grown) return -ENOMEM;
  if (!x) *grown = (struct fs_extents){0};
  grown->room = room;
  *list = grown;
  return 0;
}

/* Replaces the extents [from, to) by n extents. The caller has made room. */
static void fs_extents_splice(struct fs_extents *x, uint32_t from, uint32_t to, const struct fs_output_extent *put,
                              uint32_t n) {
  memmove(&x->at[from + n], &x->at[to], (x->count - to) * sizeof(x->at[0]));
  memcpy(&x->at[from], put, n * sizeof(x->at[0]));
  x->count += n - (to - from);
}

/* Puts into `out` what is left of an extent without [off, end). Returns how many: 0, 1 or 2. */
static uint32_t fs_extent_cut(const struct fs_output_extent *e, uint64_t off, uint64_t end,
                              struct fs_output_extent out[2]) {
  uint32_t n = 0;
  if (e->off < off) out[n++] = (struct fs_output_extent){.off = e->off, .len = off - e->off, .segment = e->segment};
  if (e->off + e->len > end)
    out[n++] = (struct fs_output_extent){.off = end, .len = e->off + e->len - end, .segment = e->segment};
  return n;
}

fs_err fs_extents_put(struct fs_extents **list, struct fs_output_extent e) {
  struct fs_output_extent put[5], before[2], after[2];
  const struct fs_extents *x = *list;
  uint64_t end = e.off + e.len;
  uint32_t n = 0, count = x ? x->count : 0, from = fs_extents_first(x, e.off), to = from;
  while (to < count && x->at[to].off < end) to++;
  uint32_t nb = x && to > from ? fs_extent_cut(&x->at[from], e.off, end, before) : 0;
  uint32_t na = x && to > from + 1 ? fs_extent_cut(&x->at[to - 1], e.off, end, after) : 0;
  for (uint32_t i = 0; i < nb && before[i].off < e.off; i++) put[n++] = before[i];
  /* Most writes continue the last one in the same segment: join the two extents. */
  if (n == 0 && x && from > 0 && x->at[from - 1].segment == e.segment &&
      x->at[from - 1].off + x->at[from - 1].len == e.off) {
    e.off = x->at[--from].off;
    e.len = end - e.off;
  }
  put[n++] = e;
  for (uint32_t i = 0; i < nb; i++)
    if (before[i].off >= end) put[n++] = before[i];
  for (uint32_t i = 0; i < na; i++)
    if (after[i].off >= end) put[n++] = after[i];
  fs_err err = n > to - from ? fs_extents_grow(list, n - (to - from)) : 0;
  if (err == 0) fs_extents_splice(*list, from, to, put, n);
  return err;
}

void fs_extents_truncate(struct fs_extents *x, uint64_t size) {
  uint32_t i = fs_extents_first(x, size);
  if (!x) return;
  if (i < x->count && x->at[i].off < size) x->at[i].len = size - x->at[i].off, i++;
  x->count = FS_MIN(x->count, i);
}
