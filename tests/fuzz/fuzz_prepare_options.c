/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of `fs-prepare pack`: refused with a line, or with values that can be. */
#include <stdlib.h>
#include <string.h>

#include "../../fs-prepare/pack/pack.h"
#include "fuzz_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const words[] = {
    "--partitions", "--codec", "--block-size", "--replicate", "--exclude", "--jobs",    "--mount",
    "--align",      "--force", "-j",           "-f",          "--",        "lz4hc:12",  "auto",
    "lz4",          "raw",     "--order",      "--source",    "--shards",  "merge",     "a/b=c",
    "--files-from", "-0",      "--keep-going", "shuffle",     "16K",       "64K",       "1",
    "/a/../b",      "*.jpg",   "**/d/",        "65472",       "source",    "../dataset"};

static bool ends_it(const char *word) { /* help leaves by exit */
  bool letters = word[0] == '-' && word[1] != '-';
  return (letters && strchr(word, 'h')) || strstr(word, "-h") || strstr(word, "help") || strstr(word, "version");
}

static void check_globs(const struct fs_globs *g) {
  for (size_t i = 0; i < g->n; i++)
    if (g->glob[i][0] == '\0' || g->glob[i][strlen(g->glob[i]) - 1] == '/') abort();
}

static void check_sources(const struct fs_pack_options *o) {
  if (o->nsources == 0 || o->source != o->sources[0].path) abort();
  for (uint32_t i = 0; i < o->nsources; i++) {
    const char *prefix = o->sources[i].prefix;
    if (o->sources[i].path[0] == '\0' || (prefix && prefix[0] == '/')) abort();
  }
}

static void check(const struct fs_pack_options *o) {
  char again[PATH_MAX];
  if (!o->source || !o->dataset || o->partitions > FS_MAX_PARTITIONS || o->jobs == 0) abort();
  if (o->block_size < FS_BLOCK_SIZE_MIN || o->block_size > FS_BLOCK_SIZE_MAX || !fs_is_pow2(o->block_size)) abort();
  if ((o->align != 4096 && o->align != 65536) || o->level < 1 || o->level > 22) abort();
  if (!memchr(o->codec_text, '\0', sizeof(o->codec_text))) abort();
  check_globs(&o->replicate);
  check_globs(&o->exclude);
  check_sources(o);
  if (o->mount[0] == '\0') return; /* of a source that is not there, which is told later */
  if (fs_path_normalize(o->mount, again, sizeof(again)) < 2 || strcmp(again, o->mount) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_words w = {.known = words, .n = FS_ARRAY_LEN(words), .left_out = ends_it};
  struct fs_pack_options o;
  fuzz_words(&w, "pack", data, size);
  if (fs_pack_options_parse(&o, w.argc, w.argv) == 0) check(&o);
  fs_pack_options_free(&o);
  free(w.text);
  return 0;
}
