/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collects the items of all SOURCEs. Directories are walked one after the other, each by several
 * threads (walk.c). Archives are scanned beside each other (archive.c). Then the trees are joined:
 * directories of the same path become one, other equal paths are refused, and parents that no
 * source has are made. Called by pack's main thread.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pack.h"

#define PROBLEM_SHOWN 1000u /* bytes of a path in a line */
/* Attributes of directories that no source has: the first moment that zip can express. */
#define MADE_MODE (S_IFDIR | 0755u)
#define MADE_MTIME 315532800 /* 1980-01-01 00:00:00 UTC */

fs_err fs_problems_add(struct fs_problems *p, const char *path, const char *what) {
  if (fs_grow(&p->problem, &p->room, p->n, sizeof *p->problem) < 0) return -ENOMEM;
  struct fs_problem one = {strdup(path), strdup(what)};
  p->problem[p->n] = one;
  if (one.path != NULL && one.what != NULL) {
    p->n++;
    return 0;
  }
  free(one.path);
  free(one.what);
  return -ENOMEM;
}

static int by_problem_path(const void *a, const void *b) {
  return strcmp(((const struct fs_problem *)a)->path, ((const struct fs_problem *)b)->path);
}

void fs_problems_free(struct fs_problems *p) {
  for (size_t i = 0; i < p->n; i++) {
    free(p->problem[i].path);
    free(p->problem[i].what);
  }
  free(p->problem);
  *p = (struct fs_problems){0};
}

void fs_problems_say(struct fs_problems *p, const char *source) {
  if (p->n != 0) qsort(p->problem, p->n, sizeof *p->problem, by_problem_path);
  for (size_t i = 0; i < p->n; i++) {
    const char *path = p->problem[i].path;
    const char *slash = source[0] != '\0' && path[0] != '\0' ? "/" : "";
    const char *cut = strlen(path) > PROBLEM_SHOWN ? "..." : "";
    if (i < 10) fs_say("%s%s%.*s%s %s", source, slash, (int)PROBLEM_SHOWN, path, cut, p->problem[i].what);
  }
  if (p->n > 10) fs_say("and %zu more", p->n - 10);
  fs_problems_free(p);
}

size_t fs_archive_stem(const char *path) {
  static const char *const suffixes[] = {".tar",  ".tar.gz", ".tgz",    ".tar.zst", ".tzst",     ".tar.lz4", ".tar.bz2",
                                         ".tbz2", ".tbz",    ".tar.xz", ".txz",     ".tar.lzma", ".zip"};
  const size_t n = strlen(path);
  for (size_t i = 0; i < FS_ARRAY_LEN(suffixes); i++) {
    const size_t m = strlen(suffixes[i]);
    if (n > m && path[n - m - 1] != '/' && strcmp(path + n - m, suffixes[i]) == 0) return n - m;
  }
  return n;
}

/* Returns the name of a SOURCE: the last component of its path, without a suffix of archives. */
static fs_err base_name(const char *path, char *out, size_t size) {
  FS_AUTO_FREE char *real = realpath(path, NULL);
  if (real == NULL) return -errno;
  const char *name = strrchr(real, '/') + 1;
  struct stat st;
  size_t n = stat(real, &st) == 0 && S_ISREG(st.st_mode) ? fs_archive_stem(name) : strlen(name);
  int used = snprintf(out, size, "%.*s", (int)n, name);
  return used >= 0 && (size_t)used < size ? 0 : -ENAMETOOLONG;
}

fs_err fs_source_prefix(const struct fs_pack_options *o, const struct fs_source_arg *arg, char *prefix, size_t size) {
  bool nest = o->shards == FS_SHARDS_NEST || (o->shards == FS_SHARDS_DEFAULT && o->nsources > 1);
  prefix[0] = '\0';
  if (arg->prefix == NULL) return nest ? base_name(arg->path, prefix, size) : 0;
  int used = snprintf(prefix, size, "%s", arg->prefix);
  return used >= 0 && (size_t)used < size ? 0 : -ENAMETOOLONG;
}

static fs_err open_source(const struct fs_pack_options *o, const struct fs_source_arg *arg, struct fs_source *src) {
  *src = (struct fs_source){.path = arg->path, .fd = -1};
  char why[128] = "";
  int is = 0;
  fs_err err = 0;
  src->fd = fs_sys_openat(AT_FDCWD, arg->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
  if (src->fd < 0) err = src->fd;
  if (err == 0) err = fs_sys_fstat(src->fd, &src->st);
  if (err == 0 && !S_ISDIR(src->st.st_mode)) {
    is = S_ISREG(src->st.st_mode) ? fs_archive_probe(src, why, sizeof why) : 0;
    err = is < 0 ? is : is == 0 ? -ENOTDIR : 0;
  }
  if (err == 0) err = fs_source_prefix(o, arg, src->prefix, sizeof src->prefix);
  src->skip = src->prefix[0] != '\0' ? strlen(src->prefix) + 1 : 0;
  if (err < 0)
    fs_say("%s: %s%s%s%s", arg->path,
           err == -ENOENT    ? "no such directory or archive"
           : err == -ENOTDIR ? "neither a directory nor an archive that can be read (tar, zip)"
                             : strerror(-err),
           why[0] != '\0' ? ": " : "", why,
           (err == -ENOENT || err == -ENOTDIR) && !o->quiet ? "; SOURCE is what is to be packed" : "");
  return err;
}

fs_err fs_sources_open(const struct fs_pack_options *o, struct fs_tree *tree) {
  tree->sources = calloc(o->nsources, sizeof *tree->sources);
  if (tree->sources == NULL) return -ENOMEM;
  fs_prep_open_files(o->nsources + 256ull); /* what is open besides */
  for (uint32_t i = 0; i < o->nsources; i++) {
    fs_err err = open_source(o, &o->sources[i], &tree->sources[i]);
    tree->nsources = i + 1;
    if (err < 0) return err;
  }
  return 0;
}

void fs_sources_close(struct fs_tree *tree) {
  for (uint32_t i = 0; i < tree->nsources; i++) {
    fs_stream_close(tree->sources[i].stream);
    fs_begins_free(&tree->sources[i].begins);
    if (tree->sources[i].fd >= 0) close(tree->sources[i].fd);
  }
  free(tree->sources);
  tree->sources = NULL;
  tree->nsources = 0;
}

/* Refuses combinations of sources and options that cannot work. */
static fs_err check(const struct fs_pack_options *o, const struct fs_tree *tree) {
  for (uint32_t i = 0; i < tree->nsources; i++) {
    const struct fs_source *src = &tree->sources[i];
    if (src->kind == FS_SOURCE_DIR) continue;
    const char *option = o->dereference != FS_DEREF_NONE                              ? "dereference"
                         : o->files_from != NULL                                      ? "files-from"
                         : o->order != FS_ORDER_PATH && src->kind == FS_SOURCE_STREAM ? "order"
                                                                                      : NULL;
    if (option == NULL) continue;
    fs_say("%s: --%s does not work with %s; extract it and pack the directory", src->path, option,
           src->kind == FS_SOURCE_FLAT ? "archives" : "archives that can be read from the begin only");
    return -EINVAL;
  }
  return 0;
}

uint16_t fs_path_depth(const char *path) {
  unsigned n = path[0] != '\0';
  for (; *path != '\0'; path++) n += *path == '/';
  return (uint16_t)n;
}

bool fs_globs_match_above(const struct fs_globs *g, const char *path) {
  char above[PATH_MAX];
  const size_t n = strlen(path);
  if (g->n == 0 || n >= sizeof above) return false;
  for (size_t at = 0; at <= n; at++) {
    if (at == 0 || (path[at] != '/' && path[at] != '\0')) continue;
    memcpy(above, path, at);
    above[at] = '\0';
    if (fs_globs_match(g, above)) return true;
  }
  return false;
}

/* Returns the rank of a byte in a path: what is in a directory comes immediately after it. */
static unsigned rank(char c) {
  return c == '\0' ? 0 : c == '/' ? 1 : (unsigned char)c + 1u;
}

int fs_path_compare(const char *a, const char *b) {
  while (*a == *b && *a != '\0') a++, b++;
  return (int)rank(*a) - (int)rank(*b);
}

/* Of one path, directories come first; then the order of the sources decides. */
static int by_tree_order(const void *va, const void *vb) {
  const struct fs_item *a = va, *b = vb;
  int c = fs_path_compare(a->path, b->path);
  if (c != 0) return c;
  if (S_ISDIR(a->mode) != S_ISDIR(b->mode)) return S_ISDIR(a->mode) ? -1 : 1;
  return a->source < b->source ? -1 : a->source > b->source;
}

struct join {
  struct fs_tree *tree;
  size_t n;             /* items that were taken, at the begin of the tree's */
  struct fs_items made; /* directories that no source has */
  struct fs_problems problems;
  bool between; /* two SOURCEs collide, not only names of one */
};

static const struct fs_item *last_of(const struct join *j) {
  return j->n != 0 ? &j->tree->items[j->n - 1] : NULL;
}

static fs_err add_directory(struct join *j, const char *path, size_t len, uint32_t source) {
  fs_err err = fs_grow(&j->made.item, &j->made.room, j->made.n, sizeof *j->made.item);
  char *copy = err < 0 ? NULL : fs_arena_text(&j->tree->text, path, len);
  if (copy == NULL) return -ENOMEM;
  j->made.item[j->made.n++] = (struct fs_item){.path = copy,
                                               .mode = MADE_MODE,
                                               .mtime_sec = MADE_MTIME,
                                               .depth = fs_path_depth(copy) & FS_DEPTH_MASK,
                                               .source = source};
  return 0;
}

/* Returns the length of the longest path that is `last`, or above it, and above `path`. */
static size_t common(const char *last, const char *path) {
  size_t n = 0, at = 0;
  for (; path[at] != '\0' && last[at] == path[at]; at++)
    if (path[at] == '/') n = at;
  return last[at] == '\0' && path[at] == '/' ? at : n;
}

/* Adds the directories above an item that are not there. Those above the last item are. */
static fs_err add_parents(struct join *j, const struct fs_item *item) {
  const struct fs_item *last = last_of(j);
  fs_err err = last == NULL && item->path[0] != '\0' ? add_directory(j, "", 0, item->source) : 0;
  size_t at = last != NULL ? common(last->path, item->path) : 0;
  for (const char *slash; err == 0 && (slash = strchr(item->path + at + (at != 0), '/')) != NULL;) {
    at = (size_t)(slash - item->path);
    err = add_directory(j, item->path, at, item->source);
  }
  return err;
}

static bool is_above(const char *dir, const char *path) {
  const size_t n = strlen(dir);
  return n == 0 || (strncmp(dir, path, n) == 0 && path[n] == '/');
}

/* Finds out why an item cannot follow the last one. Sets *drop if it is not to be taken. */
static fs_err check_item(struct join *j, const struct fs_item *item, bool *drop) {
  const struct fs_item *last = last_of(j);
  FS_AUTO_FREE char *what = NULL;
  int n = 0;
  if (last == NULL) return 0;
  const char *a = j->tree->sources[last->source].path, *b = j->tree->sources[item->source].path;
  const bool same = strcmp(last->path, item->path) == 0, dirs = S_ISDIR(last->mode) && S_ISDIR(item->mode);
  *drop = same; /* of a directory the first source counts */
  if (same && !dirs)
    n = asprintf(&what, "is in %s and in %s", a, b);
  else if (!S_ISDIR(last->mode) && is_above(last->path, item->path))
    n = asprintf(&what, "is in %s, but '%s' is no directory in %s", b, last->path, a);
  if (n < 0) return -ENOMEM;
  *drop |= what != NULL;
  j->between |= what != NULL && last->source != item->source;
  return what != NULL ? fs_problems_add(&j->problems, item->path, what) : 0;
}

static fs_err join_items(struct join *j) {
  struct fs_tree *tree = j->tree;
  fs_err err = 0;
  for (size_t i = 0; i < tree->n && err == 0; i++) {
    bool drop = false;
    err = check_item(j, &tree->items[i], &drop);
    if (err == 0 && !drop) err = add_parents(j, &tree->items[i]);
    if (err == 0 && !drop) tree->items[j->n++] = tree->items[i];
  }
  if (err == 0 && j->n == 0) err = add_directory(j, "", 0, 0);
  tree->n = j->n;
  return err;
}

/* Joins the trees of all sources, and makes what is missing. */
static fs_err join(const struct fs_pack_options *o, struct fs_tree *tree) {
  struct join j = {.tree = tree};
  if (tree->n != 0) qsort(tree->items, tree->n, sizeof *tree->items, by_tree_order);
  fs_err err = join_items(&j);
  if (err == 0) err = fs_tree_take(tree, &j.made);
  free(j.made.item);
  const size_t n = j.problems.n;
  if (o->keep_going && err == 0) return fs_left_out_take(&tree->left_out, NULL, &j.problems);
  fs_problems_say(&j.problems, "");
  if (n == 0 || err < 0) return err;
  fs_say("%zu name%s collide%s; %sleave them out with --exclude or --keep-going", n, fs_plural(n), n == 1 ? "s" : "",
         j.between ? "give each SOURCE its own directory (--source PREFIX=PATH), or " : "");
  return -EEXIST;
}

struct scans {
  const struct fs_pack_options *o;
  struct fs_tree *tree;
  struct fs_scan *scan; /* one for each source */
};

static void scan_one(void *ctx, uint64_t i) {
  struct scans *s = ctx;
  if (s->tree->sources[i].kind != FS_SOURCE_DIR) fs_archive_scan(s->o, &s->tree->sources[i], (uint32_t)i, &s->scan[i]);
}

/* Tells the problems of all archives, and takes their items, unless there was an error. Frees the scans. */
static fs_err take_scans(struct scans *s, fs_err err) {
  struct fs_tree *tree = s->tree;
  uint64_t problems = 0;
  for (uint32_t i = 0; i < tree->nsources; i++) {
    struct fs_scan *scan = &s->scan[i];
    if (err == 0) err = scan->err;
    problems += scan->problems.n;
    tree->replaced += scan->replaced;
    tree->absolute += scan->absolute;
    tree->excluded += scan->excluded;
    if (err == 0 && s->o->keep_going) err = fs_left_out_take(&tree->left_out, &tree->sources[i], &scan->problems);
    if (err < 0) fs_problems_free(&scan->problems);
    fs_problems_say(&scan->problems, tree->sources[i].path);
    if (err == 0) err = fs_tree_take(tree, &scan->items);
    free(scan->items.item);
    fs_arena_join(&tree->text, &scan->text);
  }
  if (err < 0 || problems == 0 || s->o->keep_going) return err;
  fs_say("%" PRIu64 " of the archives' members cannot be packed; leave them out with --keep-going", problems);
  return -EPERM;
}

static fs_err scan_archives(const struct fs_pack_options *o, struct fs_tree *tree) {
  struct scans s = {.o = o, .tree = tree, .scan = calloc(tree->nsources, sizeof *s.scan)};
  if (s.scan == NULL) return -ENOMEM;
  for (uint32_t i = 0; i < tree->nsources; i++) s.scan[i].progress = tree->progress;
  fs_err err = 0;
  if (fs_pack_nodes != NULL && fs_pack_nodes->nodes > 1)
    err = fs_pack_nodes->scan(o, tree, s.scan);
  else
    fs_prep_parallel(o->jobs, tree->nsources, scan_one, &s);
  err = take_scans(&s, err);
  free(s.scan);
  for (uint32_t i = 0; i < tree->nsources && err == 0; i++)
    if (tree->sources[i].kind == FS_SOURCE_STREAM) err = fs_stream_open(&tree->sources[i]);
  return err;
}

/* Refuses a dataset that is empty only because all of SOURCE is left out. */
static fs_err check_left(const struct fs_pack_options *o, struct fs_tree *tree) {
  for (size_t i = 0; i < tree->n; i++)
    if (!S_ISDIR(tree->items[i].mode)) return 0;
  if (tree->left_out.n != 0) {
    fs_left_out_name(&tree->left_out);
    fs_say("pack: nothing of SOURCE can be packed");
  } else if (o->files_from != NULL && tree->n <= 1 && tree->excluded == 0) {
    fs_say("pack: --files-from '%s' names nothing that is in SOURCE", o->files_from);
  } else if (tree->excluded != 0) {
    fs_say("pack: --exclude leaves out all files of SOURCE; quote the patterns, or give others");
  } else {
    return 0;
  }
  return -ENOENT;
}

fs_err fs_sources_collect(const struct fs_pack_options *o, struct fs_tree *tree) {
  fs_err err = check(o, tree);
  bool archives = false;
  for (uint32_t i = 0; i < tree->nsources && err == 0; i++) {
    archives |= tree->sources[i].kind != FS_SOURCE_DIR;
    if (tree->sources[i].kind == FS_SOURCE_DIR) err = fs_walk(o, tree, i);
  }
  if (err == 0 && archives) err = scan_archives(o, tree);
  if (err == 0 && (archives || o->nsources > 1 || tree->sources[0].skip != 0)) err = join(o, tree);
  if (err == 0 && !o->quiet) err = check_left(o, tree);
  if (err == -ENOMEM) fs_say("out of memory while reading SOURCE");
  return err;
}
