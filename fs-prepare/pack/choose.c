/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tries encodings on samples. Fast trials find the element of the byte shuffle, then dictionaries are
 * made and tried, then lz4 and zstd, each without and with the best dictionary. One sample in four
 * tries, and the others train dictionaries: a dictionary always does well on what it was trained on.
 * An encoding that is much larger than another one on a part of these samples is not tried on the rest.
 */
#define ZDICT_STATIC_LINKING_ONLY
#include "choose.h"

#include <stdlib.h>
#include <string.h>
#include <zdict.h>

#define QUICK_BYTES (128u << 10) /* samples of a fast trial */
#define QUICK_PIECE (16u << 10)  /* of each sample */
#define QUICK_LEVEL 1            /* of zstd */
#define PIECE_ALIGN 64u
#define DICT_BYTES (128u << 10)  /* samples that try a dictionary */
#define TRIAL_BYTES (512u << 10) /* samples of a full trial */
#define TRAINING_SHARE 4u        /* one sample in so many does not train dictionaries */
#define DICT_LEAST_SAMPLES 12u
#define DICT_LEAST_SHARE 16u /* a dictionary is at most this part of the files */
#define DICT_HEADER 256u     /* most bytes of a dictionary's tables */

struct chooser {
  const struct fs_choose *in;
  struct fs_encoder *encoder;
  uint8_t *out;                      /* room for any sample's stored bytes */
  unsigned every;                    /* every so many samples one is tried. The others train dictionaries */
  const struct fs_encoding *instead; /* of a file whose decoding would be over the budget; NULL: it is raw */
};

#define SHARE (1u << 20) /* the bytes for which each sample stands, whatever its own length is */

/* What some samples come to. All is scaled, as if each sample had SHARE bytes: the samples lie at equal
   distances. */
struct sum {
  uint64_t plain, stored, unbound, cost_ns;
  uint64_t encoded; /* even if a file is not worth it */
};

/* Returns the stored bytes of a sample whose decoding is over the budget, or -ENOMEM. */
static fs_ssize store_instead(struct chooser *c, const uint8_t *plain, size_t n) {
  if (c->instead == NULL) return (fs_ssize)n;
  const fs_ssize got = fs_encode(c->encoder, c->instead, plain, n, c->out, n);
  return got == -ENOMEM || (got >= 0 && fs_worth(c->instead, c->in->rate, 1, n, (uint64_t)got)) ? got : (fs_ssize)n;
}

/* Adds one sample, with its share of the dictionary's own bytes. Returns 0 or -ENOMEM. */
static fs_err try_sample(struct chooser *c, const struct fs_encoding *e, const uint8_t *plain, size_t n,
                         struct sum *sum) {
  fs_ssize got = fs_encode(c->encoder, e, plain, n, c->out, n);
  if (got == -ENOMEM) return -ENOMEM;
  const uint64_t stored = got < 0 ? n : (uint64_t)got;
  const uint64_t cost = fs_decode_cost(e, 1, n, stored), dict = (uint64_t)e->dict_len * SHARE / FS_MAX(c->in->bytes, 1);
  const bool smaller = stored <= n - n / 8, allowed = fs_decode_allowed(c->in->rate, cost, n, stored);
  sum->plain += SHARE;
  sum->encoded += stored * SHARE / n;
  sum->unbound += dict + (smaller ? stored * SHARE / n : SHARE);
  if (smaller) sum->cost_ns += cost * SHARE / n;
  const fs_ssize kept = smaller && allowed ? (fs_ssize)stored : smaller ? store_instead(c, plain, n) : (fs_ssize)n;
  if (kept < 0) return (fs_err)kept;
  sum->stored += dict + (uint64_t)kept * SHARE / n;
  return 0;
}

/* Some of the samples, at equal distances. */
struct picks {
  uint64_t bytes;      /* about so many in all */
  size_t piece;        /* at most so many of each sample */
  unsigned from, step; /* numbers among those that `bytes` allows */
};

/* Returns how many of the n samples that may be tried have about as many bytes as is said. */
static size_t number_of(const struct chooser *c, const struct picks *p, size_t n) {
  uint64_t total = 0;
  for (size_t i = 0; i < n; i++) total += FS_MIN(c->in->samples[(i + 1) * c->every - 1].n, p->piece);
  return (size_t)FS_MIN(n, (n * p->bytes + total - 1) / FS_MAX(total, 1));
}

/* Tries an encoding that is prepared, and adds to the sum. Of a large sample it takes a piece, which is
   nearer to the sample's end from sample to sample. */
static fs_err try_picks(struct chooser *c, const struct fs_encoding *e, const struct picks *p, struct sum *sum) {
  const size_t n = c->in->n / c->every, want = number_of(c, p, n);
  fs_err err = 0;
  for (size_t k = p->from; k < want && err == 0; k += p->step) {
    const struct fs_sample *s = &c->in->samples[(k * n / want + 1) * c->every - 1];
    const size_t len = FS_MIN(s->n, p->piece), at = (s->n - len) * k / want / PIECE_ALIGN * PIECE_ALIGN;
    err = try_sample(c, e, s->plain + at, len, sum);
  }
  return err;
}

static fs_err try_encoding(struct chooser *c, const struct fs_encoding *e, const struct picks *p, struct sum *sum) {
  struct fs_encoding prepared = *e;
  *sum = (struct sum){0};
  fs_err err = fs_encoding_prepare(&prepared);
  if (err == 0) err = try_picks(c, &prepared, p, sum);
  fs_encoding_release(&prepared);
  return err;
}

/* Tries a shuffle on samples. Takes it if they become smaller than `below`. */
static fs_err try_element(struct chooser *c, uint8_t tried, uint64_t below, uint8_t *element, uint64_t *least) {
  static const struct picks quick = {QUICK_BYTES, QUICK_PIECE, 0, 1};
  const struct fs_encoding e = {.family = FS_FAMILY_ZSTD, .element = tried, .level = QUICK_LEVEL};
  struct sum sum;
  fs_err err = try_encoding(c, &e, &quick, &sum);
  if (err < 0 || sum.encoded >= below) return err;
  *least = sum.encoded;
  *element = sum.encoded > sum.plain - sum.plain / 64 ? 0 : tried;
  return 0;
}

/* Finds the size of the elements that the samples consist of: 1, unless shuffling saves a 16th. Differences
   must save another 16th. If nothing makes the samples smaller (JPEG, for example), the size is 0. */
static fs_err find_element(struct chooser *c, uint8_t *element) {
  uint64_t least = UINT64_MAX;
  fs_err err = try_element(c, 1, least, element, &least);
  for (uint8_t bytes = 2; bytes <= 8 && err == 0; bytes *= 2)
    err = try_element(c, bytes, *element == 1 ? least - least / 16 : least, element, &least);
  if (*element <= 1) return err;
  uint64_t most = least - least / 16;
  for (uint8_t bytes = *element, deltas = 1; deltas <= 2 && err == 0; deltas++)
    err = try_element(c, (uint8_t)(bytes + deltas * FS_ELEMENT_DELTA), FS_MIN(most, least), element, &least);
  return err;
}

/* ---- dictionaries ---- */

static const struct picks dict_picks = {DICT_BYTES, SIZE_MAX, 0, 1};

/* The samples that train dictionaries, one after the other. */
struct training {
  uint8_t *bytes;
  size_t *sizes;
  unsigned n;
};

static fs_err gather(const struct chooser *c, struct training *t) {
  size_t total = 0;
  for (size_t i = 0; i < c->in->n; i++) total += c->in->samples[i].n;
  t->bytes = malloc(total + 1);
  t->sizes = malloc(c->in->n * sizeof *t->sizes);
  if (t->bytes == NULL || t->sizes == NULL) return -ENOMEM;
  uint8_t *to = t->bytes;
  for (size_t i = 0; i < c->in->n; i++) {
    if (i % c->every == c->every - 1) continue;
    memcpy(to, c->in->samples[i].plain, c->in->samples[i].n);
    to += c->in->samples[i].n;
    t->sizes[t->n++] = c->in->samples[i].n;
  }
  return 0;
}

struct dict {
  uint8_t *bytes; /* from malloc */
  uint32_t len;
};

static struct fs_encoding with_dict(uint8_t family, int level, const struct dict *dict) {
  return (struct fs_encoding){
      .family = family, .element = 1, .level = level, .dict = dict->bytes, .dict_len = dict->len};
}

/* Makes *dict of the samples, with at most `size` bytes. */
static size_t train(const struct training *t, uint32_t size, uint8_t *dict) {
  /* These are not the library's defaults: it would try five values of k. */
  const ZDICT_fastCover_params_t params = {
      .k = 500, .d = 8, .f = 18, .accel = 2, .splitPoint = 1.0, .zParams.compressionLevel = FS_AUTO_ZSTD_LEVEL};
  return ZDICT_trainFromBuffer_fastCover(dict, size, t->bytes, t->sizes, t->n, params);
}

/* Makes a smaller dictionary of the end of a larger one, where its best pieces are. */
static size_t shorten(const struct training *t, const struct dict *from, uint32_t size, uint8_t *dict) {
  const ZDICT_params_t params = {.compressionLevel = FS_AUTO_ZSTD_LEVEL};
  const size_t content = size - FS_MIN(size, (size_t)DICT_HEADER);
  unsigned n = 0;
  for (size_t used = 0; n < t->n && used < DICT_BYTES; n++) used += t->sizes[n];
  return ZDICT_finalizeDictionary(dict, size, from->bytes + from->len - content, content, t->bytes, t->sizes, n,
                                  params);
}

/* Makes a dictionary, from a larger one if `from` has bytes, and tries it. Leaves *dict empty if that is
   not possible. Returns 0 or -ENOMEM. */
static fs_err make_dict(struct chooser *c, const struct training *t, const struct dict *from, uint32_t size,
                        struct dict *dict, struct sum *sum) {
  FS_AUTO_FREE uint8_t *room = malloc(size);
  *dict = (struct dict){0};
  if (room == NULL) return -ENOMEM;
  const size_t n = from->len == 0 ? train(t, size, room) : shorten(t, from, size, room);
  if (ZDICT_isError(n)) return 0;
  const struct dict made = {room, (uint32_t)n};
  const struct fs_encoding e = with_dict(FS_FAMILY_ZSTD, FS_AUTO_ZSTD_LEVEL, &made);
  fs_err err = try_encoding(c, &e, &dict_picks, sum);
  if (err < 0) return err == -EINVAL ? 0 : err; /* zstd refuses it */
  *dict = made;
  room = NULL;
  return 0;
}

/* Makes and tries dictionaries of some sizes. Leaves *dict alone if none does better than `least`. */
static fs_err try_sizes(struct chooser *c, const struct training *t, struct sum least, struct dict *dict) {
  static const uint32_t sizes[] = {64u << 10, 16u << 10, 4u << 10};
  struct dict large = {0};
  fs_err err = 0;
  for (size_t i = 0; i < FS_ARRAY_LEN(sizes) && err == 0; i++) {
    struct dict made;
    struct sum sum;
    if (sizes[i] > c->in->bytes / DICT_LEAST_SHARE || (large.len != 0 && large.len <= sizes[i])) continue;
    err = make_dict(c, t, &large, sizes[i], &made, &sum);
    if (err < 0 || made.len == 0) continue;
    struct dict drop = made;
    if (sum.unbound < least.unbound) {
      drop = *dict;
      *dict = made;
      least = sum;
    }
    if (large.len == 0) large = made;
    if (drop.bytes != large.bytes) free(drop.bytes);
  }
  if (large.bytes != dict->bytes) free(large.bytes);
  return err;
}

/* Finds the best dictionary. Leaves *dict alone if none does better than none. */
static fs_err find_dict(struct chooser *c, struct dict *dict) {
  const struct fs_encoding e = with_dict(FS_FAMILY_ZSTD, FS_AUTO_ZSTD_LEVEL, dict);
  struct training t = {0};
  struct sum none;
  fs_err err = gather(c, &t);
  if (err == 0) err = try_encoding(c, &e, &dict_picks, &none);
  if (err == 0) err = try_sizes(c, &t, none, dict);
  free(t.bytes);
  free(t.sizes);
  return err;
}

/* ---- the choice ---- */

/* Returns true if a trial with `stored` bytes is enough smaller than a faster one with `than` bytes. */
static bool smaller(uint64_t stored, uint64_t than, uint64_t plain) {
  return stored + plain / 256 < than - than / 32;
}

/* Takes a trial if it is enough smaller than the best one: those before it decode faster. */
static void compare(struct fs_verdict *v, const struct fs_encoding *e, const struct sum *sum) {
  const struct fs_trial t = {.encoding = *e, .stored = sum->stored, .unbound = sum->unbound, .cost_ns = sum->cost_ns};
  if (v->plain == 0) v->plain = v->best.stored = v->next.unbound = sum->plain; /* raw */
  if (smaller(t.stored, v->best.stored, v->plain)) v->best = t;
  if (t.unbound < t.stored && smaller(t.unbound, v->next.unbound, v->plain)) v->next = t;
}

/* An encoding that is tried in two rounds. */
struct candidate {
  struct fs_encoding encoding; /* prepared */
  struct sum sum;
  bool dropped;
};

/* Tries those that are not dropped on every second sample, from number `from` on. */
static fs_err try_round(struct chooser *c, struct candidate *list, size_t n, unsigned from) {
  const struct picks picks = {TRIAL_BYTES, SIZE_MAX, from, 2};
  fs_err err = 0;
  for (size_t i = 0; i < n && err == 0; i++)
    if (!list[i].dropped) err = try_picks(c, &list[i].encoding, &picks, &list[i].sum);
  return err;
}

/* Drops what is larger than the smallest by an eighth, with the bound and without it. */
static void drop_large(struct candidate *list, size_t n) {
  uint64_t stored = UINT64_MAX, unbound = UINT64_MAX;
  for (size_t i = 0; i < n; i++) {
    if (list[i].dropped) continue;
    stored = FS_MIN(stored, list[i].sum.stored);
    unbound = FS_MIN(unbound, list[i].sum.unbound);
  }
  for (size_t i = 0; i < n; i++)
    list[i].dropped |= list[i].sum.stored > stored + stored / 8 && list[i].sum.unbound > unbound + unbound / 8;
}

static fs_err try_all(struct chooser *c, uint8_t element, const struct dict *dict, struct fs_verdict *v) {
  /* Higher levels may find without differences what zstd:1 did not. */
  const uint8_t bytes = FS_ELEMENT_BYTES(element);
  const bool no_dict = dict->len == 0, no_deltas = element == bytes;
  struct candidate list[] = {
      {.encoding = {.family = FS_FAMILY_LZ4, .element = bytes, .level = FS_AUTO_LZ4_LEVEL}},
      {.encoding = with_dict(FS_FAMILY_LZ4, FS_AUTO_LZ4_LEVEL, dict), .dropped = no_dict},
      {.encoding = {.family = FS_FAMILY_LZ4, .element = element, .level = FS_AUTO_LZ4_LEVEL}, .dropped = no_deltas},
      {.encoding = with_dict(FS_FAMILY_ZSTD, FS_AUTO_ZSTD_LEVEL, dict), .dropped = no_dict},
      {.encoding = {.family = FS_FAMILY_ZSTD, .element = bytes, .level = FS_AUTO_ZSTD_LEVEL}},
      {.encoding = {.family = FS_FAMILY_ZSTD, .element = element, .level = FS_AUTO_ZSTD_LEVEL}, .dropped = no_deltas},
  };
  static const struct fs_encoding lz4 = {.family = FS_FAMILY_LZ4, .element = 1, .level = FS_AUTO_LZ4_LEVEL};
  const size_t n = FS_ARRAY_LEN(list);
  fs_err err = 0;
  c->instead = &lz4;
  for (size_t i = 0; i < n && err == 0; i++)
    if (!list[i].dropped) err = fs_encoding_prepare(&list[i].encoding);
  if (err == 0) err = try_round(c, list, n, 0);
  drop_large(list, n);
  if (err == 0) err = try_round(c, list, n, 1);
  for (size_t i = 0; i < n; i++) {
    fs_encoding_release(&list[i].encoding);
    if (list[i].dropped || err < 0) continue;
    compare(v, &list[i].encoding, &list[i].sum);
  }
  const struct fs_encoding *best = &v->best.encoding, *next = &v->next.encoding;
  const bool same = next->family == best->family && next->element == best->element && next->dict == best->dict;
  if (same || !smaller(v->next.unbound, v->best.stored, v->plain)) v->next = (struct fs_trial){.encoding.element = 1};
  return err;
}

static fs_err choose(struct chooser *c, size_t longest, struct fs_verdict *v) {
  struct dict dict = {0};
  uint8_t element = 1;
  c->encoder = fs_encoder_new();
  c->out = malloc(longest);
  if (c->encoder == NULL || c->out == NULL) return -ENOMEM;
  fs_err err = find_element(c, &element);
  if (err < 0 || element == 0) return err;
  if (c->every > 1) err = find_dict(c, &dict);
  v->dict = dict.bytes;
  return err < 0 ? err : try_all(c, element, &dict, v);
}

fs_err fs_choose(const struct fs_choose *in, struct fs_verdict *v) {
  *v = (struct fs_verdict){.best.encoding.element = 1, .next.encoding.element = 1};
  if (in->n == 0) {                                /* each file decides for itself */
    const bool zstd = in->rate == 0 && !in->small; /* too slow for small blocks without a dictionary */
    v->best.encoding.family = zstd ? FS_FAMILY_ZSTD : FS_FAMILY_LZ4;
    v->best.encoding.level = zstd ? FS_AUTO_ZSTD_LEVEL : FS_AUTO_LZ4_LEVEL;
    return 0;
  }
  struct chooser c = {.in = in, .every = in->small && in->n >= DICT_LEAST_SAMPLES ? TRAINING_SHARE : 1};
  size_t longest = 1;
  for (size_t i = 0; i < in->n; i++) longest = FS_MAX(longest, in->samples[i].n);
  fs_err err = choose(&c, longest, v);
  fs_encoder_free(c.encoder);
  free(c.out);
  if (err < 0) fs_verdict_release(v);
  return err;
}

void fs_verdict_release(struct fs_verdict *v) {
  free(v->dict);
  v->dict = NULL;
}
