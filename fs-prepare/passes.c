/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A dataset's blocks in the order of their places. There may be many more blocks than files, so they
 * are sorted in parts. Each pass over the index collects the blocks of the lowest places that the
 * passes before have left. If they are too many, it drops those of the upper half of the places. Then
 * threads take the partitions that the pass has reached.
 *
 * The partitions are in groups of as many as there are threads. Of a group, offset 0 of each partition
 * comes first, then offset 1 of each, so a pass that holds less than a group has work for all threads.
 * The position in this order is a block's `place`. A pass may end inside a group, whose partitions
 * stay open until the next pass.
 */
#include "passes.h"

#include <stdlib.h>

#include "prepare.h"

/* A pass may hold one block for each entry, and so many more. A test has another number, and fewer blocks. */
#ifndef BLOCKS_MORE
#define BLOCKS_MORE (128u << 10)
#endif
/* It may also hold such a part of all blocks. A pass or the next one holds at least half of what it may, so there
   are at most four times so many passes, and their time does not grow with the square of the blocks. */
#define BLOCKS_PART 64u

#define UNWANTED UINT32_MAX

struct slot {
  uint64_t at; /* number of the partition among those that are wanted, times `most`, and the offset */
  uint64_t index;
  uint32_t entry, codec;
};

struct passes {
  const struct fs_index *ix;
  const struct fs_passes_calls *calls;
  void *ctx;
  uint32_t *wanted, *nth;  /* the partitions that are wanted; of each partition: its number there, or UNWANTED */
  uint32_t nwanted, lanes; /* lanes: partitions of a group */
  uint64_t most;           /* size of the largest of them */
  struct slot *slot;
  size_t n, room;
  uint64_t from, to;   /* places of this pass */
  uint64_t lowest;     /* place of the first slot, if `full` */
  bool full;           /* all slots are of one place, and there may be more blocks of it */
  uint64_t skip, seen; /* blocks of place `from`: those of passes before, and those met in this pass */
  uint64_t done;       /* partitions that end here or before have their end in this pass */
  void **open, **next; /* states of the group that the pass before has left open, and that this one leaves */
};

static int by_at(const void *va, const void *vb) {
  const struct slot *a = va, *b = vb;
  if (a->at != b->at) return a->at < b->at ? -1 : 1;
  if (a->codec != b->codec) return a->codec < b->codec ? -1 : 1;
  if (a->entry != b->entry) return a->entry < b->entry ? -1 : 1;
  return a->index < b->index ? -1 : a->index > b->index;
}

static uint64_t place_of(const struct passes *s, uint32_t nth, uint64_t offset) {
  return ((uint64_t)(nth / s->lanes) * s->most + offset) * s->lanes + nth % s->lanes;
}

/* Drops the blocks of the upper half of the places. If all have one place, drops them if the next
   block, of `place`, is before them; else sets `full`. */
static void make_room(struct passes *s, uint64_t place) {
  for (size_t i = 0; i < s->n; i++)
    s->slot[i].at = place_of(s, (uint32_t)(s->slot[i].at / s->most), s->slot[i].at % s->most);
  qsort(s->slot, s->n, sizeof *s->slot, by_at);
  s->lowest = s->slot[0].at;
  s->to = FS_MAX(s->slot[s->n / 2].at, s->lowest + 1);
  while (s->n > 0 && s->slot[s->n - 1].at >= s->to) s->n--;
  s->full = s->n == s->room && place >= s->lowest;
  if (s->n == s->room && !s->full) {
    s->to = s->lowest;
    s->n = 0;
  }
  for (size_t i = 0; i < s->n; i++) {
    const uint64_t row = s->slot[i].at / s->lanes;
    s->slot[i].at = (row / s->most * s->lanes + s->slot[i].at % s->lanes) * s->most + row % s->most;
  }
}

static void add(struct passes *s, uint64_t place, struct slot slot) {
  if (place < s->from || place >= s->to) return;
  if (place == s->from && s->seen++ < s->skip) return;
  if (s->full && place == s->lowest) return; /* it comes in the next pass */
  if (s->n == s->room) make_room(s, place);
  if (place < s->to && !s->full) s->slot[s->n++] = slot;
}

static void collect(struct passes *s, uint64_t end) {
  struct fs_block b;
  s->to = end;
  s->n = s->seen = 0;
  s->full = false;
  for (uint64_t e = 0; e < s->ix->nentries; e++) {
    const uint64_t count = fs_index_block_count(s->ix, &s->ix->entries[e]);
    for (uint64_t i = 0; i < count && fs_index_block(s->ix, (uint32_t)e, i, &b) == 0; i++) {
      const uint32_t nth = s->nth[b.partition];
      if (nth == UNWANTED) continue;
      add(s, place_of(s, nth, b.offset), (struct slot){nth * s->most + b.offset, i, (uint32_t)e, b.codec});
    }
  }
  if (s->n > 1) qsort(s->slot, s->n, sizeof *s->slot, by_at);
}

/* Returns the number of the first slot that is not before `at`. */
static size_t first_slot(const struct passes *s, uint64_t at) {
  size_t from = 0, to = s->n;
  while (from < to) {
    const size_t middle = from + (to - from) / 2;
    if (s->slot[middle].at < at)
      from = middle + 1;
    else
      to = middle;
  }
  return from;
}

fs_err fs_passes_get(const struct fs_index *ix, uint32_t entry, uint64_t i, struct fs_passes_block *out) {
  struct fs_block b;
  fs_err err = fs_index_block(ix, entry, i, &b);
  if (err < 0) return err;
  *out = (struct fs_passes_block){.offset = b.offset,
                                  .xxh3 = b.xxh3,
                                  .index = i,
                                  .partition = b.partition,
                                  .stored_len = b.stored_len,
                                  .plain_len = b.plain_len,
                                  .codec = b.codec,
                                  .entry = entry};
  return 0;
}

static void pass_part(struct passes *s, uint64_t nth) {
  const uint64_t lane = nth % s->lanes, begin = nth / s->lanes * s->most * s->lanes;
  const uint64_t end = begin + s->ix->parts[s->wanted[nth]].size * s->lanes;
  struct fs_passes_block b;
  if (end <= s->from) return; /* it has ended in a pass before */
  /* No block has offset 0, so a partition that the passes before have reached begins before `from`. */
  void *state = begin < s->from ? s->open[lane] : s->calls->begin(s->ctx, s->wanted[nth]);
  for (size_t k = first_slot(s, nth * s->most); state != NULL && k < s->n && s->slot[k].at < (nth + 1) * s->most; k++)
    if (fs_passes_get(s->ix, s->slot[k].entry, s->slot[k].index, &b) == 0) s->calls->block(state, &b);
  if (end > s->done)
    s->next[lane] = state;
  else if (state != NULL)
    s->calls->end(state);
}

static void pass_nth(void *ctx, uint64_t i) {
  struct passes *s = ctx;
  const uint64_t nth = s->from / s->lanes / s->most * s->lanes + i;
  if (nth < s->nwanted) pass_part(s, nth);
}

static void pass(struct passes *s, uint64_t end, unsigned jobs) {
  const uint64_t group = s->most * s->lanes;
  collect(s, end);
  s->done = s->full ? s->lowest : s->to;
  fs_prep_parallel(jobs, ((s->to - 1) / group - s->from / group + 1) * s->lanes, pass_nth, s);
  void **const open = s->open;
  s->open = s->next;
  s->next = open;
  s->skip = s->full ? s->n + (s->done == s->from ? s->skip : 0) : 0;
  s->from = s->done;
}

/* Returns how many blocks a pass may hold. A damaged file may claim any number, but then it has no first block. */
static size_t room(const struct fs_index *ix) {
  struct fs_block b;
  uint64_t n = 0;
  for (uint64_t e = 0; e < ix->nentries; e++)
    if (fs_index_block(ix, (uint32_t)e, 0, &b) == 0) n += fs_index_block_count(ix, &ix->entries[e]);
  return (size_t)FS_MAX(FS_MIN(n, ix->nentries + BLOCKS_MORE + n / BLOCKS_PART), 1u);
}

/* Numbers the partitions that are wanted. */
static void choose(struct passes *s, const uint8_t *only) {
  for (uint64_t p = 0; p < s->ix->nparts; p++) {
    s->nth[p] = UNWANTED;
    if (only != NULL && only[p] == 0) continue;
    s->nth[p] = s->nwanted;
    s->wanted[s->nwanted++] = (uint32_t)p;
    s->most = FS_MAX(s->most, s->ix->parts[p].size);
  }
}

fs_err fs_passes(const struct fs_index *ix, const uint8_t *only, unsigned jobs, const struct fs_passes_calls *calls,
                 void *ctx) {
  struct passes s = {.ix = ix, .calls = calls, .ctx = ctx, .most = 1, .room = room(ix)};
  FS_AUTO_FREE uint32_t *numbers = malloc(2 * (ix->nparts + 1) * sizeof *numbers);
  FS_AUTO_FREE struct slot *slot = s.slot = malloc(s.room * sizeof *slot);
  uint64_t end;
  if (numbers == NULL || slot == NULL) return -ENOMEM;
  s.wanted = numbers;
  s.nth = numbers + ix->nparts;
  choose(&s, only);
  s.lanes = FS_MAX(FS_MIN(jobs, s.nwanted), 1u);
  FS_AUTO_FREE void **states = malloc(2 * s.lanes * sizeof *states);
  if (states == NULL) return -ENOMEM;
  s.open = states;
  s.next = states + s.lanes;
  if (__builtin_mul_overflow(s.most, ((uint64_t)s.nwanted + s.lanes - 1) / s.lanes * s.lanes, &end) || end > INT64_MAX)
    return -EUCLEAN;
  while (s.from < end) pass(&s, end, jobs);
  return 0;
}
