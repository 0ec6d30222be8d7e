/* SPDX-License-Identifier: BSD-3-Clause */
/* fs-prepare info: describes a dataset, for people or as JSON. Reads the manifest and the index
   only. One thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "prepare.h"

#define NODE_COUNTS 3u /* without --nodes: 2, 4 and 8 */

struct info {
  uint64_t unused; /* bytes of the partitions */
  uint64_t shared; /* bytes that equal blocks of large files have saved */
  bool json;
  uint64_t nodes;  /* 0: some */
  uint64_t *files; /* of each partition */
  struct fs_spread spread[NODE_COUNTS];
  uint32_t nspread;
};

/* Counts of how the files are stored. */
struct kinds {
  uint64_t raw, lz4, zstd, empty, aligned, linked;
  uint64_t row[FS_CODEC_ROWS_MAX]; /* files of each row of the table of codecs */
};

static struct kinds count_kinds(const struct fs_index *ix) {
  struct kinds k = {0};
  for (uint64_t i = 0; i < ix->nentries; i++) {
    const struct fs_entry *e = &ix->entries[i];
    if (!S_ISREG(e->mode)) continue;
    uint32_t flags = FS_NAME_FLAGS(e->name);
    k.linked += (flags & FS_ENTRY_LINKED) != 0;
    k.aligned += (flags & FS_ENTRY_ALIGNED) != 0;
    k.empty += e->size == 0;
    uint32_t row = FS_NAME_CODEC(e->name), family = row < ix->codecs.n ? ix->codecs.rows[row].family : FS_FAMILY_RAW;
    if (e->size == 0) continue;
    k.row[row]++;
    k.raw += row == FS_CODEC_RAW;
    k.lz4 += family == FS_FAMILY_LZ4;
    k.zstd += family == FS_FAMILY_ZSTD;
  }
  return k;
}

/* Prints a JSON list of the rows of the table of codecs. */
static void print_codecs(const struct fs_index *ix, const struct kinds *k) {
  for (uint32_t i = 0; i < ix->codecs.n; i++)
    printf("%s\n  {\"codec\": \"%s\", \"files\": %" PRIu64 ", \"dictionary_bytes\": %" PRIu32 "}", i == 0 ? "" : ",",
           fs_codec_name(&ix->codecs, i), k->row[i], ix->codecs.rows[i].dict_len);
}

static fs_err measure_spread(struct info *info, const struct fs_index *ix) {
  info->files = calloc(ix->nparts + 1, sizeof *info->files);
  if (info->files == NULL) return -ENOMEM;
  fs_spread_files(ix, info->files);
  fs_err err = 0;
  for (uint32_t nodes = 2; info->nspread < NODE_COUNTS && err == 0; nodes *= 2) {
    if (info->nodes != 0) nodes = (uint32_t)info->nodes;
    err = fs_spread_over_nodes(ix, nodes, &info->spread[info->nspread++]);
    if (info->nodes != 0) break;
  }
  return err;
}

static void print_json(const struct fs_dataset *ds, const struct info *info) {
  const struct fs_manifest *m = &ds->manifest;
  const struct fs_index_header *h = ds->ix.hdr;
  struct kinds k = count_kinds(&ds->ix);
  char id[33];
  printf("{\"dataset\": ");
  fs_json_string(stdout, ds->path);
  printf(", \"format_version\": %u, \"dataset_id\": \"%s\",\n \"mount\": ", m->version,
         fs_hex(m->dataset_id, sizeof m->dataset_id, id));
  fs_json_string(stdout, m->mount);
  printf(", \"codec\": ");
  fs_json_string(stdout, m->codec);
  printf(", \"block_size\": %" PRIu32 ", \"align\": %" PRIu32 ",\n", h->block_size, h->align);
  printf(" \"files\": %" PRIu64 ", \"dirs\": %" PRIu64 ", \"symlinks\": %" PRIu64 ", \"hard_links\": %" PRIu64 ",\n",
         h->files, h->dirs, h->symlinks, k.linked);
  printf(" \"raw_files\": %" PRIu64 ", \"lz4_files\": %" PRIu64 ", \"zstd_files\": %" PRIu64
         ", \"empty_files\": %" PRIu64 ", \"aligned_files\": %" PRIu64 ",\n",
         k.raw, k.lz4, k.zstd, k.empty, k.aligned);
  printf(" \"plain_bytes\": %" PRIu64 ", \"stored_bytes\": %" PRIu64 ", \"index_size\": %" PRIu64
         ", \"max_depth\": %" PRIu32 ",\n",
         h->plain_bytes, h->stored_bytes, m->index_size, h->max_depth);
  printf(" \"unused_bytes\": %" PRIu64 ", \"shared_bytes\": %" PRIu64 ", \"nodes_only\": %s,\n", info->unused,
         info->shared, fs_dataset_only_nodes(ds) ? "true" : "false");
  printf(" \"codecs\": [");
  print_codecs(&ds->ix, &k);
  printf("\n ],\n");
  fs_suffixes_json(&ds->ix);
  printf(" \"partitions\": [");
  for (uint64_t i = 0; i < ds->ix.nparts; i++) {
    const struct fs_part_rec *p = &ds->ix.parts[i];
    char name[FS_PART_NAME_SIZE];
    printf("%s\n  {\"name\": \"%s\", \"size\": %" PRIu64 ", \"xxh3\": \"%016" PRIx64
           "\", \"replicate\": %s, \"files\": %" PRIu64 "}",
           i == 0 ? "" : ",", fs_part_name((uint32_t)i, name), p->size, p->xxh3,
           p->flags & FS_PART_REPLICATE ? "true" : "false", info->files[i]);
  }
  printf("%s],\n \"spread\": [", ds->ix.nparts != 0 ? "\n " : "");
  for (uint32_t i = 0; i < info->nspread; i++) {
    const struct fs_spread *s = &info->spread[i];
    printf("%s\n  {\"nodes\": %" PRIu32 ", \"least_files\": %" PRIu64 ", \"most_files\": %" PRIu64
           ", \"least_bytes\": %" PRIu64 ", \"most_bytes\": %" PRIu64 ", \"directories\": %.4f}",
           i == 0 ? "" : ",", s->nodes, s->least_files, s->most_files, s->least_bytes, s->most_bytes, s->directories);
  }
  printf("\n ]}\n");
}

static void print_size(const char *label, uint64_t bytes) {
  char text[32];
  printf("%-14s %" PRIu64 " (%s)\n", label, bytes, fs_format_size(bytes, text, sizeof text));
}

static void print_spread(const struct fs_spread *s) {
  char count[32], label[40], least[32], most[32];
  snprintf(label, sizeof label, "on %s", fs_format_count(s->nodes, "node", count, sizeof count));
  printf("%-14s %" PRIu64 " to %" PRIu64 " file%s, %s to %s each; directories spread to %.0f%%\n", label,
         s->least_files, s->most_files, fs_plural(s->most_files), fs_format_size(s->least_bytes, least, sizeof least),
         fs_format_size(s->most_bytes, most, sizeof most), s->directories * 100);
}

static void print_text(const struct fs_dataset *ds, const struct info *info) {
  const struct fs_manifest *m = &ds->manifest;
  const struct fs_index_header *h = ds->ix.hdr;
  struct kinds k = count_kinds(&ds->ix);
  char id[33];
  FS_AUTO_FREE char *path = fs_prep_name(ds->path);
  FS_AUTO_FREE char *mount = fs_prep_name(m->mount);
  printf("dataset        %s\nid             %s\nformat         version %u\nmount          %s\n", path,
         fs_hex(m->dataset_id, sizeof m->dataset_id, id), m->version, mount);
  printf("files          %" PRIu64 " (%" PRIu64 " raw, %" PRIu64 " lz4, %" PRIu64 " zstd, %" PRIu64 " empty; %" PRIu64
         " can be mapped)\n",
         h->files, k.raw, k.lz4, k.zstd, k.empty, k.aligned);
  printf("directories    %" PRIu64 "\nsymlinks       %" PRIu64 "\nhard links     %" PRIu64 "\n", h->dirs, h->symlinks,
         k.linked);
  print_size("plain bytes", h->plain_bytes);
  print_size("stored bytes", h->stored_bytes);
  print_size("unused bytes", info->unused);
  print_size("shared bytes", info->shared);
  printf("times smaller  %.2f\n", fs_times_smaller(h->plain_bytes, h->stored_bytes));
  print_size("block size", h->block_size);
  print_size("index", m->index_size);
  printf("codec          %s\n", m->codec);
  fs_suffixes_print(&ds->ix);
  printf("partitions     %" PRIu64 "%s\n", ds->ix.nparts,
         fs_dataset_only_nodes(ds) ? " (on the nodes only: --nodes-only)" : "");
  for (uint64_t i = 0; i < ds->ix.nparts; i++) {
    char name[FS_PART_NAME_SIZE], size[32], files[32];
    const struct fs_part_rec *p = &ds->ix.parts[i];
    printf("  %s   %" PRIu64 " (%s), %s%s\n", fs_part_name((uint32_t)i, name), p->size,
           fs_format_size(p->size, size, sizeof size), fs_format_count(info->files[i], "file", files, sizeof files),
           p->flags & FS_PART_REPLICATE ? ", on every node" : "");
  }
  for (uint32_t i = 0; i < info->nspread; i++) print_spread(&info->spread[i]);
}

enum { OPT_JSON = FS_OPT_OWN, OPT_NODES };
static const struct fs_opt options[] = {
    {"json", 0, NULL, "print JSON", OPT_JSON},
    {"nodes", 0, "N", "how files spread over a job of N nodes (default: of 2, 4 and 8)", OPT_NODES},
    FS_OPT_COMMON,
};

static fs_err set(void *ctx, int id, const char *value) {
  struct info *info = ctx;
  if (id == OPT_JSON) {
    info->json = true;
    return 0;
  }
  if (id != OPT_NODES) return -EINVAL;
  if (fs_parse_u64(value, 1, 65535, &info->nodes) == 0) return 0;
  fs_say("--nodes '%s': give a number from 1 to 65535", value);
  return -EINVAL;
}

int fs_prep_info(int argc, char **argv) {
  struct info info = {0};
  struct fs_dataset ds;
  struct fs_prep_cli cli = {.command = "info",
                            .synopsis = "[options] DATASET",
                            .about = "Shows what a dataset holds, how it is stored, and its partitions.",
                            .opts = options,
                            .nopts = FS_ARRAY_LEN(options),
                            .word_names = {"DATASET"},
                            .want = 1,
                            .set = set,
                            .ctx = &info};
  if (fs_prep_parse(&cli, argc, argv) < 0) return FS_EXIT_USAGE;
  if (fs_dataset_open_checked(&ds, cli.word[0]) < 0) return FS_EXIT_FAILED;
  fs_err err = measure_spread(&info, &ds.ix);
  if (err == 0) err = fs_dataset_waste(&ds, &info.unused, &info.shared);
  if (err < 0)
    fs_say("%s: %s", ds.path, err == -ENOMEM ? "out of memory while counting files" : strerror(-err));
  else if (info.json)
    print_json(&ds, &info);
  else
    print_text(&ds, &info);
  free(info.files);
  fs_dataset_close(&ds);
  return fs_prep_finish(err == 0 ? FS_EXIT_OK : FS_EXIT_FAILED);
}
