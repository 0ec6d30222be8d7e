/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds staged copies of the dataset that is updated, and makes some, as the daemon makes them, of the
   partitions that this node has packed, and one of the index. A directory that was prepared stays
   open, and so its lock stays held. Called by owner.c in a thread of its own. */
#include "adopt.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/staging/stage.h"
#include "util/util.h"

struct fs_held {
  struct fs_stage stage;
  bool *have; /* [partition] */
};

fs_err fs_held_find(struct fs_held **out, const char *dataset, const uint8_t id[16], const char *local, int emulated,
                    char *why, size_t why_size) {
  struct fs_held *h = *out = calloc(1, sizeof *h);
  if (h == NULL) return -ENOMEM;
  fs_err err = fs_stage_open(&h->stage, dataset, local, emulated, why, why_size);
  if (err < 0) return err;
  if (memcmp(h->stage.manifest.dataset_id, id, 16) != 0) {
    snprintf(why, why_size, "%.400s: it sees another dataset there", dataset);
    return -ESTALE;
  }
  h->have = calloc(h->stage.index.nparts + 1u, sizeof *h->have);
  if (h->have == NULL) return -ENOMEM;
  err = fs_stage_prepare(&h->stage, why, why_size);
  if (err == 0) fs_stage_scan(&h->stage, h->have);
  return err;
}

uint32_t fs_held_parts(const struct fs_held *h) {
  return (uint32_t)h->stage.index.nparts;
}

bool fs_held_has(const struct fs_held *h, uint32_t part) {
  return h->have[part];
}

static bool is_kept(const struct fs_part_rec *was, const struct fs_part_rec *is) {
  return is->size > FS_PART_HEADER_SIZE && was->size == is->size && was->xxh3 == is->xxh3;
}

/* Checks that fs_stage_prepare has linked all kept partitions that this node had told. */
static fs_err check_kept(struct fs_adopt *a, const struct fs_stage *s) {
  const struct fs_stage *old = &a->held->stage;
  FS_AUTO_FREE bool *have = calloc(s->index.nparts + 1u, sizeof *have);
  if (have == NULL) return -ENOMEM;
  fs_stage_scan(s, have);
  for (uint32_t p = 0; p < old->index.nparts && p < s->index.nparts; p++) {
    if (!a->held->have[p] || have[p] || !is_kept(&old->index.parts[p], &s->index.parts[p])) continue;
    snprintf(a->why, sizeof a->why, "%.400s: partition %u is not there any more", old->local, p);
    return -ENOENT;
  }
  return 0;
}

static fs_err adopt_all(struct fs_adopt *a, struct fs_stage *s) {
  fs_err err = fs_stage_prepare(s, a->why, sizeof a->why);
  for (uint32_t k = 0; k < a->parts && err == 0; k++) {
    char name[FS_PART_NAME_SIZE];
    const uint32_t p = a->number[k];
    if (!a->here[k]) continue;
    err = fs_stage_adopt(s, p, a->from, fs_part_name(p, name), a->why, sizeof a->why);
    if (err == 0) a->bytes += s->index.parts[p].size;
  }
  if (err == 0 && a->held != NULL) err = check_kept(a, s);
  return err == 0 ? fs_stage_index(s, a->why, sizeof a->why) : err;
}

fs_err fs_adopt(struct fs_adopt *a) {
  struct fs_stage *s = calloc(1, sizeof *s);
  a->bytes = 0;
  a->why[0] = '\0';
  if (s == NULL) return -ENOMEM;
  fs_err err = fs_stage_open(s, a->dataset, a->local, a->emulated, a->why, sizeof a->why);
  if (err == 0) err = s->manifest.partitions == a->total ? adopt_all(a, s) : -ESTALE;
  return err; /* the process ends soon, and with it the lock */
}
