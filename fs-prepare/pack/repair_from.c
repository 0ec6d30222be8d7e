/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The PLACEs of fs-prepare verify --repair-from: a copy of the dataset, and what it was packed from,
 * as pack's sources. Files of directories are opened by their names. Archives are scanned by pack's
 * first pass, which resolves hard links and names that are there twice; of its items only those that
 * are damaged files are kept. Members of FLAT archives are then read by their places. A STREAM is
 * read from its begin by one thread, which writes each block that is missing to its place in the
 * temporary file of the partition. A block's checksum decides whether an archive has it.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "archive.h"
#include "repair.h"

/* ---- the command line ---- */

struct fs_repair *fs_repair_new(struct fs_verify *v) {
  struct fs_repair *r = calloc(1, sizeof *r);
  if (r == NULL) return NULL;
  r->v = v;
  r->o = (struct fs_pack_options){.command = "verify", .codec = FS_CHOOSE_RAW, .quiet = true};
  return r;
}

fs_err fs_repair_shards(struct fs_repair *r, const char *how) {
  return fs_pack_set_shards(&r->o, how);
}

fs_err fs_repair_add(struct fs_repair *r, const char *place) {
  if (strchr(place, '=') != NULL && access(place, F_OK) < 0) return fs_pack_set_source(&r->o, "repair-from", place);
  return fs_pack_add_source(&r->o, NULL, place);
}

void fs_repair_free(struct fs_repair *r) {
  if (r == NULL) return;
  for (uint32_t i = 0; r->wanted != NULL && i < r->tree.nsources; i++) {
    free(r->wanted[i].list);
    fs_problems_free(&r->wanted[i].problems);
  }
  free(r->wanted);
  free(r->gaps);
  if (r->copy_path != NULL) fs_dataset_close(&r->copy);
  fs_sources_close(&r->tree);
  fs_pack_free_sources(&r->o);
  free(r);
}

/* ---- opening ---- */

static fs_err open_copy(struct fs_repair *r, const char *place) {
  const struct fs_dataset *ds = &r->v->ds;
  if (r->copy_path != NULL) {
    fs_say("--repair-from '%s': is a second copy of the dataset; give one", place);
    return -EINVAL;
  }
  fs_err err = fs_dataset_open(&r->copy, place);
  if (err < 0) return err;
  r->copy_path = place;
  if (memcmp(r->copy.manifest.dataset_id, ds->manifest.dataset_id, sizeof ds->manifest.dataset_id) == 0 &&
      r->copy.ix.nparts == ds->ix.nparts)
    return 0;
  fs_say("--repair-from '%s': is another dataset; give a copy of %s, or what it was packed from", place, ds->path);
  return -EINVAL;
}

/* Returns 1 if a PLACE is a dataset, 0, or a negative errno after one line. */
static int is_dataset(const struct fs_source_arg *place) {
  FS_AUTO_CLOSE fs_fd dir = fs_sys_openat(AT_FDCWD, place->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
  if (dir < 0) {
    fs_say("--repair-from '%s': cannot be opened: %s", place->path, strerror(-dir));
    return dir;
  }
  return place->prefix == NULL && faccessat(dir, "manifest", F_OK, 0) == 0 && faccessat(dir, "index", F_OK, 0) == 0;
}

fs_err fs_repair_open(struct fs_repair *r) {
  struct fs_pack_options *o = &r->o;
  const uint32_t given = o->nsources;
  uint32_t kept = 0;
  fs_err err = 0;
  if (given == 0) {
    fs_say("verify: --shards is for --repair-from; give both or neither");
    return -EINVAL;
  }
  snprintf(r->from, sizeof r->from, "%s", given == 1 ? o->sources[0].path : "what --repair-from names");
  for (uint32_t i = 0; i < given && err == 0; i++) {
    int is = is_dataset(&o->sources[i]);
    err = is < 0 ? is : is > 0 ? open_copy(r, o->sources[i].path) : 0;
    if (is != 0) continue;
    const struct fs_source_arg source = o->sources[i];
    o->sources[i] = o->sources[kept];
    o->sources[kept++] = source;
  }
  if (err < 0) return err;
  o->nsources = kept; /* a copy has no prefix, which would have to be freed */
  r->both = o->shards == FS_SHARDS_DEFAULT;
  if (r->both) o->shards = FS_SHARDS_NEST;
  o->jobs = r->v->jobs;
  if (kept != 0) err = fs_sources_open(o, &r->tree);
  r->wanted = calloc(kept + 1, sizeof *r->wanted);
  if (err == 0 && r->wanted == NULL) err = -ENOMEM;
  return err;
}

/* ---- finding the damaged files in archives ---- */

static int by_entry(const void *va, const void *vb) {
  const struct fs_wanted *a = va, *b = vb;
  return a->entry < b->entry ? -1 : a->entry > b->entry;
}

static int by_ino(const void *va, const void *vb) {
  const struct fs_wanted *a = va, *b = vb;
  return a->ino != b->ino ? (a->ino < b->ino ? -1 : 1) : by_entry(va, vb);
}

/* Returns true if the dataset may have the files of a PLACE at its root as well as at src->prefix: pack's
   command line, of which --repair-from gives a part, decides that. */
static bool maybe_at_root(const struct fs_repair *r, uint32_t number) {
  return r->both && r->o.sources[number].prefix == NULL && r->tree.sources[number].skip != 0;
}

/* Keeps a member if it has the size of the damaged file of this path. */
static fs_err keep_one(const struct fs_repair *r, const struct fs_item *item, const char *path,
                       struct fs_wanted_list *wanted) {
  const struct fs_index *ix = &r->v->ds.ix;
  int64_t n = S_ISREG(item->mode) ? fs_index_lookup(ix, path, strlen(path)) : -1;
  const struct fs_entry *e = n >= 0 ? fs_index_entry(ix, (uint64_t)n) : NULL;
  if (e == NULL || !S_ISREG(e->mode) || e->size != item->size) return 0;
  if (atomic_load(&r->v->state[n]) != FS_DAMAGED) return 0;
  if (fs_grow(&wanted->list, &wanted->room, wanted->n, sizeof *wanted->list) < 0) return -ENOMEM;
  wanted->list[wanted->n++] = (struct fs_wanted){.ino = item->ino, .size = item->size, .entry = (uint32_t)n};
  return 0;
}

/* Keeps what the scan has of the damaged files. */
static fs_err keep_wanted(const struct fs_repair *r, const struct fs_scan *scan, uint32_t number) {
  struct fs_wanted_list *wanted = &r->wanted[number];
  const size_t skip = maybe_at_root(r, number) ? r->tree.sources[number].skip : 0;
  fs_err err = 0;
  for (size_t i = 0; i < scan->items.n && err == 0; i++) {
    const struct fs_item *item = &scan->items.item[i];
    err = keep_one(r, item, item->path, wanted);
    if (err == 0 && skip != 0 && strlen(item->path) > skip) err = keep_one(r, item, item->path + skip, wanted);
  }
  return err;
}

struct archives {
  struct fs_repair *r;
  _Atomic fs_err err;
};

static void scan_archive(struct archives *a, uint32_t number) {
  struct fs_source *src = &a->r->tree.sources[number];
  struct fs_wanted_list *wanted = &a->r->wanted[number];
  struct fs_scan scan = {.err = 0};
  src->untested = true;
  fs_archive_scan(&a->r->o, src, number, &scan);
  fs_err err = scan.err < 0 ? scan.err : keep_wanted(a->r, &scan, number);
  wanted->problems = scan.problems;
  free(scan.items.item);
  fs_arena_free(&scan.text);
  if (wanted->n != 0)
    qsort(wanted->list, wanted->n, sizeof *wanted->list, src->kind == FS_SOURCE_FLAT ? by_entry : by_ino);
  if (err < 0) atomic_store(&a->err, err);
}

/* ---- streams ---- */

/* A stream, its thread's coder, and the partition whose blocks it has looked for last. */
struct pass {
  struct fs_coder c;
  struct fs_verify *v;
  struct fs_source *src;
  uint32_t number; /* of the source */
  uint32_t part;   /* nparts before the first one */
  int damaged;     /* the partition's file, or negative */
  int temp;        /* the temporary file, or negative */
};

static void close_part(struct pass *p) {
  fs_dataset_part_done(&p->v->ds, p->part, p->damaged);
  if (p->temp >= 0) close(p->temp);
  p->damaged = p->temp = -1;
}

/* Opens the files of a partition in place of the one before. */
static void open_part(struct pass *p, uint32_t part) {
  char name[64];
  if (p->part == part) return;
  close_part(p);
  p->part = part;
  p->damaged = fs_dataset_part(&p->v->ds, part);
  p->temp = fs_repair_temp(p->c.r, part, name);
}

/* Stores block i of an entry in *b. Returns true if it is missing: neither the damaged partition nor the
   temporary file has it. Then these two are open. */
static bool missing(struct pass *p, uint32_t entry, uint64_t i, struct fs_passes_block *b) {
  struct fs_dataset *ds = &p->v->ds;
  if (fs_passes_get(&ds->ix, entry, i, b) < 0 || p->v->part[b->partition] != FS_DAMAGED) return false;
  open_part(p, b->partition);
  return !fs_coder_read(&p->c, p->damaged, b) && !fs_coder_read(&p->c, p->temp, b);
}

/* Returns the end of the blocks from `begin` to `end` that are missing in one of n files, all from one member,
   or `begin`. */
static uint64_t missing_end(struct pass *p, const struct fs_wanted *w, size_t n, uint64_t begin, uint64_t end) {
  struct fs_passes_block b;
  for (; end > begin; end--)
    for (size_t k = 0; k < n; k++)
      if (missing(p, w[k].entry, end - 1, &b)) return end;
  return begin;
}

/* Returns true if `b`, or the same bytes, is the block before `end` of one of n files. */
static bool is_last(const struct pass *p, const struct fs_wanted *w, size_t n, uint64_t end,
                    const struct fs_passes_block *b) {
  struct fs_passes_block last;
  for (size_t k = 0; k < n; k++)
    if (fs_passes_get(&p->v->ds.ix, w[k].entry, end - 1, &last) == 0 && last.partition == b->partition &&
        fs_passes_same(&last, b))
      return true;
  return false;
}

/* Writes a missing block to its place. If that fails, the block stays missing, and the partition is not repaired. */
static bool put(struct pass *p, const struct fs_passes_block *b) {
  return p->temp >= 0 && fs_pwrite_full(p->temp, p->c.stored, b->stored_len, b->offset) == 0;
}

/* Notes that a PLACE has a block of a file. */
static bool fitted(struct fs_repair *r, const struct fs_passes_block *b, uint32_t number) {
  if (b->codec < FS_CODEC_ROWS_MAX) atomic_store(&r->wanted[number].misses[b->codec], 0);
  return true;
}

static bool encode(struct pass *p, const struct fs_passes_block *b) {
  if (fs_coder_encode(&p->c, b, fs_coder_known(&p->c, b))) return true;
  return fs_coder_may_search(&p->c, b, p->number) && fs_coder_search(&p->c, b) && fitted(p->c.r, b, p->number);
}

/* Reads a member up to its last block that is missing in one of n files. A block may be at several places of a file. */
static fs_err read_member(struct pass *p, const struct fs_wanted *w, size_t n) {
  const uint64_t size = p->v->ds.ix.block_size;
  const struct fs_item item = {.ino = w->ino, .size = w->size};
  uint64_t end = missing_end(p, w, n, 0, w->size / size + (w->size % size != 0));
  fs_err err = 0;
  struct fs_passes_block b;
  for (uint64_t i = 0; i < end && err == 0; i++) {
    err = fs_stream_next(p->src->stream, &item, p->c.plain, (size_t)FS_MIN(size, w->size - i * size));
    for (size_t k = 0; k < n && err == 0; k++)
      if (missing(p, w[k].entry, i, &b) && encode(p, &b) && put(p, &b) && end > i + 1 && is_last(p, w, n, end, &b))
        end = missing_end(p, w, n, i + 1, end);
  }
  return err;
}

/* Returns the part of a path that is below a source's prefix, or NULL. */
static const char *below(const struct fs_source *src, const char *path) {
  const size_t skip = src->skip;
  if (skip == 0) return path;
  return strlen(path) > skip && strncmp(path, src->prefix, skip - 1) == 0 && path[skip - 1] == '/' ? path + skip : NULL;
}

/* Notes why a member cannot be read. */
static fs_err add_problem(struct pass *p, struct fs_wanted_list *wanted, uint32_t entry, fs_err err) {
  FS_AUTO_FREE char *path = fs_dataset_entry_path(&p->v->ds, entry);
  FS_AUTO_FREE char *what = NULL;
  const char *why = err == -EBADMSG ? fs_stream_why(p->src->stream) : strerror(-err);
  if (path == NULL || asprintf(&what, "cannot be read: %s", why) < 0) return -ENOMEM;
  const char *name = below(p->src, path);
  return fs_problems_add(&wanted->problems, name != NULL ? name : path, what);
}

static fs_err read_stream(struct fs_repair *r, uint32_t number) {
  struct fs_wanted_list *wanted = &r->wanted[number];
  struct pass p = {.v = r->v, .src = &r->tree.sources[number], .number = number, .damaged = -1, .temp = -1};
  p.part = (uint32_t)r->v->ds.ix.nparts;
  fs_err err = wanted->n != 0 ? fs_stream_open(p.src) : 0;
  if (err == 0) err = fs_coder_open(&p.c, r);
  for (size_t i = 0, n; i < wanted->n && err == 0; i += n) {
    for (n = 1; i + n < wanted->n && wanted->list[i + n].ino == wanted->list[i].ino;) n++;
    err = read_member(&p, &wanted->list[i], n);
    if (err < 0 && err != -ENOMEM) err = add_problem(&p, wanted, wanted->list[i].entry, err);
  }
  close_part(&p);
  fs_coder_close(&p.c);
  r->v->progress.now.bytes += (uint64_t)p.src->st.st_size;
  return err;
}

static void read_archive(void *ctx, uint64_t number) {
  struct archives *a = ctx;
  struct fs_source *src = &a->r->tree.sources[number];
  if (src->kind == FS_SOURCE_DIR || atomic_load(&a->err) < 0) return;
  scan_archive(a, (uint32_t)number);
  if (src->kind != FS_SOURCE_STREAM || atomic_load(&a->err) < 0) return;
  fs_err err = read_stream(a->r, (uint32_t)number);
  if (err < 0) atomic_store(&a->err, err);
}

fs_err fs_repair_read_archives(struct fs_repair *r) {
  struct archives a = {.r = r};
  fs_prep_parallel(r->v->jobs, r->tree.nsources, read_archive, &a);
  for (uint32_t i = 0; i < r->tree.nsources; i++) r->streams |= r->tree.sources[i].kind == FS_SOURCE_STREAM;
  return atomic_load(&a.err);
}

/* ---- directories and FLAT archives ---- */

/* Tries the file of this path in a directory. */
static bool from_file(struct fs_coder *c, const struct fs_passes_block *b, uint32_t number, const char *path,
                      int level) {
  struct stat st;
  if (path == NULL) return false;
  FS_AUTO_CLOSE int fd =
      fs_sys_openat(c->r->tree.sources[number].fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
  if (fd < 0 || fs_sys_fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) return false;
  return fs_pread_full(fd, c->plain, b->plain_len, b->index * c->r->v->ds.ix.block_size) == 0 &&
         fs_coder_encode(c, b, level);
}

/* Tries the members of a FLAT archive that are the block's file. */
static bool from_flat(struct fs_coder *c, const struct fs_passes_block *b, uint32_t number, int level) {
  const struct fs_wanted_list *wanted = &c->r->wanted[number];
  const struct fs_wanted key = {.entry = b->entry}, *end = wanted->list + wanted->n;
  const uint64_t at = b->index * c->r->v->ds.ix.block_size;
  const struct fs_wanted *w = wanted->n != 0 ? bsearch(&key, wanted->list, wanted->n, sizeof key, by_entry) : NULL;
  while (w != NULL && w > wanted->list && w[-1].entry == b->entry) w--;
  for (; w != NULL && w < end && w->entry == b->entry; w++) {
    if (at <= w->size && b->plain_len <= w->size - at &&
        fs_pread_full(c->r->tree.sources[number].fd, c->plain, b->plain_len, w->ino + at) == 0 &&
        fs_coder_encode(c, b, level))
      return true;
  }
  return false;
}

static bool from_source(struct fs_coder *c, const struct fs_passes_block *b, uint32_t number, const char *path,
                        int level) {
  const struct fs_source *src = &c->r->tree.sources[number];
  if (src->kind == FS_SOURCE_FLAT) return from_flat(c, b, number, level);
  if (src->kind != FS_SOURCE_DIR) return false;
  return from_file(c, b, number, below(src, path), level) ||
         (maybe_at_root(c->r, number) && from_file(c, b, number, path, level));
}

/* Tries each level with all PLACEs, so that a PLACE of other contents does not hold up the search in the others. */
static bool search(struct fs_coder *c, const struct fs_passes_block *b, const char *path) {
  const uint32_t n = c->r->tree.nsources;
  FS_AUTO_FREE bool *may = calloc(n, sizeof *may);
  bool any = false;
  for (uint32_t i = 0; may != NULL && i < n; i++) any |= may[i] = fs_coder_may_search(c, b, i);
  for (int level = 0, most = any ? fs_coder_most(c, b) : -1; level <= most; level++)
    for (uint32_t i = 0; i < n; i++)
      if (may[i] && from_source(c, b, i, path, level)) return fitted(c->r, b, i);
  return false;
}

bool fs_repair_from_source(struct fs_coder *c, const struct fs_passes_block *b) {
  const uint32_t n = c->r->tree.nsources;
  FS_AUTO_FREE char *path = n != 0 ? fs_dataset_entry_path(&c->r->v->ds, b->entry) : NULL;
  if (path == NULL) return false;
  for (uint32_t i = 0; i < n; i++)
    if (from_source(c, b, i, path, fs_coder_known(c, b))) return true;
  return search(c, b, path);
}
