/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encodes blocks with lz4 and zstd. fs-prepare's threads call this, each with an encoder of its own,
 * which keeps zstd's state and the buffers from block to block. No locks.
 */
#define LZ4_STATIC_LINKING_ONLY
#define LZ4_HC_STATIC_LINKING_ONLY
#define ZSTD_STATIC_LINKING_ONLY
#include "codec/encode.h"

#include <lz4.h>
#include <lz4hc.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "codec/shuffle.h"
#include "util/util.h"

struct fs_encoder {
  ZSTD_CCtx *zstd;
  LZ4_stream_t *fast;   /* with a dictionary */
  LZ4_streamHC_t *high; /* with a dictionary */
  uint8_t *shuffled;
  size_t room;
};

struct fs_encoder *fs_encoder_new(void) {
  return calloc(1, sizeof(struct fs_encoder));
}

void fs_encoder_free(struct fs_encoder *c) {
  if (!c) return;
  ZSTD_freeCCtx(c->zstd);
  LZ4_freeStream(c->fast);
  LZ4_freeStreamHC(c->high);
  free(c->shuffled);
  free(c);
}

/* ---- dictionaries ---- */

static void *fs_prepare_lz4(const struct fs_encoding *e) {
  LZ4_stream_t *s = LZ4_createStream();
  if (s) LZ4_loadDict(s, e->dict, (int)e->dict_len);
  return s;
}

static void *fs_prepare_lz4hc(const struct fs_encoding *e) {
  LZ4_streamHC_t *s = LZ4_createStreamHC();
  if (!s) return NULL;
  LZ4_resetStreamHC_fast(s, e->level);
  LZ4_loadDictHC(s, e->dict, (int)e->dict_len);
  return s;
}

fs_err fs_encoding_prepare(struct fs_encoding *e) {
  if (!e->dict || e->prepared) return 0;
  if (e->family != FS_FAMILY_ZSTD) {
    e->prepared = e->level > 0 ? fs_prepare_lz4hc(e) : fs_prepare_lz4(e);
    return e->prepared ? 0 : -ENOMEM;
  }
  /* Without memory it is NULL too; so little memory ends fs-prepare anyway. */
  e->prepared = ZSTD_createCDict(e->dict, e->dict_len, e->level);
  return e->prepared ? 0 : -EINVAL;
}

void fs_encoding_release(struct fs_encoding *e) {
  if (e->family == FS_FAMILY_ZSTD)
    ZSTD_freeCDict(e->prepared);
  else if (e->level > 0)
    LZ4_freeStreamHC(e->prepared);
  else
    LZ4_freeStream(e->prepared);
  e->prepared = NULL;
}

/* ---- lz4 ---- */

static fs_ssize fs_lz4_fast_dict(struct fs_encoder *c, const struct fs_encoding *e, const void *src, int n, void *dst,
                                 int room) {
  if (!c->fast) c->fast = LZ4_createStream();
  if (!c->fast) return -ENOMEM;
  LZ4_initStream(c->fast, sizeof(*c->fast));
  LZ4_attach_dictionary(c->fast, e->prepared);
  return LZ4_compress_fast_continue(c->fast, src, dst, n, room, 1);
}

static fs_ssize fs_lz4_high_dict(struct fs_encoder *c, const struct fs_encoding *e, const void *src, int n, void *dst,
                                 int room) {
  if (!c->high) c->high = LZ4_createStreamHC();
  if (!c->high) return -ENOMEM;
  LZ4_initStreamHC(c->high, sizeof(*c->high));
  LZ4_setCompressionLevel(c->high, e->level);
  LZ4_attach_HC_dictionary(c->high, e->prepared);
  return LZ4_compress_HC_continue(c->high, src, dst, n, room);
}

static fs_ssize fs_lz4_encode(struct fs_encoder *c, const struct fs_encoding *e, const void *src, size_t n, void *dst,
                              size_t room) {
  if (n > LZ4_MAX_INPUT_SIZE) return -ENOSPC;
  fs_ssize put;
  int len = (int)n, space = (int)room;
  if (e->prepared)
    put = e->level > 0 ? fs_lz4_high_dict(c, e, src, len, dst, space) : fs_lz4_fast_dict(c, e, src, len, dst, space);
  else
    put = e->level > 0 ? LZ4_compress_HC(src, dst, len, space, FS_MIN(e->level, FS_LZ4_LEVEL_MAX))
                       : LZ4_compress_default(src, dst, len, space);
  return put == 0 ? -ENOSPC : put;
}

/* ---- zstd ---- */

/* A block is one frame without magic number, checksum and number of the dictionary. */
static bool fs_zstd_set(ZSTD_CCtx *zstd, const struct fs_encoding *e) {
  const struct {
    ZSTD_cParameter what;
    int value;
  } set[] = {{ZSTD_c_compressionLevel, e->level},
             {ZSTD_c_format, ZSTD_f_zstd1_magicless},
             {ZSTD_c_checksumFlag, 0},
             {ZSTD_c_contentSizeFlag, 1},
             {ZSTD_c_dictIDFlag, 0}};
  bool ok = !ZSTD_isError(ZSTD_CCtx_reset(zstd, ZSTD_reset_session_and_parameters));
  for (size_t i = 0; i < FS_ARRAY_LEN(set); i++)
    ok &= !ZSTD_isError(ZSTD_CCtx_setParameter(zstd, set[i].what, set[i].value));
  return ok && !ZSTD_isError(ZSTD_CCtx_refCDict(zstd, e->prepared));
}

static fs_ssize fs_zstd_encode(struct fs_encoder *c, const struct fs_encoding *e, const void *src, size_t n, void *dst,
                               size_t room) {
  if (!c->zstd) c->zstd = ZSTD_createCCtx();
  if (!c->zstd || !fs_zstd_set(c->zstd, e)) return -ENOMEM;
  size_t put = ZSTD_compress2(c->zstd, dst, room, src, n);
  if (!ZSTD_isError(put)) return (fs_ssize)put;
  return ZSTD_getErrorCode(put) == ZSTD_error_memory_allocation ? -ENOMEM : -ENOSPC;
}

/* ---- one block ---- */

/* Returns the shuffled bytes, or NULL if there is no memory. */
static const void *fs_shuffled(struct fs_encoder *c, const void *src, size_t n, uint8_t element) {
  if (c->room < n) {
    free(c->shuffled);
    c->shuffled = malloc(n);
    c->room = c->shuffled ? n : 0;
  }
  if (c->shuffled) fs_shuffle(c->shuffled, src, n, element);
  return c->shuffled;
}

fs_ssize fs_encode(struct fs_encoder *c, const struct fs_encoding *e, const void *src, size_t n, void *dst,
                   size_t room) {
  if (e->family == FS_FAMILY_RAW || n < 2 || room == 0) return -ENOSPC;
  if (e->element > 1) src = fs_shuffled(c, src, n, e->element);
  if (!src) return -ENOMEM;
  room = FS_MIN(room, n - 1);
  return e->family == FS_FAMILY_ZSTD ? fs_zstd_encode(c, e, src, n, dst, room) : fs_lz4_encode(c, e, src, n, dst, room);
}
