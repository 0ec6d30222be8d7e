/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes staged copies, as the daemon makes them, of the partitions that this node has packed, and one
   of the index. Called by owner.c in a thread of its own. */
#include "adopt.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/staging/stage.h"
#include "util/util.h"

struct fs_held {
  struct fs_stage stage;
  bool *have; /* [partition] */
  bool again; /* what was lost has got the same bytes again: the new dataset has the same id */
};

fs_err fs_held_find(struct fs_held **out, const char *dataset, const char *local, int emulated, char *why,
                    size_t why_size) {
  struct stat st;
  struct fs_held *h = *out = calloc(1, sizeof *h);
  if (h == NULL) return -ENOMEM;
  fs_err err = fs_stage_open(&h->stage, dataset, local, emulated, why, why_size);
  if (err < 0) return err;
  h->have = calloc(h->stage.index.nparts + 1u, sizeof *h->have);
  if (h->have == NULL) return -ENOMEM;
  if (stat(h->stage.local, &st) < 0 && errno == ENOENT) return 0; /* this node has none */
  err = fs_stage_prepare(&h->stage, why, why_size);
  if (err == 0) fs_stage_scan(&h->stage, h->have);
  return err;
}

void fs_held_remove(struct fs_held *h) {
  if (!h->again) (void)fs_stage_purge(&h->stage);
}

uint32_t fs_held_parts(const struct fs_held *h) {
  return (uint32_t)h->stage.index.nparts;
}

bool fs_held_has(const struct fs_held *h, uint32_t part) {
  return h->have[part];
}

/* fs_stage_prepare has linked what the dataset keeps. */
static fs_err check_kept(struct fs_adopt *a, const struct fs_stage *s) {
  FS_AUTO_FREE bool *have = calloc(s->index.nparts + 1u, sizeof *have);
  if (have == NULL) return -ENOMEM;
  fs_stage_scan(s, have);
  a->held->again = memcmp(s->manifest.dataset_id, a->held->stage.manifest.dataset_id, 16) == 0;
  for (uint32_t p = 0; p < fs_held_parts(a->held) && p < s->index.nparts; p++) {
    const struct fs_part_rec *was = &a->held->stage.index.parts[p], *is = &s->index.parts[p];
    if (!a->held->have[p] || have[p] || is->size == FS_PART_HEADER_SIZE) continue;
    if (was->size != is->size || was->xxh3 != is->xxh3) continue;
    snprintf(a->why, sizeof a->why, "%.400s: partition %u of the older dataset cannot be linked", s->local, p);
    return -EIO;
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
  struct fs_stage s;
  a->bytes = 0;
  a->why[0] = '\0';
  fs_err err = fs_stage_open(&s, a->dataset, a->local, a->emulated, a->why, sizeof a->why);
  if (err < 0) return err;
  err = s.manifest.partitions == a->total ? adopt_all(a, &s) : -ESTALE;
  fs_stage_close(&s);
  return err;
}
