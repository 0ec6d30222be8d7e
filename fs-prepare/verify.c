/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-prepare verify: reads each partition once, in the order of its blocks (passes.c), and checks the
 * checksum of the whole partition and each block's checksum and decoding. Threads take partitions;
 * one thread handles a partition at a time. A file's mark is an atomic byte.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "codec/codec.h"
#include "verify.h"

/* A partition of which blocks are read. */
struct scan {
  struct fs_verify *v;
  uint32_t number;
  int fd;
  uint64_t at; /* hashed up to here */
  struct fs_xxh3_stream *hash;
  uint8_t *window; /* the bytes of the partition from window_at on */
  uint64_t window_at;
  size_t window_n;
  uint8_t *plain;
  void *work;                  /* for decoding */
  struct fs_passes_block last; /* the block that was read last; its offset is 0 before the first one */
  bool good;                   /* it was */
  bool counted;                /* a block of its offset is in bad_blocks */
  uint64_t bad_blocks;
  bool unreadable; /* for a reason that is not the data's */
  bool told;       /* an earlier scan has reported the partition */
  fs_err err;      /* of the first failed read */
  char why[256];
};

/* Returns the size of the window. It holds two blocks, so each read of it is a step of half of it at least,
   however blocks overlap. */
static size_t window_size(const struct fs_verify *v) {
  return FS_MAX((size_t)2 * v->ds.ix.block_size, (size_t)1 << 20);
}

/* Returns bytes of the partition, or NULL if they cannot be read: then s->err is set. */
static const uint8_t *scan_bytes(struct scan *s, uint64_t at, size_t n) {
  const uint64_t size = s->v->ds.ix.parts[s->number].size, from = at - s->window_at;
  if (at >= s->window_at && from <= s->window_n && n <= s->window_n - from) return s->window + from;
  const size_t want = FS_MAX(n, at < size ? (size_t)FS_MIN(size - at, (uint64_t)window_size(s->v)) : 0);
  fs_ssize got = -EINTR;
  s->window_at = at;
  s->window_n = 0;
  while (s->window_n < want && (got > 0 || got == -EINTR)) {
    got = fs_sys_pread(s->fd, s->window + s->window_n, want - s->window_n, at + s->window_n);
    if (got > 0) s->window_n += (size_t)got;
  }
  if (s->window_n >= n) return s->window;
  if (s->err == 0) s->err = got < 0 ? (fs_err)got : -EIO;
  return NULL;
}

/* Adds the bytes up to `end`, which belong to no block, to the checksum. */
static void scan_gap(struct scan *s, uint64_t end) {
  const size_t step = s->v->ds.ix.block_size;
  while (s->at < end && s->err == 0) {
    size_t n = (size_t)FS_MIN(end - s->at, (uint64_t)step);
    const uint8_t *gap = scan_bytes(s, s->at, n);
    if (gap != NULL) fs_xxh3_update(s->hash, gap, n);
    s->at += n;
    s->v->progress.now.bytes += n;
  }
}

static bool check_block(struct scan *s, const struct fs_passes_block *b) {
  scan_gap(s, b->offset);
  const uint8_t *stored = scan_bytes(s, b->offset, b->stored_len);
  if (stored != NULL && s->at == b->offset) fs_xxh3_update(s->hash, stored, b->stored_len);
  const uint64_t end = FS_MAX(s->at, b->offset + b->stored_len);
  s->v->progress.now.bytes += end - s->at; /* the place may be another block's, too */
  s->at = end;
  struct fs_codec_set *set = &s->v->ds.ix.codecs;
  const size_t decoded = b->stored_len == b->plain_len ? 0 : b->plain_len; /* plain bytes need no copy */
  return stored != NULL && fs_xxh3(stored, b->stored_len) == b->xxh3 &&
         fs_block_sound(set, b->codec, stored, b->stored_len, b->plain_len) &&
         fs_block_decode_prefix(set, b->codec, stored, b->stored_len, s->plain, b->plain_len, decoded, s->work) == 0;
}

static void scan_block(void *state, const struct fs_passes_block *b) {
  struct scan *s = state;
  const struct fs_verify *v = s->v;
  if (!fs_passes_same(&s->last, b)) s->good = s->fd >= 0 && check_block(s, b);
  if (s->last.offset != b->offset) s->counted = false;
  s->last = *b;
  if (s->good) return;
  if (!s->counted) s->bad_blocks++;
  s->counted = true;
  uint8_t none = 0;
  if (s->unreadable)
    atomic_compare_exchange_strong(&v->state[b->entry], &none, FS_UNCHECKED);
  else
    atomic_store(&v->state[b->entry], FS_DAMAGED);
}

/* Opens the partition and checks its size and header. Sets s->why on an error. */
static void scan_open(struct scan *s) {
  s->fd = fs_dataset_part(&s->v->ds, s->number);
  s->unreadable = s->fd < 0 && s->fd != -ENOENT && s->fd != -EUCLEAN;
  if (s->fd >= 0) posix_fadvise(s->fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* the kernel reads farther ahead */
  fs_dataset_part_look(&s->v->ds, s->number, s->fd, s->why, sizeof s->why);
}

static void scan_report(struct scan *s) {
  char name[FS_PART_NAME_SIZE];
  const char *advice = s->v->local_dir == NULL ? "give verify --repair-from PLACE, or pack again"
                       : s->v->only_nodes
                           ? "remove this file; if no node has another copy, pack --update makes it again"
                           : "remove this file, and the next job gets it from elsewhere";
  s->v->part[s->number] = s->unreadable ? FS_UNCHECKED : FS_DAMAGED;
  if (s->told || s->v->all_missing) return;
  const bool advise = !s->unreadable && s->v->repair == NULL;
  fs_say("%s/%s: %s; %" PRIu64 " block%s %s%s%s", s->v->where, fs_part_name(s->number, name), s->why, s->bad_blocks,
         fs_plural(s->bad_blocks), s->unreadable ? "not checked" : "damaged", advise ? "; " : "", advise ? advice : "");
}

static void *scan_begin(void *ctx, uint32_t number) {
  struct fs_verify *v = ctx;
  struct scan *s = malloc(sizeof *s);
  const bool told = v->part[number] != FS_GOOD;
  v->part[number] = s != NULL ? FS_GOOD : FS_UNCHECKED;
  if (s == NULL) {
    fs_say("%s: %s", v->ds.path, strerror(ENOMEM));
    return NULL;
  }
  *s = (struct scan){.v = v, .number = number, .at = FS_PART_HEADER_SIZE, .hash = fs_xxh3_new(), .told = told};
  s->window = malloc(window_size(v));
  s->plain = malloc(v->ds.ix.block_size);
  s->work = fs_dataset_work(&v->ds);
  if (s->hash == NULL || s->window == NULL || s->plain == NULL || s->work == NULL) {
    s->fd = -ENOMEM;
    s->unreadable = true;
    snprintf(s->why, sizeof s->why, "out of memory; use a lower --jobs");
  } else {
    scan_open(s);
  }
  return s;
}

static void scan_end(void *state) {
  struct scan *s = state;
  const struct fs_part_rec *rec = &s->v->ds.ix.parts[s->number];
  if (s->fd >= 0 && s->why[0] == '\0') scan_gap(s, rec->size);
  if (s->err < 0 && s->why[0] == '\0')
    snprintf(s->why, sizeof s->why, "cannot be read: %s", strerror(-s->err));
  else if (s->why[0] == '\0' && s->bad_blocks != 0)
    snprintf(s->why, sizeof s->why, "damaged: checksums differ");
  else if (s->why[0] == '\0' && fs_xxh3_digest(s->hash) != rec->xxh3)
    snprintf(s->why, sizeof s->why, "damaged: its checksum differs");
  if (s->why[0] != '\0') scan_report(s);
  fs_dataset_part_done(&s->v->ds, s->number, s->fd);
  fs_xxh3_free(s->hash);
  free(s->window);
  free(s->plain);
  free(s->work);
  free(s);
}

/* Scans the partitions: all, or those with `only` set. */
static fs_err verify_parts(struct fs_verify *v, const uint8_t *only) {
  static const struct fs_passes_calls calls = {scan_begin, scan_block, scan_end};
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < v->ds.ix.nparts; i++)
    if (only == NULL || only[i] != 0) bytes += v->ds.ix.parts[i].size;
  fs_progress_stage(&v->progress, FS_STAGE_VERIFY, 0, bytes);
  fs_err err = fs_passes(&v->ds.ix, only, v->jobs, &calls, v);
  if (err < 0) fs_say("%s: %s", v->ds.path, strerror(-err));
  return err;
}

static uint64_t count_parts(const struct fs_verify *v, uint8_t state) {
  uint64_t n = 0;
  for (uint64_t i = 0; i < v->ds.ix.nparts; i++) n += v->part[i] == state;
  return n;
}

static uint64_t count_blocks(const struct fs_index *ix) {
  uint64_t n = 0;
  for (uint64_t i = 0; i < ix->nentries; i++) n += fs_index_block_count(ix, &ix->entries[i]);
  return n;
}

/* Names the files that are not good, and counts files by their state. */
static void report_files(struct fs_verify *v, uint64_t count[3]) {
  for (uint64_t i = 0; i < v->ds.ix.nentries; i++) {
    uint8_t state = atomic_load(&v->state[i]);
    count[state]++;
    if (state == 0) continue;
    FS_AUTO_FREE char *path = fs_dataset_entry_path(&v->ds, (uint32_t)i);
    FS_AUTO_FREE char *name = fs_prep_name(path != NULL ? path : "?");
    printf("%s: %s\n", state == FS_DAMAGED ? "damaged" : "not checked", name);
  }
}

static int report(struct fs_verify *v) {
  const struct fs_index *ix = &v->ds.ix;
  FS_AUTO_FREE char *shown = fs_prep_name(v->ds.path);
  uint64_t count[3] = {0};
  report_files(v, count);
  uint64_t bad_parts = count_parts(v, FS_DAMAGED), unread_parts = count_parts(v, FS_UNCHECKED);
  char plain[32], stored[32], files[32], blocks[32], parts[32];
  const struct fs_index_header *h = ix->hdr;
  fs_format_size(h->plain_bytes, plain, sizeof plain);
  fs_format_size(h->stored_bytes, stored, sizeof stored);
  fs_format_count(h->files, "file", files, sizeof files);
  fs_format_count(ix->nparts, "partition", parts, sizeof parts);
  if (bad_parts == 0 && unread_parts == 0) {
    printf("%s: good: %s, %s in %s, %s, %s\n", shown, files, plain, stored,
           fs_format_count(count_blocks(ix), "block", blocks, sizeof blocks), parts);
    return FS_EXIT_OK;
  }
  if (bad_parts != 0)
    printf("%s: damaged: %" PRIu64 " of %s, %" PRIu64 " of %s\n", shown, count[FS_DAMAGED], files, bad_parts, parts);
  if (unread_parts != 0)
    printf("%s: not checked: %" PRIu64 " of %s, %" PRIu64 " of %s\n", shown, count[FS_UNCHECKED], files, unread_parts,
           parts);
  return FS_EXIT_FAILED;
}

/* Repairs the damaged partitions, and scans them again: what is damaged then remains so. */
static fs_err repair(struct fs_verify *v) {
  const uint64_t nparts = v->ds.ix.nparts;
  FS_AUTO_FREE uint8_t *damaged = malloc(nparts);
  if (damaged == NULL) return -ENOMEM;
  for (uint64_t i = 0; i < nparts; i++) damaged[i] = v->part[i] == FS_DAMAGED;
  fs_err err = fs_repair(v->repair);
  if (err < 0) return err;
  for (uint64_t i = 0; i < v->ds.ix.nentries; i++)
    if (atomic_load(&v->state[i]) == FS_DAMAGED) atomic_store(&v->state[i], FS_GOOD);
  return verify_parts(v, damaged);
}

#define EMULATED_NODES 64 /* of fs-launch --emulate */

/* Returns false if the copy of the index in a directory is not that of the dataset. No copy is good, too. */
static bool index_good(const struct fs_verify *v) {
  struct stat st;
  const struct fs_index *ix = &v->ds.ix;
  FS_AUTO_CLOSE int fd = openat(v->ds.dir, "index", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT;
  if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != ix->map_size) return false;
  void *map = mmap(NULL, ix->map_size, PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) return false;
  const bool same = memcmp(map, ix->map, ix->map_size) == 0;
  munmap(map, ix->map_size);
  return same;
}

/* Scans the copies in one directory. Returns how many there are; *bad is increased by those that are
   not good. */
static uint64_t verify_copies_in(struct fs_verify *v, const char *path, uint64_t *bad) {
  FS_AUTO_FREE uint8_t *there = calloc(v->ds.ix.nparts + 1, 1);
  FS_AUTO_FREE char *shown = fs_prep_name(path);
  char name[FS_PART_NAME_SIZE];
  uint64_t n = 0, wrong = 0;
  if (there == NULL) return 0;
  for (uint32_t p = 0; p < v->ds.ix.nparts; p++) {
    fs_dataset_part_forget(&v->ds, p);
    v->part[p] = FS_GOOD;
    if (faccessat(v->ds.dir, fs_part_name(p, name), F_OK, AT_SYMLINK_NOFOLLOW) < 0) continue;
    there[p] = true;
    n++;
  }
  v->where = path;
  if (n > 0 && verify_parts(v, there) < 0) wrong++;
  for (uint64_t p = 0; p < v->ds.ix.nparts; p++) wrong += there[p] && v->part[p] != FS_GOOD;
  if (wrong > 0)
    printf("%s: damaged: %" PRIu64 " of %" PRIu64 " partitions\n", shown, wrong, n);
  else if (n > 0)
    printf("%s: good: %" PRIu64 " of the dataset's %" PRIu64 " partitions\n", shown, n, (uint64_t)v->ds.ix.nparts);
  if (n > 0 && !index_good(v)) {
    printf("%s/index: damaged\n", shown);
    wrong++;
  }
  *bad += wrong;
  return n;
}

/* Scans the copies that jobs have staged on this host. */
static int verify_copies(struct fs_verify *v) {
  uint64_t n = 0, bad = 0, count[3] = {0};
  char path[PATH_MAX];
  for (int node = -1; node < EMULATED_NODES; node++) {
    fs_fd dir = fs_copies_open(&v->ds, v->local_dir, node, path);
    if (dir == -ENOENT || dir == -ENOTDIR) continue;
    if (dir < 0) {
      fs_say("%s: %s", path, strerror(-dir));
      bad++;
      continue;
    }
    close(v->ds.dir);
    v->ds.dir = dir;
    n += verify_copies_in(v, path, &bad);
  }
  report_files(v, count);
  if (n == 0 && bad == 0) fs_say("%s: no partition of %s is there", v->local_dir, v->ds.path);
  return n > 0 && bad == 0 ? FS_EXIT_OK : FS_EXIT_FAILED;
}

/* Says once that the partitions are on the nodes. Returns 0 if there is something to do all the same. */
static fs_err look_for_parts(struct fs_verify *v) {
  v->only_nodes = fs_dataset_only_nodes(&v->ds);
  if (v->local_dir != NULL) return 0;
  if (v->repair == NULL)
    return fs_dataset_need_parts(
        &v->ds, "run verify --local-dir DIR on each, or verify --repair-from PLACE, which makes them here");
  v->all_missing = v->only_nodes;
  return 0;
}

/* Removes what a repair has made: a job takes all partitions from DATASET, or all from the nodes. */
static int drop_repaired(const struct fs_verify *v) {
  char name[FS_PART_NAME_SIZE];
  for (uint32_t p = 0; p < v->ds.ix.nparts; p++)
    if (v->part[p] == FS_GOOD) unlinkat(v->ds.dir, fs_part_name(p, name), 0);
  fs_say("%s: not all of its partitions could be made here, so none was; they stay on the nodes", v->ds.path);
  return FS_EXIT_FAILED;
}

static int verify(struct fs_verify *v) {
  char why[512] = "";
  fs_err err = fs_index_verify(&v->ds.ix, why, sizeof why);
  if (err == 0) err = fs_dataset_check_index(&v->ds, why, sizeof why);
  if (err < 0) {
    fs_say("%s/index: %s; restore it from a copy, or pack again", v->ds.path, why[0] != '\0' ? why : strerror(-err));
    return FS_EXIT_FAILED;
  }
  if (v->repair != NULL && fs_repair_open(v->repair) < 0) return FS_EXIT_FAILED;
  v->state = calloc(v->ds.ix.nentries + 1, sizeof *v->state);
  v->part = calloc(v->ds.ix.nparts + 1, sizeof *v->part);
  if (v->state == NULL || v->part == NULL) {
    fs_say("%s: %s", v->ds.path, strerror(ENOMEM));
    return FS_EXIT_FAILED;
  }
  if (look_for_parts(v) < 0) return FS_EXIT_FAILED;
  if (v->local_dir != NULL) return verify_copies(v);
  err = verify_parts(v, NULL);
  v->all_missing = false;
  if (err == 0 && v->repair != NULL && count_parts(v, FS_DAMAGED) != 0) err = repair(v);
  fs_progress_stop(&v->progress, err == 0);
  if (v->only_nodes && (err < 0 || count_parts(v, FS_DAMAGED) != 0)) return drop_repaired(v);
  return err < 0 ? FS_EXIT_FAILED : report(v);
}

enum { OPT_JOBS = FS_OPT_OWN, OPT_REPAIR_FROM, OPT_SHARDS, OPT_LOCAL_DIR };
static const struct fs_opt options[] = {
    {"local-dir", 'l', "DIR",
     "check the copies that fs-launch --local-dir, place or pack have left in DIR\non this host, not DATASET's own "
     "partitions",
     OPT_LOCAL_DIR},
    {"repair-from", 0, "PLACE",
     "make damaged partitions again from PLACE: a copy of DATASET, or what it\nwas packed from, a directory or an "
     "archive (repeatable; PREFIX=PATH as with\npack --source)",
     OPT_REPAIR_FROM},
    {"shards", 0, "HOW", "nest or merge, if pack was given it", OPT_SHARDS},
    {"jobs", 'j', "N", "number of threads (default: one a CPU)", OPT_JOBS},
    FS_OPT_COMMON,
};

static fs_err set(void *ctx, int id, const char *value) {
  struct fs_verify *v = ctx;
  if (id == OPT_JOBS) return fs_prep_jobs(value, &v->jobs);
  if (id == OPT_LOCAL_DIR) {
    v->local_dir = value;
    return 0;
  }
  if (v->repair == NULL) v->repair = fs_repair_new(v);
  if (v->repair == NULL) {
    fs_say("%s: %s", "verify", strerror(ENOMEM));
    return -ENOMEM;
  }
  return id == OPT_SHARDS ? fs_repair_shards(v->repair, value) : fs_repair_add(v->repair, value);
}

int fs_prep_verify(int argc, char **argv) {
  struct fs_verify v = {.jobs = fs_sys_cpus()};
  struct fs_prep_cli cli = {
      .command = "verify",
      .synopsis = "[options] DATASET",
      .about = "Checks the manifest, the index, and every partition and block. Damaged files are named on standard\n"
               "output, damaged partitions on standard error; the exit status is then 1.",
      .opts = options,
      .nopts = FS_ARRAY_LEN(options),
      .word_names = {"DATASET"},
      .want = 1,
      .set = set,
      .ctx = &v};
  if (fs_prep_parse(&cli, argc, argv) < 0) return FS_EXIT_USAGE;
  if (v.local_dir != NULL && v.repair != NULL) {
    fs_say("verify: --repair-from: leave it out with --local-dir, whose copies the next job makes again");
    return FS_EXIT_USAGE;
  }
  v.where = cli.word[0];
  if (fs_dataset_open(&v.ds, cli.word[0]) < 0) return FS_EXIT_FAILED;
  fs_progress_start(&v.progress, NULL);
  int status = verify(&v);
  fs_progress_stop(&v.progress, status == FS_EXIT_OK);
  fs_repair_free(v.repair);
  free(v.state);
  free(v.part);
  fs_dataset_close(&v.ds);
  return fs_prep_finish(status);
}
