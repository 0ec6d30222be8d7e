/* SPDX-License-Identifier: BSD-3-Clause */
/* XXH3 over whole buffers and in pieces. Called by all parts for every checksum. Thread-safe; no
   state. */
#include "util/xxh.h"

#include <stdlib.h>
#include <string.h>

#include "util/cpu.h"
#include "util/util.h"
#include "util/xxh_wide.h"

struct fs_xxh3_stream {
  XXH3_state_t state;
};

#if FS_WIDE
/* Returns true if the AVX2 version is faster here and the processor has AVX2. */
static bool fs_xxh_use_wide(size_t n) {
  return n > 240 && fs_cpu_wide(); /* XXH3 takes shorter inputs without vectors */
}
#endif

uint64_t fs_xxh3(const void *data, size_t n) {
#if FS_WIDE
  if (fs_xxh_use_wide(n)) return fs_xxh3_wide(data, n);
#endif
  return XXH3_64bits(data, n);
}

struct fs_xxh3_stream *fs_xxh3_new(void) {
  struct fs_xxh3_stream *s = aligned_alloc(alignof(struct fs_xxh3_stream), sizeof(*s));
  if (s) XXH3_64bits_reset(&s->state);
  return s;
}

void fs_xxh3_update(struct fs_xxh3_stream *s, const void *data, size_t n) {
  if (n == 0) return;
#if FS_WIDE
  if (fs_xxh_use_wide(n)) {
    fs_xxh3_wide_update(&s->state, data, n);
    return;
  }
#endif
  XXH3_64bits_update(&s->state, data, n);
}

uint64_t fs_xxh3_digest(const struct fs_xxh3_stream *s) {
  return XXH3_64bits_digest(&s->state);
}

void fs_xxh3_free(struct fs_xxh3_stream *s) {
  free(s);
}

void fs_xxh3_128(const void *data, size_t n, uint8_t out[16]) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, n));
  memcpy(out, canonical.digest, 16);
}

uint64_t fs_xxh3_seeded(const void *data, size_t n, uint64_t seed) {
  return XXH3_64bits_withSeed(data, n, seed);
}
