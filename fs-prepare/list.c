/* SPDX-License-Identifier: BSD-3-Clause */
/* fs-prepare list: prints the paths of a dataset in the index's order, level by level. Reads the
   manifest and the index only. One thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "prepare.h"

struct list {
  bool details, nul, printable, json;
  struct fs_dataset ds;
};

static void mode_text(uint32_t mode, char out[11]) {
  static const char bits[] = "rwxrwxrwx";
  out[0] = S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'l' : '-';
  for (int i = 0; i < 9; i++) out[i + 1] = mode & 1u << (8 - i) ? bits[i] : '-';
  if (mode & S_ISUID) out[3] = out[3] == 'x' ? 's' : 'S';
  if (mode & S_ISGID) out[6] = out[6] == 'x' ? 's' : 'S';
  if (mode & S_ISVTX) out[9] = out[9] == 'x' ? 't' : 'T';
  out[10] = '\0';
}

/* Returns the stored bytes of a file. A block that cannot be resolved counts 0, and so does a file
   with more blocks than exist. */
static uint64_t stored_bytes(const struct fs_index *ix, uint32_t entry) {
  const struct fs_entry *e = fs_index_entry(ix, entry);
  uint64_t sum = 0, n = fs_index_block_count(ix, e);
  struct fs_block b;
  for (uint64_t i = 0; i < n && n <= FS_MAX(ix->nblocks, 1); i++)
    if (fs_index_block(ix, entry, i, &b) == 0) sum += b.stored_len;
  return sum;
}

/* Prints mode, links, plain bytes, codec, stored bytes and time. */
static void print_details(const struct list *l, uint32_t entry) {
  const struct fs_index *ix = &l->ds.ix;
  const struct fs_entry *e = fs_index_entry(ix, entry);
  char mode[11], when[40] = "?";
  struct tm tm;
  struct stat st;
  time_t t = (time_t)e->mtime_sec;
  fs_index_stat(ix, entry, &st);
  mode_text(e->mode, mode);
  if (localtime_r(&t, &tm) != NULL) strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
  bool file = S_ISREG(e->mode);
  printf("%s %3" PRIu32 " %12" PRIu64 " %-4s %12" PRIu64 " %s ", mode, e->nlink, (uint64_t)st.st_size,
         file && e->size != 0 ? fs_codec_name(&ix->codecs, FS_NAME_CODEC(e->name)) : "-",
         file ? stored_bytes(ix, entry) : 0, when);
}

static void print_name(const struct list *l, const char *name, size_t n) {
  if (!l->printable) {
    fwrite(name, 1, n, stdout);
    return;
  }
  FS_AUTO_FREE char *copy = strndup(name, n);
  FS_AUTO_FREE char *shown = copy != NULL ? fs_prep_name(copy) : NULL;
  fputs(shown != NULL ? shown : "?", stdout);
}

/* Prints what only files, or only symlinks, have. */
static void print_json_kind(const struct fs_index *ix, uint32_t entry) {
  const struct fs_entry *e = fs_index_entry(ix, entry);
  const char *target;
  uint64_t len;
  if (S_ISREG(e->mode))
    printf(", \"codec\": \"%s\", \"blocks\": %" PRIu64 ", \"stored_bytes\": %" PRIu64,
           e->size != 0 ? fs_codec_name(&ix->codecs, FS_NAME_CODEC(e->name)) : "raw", fs_index_block_count(ix, e),
           stored_bytes(ix, entry));
  if (!S_ISLNK(e->mode) || fs_index_target(ix, e, &target, &len) < 0) return;
  FS_AUTO_FREE char *text = strndup(target, len);
  printf(", \"target\": ");
  fs_json_string(stdout, text != NULL ? text : "");
}

static fs_err print_json(const struct list *l, uint32_t entry) {
  char path[PATH_MAX];
  const struct fs_index *ix = &l->ds.ix;
  const struct fs_entry *e = fs_index_entry(ix, entry);
  const char *type = S_ISDIR(e->mode) ? "dir" : S_ISLNK(e->mode) ? "symlink" : "file";
  struct stat st;
  fs_ssize n = fs_index_path(ix, entry, path, sizeof path);
  if (n < 0) return (fs_err)n;
  fs_index_stat(ix, entry, &st);
  printf("{\"path\": ");
  fs_json_string(stdout, path);
  printf(", \"type\": \"%s\", \"mode\": \"%04o\", \"inode\": %" PRIu64 ", \"links\": %" PRIu32 ", \"size\": %" PRIu64
         ", \"mtime\": %" PRId64 ", \"mtime_nsec\": %" PRIu32,
         type, e->mode & 07777u, (uint64_t)st.st_ino, e->nlink, (uint64_t)st.st_size, e->mtime_sec, e->mtime_nsec);
  print_json_kind(ix, entry);
  printf("}\n");
  return 0;
}

static fs_err print_entry(const struct list *l, uint32_t entry) {
  char path[PATH_MAX];
  const struct fs_index *ix = &l->ds.ix;
  const struct fs_entry *e = fs_index_entry(ix, entry);
  if (l->json) return print_json(l, entry);
  fs_ssize n = fs_index_path(ix, entry, path, sizeof path);
  if (n < 0) return (fs_err)n;
  if (l->details) print_details(l, entry);
  print_name(l, path, (size_t)n);
  const char *target;
  uint64_t len;
  if (l->details && S_ISLNK(e->mode) && fs_index_target(ix, e, &target, &len) == 0) {
    fputs(" -> ", stdout);
    print_name(l, target, len);
  }
  putchar(l->nul ? '\0' : '\n');
  return 0;
}

enum { OPT_LONG = FS_OPT_OWN, OPT_NUL, OPT_JSON };
static const struct fs_opt options[] = {
    {"long", 'l', NULL, "also show mode, links, size, codec, stored size and time", OPT_LONG},
    {"json", 0, NULL, "print a line with a JSON object for each", OPT_JSON},
    {"null", '0', NULL, "end each path with a NUL byte", OPT_NUL},
    FS_OPT_COMMON,
};

static fs_err set(void *ctx, int id, const char *value) {
  struct list *l = ctx;
  (void)value;
  if (id == OPT_LONG) l->details = true;
  if (id == OPT_NUL) l->nul = true;
  if (id == OPT_JSON) l->json = true;
  return 0;
}

int fs_prep_list(int argc, char **argv) {
  struct list l = {0};
  struct fs_prep_cli cli = {.command = "list",
                            .synopsis = "[options] DATASET",
                            .about = "Lists the paths of a dataset, level by level. On a terminal, bytes that are not\n"
                                     "printable are shown as escapes.",
                            .opts = options,
                            .nopts = FS_ARRAY_LEN(options),
                            .word_names = {"DATASET"},
                            .want = 1,
                            .set = set,
                            .ctx = &l};
  if (fs_prep_parse(&cli, argc, argv) < 0) return FS_EXIT_USAGE;
  if (fs_dataset_open_checked(&l.ds, cli.word[0]) < 0) return FS_EXIT_FAILED;
  l.printable = !l.nul && isatty(STDOUT_FILENO);
  fs_err err = 0;
  for (uint64_t i = 1; i < l.ds.ix.nentries && err == 0; i++) err = print_entry(&l, (uint32_t)i);
  if (err < 0) {
    fs_say("%s/index: damaged; run fs-prepare verify", l.ds.path);
  }
  fs_dataset_close(&l.ds);
  return fs_prep_finish(err == 0 ? FS_EXIT_OK : FS_EXIT_FAILED);
}
