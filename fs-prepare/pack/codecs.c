/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of codecs of the dataset that is packed. It is made before the pipeline starts, by one
   thread; then the threads only read it. */
#include <string.h>

#include "choose.h"
#include "pack.h"

/* Returns true if both decode equally. */
static bool same_decoding(const struct fs_encoding *a, const struct fs_encoding *b) {
  return a->family == b->family && a->element == b->element && a->dict_len == b->dict_len &&
         (a->dict_len == 0 || memcmp(a->dict, b->dict, a->dict_len) == 0);
}

int fs_plan_codec_row(struct fs_plan *plan, const struct fs_encoding *e) {
  struct fs_pack_codecs *c = &plan->codecs;
  uint32_t i = FS_CODEC_ROWS_MIN;
  while (i < c->n && (c->row[i].level != FS_LEVEL_NONE || !same_decoding(&c->row[i], e))) i++;
  if (i == FS_CODEC_ROWS_MAX) return -ENOSPC;
  struct fs_encoding *row = &c->row[i];
  *row = *e;
  row->prepared = NULL;
  fs_err err = fs_encoding_prepare(row);
  if (err < 0) return err;
  c->n = FS_MAX(c->n, i + 1);
  return (int)i;
}

/* Returns the level of row 1. Where no file has it, that is the fast one. */
static int lz4_level(const struct fs_pack_options *o) {
  return o->codec == FS_CHOOSE_LZ4HC ? o->level : o->codec == FS_CHOOSE_AUTO ? FS_AUTO_LZ4_LEVEL : 0;
}

/* Rows 0 and 1 are raw and lz4 in every dataset. */
fs_err fs_plan_codecs(struct fs_plan *plan) {
  const struct fs_pack_options *o = plan->opts;
  struct fs_pack_codecs *c = &plan->codecs;
  c->row[FS_CODEC_RAW] = (struct fs_encoding){.family = FS_FAMILY_RAW, .element = 1};
  c->row[FS_CODEC_LZ4] = (struct fs_encoding){.family = FS_FAMILY_LZ4, .element = 1, .level = lz4_level(o)};
  c->n = FS_CODEC_ROWS_MIN;
  fs_err err = plan->update != NULL ? fs_update_codecs(plan->update, plan) : 0;
  if (err < 0) return err;
  int row = o->codec == FS_CHOOSE_RAW ? FS_CODEC_RAW : FS_CODEC_LZ4;
  if (o->codec == FS_CHOOSE_ZSTD)
    row = fs_plan_codec_row(plan, &(struct fs_encoding){.family = FS_FAMILY_ZSTD, .element = 1, .level = o->level});
  if (row < 0) return row;
  memset(c->of_kind, row, sizeof c->of_kind); /* with auto, fs_kinds_choose sets them */
  return 0;
}

void fs_plan_codecs_free(struct fs_plan *plan) {
  for (uint32_t i = 0; i < plan->codecs.n; i++) fs_encoding_release(&plan->codecs.row[i]);
}
