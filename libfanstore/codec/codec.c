/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decodes blocks by the rows of a table of codecs. Called by clients, on their read path, and by
 * fs-prepare. Thread safe without locks: a dictionary is prepared in a mapping that is published once;
 * whoever loses the race drops his. Everything else that a decoding writes is its caller's.
 */
#define LZ4_STATIC_LINKING_ONLY
#define ZSTD_STATIC_LINKING_ONLY
#include "codec/codec.h"

#include <limits.h>
#include <lz4.h>
#include <string.h>
#include <sys/mman.h>
#include <zstd.h>

#include "codec/shuffle.h"
#include "util/sys.h"
#include "util/util.h"

static const struct fs_codec_rec fs_first_rows[FS_CODEC_ROWS_MIN] = {
    [FS_CODEC_RAW] = {.family = FS_FAMILY_RAW, .element = 1},
    [FS_CODEC_LZ4] = {.family = FS_FAMILY_LZ4, .element = 1},
};

/* ---- the table ---- */

fs_err fs_codec_set_open(struct fs_codec_set *set, const struct fs_codec_rec *rows, uint64_t n, const char *strings,
                         uint64_t strings_size) {
  if (n < FS_CODEC_ROWS_MIN || n > FS_CODEC_ROWS_MAX) return -EBADMSG;
  *set = (struct fs_codec_set){.n = (uint32_t)n, .strings = strings};
  memcpy(set->rows, rows, n * sizeof(*rows));
  if (memcmp(set->rows, fs_first_rows, sizeof(fs_first_rows)) != 0) return -EBADMSG;
  for (uint64_t i = FS_CODEC_ROWS_MIN; i < n; i++) {
    const struct fs_codec_rec *r = &set->rows[i];
    if (r->family == FS_FAMILY_RAW || r->dict_len > FS_DICT_MAX) return -EBADMSG;
    if (r->dict > strings_size || r->dict_len > strings_size - r->dict) return -EBADMSG;
  }
  return 0;
}

void fs_codec_set_first(struct fs_codec_set *set) {
  *set = (struct fs_codec_set){.n = FS_CODEC_ROWS_MIN};
  memcpy(set->rows, fs_first_rows, sizeof(fs_first_rows));
}

bool fs_codec_known(const struct fs_codec_set *set, uint32_t row) {
  if (row >= set->n) return false;
  const struct fs_codec_rec *r = &set->rows[row];
  return r->family <= FS_FAMILY_ZSTD && fs_element_known(r->element);
}

bool fs_codec_partial(const struct fs_codec_set *set, uint32_t row) {
  return row < set->n && !fs_codec_works(set, row) && set->rows[row].dict_len == 0;
}

bool fs_codec_works(const struct fs_codec_set *set, uint32_t row) {
  return fs_codec_known(set, row) && (set->rows[row].family == FS_FAMILY_ZSTD || set->rows[row].element > 1);
}

#define FS_NAMES_SHUFFLED(name)                                                                                        \
  { name, name "2", name "4", name "8" }
#define FS_NAMES(name)                                                                                                 \
  {                                                                                                                    \
    FS_NAMES_SHUFFLED(name "+shuffle"), FS_NAMES_SHUFFLED(name "+delta+shuffle"),                                      \
        FS_NAMES_SHUFFLED(name "+delta2+shuffle")                                                                      \
  }

const char *fs_codec_name(const struct fs_codec_set *set, uint32_t row) {
  static const char *const plain[][2] = {{"raw", "raw+dict"}, {"lz4", "lz4+dict"}, {"zstd", "zstd+dict"}};
  static const char *const shuffled[][2][3][4] = {{FS_NAMES("raw"), FS_NAMES("raw+dict")},
                                                  {FS_NAMES("lz4"), FS_NAMES("lz4+dict")},
                                                  {FS_NAMES("zstd"), FS_NAMES("zstd+dict")}};
  if (!fs_codec_known(set, row)) return "?";
  const struct fs_codec_rec *r = &set->rows[row];
  const bool dict = r->dict_len > 0;
  if (r->element == 1) return plain[r->family][dict];
  return shuffled[r->family][dict][FS_ELEMENT_DELTAS(r->element)][__builtin_ctz(FS_ELEMENT_BYTES(r->element))];
}

/* ---- dictionaries for zstd ---- */

#define FS_DICT_BAD ((void *)1) /* zstd refuses it */

#ifdef __SANITIZE_THREAD__
/* The sanitizer must see that an address is used again for another thing, and forgets whole pages
   only. */
#define FS_MMAP(n, prot, flags) mmap(NULL, fs_round_up(n, 4096), prot, flags, -1, 0)
#define FS_MUNMAP(p, n) munmap(p, fs_round_up(n, 4096))
#else
#define FS_MMAP(n, prot, flags) fs_sys_mmap(NULL, n, prot, flags, -1, 0)
#define FS_MUNMAP(p, n) fs_sys_munmap(p, n)
#endif

static void *fs_dict_map(size_t n) {
  void *p = FS_MMAP(n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  return fs_sys_mmap_failed(p) ? NULL : p;
}

static size_t fs_dict_size(const struct fs_codec_rec *r) {
  return ZSTD_estimateDDictSize(r->dict_len, ZSTD_dlm_byRef);
}

#define FS_DICTS_SIZE (FS_CODEC_ROWS_MAX * sizeof(void *_Atomic))

/* Returns what is published in the word: `mine`, unless another was faster. */
static void *fs_dict_publish(void *_Atomic *word, void *mine) {
  void *none = NULL;
  bool won = atomic_compare_exchange_strong_explicit(word, &none, mine, memory_order_acq_rel, memory_order_acquire);
  return won ? mine : none;
}

static void *fs_dict_make(const struct fs_codec_set *set, const struct fs_codec_rec *r, void *_Atomic *word) {
  size_t n = fs_dict_size(r);
  void *map = fs_dict_map(n);
  if (!map) return NULL;
  const void *bytes = set->strings + r->dict;
  const ZSTD_DDict *made = ZSTD_initStaticDDict(map, n, bytes, r->dict_len, ZSTD_dlm_byRef, ZSTD_dct_auto);
  void *dict = fs_dict_publish(word, made ? map : FS_DICT_BAD);
  if (dict != map) FS_MUNMAP(map, n);
  return dict;
}

/* Returns the row's dictionary, prepared, FS_DICT_BAD, or NULL if there is no memory. */
static void *fs_dict_of(struct fs_codec_set *set, uint32_t row) {
  void *_Atomic *dicts = atomic_load_explicit(&set->dicts, memory_order_acquire);
  if (!dicts) {
    void *map = fs_dict_map(FS_DICTS_SIZE);
    if (!map) return NULL;
    dicts = fs_dict_publish(&set->dicts, map);
    if ((void *)dicts != map) FS_MUNMAP(map, FS_DICTS_SIZE);
  }
  void *dict = atomic_load_explicit(&dicts[row], memory_order_acquire);
  return dict ? dict : fs_dict_make(set, &set->rows[row], &dicts[row]);
}

void fs_codec_set_close(struct fs_codec_set *set) {
  void *_Atomic *dicts = atomic_load_explicit(&set->dicts, memory_order_acquire);
  for (uint32_t i = 0; dicts && i < set->n; i++) {
    void *dict = atomic_load_explicit(&dicts[i], memory_order_relaxed);
    if (dict && dict != FS_DICT_BAD) FS_MUNMAP(dict, fs_dict_size(&set->rows[i]));
  }
  if (dicts) FS_MUNMAP((void *)dicts, FS_DICTS_SIZE);
  memset(set, 0, sizeof(*set));
}

/* ---- work memory: its head, zstd's state, a block that is still shuffled ---- */

struct fs_work {
  ZSTD_DCtx *zstd; /* NULL: not made yet */
};
static_assert(sizeof(struct fs_work) <= FS_CODEC_WORK_HEAD, "the head has room");

static size_t fs_zstd_room(void) {
  return (size_t)fs_round_up(ZSTD_estimateDCtxSize(), 64);
}

size_t fs_codec_work_size(const struct fs_codec_set *set, size_t block_size) {
  bool zstd = false, shuffled = false;
  for (uint32_t i = 0; i < set->n; i++) {
    zstd |= set->rows[i].family == FS_FAMILY_ZSTD;
    shuffled |= set->rows[i].element > 1;
  }
  return zstd || shuffled ? FS_CODEC_WORK_HEAD + fs_zstd_room() + (shuffled ? block_size : 0) : 0;
}

static uint8_t *fs_work_block(void *work) {
  return (uint8_t *)work + FS_CODEC_WORK_HEAD + fs_zstd_room();
}

/* Returns zstd's state in the work memory, or NULL. The state stays from one use to the next: it is
   slow to make on virtual machines, because zstd asks the processor what it can. */
static ZSTD_DCtx *fs_work_zstd(void *work) {
  struct fs_work *w = work;
  if (w->zstd) return w->zstd;
  ZSTD_DCtx *made = ZSTD_initStaticDCtx((uint8_t *)work + FS_CODEC_WORK_HEAD, fs_zstd_room());
  if (made && ZSTD_isError(ZSTD_DCtx_setParameter(made, ZSTD_d_format, ZSTD_f_zstd1_magicless))) made = NULL;
  return w->zstd = made;
}

/* ---- decoding ---- */

/* Returns true if the stored bytes are one frame as fs_encode writes it: without checksum and
   dictionary's number, and with nothing behind it. zstd looks for a further frame behind one, and
   reads up to three bytes too many there. */
static bool fs_zstd_frame(const uint8_t *p, size_t n) {
  static const uint8_t size_bytes[] = {0, 2, 4, 8};
  if (n == 0 || (p[0] & 0x1f) != 0) return false;
  const bool single = p[0] & 0x20;
  size_t at = 1u + (single ? 0u : 1u) + (p[0] < 0x40 && single ? 1u : size_bytes[p[0] >> 6]);
  for (bool last = false; !last;) {
    if (at > n || n - at < 3) return false;
    const uint32_t head = p[at] | (uint32_t)p[at + 1] << 8 | (uint32_t)p[at + 2] << 16, kind = head >> 1 & 3;
    const size_t len = kind == 1 ? 1 : head >> 3;
    at += 3;
    if (kind == 3 || len > n - at) return false;
    at += len;
    last = head & 1;
  }
  return at == n;
}

static fs_err fs_zstd_decode(struct fs_codec_set *set, uint32_t row, const void *src, size_t src_len, void *dst,
                             size_t n, void *work) {
  if (!fs_zstd_frame(src, src_len)) return -EBADMSG;
  ZSTD_DCtx *zstd = fs_work_zstd(work);
  void *dict = set->rows[row].dict_len > 0 ? fs_dict_of(set, row) : NULL;
  if (!zstd || (!dict && set->rows[row].dict_len > 0)) return -ENOMEM;
  if (dict == FS_DICT_BAD) return -EBADMSG;
  return ZSTD_decompress_usingDDict(zstd, dst, n, src, src_len, dict) == n ? 0 : -EBADMSG;
}

/* Decodes the first n of plain_len bytes. */
static fs_err fs_lz4_decode(const struct fs_codec_set *set, uint32_t row, const void *src, size_t src_len, void *dst,
                            size_t plain_len, size_t n) {
  const struct fs_codec_rec *r = &set->rows[row];
  const char *dict = r->dict_len > 0 ? set->strings + r->dict : NULL;
  int len = (int)src_len, want = (int)n, dict_len = (int)r->dict_len, got;
  if (src_len > INT_MAX || plain_len > INT_MAX) return -EBADMSG;
  if (dict) /* the whole block: lz4 1.9.3 has no function for a part of it */
    got = LZ4_decompress_safe_usingDict(src, dst, len, want, dict, dict_len);
  else if (n == plain_len)
    got = LZ4_decompress_safe(src, dst, len, want);
  else
    got = LZ4_decompress_safe_partial(src, dst, len, want, want);
  return got == want ? 0 : -EBADMSG;
}

fs_err fs_block_decode_prefix(struct fs_codec_set *set, uint32_t row, const void *stored, size_t stored_len,
                              void *plain, size_t plain_len, size_t n, void *work) {
  if (!fs_codec_known(set, row)) return -EPROTONOSUPPORT;
  if (stored_len > plain_len || n > plain_len) return -EBADMSG;
  if (stored_len == plain_len) {
    if (n > 0) memcpy(plain, stored, n);
    return 0;
  }
  const struct fs_codec_rec *r = &set->rows[row];
  if (r->family == FS_FAMILY_RAW || (n < plain_len && !fs_codec_partial(set, row))) return -EBADMSG;
  const bool shuffled = r->element > 1;
  if (!work && (shuffled || r->family == FS_FAMILY_ZSTD)) return -ENOMEM;
  void *to = shuffled ? fs_work_block(work) : plain;
  fs_err err = r->family == FS_FAMILY_ZSTD ? fs_zstd_decode(set, row, stored, stored_len, to, plain_len, work)
                                           : fs_lz4_decode(set, row, stored, stored_len, to, plain_len, n);
  if (err == 0 && shuffled) fs_unshuffle(plain, to, plain_len, r->element);
  return err;
}

fs_err fs_block_decode(struct fs_codec_set *set, uint32_t row, const void *stored, size_t stored_len, void *plain,
                       size_t plain_len, void *work) {
  return fs_block_decode_prefix(set, row, stored, stored_len, plain, plain_len, plain_len, work);
}

/* ---- what lz4's decoder does not check ---- */

/* Reads a length. 15 means that it continues in the following bytes, up to the first that is not
   255. */
static size_t fs_lz4_length(const uint8_t *p, size_t n, size_t *at, unsigned nibble) {
  size_t len = nibble;
  uint8_t more = nibble == 15 ? 255 : 0;
  for (; more == 255 && *at < n; len += more) more = p[(*at)++];
  return len;
}

/* Returns true if a decodable block has no match at offset 0, which would copy bytes that are not
   written yet. */
static bool fs_lz4_sound(const uint8_t *p, size_t n) {
  for (size_t at = 0; at < n;) {
    unsigned token = p[at++];
    size_t literals = fs_lz4_length(p, n, &at, token >> 4);
    if (literals >= n - at || n - at - literals < 2) return true; /* the last sequence ends with its literals */
    at += literals;
    if (p[at] == 0 && p[at + 1] == 0) return false;
    at += 2;
    (void)fs_lz4_length(p, n, &at, token & 15);
  }
  return true;
}

bool fs_block_sound(const struct fs_codec_set *set, uint32_t row, const void *stored, size_t stored_len,
                    size_t plain_len) {
  bool lz4 = row < set->n && set->rows[row].family == FS_FAMILY_LZ4 && stored_len != plain_len;
  return !lz4 || fs_lz4_sound(stored, stored_len);
}
