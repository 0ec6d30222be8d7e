/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Samples each kind of files, and lets choose.c choose by the samples. The samples lie at equal
 * distances in the bytes of all files of a kind, in the index's order: a sample is the beginning of the
 * block at its place. So large files are sampled more than small ones. Several threads, each with its own kind.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "decode.h"
#include "kinds.h"
#include "sources.h"

#define SAMPLE_LEAST (128ull << 10) /* bytes of the samples of a kind, if it has as many */
#define SAMPLE_MOST (1ull << 20)
#define SAMPLE_SHARE 4u    /* of a kind's bytes at most this part, beyond the least */
#define SAMPLES_MOST 1024u /* of a kind */
#define SMALL_MEAN 32768u  /* mean size of small files, for which a dictionary is tried */
#define RATE_BYTES 131072u /* decoded to measure the rate */
#define RATE_ROUNDS 6

/* A block of an item. */
struct place {
  uint64_t item, offset;
};

/* The samples of one kind. */
struct samples {
  uint64_t bytes; /* of the items that can be sampled */
  double weight;  /* sum of size * length of a sample, over these */
  struct place *place;
  uint32_t n, want; /* places found, and places at equal distances: some may be in one block */
  uint32_t next;    /* the next place to find */
  uint64_t passed;  /* bytes of the kind's items so far */
};

struct sampling {
  struct fs_kinds *kinds;
  const struct fs_plan *plan;
  struct samples *of; /* by kind */
  _Atomic bool failed;
};

static uint32_t number_wanted(const struct fs_kind *kind, const struct samples *s) {
  const uint64_t bytes = FS_MIN(FS_MAX(SAMPLE_LEAST, kind->bytes / SAMPLE_SHARE), SAMPLE_MOST);
  const uint64_t piece = FS_MAX((uint64_t)(s->weight / (double)s->bytes), 1); /* mean, by bytes */
  return (uint32_t)FS_MIN(FS_MAX(bytes / piece, 4), SAMPLES_MOST);
}

/* Returns the bytes of an item of an archive that comes as a stream, or NULL if it can be opened or its
   beginning was not kept. */
static const struct fs_begin *begin_of(const struct fs_tree *tree, const struct fs_item *item) {
  return fs_begins_find(&tree->sources[item->source].begins, item->ino);
}

static bool can_sample(const struct fs_tree *tree, const struct fs_item *item) {
  if (!S_ISREG(item->mode) || item->alias || item->kept || item->size == 0) return false;
  return fs_item_stream(tree, item) == NULL || begin_of(tree, item) != NULL;
}

/* Finds the places that lie in the item. That of an item of a stream is its beginning. */
static void find_in(struct samples *s, const struct fs_tree *tree, uint64_t number, uint64_t block) {
  const struct fs_item *item = &tree->items[number];
  const uint64_t end = s->passed + item->size, half = FS_MAX(s->bytes / (2ull * FS_MAX(s->want, 1)), 1);
  for (; s->next < s->want; s->next++) {
    const uint64_t at = half * (2ull * s->next + 1);
    if (at >= end) break;
    const struct place p = {number, fs_item_stream(tree, item) != NULL ? 0 : (at - s->passed) / block * block};
    const struct place *last = s->n > 0 ? &s->place[s->n - 1] : NULL;
    if (last == NULL || last->item != p.item || last->offset != p.offset) s->place[s->n++] = p;
  }
  s->passed = end;
}

static fs_err find_places(struct sampling *s) {
  const struct fs_tree *tree = s->plan->tree;
  for (size_t i = 0; i < tree->n; i++) {
    const struct fs_item *item = &tree->items[i];
    if (!can_sample(tree, item)) continue;
    s->of[item->kind].bytes += item->size;
    s->of[item->kind].weight += (double)item->size * (double)FS_MIN(item->size, (uint64_t)FS_SAMPLE_PIECE);
  }
  for (uint32_t i = 0; i < s->kinds->n; i++) {
    if (s->of[i].bytes == 0) continue;
    s->of[i].want = number_wanted(&s->kinds->kind[i], &s->of[i]);
    s->of[i].place = calloc(s->of[i].want, sizeof *s->of[i].place);
    if (s->of[i].place == NULL) return -ENOMEM;
  }
  for (size_t i = 0; i < tree->n; i++)
    if (can_sample(tree, &tree->items[i])) find_in(&s->of[tree->items[i].kind], tree, i, s->plan->opts->block_size);
  return 0;
}

/* ---- reading ---- */

static size_t length_of(const struct fs_plan *plan, const struct place *p) {
  const uint64_t piece = FS_MIN((uint64_t)plan->opts->block_size, (uint64_t)FS_SAMPLE_PIECE);
  return (size_t)FS_MIN(plan->tree->items[p->item].size - p->offset, piece);
}

/* Reads n bytes of an item. Returns 0 or a negative errno. */
static fs_err read_piece(const struct fs_tree *tree, const struct fs_item *item, uint8_t *bytes, size_t n,
                         uint64_t offset) {
  const struct fs_begin *begin = begin_of(tree, item);
  if (begin != NULL) {
    memcpy(bytes, begin->bytes, n);
    return 0;
  }
  FS_AUTO_CLOSE int fd = fs_item_open(tree, item);
  return fd < 0 ? fd : fs_item_read(tree, item, fd, bytes, n, offset);
}

/* Reads the samples into `bytes`, which has room. Leaves out what cannot be read: the pipeline will
   say so. Returns their number. */
static size_t read_samples(const struct fs_plan *plan, const struct samples *s, uint8_t *bytes, struct fs_sample *out) {
  size_t n = 0;
  for (uint32_t i = 0; i < s->n && fs_prep_signal == 0; i++) {
    const size_t len = length_of(plan, &s->place[i]);
    if (read_piece(plan->tree, &plan->tree->items[s->place[i].item], bytes, len, s->place[i].offset) < 0) continue;
    out[n++] = (struct fs_sample){bytes, len};
    bytes += len;
  }
  return n;
}

/* ---- the rate of decoding ---- */

static uint64_t thread_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* Stored samples, one after the other. */
struct stored {
  uint8_t *bytes;
  size_t *len;
  size_t n;
  uint64_t plain;
};

static fs_err store_samples(const struct fs_encoding *e, const struct fs_sample *in, size_t n, struct stored *out) {
  struct fs_encoding prepared = *e;
  struct fs_encoder *encoder = fs_encoder_new();
  size_t used = 0;
  fs_err err = encoder != NULL ? fs_encoding_prepare(&prepared) : -ENOMEM;
  for (; out->n < n && out->plain < RATE_BYTES && err == 0; out->n++) {
    const struct fs_sample *s = &in[out->n];
    fs_ssize got = fs_encode(encoder, &prepared, s->plain, s->n, out->bytes + used, s->n);
    if (got == -ENOMEM) err = -ENOMEM;
    if (got < 0) memcpy(out->bytes + used, s->plain, s->n);
    out->len[out->n] = got < 0 ? s->n : (size_t)got;
    used += out->len[out->n];
    out->plain += s->n;
  }
  fs_encoding_release(&prepared);
  fs_encoder_free(encoder);
  return err;
}

/* Decodes all several times. Returns the nanoseconds of the fastest round, without the first one, which makes
   tables. A round takes 0.1 ms, and other threads disturb it. */
static uint64_t time_decoding(struct fs_decoder *d, const struct stored *s, const struct fs_sample *in,
                              uint8_t *plain) {
  uint64_t fastest = UINT64_MAX;
  for (int round = 0; round < RATE_ROUNDS; round++) {
    const uint8_t *from = s->bytes;
    const uint64_t began = thread_ns();
    for (size_t i = 0; i < s->n; i++) {
      if (fs_decoder_block(d, from, s->len[i], plain, in[i].n) < 0) return 0;
      from += s->len[i];
    }
    if (round > 0) fastest = FS_MIN(fastest, thread_ns() - began);
  }
  return fastest;
}

/* Returns the plain bytes that one core decodes in a second, or 0 if that cannot be measured. */
static double measure(const struct fs_encoding *e, const struct fs_sample *in, size_t n) {
  struct fs_decoder d;
  struct stored s = {.bytes = malloc(RATE_BYTES + FS_SAMPLE_PIECE), .len = calloc(n + 1, sizeof *s.len)};
  uint8_t *plain = malloc(FS_SAMPLE_PIECE);
  uint64_t ns = 0;
  bool ok = fs_decoder_open(&d, e, FS_SAMPLE_PIECE) == 0 && plain != NULL && s.bytes != NULL && s.len != NULL;
  if (ok && store_samples(e, in, n, &s) == 0) ns = time_decoding(&d, &s, in, plain);
  fs_decoder_close(&d);
  free(s.bytes);
  free(s.len);
  free(plain);
  return ns != 0 ? (double)s.plain * 1e9 / (double)ns : 0;
}

/* ---- one kind ---- */

static fs_err choose_kind(const struct sampling *s, uint32_t number) {
  struct fs_kind *kind = &s->kinds->kind[number];
  const struct samples *samples = &s->of[number];
  uint64_t total = 0;
  if (kind->bytes == 0) return 0;
  for (uint32_t i = 0; i < samples->n; i++) total += length_of(s->plan, &samples->place[i]);
  FS_AUTO_FREE uint8_t *bytes = malloc(total + 1);
  FS_AUTO_FREE struct fs_sample *list = calloc(samples->n + 1, sizeof *list);
  if (bytes == NULL || list == NULL) return -ENOMEM;
  const size_t n = read_samples(s->plan, samples, bytes, list);
  const struct fs_choose choose = {.samples = list,
                                   .n = n,
                                   .bytes = kind->bytes,
                                   .small = kind->bytes / FS_MAX(kind->files, 1) <= SMALL_MEAN,
                                   .rate = s->plan->opts->decode_rate};
  fs_err err = fs_choose(&choose, &kind->verdict);
  const struct fs_encoding *best = &kind->verdict.best.encoding;
  if (err == 0 && best->family != FS_FAMILY_RAW) kind->rate = measure(best, list, n);
  return err;
}

static void choose_one(void *ctx, uint64_t number) {
  struct sampling *s = ctx;
  if (s->failed || fs_prep_signal != 0) return;
  if (choose_kind(s, (uint32_t)number) < 0) s->failed = true;
}

/* ---- the table of codecs ---- */

static bool same_encoding(const struct fs_encoding *a, const struct fs_encoding *b) {
  return a->family == b->family && a->element == b->element && a->level == b->level && a->dict == b->dict;
}

/* Returns the number of the row of an encoding, which may be a new one, or a negative errno. */
static int row_of(struct fs_plan *plan, const struct fs_encoding *e) {
  if (e->family == FS_FAMILY_RAW) return FS_CODEC_RAW;
  for (uint32_t i = FS_CODEC_LZ4; i < plan->codecs.n; i++)
    if (same_encoding(&plan->codecs.row[i], e)) return (int)i;
  return fs_plan_codec_row(plan, e);
}

static fs_err add_rows(const struct fs_kinds *kinds, struct fs_plan *plan) {
  for (uint32_t i = 0; i < kinds->n; i++) {
    int row = row_of(plan, &kinds->kind[i].verdict.best.encoding);
    if (row == -ENOSPC) row = FS_CODEC_LZ4; /* many updates have filled the table */
    if (row < 0) return row;
    plan->codecs.of_kind[i] = (uint8_t)row;
  }
  return 0;
}

fs_err fs_kinds_choose(struct fs_kinds *kinds, struct fs_plan *plan) {
  struct sampling s = {.kinds = kinds, .plan = plan, .of = calloc(kinds->n, sizeof *s.of)};
  if (s.of == NULL) return -ENOMEM;
  fs_err err = find_places(&s);
  if (err == 0) fs_prep_parallel(plan->opts->jobs, kinds->n, choose_one, &s);
  if (s.failed) err = -ENOMEM;
  if (fs_prep_signal != 0) err = -EINTR;
  if (err == 0) err = add_rows(kinds, plan);
  for (uint32_t i = 0; i < kinds->n; i++) free(s.of[i].place);
  for (uint32_t i = 0; i < plan->tree->nsources; i++) fs_begins_free(&plan->tree->sources[i].begins);
  free(s.of);
  return err;
}
