/* SPDX-License-Identifier: BSD-3-Clause */
/* XXH3 over whole buffers and in pieces. Called by all parts for every checksum. Thread safe; no state. */
#include "util/xxh.h"

#include <stdlib.h>
#include <string.h>

#include "util/util.h"
#include "util/xxh_wide.h"

#if FS_XXH_WIDE
#include <cpuid.h>
#endif

struct fs_xxh3_stream {
  XXH3_state_t state;
};

#if FS_XXH_WIDE
/* Asks the processor itself: libgcc's __builtin_cpu_supports runs some twenty CPUID instructions when a program starts,
   which in a virtual machine cost more than all else that this library does then. */
static __attribute__((noinline)) int fs_xxh_ask_wide(void) {
  const unsigned need = bit_OSXSAVE | bit_AVX, ymm = 6; /* the system saves the lower and upper halves */
  unsigned a = 0, b = 0, c = 0, d = 0, enabled, high;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & need) != need) return 0;
  __asm__("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
  return (enabled & ymm) == ymm && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2) != 0;
}

/* Is it worth it, and can the processor? */
static bool fs_xxh_use_wide(size_t n) {
  static _Atomic int known = -1;
  if (n <= 240) return false; /* XXH3 takes shorter inputs without vectors */
  int wide = atomic_load_explicit(&known, memory_order_relaxed);
  if (FS_UNLIKELY(wide < 0)) atomic_store_explicit(&known, wide = fs_xxh_ask_wide(), memory_order_relaxed);
  return wide != 0;
}
#endif

uint64_t fs_xxh3(const void *data, size_t n) {
#if FS_XXH_WIDE
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
#if FS_XXH_WIDE
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
