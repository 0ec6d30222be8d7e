/* SPDX-License-Identifier: BSD-3-Clause */
/* What fs-prepare chooses for samples: the family, the shuffle and the dictionary, under a bound on
   decoding. The choice must not depend on anything but the samples and the bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka needs those before it */
#include <cmocka.h>

#include "../../fs-prepare/pack/kinds.h"

#define MOST 400u

struct fix {
  uint8_t *bytes;
  struct fs_sample samples[MOST];
  size_t n;
  uint64_t total, seed;
};

static uint64_t next(struct fix *f) {
  f->seed = f->seed * 6364136223846793005ull + 1442695040888963407ull;
  return f->seed >> 33;
}

static int setup(void **state) {
  struct fix *f = calloc(1, sizeof *f);
  f->bytes = malloc(MOST << 16);
  f->seed = 7;
  *state = f;
  return 0;
}

static int teardown(void **state) {
  struct fix *f = *state;
  free(f->bytes);
  free(f);
  return 0;
}

static void add(struct fix *f, size_t n) {
  assert_true(f->n < MOST);
  f->samples[f->n++] = (struct fs_sample){f->bytes + f->total, n};
  f->total += n;
}

/* Small records whose keys are the same and whose values differ. */
static void add_records(struct fix *f, size_t n) {
  for (size_t i = 0; i < n; i++) {
    char *p = (char *)f->bytes + f->total;
    int len = 0;
    for (unsigned k = 0; k < 12; k++)
      len += sprintf(p + len,
                     "{\"identifier\": %llu, \"temperature\": %llu, \"valid\": %s, \"channel\": \"upper %llu\"},\n",
                     (unsigned long long)next(f), (unsigned long long)next(f) % 1000, next(f) % 8 ? "true" : "false",
                     (unsigned long long)next(f) % 64);
    add(f, (size_t)len);
  }
}

/* A random walk in steps of 1/8, in elements of 4 or 8 bytes. */
static void add_walk(struct fix *f, size_t n, size_t element) {
  for (size_t i = 0; i < n; i++) {
    uint8_t *p = f->bytes + f->total;
    double v = 280;
    for (size_t k = 0; k < 65536 / element; k++) {
      v += ((double)(next(f) % 3) - 1) / 8;
      const float small = (float)v;
      const double large = v + (double)next(f) * 1e-12; /* no number comes twice */
      memcpy(p + k * element, element == 4 ? (const void *)&small : (const void *)&large, element);
    }
    add(f, 65536);
  }
}

static void add_noise(struct fix *f, size_t n, size_t size) {
  for (size_t i = 0; i < n; i++) {
    for (size_t k = 0; k < size; k++) f->bytes[f->total + k] = (uint8_t)next(f);
    add(f, size);
  }
}

static struct fs_verdict choose(const struct fix *f, uint64_t bytes, bool small, uint64_t rate) {
  struct fs_verdict v;
  const struct fs_choose c = {.samples = f->samples, .n = f->n, .bytes = bytes, .small = small, .rate = rate};
  assert_int_equal(fs_choose(&c, &v), 0);
  return v;
}

static void test_records(void **state) {
  struct fix *f = *state;
  add_records(f, MOST);
  struct fs_verdict v = choose(f, 16 << 20, true, 0);
  assert_int_equal(v.best.encoding.family, FS_FAMILY_ZSTD);
  assert_true(v.best.encoding.dict_len > 1024);
  assert_true(v.best.stored < v.plain / 4);
  fs_verdict_release(&v);
}

/* The dictionary's own bytes count. */
static void test_few_records(void **state) {
  struct fix *f = *state;
  add_records(f, 60);
  struct fs_verdict v = choose(f, f->total, true, 0);
  assert_true(v.best.encoding.dict_len <= f->total / 16);
  fs_verdict_release(&v);
  v = choose(f, f->total, false, 0);
  assert_int_equal(v.best.encoding.dict_len, 0);
  assert_int_not_equal(v.best.encoding.family, FS_FAMILY_RAW);
  fs_verdict_release(&v);
}

/* With a bound that zstd does not keep, lz4 is chosen, and what zstd would have given is told. */
static void test_bound(void **state) {
  struct fix *f = *state;
  add_records(f, MOST);
  struct fs_verdict v = choose(f, 16 << 20, true, 2000000000);
  assert_int_equal(v.best.encoding.family, FS_FAMILY_LZ4);
  assert_int_equal(v.next.encoding.family, FS_FAMILY_ZSTD);
  assert_true(v.next.unbound < v.best.stored);
  assert_true(v.plain * 1000 / v.next.cost_ns < 2000);
  fs_verdict_release(&v);
  v = choose(f, 16 << 20, true, 100000000000);
  assert_int_equal(v.best.encoding.family, FS_FAMILY_RAW);
  assert_int_not_equal(v.next.encoding.family, FS_FAMILY_RAW);
  fs_verdict_release(&v);
}

/* A smooth curve of 16 bits. */
static void add_curve(struct fix *f, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint8_t *p = f->bytes + f->total;
    uint32_t v = 0, step = 0;
    for (size_t k = 0; k < 32768; k++) {
      step += (uint32_t)(next(f) % 3) - 1;
      v += step;
      const uint16_t low = (uint16_t)v;
      memcpy(p + 2 * k, &low, 2);
    }
    add(f, 65536);
  }
}

static void test_differences(void **state) {
  struct fix *f = *state;
  f->n = f->total = 0;
  add_curve(f, 8);
  struct fs_verdict v = choose(f, 64 << 20, false, 0);
  assert_int_equal(v.best.encoding.element, 2 + 2 * FS_ELEMENT_DELTA);
  assert_true(v.best.stored < v.plain / 5);
  fs_verdict_release(&v);
}

static void check_element(struct fix *f, size_t element) {
  f->n = f->total = 0;
  add_walk(f, 8, element);
  struct fs_verdict v = choose(f, 64 << 20, false, 0);
  assert_int_equal(FS_ELEMENT_BYTES(v.best.encoding.element), element);
  assert_int_equal(v.best.encoding.dict_len, 0);
  assert_true(v.best.stored < v.plain - v.plain / 6);
  fs_verdict_release(&v);
}

static void test_elements(void **state) {
  check_element(*state, 4);
  check_element(*state, 8);
}

static void test_noise(void **state) {
  struct fix *f = *state;
  add_noise(f, 300, 3000);
  struct fs_verdict v = choose(f, 16 << 20, true, 0);
  assert_int_equal(v.best.encoding.family, FS_FAMILY_RAW);
  assert_int_equal(v.next.encoding.family, FS_FAMILY_RAW);
  assert_int_equal(v.best.stored, v.plain);
  fs_verdict_release(&v);
}

/* One compressible file in five is worth trying all of them. */
static void test_mixture(void **state) {
  struct fix *f = *state;
  for (unsigned i = 0; i < 60; i++) {
    add_noise(f, 4, 1000);
    add_records(f, 1);
  }
  struct fs_verdict v = choose(f, 16 << 20, false, 0);
  assert_int_not_equal(v.best.encoding.family, FS_FAMILY_RAW);
  fs_verdict_release(&v);
}

/* Nothing could be read: each file is tried later. */
static void test_nothing(void **state) {
  struct fs_verdict v = choose(*state, 0, false, 0), small = choose(*state, 0, true, 0);
  assert_int_equal(v.best.encoding.family, FS_FAMILY_ZSTD);
  assert_int_equal(small.best.encoding.family, FS_FAMILY_LZ4); /* zstd is too slow for small blocks */
  fs_verdict_release(&v);
  fs_verdict_release(&small);
}

static void test_same(void **state) {
  struct fix *f = *state;
  add_records(f, MOST);
  struct fs_verdict a = choose(f, 16 << 20, true, 0), b = choose(f, 16 << 20, true, 0);
  assert_int_equal(a.best.encoding.dict_len, b.best.encoding.dict_len);
  assert_memory_equal(a.dict, b.dict, a.best.encoding.dict_len);
  assert_int_equal(a.best.stored, b.best.stored);
  fs_verdict_release(&a);
  fs_verdict_release(&b);
}

/* The bound itself. */
static void test_allowed(void **state) {
  (void)state;
  const struct fs_encoding lz4 = {.family = FS_FAMILY_LZ4, .element = 1},
                           zstd = {.family = FS_FAMILY_ZSTD, .element = 1};
  assert_true(fs_decode_cost(&lz4, 1, 4096, 1024) < fs_decode_cost(&zstd, 1, 4096, 1024));
  assert_true(fs_worth(&lz4, 0, 1, 4096, 3584));
  assert_false(fs_worth(&lz4, 0, 1, 4096, 3585)); /* less than an eighth */
  assert_true(fs_decode_allowed(0, 1000, 4096, 4096 - 313));
  assert_false(fs_decode_allowed(0, 1000, 4096, 4096 - 312));
  assert_true(fs_decode_allowed(1000000000, 4096, 4096, 4000));
  assert_false(fs_decode_allowed(1000000000, 4097, 4096, 4000));
  assert_false(fs_worth(&zstd, 0, 1, 300, 150)); /* the block's own cost */
}

static void check_suffix(const char *path, const char *suffix) {
  size_t n = strlen(path), k = fs_suffix(path, n);
  assert_int_equal(k, strlen(suffix));
  assert_string_equal(path + n - k, suffix);
}

static void test_suffix(void **state) {
  (void)state;
  check_suffix("a/b.c/d.json", "json");
  check_suffix("x.tar.gz", "gz");
  check_suffix("x.h5", "h5");
  check_suffix("model.safetensors", "safetensors");
  check_suffix("a.b/c", "");
  check_suffix("a/.bashrc", "");
  check_suffix(".bashrc", "");
  check_suffix("log.20240101", "");
  check_suffix("name.", "");
  check_suffix("what.is-this", "");
  check_suffix("x.abcdefghijklm", "");
  check_suffix("", "");
  check_suffix("plain", "");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {TEST(test_records),  TEST(test_few_records), TEST(test_bound),
                                     TEST(test_elements), TEST(test_differences), TEST(test_noise),
                                     TEST(test_mixture),  TEST(test_nothing),     TEST(test_same),
                                     TEST(test_allowed),  TEST(test_suffix)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
