/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What decoding is taken to cost, and the bound on it. The constants come from a fit to the
 * decoding of the data of bench/kinds.py, in blocks of 1 KiB to 256 KiB, on one core of an AMD EPYC,
 * with lz4 and zstd of Debian 12, and were raised by hand towards caution (docs/internals/codecs.md).
 * They are constants because the bytes of a dataset must not depend on the machine that packs it.
 */
#include <stdio.h>

#include "choose.h"

struct cost {
  uint32_t block;  /* nanoseconds for each block */
  uint32_t plain;  /* nanoseconds for each KiB of plain bytes */
  uint32_t stored; /* nanoseconds for each KiB of stored bytes */
};

/* By family, without and with a dictionary. A zstd block with a dictionary needs no tables of its own. */
static const struct cost costs[][2] = {
    [FS_FAMILY_RAW] = {{0}, {0}},
    [FS_FAMILY_LZ4] = {{50, 200, 50}, {230, 140, 680}},
    [FS_FAMILY_ZSTD] = {{2400, 250, 1200}, {300, 100, 3500}},
};
/* Nanoseconds for each KiB of plain bytes */
#define SHUFFLE 80u
static const uint16_t deltas[] = {[2] = 200, [4] = 150, [8] = 170}; /* by the elements' bytes */

uint64_t fs_decode_cost(const struct fs_encoding *e, uint64_t blocks, uint64_t plain, uint64_t stored) {
  const struct cost *c = &costs[e->family][e->dict_len > 0];
  uint64_t by_plain = c->plain + (e->element > 1 ? SHUFFLE : 0);
  if (FS_ELEMENT_DELTAS(e->element) > 0) by_plain += deltas[FS_ELEMENT_BYTES(e->element)];
  return blocks * c->block + (plain >> 10) * by_plain + (stored >> 10) * c->stored +
         ((plain & 1023) * by_plain + (stored & 1023) * c->stored) / 1024;
}

bool fs_decode_allowed(uint64_t rate, uint64_t cost_ns, uint64_t plain, uint64_t stored) {
  uint64_t bytes = rate != 0 ? plain : plain - stored;
  uint64_t per_ms = (rate != 0 ? rate : FS_READ_RATE) / 1000;
  return cost_ns <= bytes * 1000000 / FS_MAX(per_ms, 1);
}

bool fs_worth(const struct fs_encoding *e, uint64_t rate, uint64_t blocks, uint64_t plain, uint64_t stored) {
  if (stored > plain - plain / 8) return false;
  return fs_decode_allowed(rate, fs_decode_cost(e, blocks, plain, stored), plain, stored);
}

const char *fs_encoding_text(const struct fs_encoding *e, char out[FS_ENCODING_TEXT]) {
  const char *family = e->family == FS_FAMILY_ZSTD ? "zstd" : e->level > 0 ? "lz4hc" : "lz4";
  if (e->family == FS_FAMILY_RAW) {
    snprintf(out, FS_ENCODING_TEXT, "raw");
    return out;
  }
  int n = snprintf(out, FS_ENCODING_TEXT, "%s", family);
  if (e->level > 0) n += snprintf(out + n, FS_ENCODING_TEXT - (size_t)n, ":%d", e->level);
  static const char *const words[] = {"", "+delta", "+delta2"};
  if (e->element > 1)
    n += snprintf(out + n, FS_ENCODING_TEXT - (size_t)n, "%s+shuffle%u", words[FS_ELEMENT_DELTAS(e->element)],
                  FS_ELEMENT_BYTES(e->element));
  if (e->dict_len > 0) snprintf(out + n, FS_ENCODING_TEXT - (size_t)n, "+dict%uK", (e->dict_len + 1023) >> 10);
  return out;
}
