/* SPDX-License-Identifier: BSD-3-Clause */
/* fs_copy gives memcpy's bytes for all lengths and alignments, and touches nothing outside of them: as the processor
   has it, and by each way that it could. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "util/copy_wide.h"
#include "util/cpu.h"
#include "util/util.h"

#define ROOM (1u << 20)
#define PAGE 4096u

/* Memory between two pages that nobody may touch. */
static uint8_t *guarded(void) {
  uint8_t *p = mmap(NULL, ROOM + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(p, MAP_FAILED);
  assert_int_equal(mprotect(p + PAGE, ROOM, PROT_READ | PROT_WRITE), 0);
  return p + PAGE;
}

static void release(uint8_t *p) {
  munmap(p - PAGE, ROOM + 2 * PAGE);
}

static void fill(uint8_t *p, size_t n, uint64_t x) {
  for (size_t i = 0; i < n; i++) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    p[i] = (uint8_t)(x >> 56);
  }
}

static void (*copy)(void *dst, const void *src, size_t n) = fs_copy;
static size_t shortest; /* that it can do */

/* One copy; the 64 bytes around the destination stay what they were, where there are any. */
static void copy_one(uint8_t *to, uint8_t *d, const uint8_t *s, size_t n) {
  if (n < shortest) return;
  size_t before = FS_MIN((size_t)(d - to), (size_t)64), after = FS_MIN((size_t)(to + ROOM - d) - n, (size_t)64);
  memset(d - before, 0xa5, before + n + after);
  copy(d, s, n);
  assert_memory_equal(d, s, n);
  for (size_t i = 0; i < before; i++) assert_int_equal(d[-1 - (ptrdiff_t)i], 0xa5);
  for (size_t i = 0; i < after; i++) assert_int_equal(d[n + i], 0xa5);
}

/* In the middle, and with the end or the beginning of either side at a page that faults. */
static void copy_around(uint8_t *to, const uint8_t *from, size_t n, size_t dst_off, size_t src_off) {
  copy_one(to, to + 64 + dst_off, from + src_off, n);
  copy_one(to, to + ROOM - n, from + src_off, n);
  copy_one(to, to + dst_off, from + ROOM - n, n);
  copy_one(to, to, from, n);
}

static void test_lengths(void **state) {
  (void)state;
  uint8_t *to = guarded(), *from = guarded();
  fill(from, ROOM, 1);
  for (size_t n = 0; n <= 1500; n++) copy_around(to, from, n, n * 7 % 64, n * 13 % 64);
  for (size_t n = 8000; n <= 20000; n += 61) copy_around(to, from, n, n * 7 % 4096, n * 13 % 64);
  release(to);
  release(from);
}

/* What the copy's ways end at: lengths around powers of two and pages, with destinations all over a line. */
static void test_alignments(void **state) {
  (void)state;
  static const size_t around[] = {256, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 393216, 524288};
  static const size_t source[] = {0, 1, 16, 31, 63, 1040, 4095};
  uint8_t *to = guarded(), *from = guarded();
  fill(from, ROOM, 2);
  for (size_t k = 0; k < FS_ARRAY_LEN(around); k++)
    for (size_t off = 0; off<64; off += around[k]> 8192 ? 13 : 1)
      for (size_t i = 0; i < FS_ARRAY_LEN(source); i++)
        for (size_t more = 0; more < 3; more++) copy_one(to, to + off, from + source[i], around[k] - 1 + more * 65);
  release(to);
  release(from);
}

#if FS_WIDE
static void test_ways(void **state) {
  if (fs_cpu_level() < FS_CPU_WIDE) skip();
  shortest = FS_COPY_WIDE_MIN;
  for (int way = FS_CPU_WIDE; way <= fs_cpu_level(); way++) {
    copy = way == FS_CPU_WIDE ? fs_copy_wide : fs_copy_512;
    test_lengths(state);
    test_alignments(state);
  }
  copy = fs_copy;
  shortest = 0;
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_lengths),
    cmocka_unit_test(test_alignments),
#if FS_WIDE
    cmocka_unit_test(test_ways),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
