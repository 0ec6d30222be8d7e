/* SPDX-License-Identifier: BSD-3-Clause */
/* The last table of pack: the kinds of files, what was chosen for them, and what it made of them. Main
   thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kinds.h"

#define ROWS 10u /* kinds that are shown one by one */

static int by_plain(const void *va, const void *vb) {
  const struct fs_kind *a = *(const struct fs_kind *const *)va, *b = *(const struct fs_kind *const *)vb;
  if (a->packed.plain != b->packed.plain) return a->packed.plain > b->packed.plain ? -1 : 1;
  return a < b ? -1 : a > b;
}

static bool counts(const struct fs_item *item) {
  return S_ISREG(item->mode) && !item->alias && !item->kept && !item->left_out && item->size != 0;
}

void fs_kinds_count(struct fs_kinds *kinds, const struct fs_tree *tree) {
  for (size_t i = 0; i < tree->n; i++) {
    const struct fs_item *item = &tree->items[i];
    if (!counts(item)) continue;
    struct fs_packed *p = &kinds->kind[item->kind].packed;
    p->files++;
    p->plain += item->size;
    if (item->codec == FS_CODEC_RAW) p->raw += item->size;
    if (item->codec == FS_CODEC_LZ4) p->lz4 += item->size;
    for (uint64_t k = 0; k < fs_item_nblocks(item); k++) p->stored += fs_item_block(item, k)->stored_len;
  }
}

static void print_counts(const char *name, const struct fs_packed *p) {
  char plain[32], stored[32];
  printf("  %-20.20s %9" PRIu64 " %9s %9s %7.2fx", name, p->files, fs_format_size(p->plain, plain, sizeof plain),
         fs_format_size(p->stored, stored, sizeof stored), fs_times_smaller(p->plain, p->stored));
}

static const char *format_rate(double rate, char out[32]) {
  snprintf(out, 32, rate < 1e8 ? "%.0f MB/s" : "%.2f GB/s", rate / (rate < 1e8 ? 1e6 : 1e9));
  return out;
}

/* Prints what the bound forbids, if that is smaller on the same samples. */
static void print_next(const struct fs_verdict *v) {
  const struct fs_trial *next = &v->next;
  char text[FS_ENCODING_TEXT], rate[32];
  if (next->encoding.family == FS_FAMILY_RAW || next->unbound >= v->best.stored) return;
  printf("  %s: %.0f%% smaller, %s", fs_encoding_text(&next->encoding, text),
         100 - 100 * (double)next->unbound / (double)v->best.stored,
         format_rate((double)v->plain * 1e9 / (double)FS_MAX(next->cost_ns, 1), rate));
}

/* Returns the row that most bytes have. Not all have the row of their kind (encode.c). */
static uint32_t row_of_most(const struct fs_packed *p, uint32_t row) {
  const uint64_t others = p->plain - FS_MIN(p->plain, p->raw + p->lz4);
  if (p->raw > p->lz4 && p->raw > others) return FS_CODEC_RAW;
  return p->lz4 > others ? FS_CODEC_LZ4 : row;
}

/* Prints the codec of most bytes, and the rate if that is the codec that was chosen. */
static void print_line(const struct fs_kind *kind, const struct fs_pack_codecs *codecs, uint32_t row, int width) {
  FS_AUTO_FREE char *name = fs_prep_name(kind->name);
  const uint32_t most = row_of_most(&kind->packed, row);
  char text[FS_ENCODING_TEXT], rate[32];
  print_counts(name, &kind->packed);
  printf("  %-*s %9s", width, fs_encoding_text(&codecs->row[most], text),
         most != row || kind->rate <= 0 ? "-" : format_rate(kind->rate, rate));
  print_next(&kind->verdict);
  printf("\n");
}

/* Returns the width of the column of codecs. */
static int codec_width(const struct fs_pack_codecs *codecs) {
  char text[FS_ENCODING_TEXT];
  size_t width = 16;
  for (uint32_t i = 0; i < codecs->n; i++) width = FS_MAX(width, strlen(fs_encoding_text(&codecs->row[i], text)));
  return (int)width;
}

void fs_kinds_print(const struct fs_kinds *kinds, const struct fs_plan *plan) {
  FS_AUTO_FREE const struct fs_kind **lines = calloc(kinds->n, sizeof(*lines));
  struct fs_packed others = {0};
  if (lines == NULL || plan->pack_bytes == 0) return;
  for (uint32_t i = 0; i < kinds->n; i++) lines[i] = &kinds->kind[i];
  qsort(lines, kinds->n, sizeof(*lines), by_plain);
  const int width = codec_width(&plan->codecs);
  printf("  %-20s %9s %9s %9s %8s  %-*s %9s%s\n", "kind", "files", "plain", "stored", "smaller", width, "codec",
         "decoding", plan->opts->codec == FS_CHOOSE_AUTO ? "  too slow" : "");
  for (uint32_t i = 0; i < kinds->n && lines[i]->packed.plain != 0; i++) {
    if (i < ROWS) {
      print_line(lines[i], &plan->codecs, plan->codecs.of_kind[lines[i] - kinds->kind], width);
      continue;
    }
    others.files += lines[i]->packed.files;
    others.plain += lines[i]->packed.plain;
    others.stored += lines[i]->packed.stored;
  }
  if (others.files == 0) return;
  print_counts("further kinds", &others);
  printf("\n");
}
