/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What finding a name in memory gives: limit_index [-c] INDEX SEED takes the paths of all regular files of a dataset's
 * index, in random order, and for each does what a stat of it cannot do without. Prints a JSON object, nanoseconds a
 * file, the fastest of three passes each, none of which begins a file before the last is done: "touches", the hash, its
 * bucket, the entry that the bucket names, and a byte of the name, which is fetched at the same time; "lookup",
 * fs_index_lookup, which compares too. -c pins it to the last CPU.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "index/index.h"
#include "util/xxh.h"

#define PASSES 3

static struct fs_index ix;
static char **paths;
static size_t n;

static void list(uint64_t seed) {
  char path[PATH_MAX];
  paths = calloc(ix.nentries, sizeof(*paths));
  if (!paths) die("calloc");
  for (uint64_t i = 0; i < ix.nentries; i++) {
    if (!S_ISREG(ix.entries[i].mode)) continue;
    if (fs_index_path(&ix, (uint32_t)i, path, sizeof(path)) < 0) die("a path");
    paths[n] = strdup(path);
    if (!paths[n++]) die("strdup");
  }
  for (size_t i = n; i > 1; i--) {
    size_t j = next_random(&seed) % i;
    char *p = paths[i - 1];
    paths[i - 1] = paths[j];
    paths[j] = p;
  }
}

static uint64_t touches(const char *path, size_t len) {
  uint64_t hash = XXH3_64bits(path, len);
  uint64_t e = (uint32_t)ix.buckets[hash & ix.bucket_mask] - 1ull;
  if (e >= ix.nentries) die(path); /* a path's first bucket is in use, if by another, which is as far away */
  const uint64_t *s = ix.samples + (e >> FS_SAMPLE_SHIFT);
  return ix.entries[e].size + (ix.samples ? (unsigned char)ix.strings[s[0] % ix.strings_size] : 0u);
}

static uint64_t lookup(const char *path, size_t len) {
  int64_t e = fs_index_lookup(&ix, path, len);
  if (e < 0) die(path);
  return ix.entries[e].size;
}

static double pass(uint64_t (*each)(const char *, size_t)) {
  uint64_t none = 0, start = now();
  for (size_t i = 0; i < n; i++) {
    const char *path = paths[i + none];
    if (!path) die("paths");
    uint64_t got = each(path, strlen(path));
    __asm__ volatile("" : "+r"(none) : "r"(got)); /* 0, but the compiler does not know */
    none = (none ^ got) & none;
  }
  return (double)(now() - start) / (double)n;
}

static double fastest(uint64_t (*each)(const char *, size_t)) {
  double took[PASSES];
  for (unsigned i = 0; i < PASSES; i++) took[i] = pass(each);
  return least(took, PASSES);
}

int main(int argc, char **argv) {
  bool pin = argc > 1 && !strcmp(argv[1], "-c");
  char why[256] = "";
  if (argc - pin != 3) {
    fprintf(stderr, "usage: limit_index [-c] INDEX SEED\n");
    return 2;
  }
  if (fs_index_open(argv[1 + pin], &ix, why, sizeof(why)) < 0) errx(1, "%s: %s", argv[1 + pin], why);
  list(88172645463325252u ^ strtoull(argv[2 + pin], NULL, 10) << 1);
  if (n == 0) errx(1, "%s: no files", argv[1 + pin]);
  if (pin) pin_to_last_cpu();
  double bare = fastest(touches), found = fastest(lookup);
  printf("{\"touches\": %.1f, \"lookup\": %.1f}\n", bare, found);
  return 0;
}
