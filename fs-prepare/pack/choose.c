/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tries encodings on samples. Fast trials find the element of the byte shuffle, then some dictionaries
 * are trained and tried, then lz4 and zstd, each without and with the best dictionary. Half of the samples
 * train dictionaries, the others try them: a dictionary always does well on what it was trained on.
 */
#define ZDICT_STATIC_LINKING_ONLY
#include "choose.h"

#include <stdlib.h>
#include <string.h>
#include <zdict.h>

#define QUICK_BYTES (512u << 10) /* samples of a fast trial */
#define TRIAL_BYTES (512u << 10) /* samples of a full trial */
#define QUICK_LEVEL 1            /* of zstd */
#define DICT_LEAST_SAMPLES 16u
#define DICT_LEAST_SHARE 16u /* a dictionary is at most this part of the files */

struct chooser {
  const struct fs_choose *in;
  struct fs_encoder *encoder;
  uint8_t *out; /* room for any sample's stored bytes */
  bool halves;  /* every second sample trains dictionaries */
};

#define SHARE (1u << 20) /* the bytes for which each sample stands, whatever its own length is */

/* What some samples come to. All but `read` are scaled, as if each sample had SHARE bytes: the samples
   lie at equal distances. */
struct sum {
  uint64_t plain, stored, unbound, cost_ns;
  uint64_t encoded; /* even if a file is not worth it */
  uint64_t read;
};

/* Adds one sample. Returns 0 or -ENOMEM. */
static fs_err try_sample(struct chooser *c, const struct fs_encoding *e, const uint8_t *plain, size_t n,
                         struct sum *sum) {
  fs_ssize got = fs_encode(c->encoder, e, plain, n, c->out, n);
  if (got == -ENOMEM) return -ENOMEM;
  const uint64_t stored = got < 0 ? n : (uint64_t)got;
  const uint64_t cost = fs_decode_cost(e, 1, n, stored);
  const bool smaller = stored <= n - n / 8, allowed = fs_decode_allowed(c->in->rate, cost, n, stored);
  sum->read += n;
  sum->plain += SHARE;
  sum->encoded += stored * SHARE / n;
  sum->unbound += smaller ? stored * SHARE / n : SHARE;
  sum->stored += smaller && allowed ? stored * SHARE / n : SHARE;
  if (smaller) sum->cost_ns += cost * SHARE / n;
  return 0;
}

/* Tries an encoding on samples of about `most` bytes. */
static fs_err try_encoding(struct chooser *c, const struct fs_encoding *e, uint64_t most, struct sum *sum) {
  struct fs_encoding prepared = *e;
  fs_err err = fs_encoding_prepare(&prepared);
  *sum = (struct sum){0};
  for (size_t i = c->halves ? 1 : 0; i < c->in->n && sum->read < most && err == 0; i += c->halves ? 2 : 1)
    err = try_sample(c, &prepared, c->in->samples[i].plain, c->in->samples[i].n, sum);
  fs_encoding_release(&prepared);
  if (e->dict_len == 0) return err;
  const uint64_t share = e->dict_len * sum->plain / FS_MAX(c->in->bytes, 1) + 1;
  sum->encoded += share;
  sum->stored += share;
  sum->unbound += share;
  return err;
}

/* Tries a shuffle on samples. Takes it if they become smaller than `below`. */
static fs_err try_element(struct chooser *c, uint8_t tried, uint64_t below, uint8_t *element, uint64_t *least) {
  const struct fs_encoding e = {.family = FS_FAMILY_ZSTD, .element = tried, .level = QUICK_LEVEL};
  struct sum sum;
  fs_err err = try_encoding(c, &e, QUICK_BYTES, &sum);
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

/* The samples that train dictionaries, one after the other. */
struct training {
  uint8_t *bytes;
  size_t *sizes;
  unsigned n;
};

static fs_err gather(const struct chooser *c, struct training *t) {
  size_t total = 0;
  for (size_t i = 0; i < c->in->n; i += 2) total += c->in->samples[i].n;
  t->bytes = malloc(total + 1);
  t->sizes = malloc((c->in->n / 2 + 1) * sizeof *t->sizes);
  if (t->bytes == NULL || t->sizes == NULL) return -ENOMEM;
  uint8_t *to = t->bytes;
  for (size_t i = 0; i < c->in->n; i += 2) {
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

/* Trains a dictionary of at most `size` bytes. Makes it *dict if it does better than `least`. Returns
   0 or -ENOMEM. */
static fs_err try_dict(struct chooser *c, const struct training *t, uint32_t size, struct dict *dict, uint64_t *least) {
  FS_AUTO_FREE uint8_t *room = malloc(size);
  if (room == NULL) return -ENOMEM;
  /* These are not the library's defaults: it would try five values of k. */
  const ZDICT_fastCover_params_t params = {
      .k = 500, .d = 8, .f = 20, .accel = 1, .splitPoint = 1.0, .zParams.compressionLevel = FS_AUTO_ZSTD_LEVEL};
  const size_t n = ZDICT_trainFromBuffer_fastCover(room, size, t->bytes, t->sizes, t->n, params);
  if (ZDICT_isError(n)) return 0;
  const struct dict trained = {room, (uint32_t)n};
  const struct fs_encoding e = with_dict(FS_FAMILY_ZSTD, FS_AUTO_ZSTD_LEVEL, &trained);
  struct sum sum;
  fs_err err = try_encoding(c, &e, QUICK_BYTES, &sum);
  if (err < 0) return err == -EINVAL ? 0 : err; /* zstd refuses it */
  if (sum.unbound >= *least) return 0;
  free(dict->bytes);
  *dict = trained;
  *least = sum.unbound;
  room = NULL;
  return 0;
}

/* Finds the best of some dictionaries. Leaves *dict alone if none of them does better than none. */
static fs_err find_dict(struct chooser *c, struct dict *dict) {
  static const uint32_t sizes[] = {4u << 10, 16u << 10, 64u << 10};
  const struct dict none = {0};
  const struct fs_encoding e = with_dict(FS_FAMILY_ZSTD, FS_AUTO_ZSTD_LEVEL, &none);
  struct training t = {0};
  struct sum sum;
  fs_err err = gather(c, &t);
  if (err == 0) err = try_encoding(c, &e, QUICK_BYTES, &sum);
  for (size_t i = 0; i < FS_ARRAY_LEN(sizes) && err == 0; i++)
    if (sizes[i] <= c->in->bytes / DICT_LEAST_SHARE) err = try_dict(c, &t, sizes[i], dict, &sum.unbound);
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

static fs_err try_all(struct chooser *c, uint8_t element, const struct dict *dict, struct fs_verdict *v) {
  const struct fs_encoding list[] = {
      {.family = FS_FAMILY_LZ4, .element = element, .level = FS_AUTO_LZ4_LEVEL},
      with_dict(FS_FAMILY_LZ4, FS_AUTO_LZ4_LEVEL, dict),
      with_dict(FS_FAMILY_ZSTD, FS_AUTO_ZSTD_LEVEL, dict),
      {.family = FS_FAMILY_ZSTD, .element = element, .level = FS_AUTO_ZSTD_LEVEL},
  };
  fs_err err = 0;
  for (size_t i = 0; i < FS_ARRAY_LEN(list) && err == 0; i++) {
    struct sum sum;
    if ((i == 1 || i == 2) && dict->len == 0) continue;
    err = try_encoding(c, &list[i], TRIAL_BYTES, &sum);
    if (err == 0) compare(v, &list[i], &sum);
  }
  const bool same =
      v->next.encoding.family == v->best.encoding.family && v->next.encoding.dict == v->best.encoding.dict;
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
  if (c->halves) err = find_dict(c, &dict);
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
  struct chooser c = {.in = in, .halves = in->small && in->n >= 2 * DICT_LEAST_SAMPLES};
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
