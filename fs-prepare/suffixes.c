/* SPDX-License-Identifier: BSD-3-Clause */
/* How the files of each suffix are stored: a table for info. Reads the index only. One thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "prepare.h"

#define ROWS 10u           /* suffixes that are shown one by one */
#define SUFFIX_MOST 12u    /* letters and digits */
#define SUFFIXES_MOST 512u /* that are counted one by one */

struct suffix {
  char name[SUFFIX_MOST + 1]; /* "": none */
  uint64_t files, plain, stored;
  uint64_t by_row[FS_CODEC_ROWS_MAX]; /* plain bytes */
};

size_t fs_suffix(const char *name, size_t len) {
  size_t n = 0;
  bool letter = false;
  while (n < len && n <= SUFFIX_MOST && name[len - 1 - n] != '.') {
    const char c = name[len - 1 - n++];
    const bool alpha = (c | 32) >= 'a' && (c | 32) <= 'z';
    if (!alpha && (c < '0' || c > '9')) return 0;
    letter |= alpha;
  }
  return letter && n <= SUFFIX_MOST && n + 1 < len && name[len - n - 2] != '/' ? n : 0;
}

/* Returns the suffix's counts. When there are too many suffixes, the others count as the first: none. */
static struct suffix *find(struct suffix *list, size_t *n, const char *name, size_t len) {
  for (size_t i = 0; i < *n; i++)
    if (strlen(list[i].name) == len && memcmp(list[i].name, name, len) == 0) return &list[i];
  if (*n == SUFFIXES_MOST) return &list[0];
  struct suffix *s = &list[(*n)++];
  memcpy(s->name, name, len);
  return s;
}

static void count(struct suffix *s, const struct fs_index *ix, uint32_t number) {
  const struct fs_entry *e = fs_index_entry(ix, number);
  const uint64_t n = fs_index_block_count(ix, e);
  struct fs_block b;
  s->files++;
  s->plain += e->size;
  s->by_row[FS_NAME_CODEC(e->name)] += e->size;
  for (uint64_t i = 0; i < n && fs_index_block(ix, number, i, &b) == 0; i++) s->stored += b.stored_len;
}

static int by_plain(const void *va, const void *vb) {
  const struct suffix *a = va, *b = vb;
  if (a->plain != b->plain) return a->plain > b->plain ? -1 : 1;
  return strcmp(a->name, b->name);
}

/* Returns the suffixes, the largest first, from malloc, or NULL. */
static struct suffix *count_all(const struct fs_index *ix, size_t *n) {
  struct suffix *list = calloc(SUFFIXES_MOST, sizeof *list);
  if (list == NULL) return NULL;
  *n = 1;
  for (uint32_t i = 0; i < ix->nentries; i++) {
    const struct fs_entry *e = fs_index_entry(ix, i);
    if (!S_ISREG(e->mode) || e->size == 0 || (FS_NAME_FLAGS(e->name) & FS_ENTRY_LINKED) != 0) continue;
    const char *name;
    uint32_t len;
    if (fs_index_name(ix, e, &name, &len) < 0) continue;
    const size_t k = fs_suffix(name, len);
    count(find(list, n, name + len - k, k), ix, i);
  }
  qsort(list, *n, sizeof *list, by_plain);
  return list;
}

static const char *codec_of(const struct fs_index *ix, const struct suffix *s) {
  uint32_t most = 0;
  for (uint32_t i = 1; i < ix->codecs.n; i++)
    if (s->by_row[i] > s->by_row[most]) most = i;
  return fs_codec_name(&ix->codecs, most);
}

static void print_line(const char *dots, const char *name, const struct suffix *s, const char *codec) {
  char plain[32], stored[32];
  printf("  %s%-*s %10" PRIu64 " %10s %10s %7.2fx  %s\n", dots, 14 - (int)strlen(dots), name, s->files,
         fs_format_size(s->plain, plain, sizeof plain), fs_format_size(s->stored, stored, sizeof stored),
         fs_times_smaller(s->plain, s->stored), codec);
}

void fs_suffixes_print(const struct fs_index *ix) {
  size_t n;
  FS_AUTO_FREE struct suffix *list = count_all(ix, &n);
  struct suffix rest = {0};
  if (list == NULL || list[0].plain == 0) return;
  printf("%-16s %10s %10s %10s %8s  mostly\n", "suffix", "files", "plain", "stored", "smaller");
  for (size_t i = 0; i < n && list[i].plain != 0; i++) {
    const struct suffix *s = &list[i];
    if (i < ROWS) {
      print_line(s->name[0] != '\0' ? "*." : "", s->name[0] != '\0' ? s->name : "none", s, codec_of(ix, s));
      continue;
    }
    rest.files += s->files;
    rest.plain += s->plain;
    rest.stored += s->stored;
  }
  if (rest.files != 0) print_line("", "others", &rest, "");
}

void fs_suffixes_json(const struct fs_index *ix) {
  size_t n;
  FS_AUTO_FREE struct suffix *list = count_all(ix, &n);
  printf(" \"suffixes\": [");
  for (size_t i = 0; list != NULL && i < n && list[i].plain != 0; i++)
    printf("%s\n  {\"suffix\": \"%s\", \"files\": %" PRIu64 ", \"plain_bytes\": %" PRIu64 ", \"stored_bytes\": %" PRIu64
           ", \"codec\": \"%s\"}",
           i == 0 ? "" : ",", list[i].name, list[i].files, list[i].plain, list[i].stored, codec_of(ix, &list[i]));
  printf("\n ],\n");
}
