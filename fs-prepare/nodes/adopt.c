/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes staged copies, as the daemon makes them, of the partitions that this node has packed, and one
   of the index. Called by owner.c in a thread of its own. */
#include "adopt.h"

#include "daemon/staging/stage.h"
#include "util/util.h"

static fs_err adopt_all(struct fs_adopt *a, struct fs_stage *s) {
  fs_err err = fs_stage_prepare(s, a->why, sizeof a->why);
  for (uint32_t k = 0; k < a->parts && err == 0; k++) {
    char name[FS_PART_NAME_SIZE];
    const uint32_t p = a->number[k];
    if (!a->here[k]) continue;
    err = fs_stage_adopt(s, p, a->from, fs_part_name(p, name), a->why, sizeof a->why);
    if (err == 0) a->bytes += s->index.parts[p].size;
  }
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
