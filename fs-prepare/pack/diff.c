/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-prepare diff: says how a dataset differs from what it was packed from or from another dataset, one line for
 * each name. Both sides are sorted in the index's order and merged. Contents are compared by several
 * threads before that, and only with --checksum. Exit status as diff(1).
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pack.h"

enum { SAME = 0, DIFFERENT = 1, TROUBLE = 2 };

struct diff {
  struct fs_pack_options o; /* for the walk, with the SOURCEs */
  const char *name;         /* of the dataset on the left side; NULL: not given yet */
  bool nul, checksum;
  struct fs_dataset left, right;
  bool dataset; /* the right side is a dataset */
  struct fs_tree tree;
  struct fs_progress progress; /* nobody looks at it */
  uint64_t *mate;              /* for each left entry: number of the right one + 1; 0: none */
  _Atomic uint8_t *different;  /* with --checksum: the content of the left entry and its mate */
  _Atomic fs_err err;
  uint64_t lines;
};

/* ---- both sides as struct fs_item ---- */

struct texts {
  char path[PATH_MAX], target[PATH_MAX];
};

/* Makes an item of an entry, with its path and target in `texts`. */
static fs_err item_of(const struct fs_dataset *ds, uint32_t entry, struct texts *texts, struct fs_item *item) {
  const struct fs_entry *e = fs_index_entry(&ds->ix, entry);
  const char *target;
  uint64_t len;
  if (fs_index_path(&ds->ix, entry, texts->path, sizeof texts->path) < 0) return -EUCLEAN;
  *item = (struct fs_item){.path = texts->path,
                           .mtime_sec = e->mtime_sec,
                           .mtime_nsec = e->mtime_nsec,
                           .mode = (uint16_t)e->mode,
                           .depth = fs_path_depth(texts->path) & FS_DEPTH_MASK,
                           .size = S_ISREG(e->mode) ? e->size : 0};
  if (!S_ISLNK(e->mode)) return 0;
  fs_err err = fs_index_target(&ds->ix, e, &target, &len);
  if (err < 0) return err;
  memcpy(texts->target, target, len);
  texts->target[len] = '\0';
  item->target = texts->target;
  return 0;
}

/* Like item_of, with the texts in the tree's. */
static fs_err add_item(const struct fs_dataset *ds, uint32_t entry, struct fs_tree *tree) {
  struct texts texts;
  struct fs_item *item = &tree->items[entry];
  fs_err err = item_of(ds, entry, &texts, item);
  if (err < 0) return err;
  item->path = fs_arena_text(&tree->text, texts.path, strlen(texts.path));
  if (item->target != NULL) item->target = fs_arena_text(&tree->text, texts.target, strlen(texts.target));
  return item->path == NULL || (S_ISLNK(item->mode) && item->target == NULL) ? -ENOMEM : 0;
}

static fs_err load_entries(const struct fs_dataset *ds, struct fs_tree *tree) {
  tree->items = calloc(ds->ix.nentries, sizeof *tree->items);
  fs_err err = tree->items != NULL ? 0 : -ENOMEM;
  for (; tree->n < ds->ix.nentries && err == 0; tree->n++) err = add_item(ds, (uint32_t)tree->n, tree);
  if (err < 0) fs_say("%s: %s", ds->path, err == -EUCLEAN ? "damaged; run fs-prepare verify" : strerror(-err));
  return err;
}

static bool is_dataset(const char *path) {
  char manifest[PATH_MAX];
  int n = snprintf(manifest, sizeof manifest, "%s/manifest", path);
  if (n < 0 || (size_t)n >= sizeof manifest || access(manifest, F_OK) < 0) return false;
  snprintf(manifest, sizeof manifest, "%s/index", path);
  return access(manifest, F_OK) == 0;
}

static fs_err load_right(struct diff *d) {
  const struct fs_source_arg *first = &d->o.sources[0];
  d->dataset = d->o.nsources == 1 && first->prefix == NULL && is_dataset(first->path);
  if (d->dataset) {
    fs_err err = fs_dataset_open_checked(&d->right, first->path);
    return err < 0 ? err : load_entries(&d->right, &d->tree);
  }
  d->o.quiet = true;
  d->o.codec = FS_CHOOSE_RAW; /* archives: no samples are kept */
  snprintf(d->o.mount, sizeof d->o.mount, "%s", d->left.manifest.mount);
  d->o.source = first->path;
  d->tree.progress = &d->progress;
  fs_err err = fs_sources_open(&d->o, &d->tree);
  if (err == 0) err = fs_sources_collect(&d->o, &d->tree);
  if (err == 0) qsort(d->tree.items, d->tree.n, sizeof *d->tree.items, fs_item_order);
  return err;
}

/* ---- contents ---- */

static fs_err find_mates(struct diff *d) {
  const struct fs_index *ix = &d->left.ix;
  d->mate = calloc(ix->nentries, sizeof *d->mate);
  d->different = calloc(ix->nentries, sizeof *d->different);
  if (d->mate == NULL || d->different == NULL) return -ENOMEM;
  for (size_t i = 0; i < d->tree.n; i++) {
    const struct fs_item *item = &d->tree.items[i];
    int64_t n = item->path != NULL ? fs_index_lookup(ix, item->path, strlen(item->path)) : -ENOENT;
    if (n >= 0) d->mate[n] = i + 1;
  }
  return 0;
}

/* Says that a dataset's partitions are on the nodes only. Returns false if that is not so. */
static bool say_on_nodes(const struct fs_dataset *ds) {
  return fs_dataset_need_parts(ds, "leave out --checksum, or compare in a job: fs-launch ... -- diff -r MOUNT DIR") < 0;
}

static void compare_one(void *ctx, uint64_t entry) {
  struct diff *d = ctx;
  const struct fs_entry *e = &d->left.ix.entries[entry];
  if (d->mate[entry] == 0 || !S_ISREG(e->mode) || atomic_load(&d->err) < 0) return;
  const uint64_t n = d->mate[entry] - 1;
  const struct fs_item *item = &d->tree.items[n];
  if (!S_ISREG(item->mode) || item->size != e->size || e->size == 0) return;
  int equal = d->dataset ? fs_content_equal_in(&d->left, (uint32_t)entry, &d->right, (uint32_t)n)
              : fs_item_stream(&d->tree, item) != NULL ? -EOPNOTSUPP
                                                       : fs_item_equal(&d->tree, item, &d->left, (uint32_t)entry);
  if (equal == 0) atomic_store(&d->different[entry], 1);
  if (equal >= 0 || atomic_exchange(&d->err, equal) < 0) return;
  if (equal == -EBADMSG && (say_on_nodes(&d->left) || (d->dataset && say_on_nodes(&d->right)))) return;
  FS_AUTO_FREE char *name = fs_prep_name(item->path);
  fs_say("%s: cannot be compared: %s", name,
         equal == -EBADMSG      ? "damaged or unreadable in a dataset; run fs-prepare verify"
         : equal == -EOPNOTSUPP ? "the archive can only be read in its order; unpack it first"
         : equal == -ESTALE     ? "it changes"
                                : strerror(-equal));
}

/* ---- output ---- */

static void print(struct diff *d, const char *what, const char *path) {
  FS_AUTO_FREE char *shown = d->nul ? NULL : fs_prep_name(path[0] != '\0' ? path : ".");
  d->lines++;
  printf("%s %s%c", what, shown != NULL ? shown : path[0] != '\0' ? path : ".", d->nul ? '\0' : '\n');
}

/* Prints how an entry differs from its mate, if it does. */
static void print_changed(struct diff *d, const struct fs_item *a, const struct fs_item *b, uint64_t entry) {
  const bool type = (a->mode & S_IFMT) != (b->mode & S_IFMT), link = S_ISLNK(a->mode);
  const struct {
    bool is;
    const char *word;
  } what[] = {
      {type, "type"},
      {!type && !link && a->mode != b->mode, "mode"},
      {!type && a->size != b->size, "size"},
      {!type && link && strcmp(a->target, b->target) != 0, "target"},
      {!type && atomic_load(&d->different[entry]) != 0, "content"},
      {!type && (a->mtime_sec != b->mtime_sec || a->mtime_nsec != b->mtime_nsec), "mtime"},
  };
  char text[64] = "changed";
  bool any = false;
  for (size_t i = 0; i < FS_ARRAY_LEN(what); i++) {
    if (!what[i].is) continue;
    strcat(text, any ? "," : " ");
    strcat(text, what[i].word);
    any = true;
  }
  if (any) print(d, text, b->path);
}

/* Merges both sides in the index's order. */
static fs_err merge(struct diff *d) {
  const uint64_t left = d->left.ix.nentries;
  struct texts texts;
  uint64_t i = 0, k = 0;
  while (i < left || k < d->tree.n) {
    struct fs_item a = {0};
    fs_err err = i < left ? item_of(&d->left, (uint32_t)i, &texts, &a) : 0;
    if (err < 0) return err;
    const int order = i == left ? 1 : k == d->tree.n ? -1 : fs_item_order(&a, &d->tree.items[k]);
    if (order < 0) print(d, "removed", a.path);
    if (order > 0) print(d, "added", d->tree.items[k].path);
    if (order == 0) print_changed(d, &a, &d->tree.items[k], i);
    i += order <= 0;
    k += order >= 0;
  }
  return 0;
}

static fs_err run(struct diff *d) {
  fs_err err = fs_dataset_open_checked(&d->left, d->name);
  if (err < 0) return err;
  err = load_right(d);
  if (err == 0) err = find_mates(d);
  if (err == 0 && d->checksum) fs_prep_parallel(d->o.jobs, d->left.ix.nentries, compare_one, d);
  if (err == 0) err = atomic_load(&d->err);
  if (err == 0) err = merge(d);
  if (err == -ENOMEM) fs_say("out of memory");
  fs_tree_free(&d->tree);
  free(d->mate);
  free(d->different);
  if (d->dataset && d->right.path != NULL) fs_dataset_close(&d->right);
  fs_dataset_close(&d->left);
  return err;
}

/* ---- the command line ---- */

enum { OPT_CHECKSUM = FS_OPT_OWN, OPT_NUL, OPT_SOURCE, OPT_SHARDS, OPT_EXCLUDE, OPT_DEREFERENCE, OPT_JOBS };
static const struct fs_opt options[] = {
    {"checksum", 'c', NULL, "compare contents, too", OPT_CHECKSUM},
    {"null", '0', NULL, "end each line with a NUL, and print names as they are", OPT_NUL},
    {"source", 0, "PREFIX=PATH", "the directory or archive PATH was packed as the directory PREFIX (repeatable)",
     OPT_SOURCE},
    {"shards", 0, "HOW", "nest or merge, if pack was given it", OPT_SHARDS},
    {"exclude", 0, "GLOB", "leave out what matches in SOURCE (repeatable)", OPT_EXCLUDE},
    {"dereference", 0, "WHICH", "follow symlinks of SOURCE: all of them, or outside", OPT_DEREFERENCE},
    {"jobs", 'j', "N", "number of threads (default: one a CPU)", OPT_JOBS},
    FS_OPT_COMMON,
};

/* DATASET comes first. */
static fs_err take_word(struct diff *d, const char *word) {
  if (word[0] == '\0') {
    fs_say("%s: %s is empty", "diff", d->name == NULL ? "DATASET" : "SOURCE");
    return -EINVAL;
  }
  if (d->name != NULL) return fs_pack_add_source(&d->o, NULL, word);
  d->name = word;
  return 0;
}

static fs_err set(void *ctx, int id, const char *value) {
  struct diff *d = ctx;
  switch (id) {
  case FS_OPT_WORD:
    return take_word(d, value);
  case OPT_SOURCE:
    return fs_pack_set_source(&d->o, "source", value);
  case OPT_SHARDS:
    return fs_pack_set_shards(&d->o, value);
  case OPT_CHECKSUM:
    d->checksum = true;
    return 0;
  case OPT_NUL:
    d->nul = true;
    return 0;
  case OPT_EXCLUDE:
    return fs_globs_add(&d->o.exclude, "diff", "exclude", value);
  case OPT_DEREFERENCE:
    return fs_pack_dereference(&d->o, value);
  case OPT_JOBS:
    return fs_prep_jobs(value, &d->o.jobs);
  default:
    return -EINVAL;
  }
}

int fs_prep_diff(int argc, char **argv) {
  struct diff d = {.o = {.command = "diff", .jobs = fs_sys_cpus()}};
  struct fs_prep_cli cli = {
      .command = "diff",
      .synopsis = "[options] DATASET SOURCE...|DATASET2",
      .about = "Says how the SOURCEs, or another dataset, differ from DATASET, a line for each name: 'added PATH',\n"
               "'removed PATH', or 'changed WHAT PATH', where WHAT are words of type, mode, size, target, content and\n"
               "mtime, with commas. The exit status is 0 if nothing differs, 1 if anything does, and 2 for trouble.",
      .opts = options,
      .nopts = FS_ARRAY_LEN(options),
      .set = set,
      .ctx = &d};
  fs_err err = fs_prep_parse(&cli, argc, argv);
  if (err == 0 && (d.name == NULL || d.o.nsources == 0)) {
    fs_say("%s: %s is missing (usage: fs-prepare %s %s)", cli.command, d.name == NULL ? "DATASET" : "SOURCE",
           cli.command, cli.synopsis);
    err = -EINVAL;
  }
  if (err == 0) err = run(&d);
  fs_pack_options_free(&d.o);
  if (err < 0) return TROUBLE;
  return fs_prep_finish(SAME) != SAME ? TROUBLE : d.lines != 0 ? DIFFERENT : SAME;
}
