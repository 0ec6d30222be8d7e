/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds large files of equal content before packing. Files of one size are distinguished by a few
 * samples, many files with equal samples by checksums, and the rest are compared byte by byte.
 * Called once by the plan. Several threads read, each its own items.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pack.h"

#define SAMPLE (64u << 10)
#define COMPARE (1u << 20)
#define COMPARE_ALL 8u /* larger runs use checksums: one read per file, not per pair */

struct candidate {
  uint32_t item;
  bool replicate;
  bool kept; /* never an alias */
  uint64_t size;
  uint64_t sample;
};

struct search {
  struct fs_plan *plan;
  struct candidate *c;
  size_t n;
  struct {
    size_t from, to;
  } * runs; /* candidates that may be equal */
  size_t nruns;
  _Atomic bool failed;
};

/* Checks that an archive is the one that was scanned. */
static fs_err check_archive(const struct fs_source *src, const struct stat *st) {
  bool same = st->st_size == src->st.st_size && st->st_mtim.tv_sec == src->st.st_mtim.tv_sec &&
              st->st_mtim.tv_nsec == src->st.st_mtim.tv_nsec;
  return same ? 0 : -ESTALE;
}

fs_err fs_item_check(const struct fs_tree *tree, int fd, const struct fs_item *item) {
  struct stat st = {0};
  fs_err err = fs_sys_fstat(fd, &st);
  if (err < 0) return err;
  const struct fs_source *src = &tree->sources[item->source];
  if (src->kind != FS_SOURCE_DIR) return check_archive(src, &st);
  bool same = S_ISREG(st.st_mode) && (uint64_t)st.st_size == item->size && st.st_mtim.tv_sec == item->mtime_sec &&
              st.st_mtim.tv_nsec == item->mtime_nsec && st.st_ino == item->ino &&
              (item->dev == 0 || fs_item_device(st.st_dev) == item->dev);
  return same ? 0 : -ESTALE;
}

fs_fd fs_item_open(const struct fs_tree *tree, const struct fs_item *item) {
  const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
  const struct fs_source *src = &tree->sources[item->source];
  if (src->kind == FS_SOURCE_FLAT) return (fs_fd)fs_sys_fcntl(src->fd, F_DUPFD_CLOEXEC, 0);
  const char *path = item->path + src->skip;
  fs_fd fd = item->followed ? fs_sys_openat(src->fd, path, flags | O_CLOEXEC, 0)
                            : fs_prep_open_beneath(src->fd, path, flags, 0);
  return fd == -ENOENT || fd == -ELOOP || fd == -ENOTDIR || fd == -ENXIO ? -ESTALE : fd;
}

fs_err fs_item_read(const struct fs_tree *tree, const struct fs_item *item, int fd, void *buf, size_t n, uint64_t at) {
  bool flat = tree->sources[item->source].kind == FS_SOURCE_FLAT;
  return fs_pread_full(fd, buf, n, at + (flat ? item->ino : 0));
}

/* Opens an item and checks that it is unchanged since the walk. Returns like fs_item_open. */
static fs_fd open_checked(const struct fs_tree *tree, const struct fs_item *item) {
  fs_fd fd = fs_item_open(tree, item);
  fs_err err = fd < 0 ? 0 : fs_item_check(tree, fd, item);
  if (err == 0) return fd;
  close(fd);
  return err;
}

fs_err fs_item_error(const struct fs_plan *plan, const struct fs_item *item, fs_err err) {
  if (err != -EIO) return err;
  FS_AUTO_CLOSE int fd = open_checked(plan->tree, item); /* probably an early end, not a bad disk */
  return fd == -ESTALE ? fd : err;
}

void fs_item_say(const struct fs_plan *plan, const struct fs_item *item, fs_err err) {
  const struct fs_source *src = &plan->tree->sources[item->source];
  const char *source = src->path;
  const char *path = item->path + src->skip;
  if (src->kind == FS_SOURCE_STREAM) {
    fs_stream_say(src, item, err);
    return;
  }
  err = fs_item_error(plan, item, err);
  if (err == -ESTALE)
    fs_say("%s/%s: changed while it was being packed; pack again when nothing writes to it", source, path);
  else if (err == -ENOMEM)
    fs_say("%s/%s: out of memory; use a lower --jobs", source, path);
  else
    fs_say("%s/%s: cannot be read: %s", source, path, strerror(-err));
}

static int by_likeness(const void *va, const void *vb) {
  const struct candidate *a = va, *b = vb;
  if (a->size != b->size) return a->size < b->size ? -1 : 1;
  if (a->replicate != b->replicate) return a->replicate ? 1 : -1;
  if (a->sample != b->sample) return a->sample < b->sample ? -1 : 1;
  if (a->kept != b->kept) return a->kept ? -1 : 1;
  return a->item < b->item ? -1 : a->item > b->item;
}

static bool alike(const struct candidate *a, const struct candidate *b) {
  return a->size == b->size && a->replicate == b->replicate && a->sample == b->sample;
}

/* Splits the sorted candidates into runs of at least two. */
static fs_err find_runs(struct search *s) {
  qsort(s->c, s->n, sizeof *s->c, by_likeness);
  free(s->runs);
  s->runs = malloc((s->n / 2 + 1) * sizeof *s->runs);
  s->nruns = 0;
  if (s->runs == NULL) return -ENOMEM;
  for (size_t from = 0, to; from < s->n; from = to) {
    for (to = from + 1; to < s->n && alike(&s->c[from], &s->c[to]);) to++;
    if (to - from < 2 || s->c[to - 1].kept) continue; /* of kept ones nothing is to be found */
    s->runs[s->nruns].from = from;
    s->runs[s->nruns++].to = to;
  }
  return 0;
}

/* With --keep-going the file counts as different from all others. The pipeline will try again. */
static void fail(struct search *s, const struct fs_item *item, fs_err err) {
  if (s->plan->opts->keep_going) return;
  if (!atomic_exchange(&s->failed, true)) fs_item_say(s->plan, item, err);
}

/* Computes a checksum of the beginning, middle and end of one file. */
static fs_err sample(struct search *s, struct candidate *c) {
  const struct fs_item *item = &s->plan->tree->items[c->item];
  FS_AUTO_CLOSE int fd = open_checked(s->plan->tree, item);
  FS_AUTO_FREE uint8_t *buf = malloc(3 * SAMPLE);
  if (fd < 0) return fd;
  if (buf == NULL) return -ENOMEM;
  uint64_t n = FS_MIN((uint64_t)SAMPLE, item->size);
  const uint64_t at[3] = {0, (item->size - n) / 2, item->size - n};
  fs_err err = 0;
  for (size_t i = 0; i < 3 && err == 0; i++) err = fs_item_read(s->plan->tree, item, fd, buf + i * n, n, at[i]);
  if (err == 0) c->sample = fs_xxh3(buf, 3 * n);
  return err;
}

/* Computes the checksum of the whole file, which replaces that of the sample. */
static fs_err checksum(struct search *s, struct candidate *c) {
  const struct fs_item *item = &s->plan->tree->items[c->item];
  FS_AUTO_CLOSE int fd = open_checked(s->plan->tree, item);
  FS_AUTO_FREE uint8_t *buf = malloc(COMPARE);
  if (fd < 0) return fd;
  struct fs_xxh3_stream *hash = buf != NULL ? fs_xxh3_new() : NULL;
  fs_err err = hash != NULL ? 0 : -ENOMEM;
  for (uint64_t at = 0; at < item->size && err == 0 && fs_prep_signal == 0; at += COMPARE) {
    size_t n = (size_t)FS_MIN(item->size - at, (uint64_t)COMPARE);
    err = fs_item_read(s->plan->tree, item, fd, buf, n, at);
    if (err == 0) fs_xxh3_update(hash, buf, n);
  }
  if (err == 0) c->sample = fs_xxh3_digest(hash);
  fs_xxh3_free(hash);
  return err;
}

static void look_at_run(struct search *s, uint64_t r, fs_err (*look)(struct search *, struct candidate *)) {
  for (size_t i = s->runs[r].from; i < s->runs[r].to; i++) {
    if (atomic_load(&s->failed) || fs_prep_signal != 0) return;
    fs_err err = look(s, &s->c[i]);
    if (err < 0) fail(s, &s->plan->tree->items[s->c[i].item], err);
  }
}

static void sample_run(void *ctx, uint64_t r) {
  look_at_run(ctx, r, sample);
}

static void checksum_run(void *ctx, uint64_t r) {
  struct search *s = ctx;
  if (s->runs[r].to - s->runs[r].from > COMPARE_ALL) look_at_run(s, r, checksum);
}

/* Compares two open files of one size. Returns 1 if equal, 0, or a negative errno. */
static int compare(const struct fs_tree *tree, const struct fs_item *a, int fd, const struct fs_item *b, int other,
                   uint8_t *buf) {
  for (uint64_t at = 0; at < a->size; at += COMPARE) {
    size_t n = (size_t)FS_MIN(a->size - at, (uint64_t)COMPARE);
    if (fs_prep_signal != 0) return -EINTR;
    fs_err err = fs_item_read(tree, a, fd, buf, n, at);
    if (err == 0) err = fs_item_read(tree, b, other, buf + COMPARE, n, at);
    if (err < 0) return err;
    if (memcmp(buf, buf + COMPARE, n) != 0) return 0;
  }
  return 1;
}

static int equal_items(const struct fs_tree *tree, const struct fs_item *a, const struct fs_item *b) {
  FS_AUTO_CLOSE int fd = open_checked(tree, a);
  FS_AUTO_CLOSE int other = open_checked(tree, b);
  FS_AUTO_FREE uint8_t *buf = malloc(2 * COMPARE);
  if (fd < 0 || other < 0) return fd < 0 ? fd : other;
  if (buf == NULL) return -ENOMEM;
  int equal = compare(tree, a, fd, b, other, buf);
  if (equal < 0) return equal;
  fs_err err = fs_item_check(tree, fd, a);
  if (err == 0) err = fs_item_check(tree, other, b);
  return err < 0 ? err : equal;
}

/* Compares an item with a kept one as the dataset that is updated has it: SOURCE's may have changed. What
   cannot be read here is not equal. */
static int equal_kept(const struct fs_plan *plan, const struct fs_item *item, const struct fs_item *kept) {
  if (plan->update->on_nodes) return 0;
  struct fs_dataset *old = &plan->update->old;
  struct fs_block b;
  const int64_t n = fs_index_lookup(&old->ix, kept->path, strlen(kept->path));
  if (n < 0 || old->ix.entries[n].size != item->size || fs_index_block(&old->ix, (uint32_t)n, 0, &b) < 0) return 0;
  if (b.partition != fs_item_block(kept, 0)->partition || b.offset != fs_item_block(kept, 0)->offset) return 0;
  int equal = fs_item_equal(plan->tree, item, old, (uint32_t)n);
  return equal == -EBADMSG ? 0 : equal;
}

/* Compares each file of a run with the earlier ones that are no aliases. */
static void compare_run(void *ctx, uint64_t r) {
  struct search *s = ctx;
  struct fs_tree *tree = s->plan->tree;
  for (size_t i = s->runs[r].from + 1; i < s->runs[r].to; i++) {
    struct fs_item *item = &tree->items[s->c[i].item];
    if (item->kept) continue;
    for (size_t k = s->runs[r].from; k < i && !item->alias; k++) {
      const struct fs_item *first = &tree->items[s->c[k].item];
      if (first->alias) continue;
      if (atomic_load(&s->failed) || fs_prep_signal != 0) return;
      int equal = first->kept ? equal_kept(s->plan, item, first) : equal_items(tree, item, first);
      if (equal < 0 && equal != -EINTR) fail(s, item, equal);
      if (equal <= 0) continue;
      fs_item_make_alias(item, s->c[k].item);
    }
  }
}

static fs_err search(struct search *s) {
  fs_err err = find_runs(s);
  if (err < 0 || s->nruns == 0) return err;
  fs_prep_parallel(s->plan->opts->jobs, s->nruns, sample_run, s);
  err = find_runs(s);
  if (err == 0 && !atomic_load(&s->failed)) fs_prep_parallel(s->plan->opts->jobs, s->nruns, checksum_run, s);
  if (err == 0) err = find_runs(s);
  if (err < 0 || atomic_load(&s->failed)) return err < 0 ? err : -EIO;
  fs_prep_parallel(s->plan->opts->jobs, s->nruns, compare_run, s);
  return atomic_load(&s->failed) ? -EIO : 0;
}

fs_err fs_plan_find_equal(struct fs_plan *plan) {
  struct search s = {.plan = plan};
  const struct fs_tree *tree = plan->tree;
  for (int pass = 0; pass < 2; pass++) {
    s.n = 0;
    for (size_t i = 0; i < tree->n; i++) {
      const struct fs_item *item = &tree->items[i];
      if (!S_ISREG(item->mode) || item->alias || item->size <= plan->chunk) continue;
      if (fs_item_stream(tree, item) != NULL) continue; /* would have to be read twice */
      if (pass == 1)
        s.c[s.n] = (struct candidate){
            .item = (uint32_t)i, .replicate = item->replicate, .kept = item->kept, .size = item->size};
      s.n++;
    }
    if (s.n < 2) return 0;
    if (pass == 0) s.c = malloc(s.n * sizeof *s.c);
    if (s.c == NULL) return -ENOMEM;
  }
  fs_err err = search(&s);
  free(s.c);
  free(s.runs);
  return fs_prep_signal != 0 ? -EINTR : err;
}
