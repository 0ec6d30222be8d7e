/* SPDX-License-Identifier: BSD-3-Clause */
/* The last table of pack: the kinds of files, what was chosen for them, and what it made of them. Main
   thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kinds.h"

#define ROWS 10u /* kinds that are shown one by one */

struct line {
  const struct fs_kind *kind;
  uint64_t files, plain, stored;
};

static int by_plain(const void *va, const void *vb) {
  const struct line *a = va, *b = vb;
  if (a->plain != b->plain) return a->plain > b->plain ? -1 : 1;
  return a->kind < b->kind ? -1 : a->kind > b->kind;
}

static bool counts(const struct fs_item *item) {
  return S_ISREG(item->mode) && !item->alias && !item->kept && !item->left_out && item->size != 0;
}

void fs_kinds_count(struct fs_kinds *kinds, const struct fs_tree *tree) {
  for (size_t i = 0; i < tree->n; i++) {
    const struct fs_item *item = &tree->items[i];
    if (!counts(item)) continue;
    for (uint64_t k = 0; k < fs_item_nblocks(item); k++)
      kinds->kind[item->kind].stored += fs_item_block(item, k)->stored_len;
  }
}

static void count(struct line *lines, const struct fs_kinds *kinds, const struct fs_tree *tree) {
  for (uint32_t i = 0; i < kinds->n; i++)
    lines[i] = (struct line){.kind = &kinds->kind[i], .stored = kinds->kind[i].stored};
  for (size_t i = 0; i < tree->n; i++) {
    if (!counts(&tree->items[i])) continue;
    struct line *line = &lines[tree->items[i].kind];
    line->files++;
    line->plain += tree->items[i].size;
  }
}

static void print_counts(const char *name, const struct line *l) {
  char plain[32], stored[32];
  printf("  %-20.20s %9" PRIu64 " %9s %9s %7.2fx", name, l->files, fs_format_size(l->plain, plain, sizeof plain),
         fs_format_size(l->stored, stored, sizeof stored), fs_times_smaller(l->plain, l->stored));
}

static void print_line(const struct line *l, const struct fs_encoding *e, const struct fs_verdict *v) {
  FS_AUTO_FREE char *name = fs_prep_name(l->kind->name);
  char text[FS_ENCODING_TEXT], rate[32] = "-";
  if (l->kind->rate > 0) snprintf(rate, sizeof rate, "%.2f GB/s", l->kind->rate / 1e9);
  print_counts(name, l);
  printf("  %-16s %9s", fs_encoding_text(e, text), rate);
  if (v->next.encoding.family != FS_FAMILY_RAW && v->next.unbound < v->best.stored)
    printf("  %s: %.2fx, %.2f GB/s", fs_encoding_text(&v->next.encoding, text),
           fs_times_smaller(v->plain, v->next.unbound), (double)v->plain / (double)FS_MAX(v->next.cost_ns, 1));
  printf("\n");
}

void fs_kinds_print(const struct fs_kinds *kinds, const struct fs_plan *plan) {
  FS_AUTO_FREE struct line *lines = calloc(kinds->n, sizeof *lines);
  struct line others = {0};
  if (lines == NULL || plan->pack_bytes == 0) return;
  count(lines, kinds, plan->tree);
  qsort(lines, kinds->n, sizeof *lines, by_plain);
  printf("  %-20s %9s %9s %9s %8s  %-16s %9s%s\n", "kind", "files", "plain", "stored", "smaller", "codec", "decoding",
         plan->opts->codec == FS_CHOOSE_AUTO ? "  too slow" : "");
  for (uint32_t i = 0; i < kinds->n && lines[i].plain != 0; i++) {
    if (i < ROWS) {
      const uint32_t row = plan->codecs.of_kind[lines[i].kind - kinds->kind];
      print_line(&lines[i], &plan->codecs.row[row], &lines[i].kind->verdict);
      continue;
    }
    others.files += lines[i].files;
    others.plain += lines[i].plain;
    others.stored += lines[i].stored;
  }
  if (others.files == 0) return;
  print_counts("further kinds", &others);
  printf("\n");
}
