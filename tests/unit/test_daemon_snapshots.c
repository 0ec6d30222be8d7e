/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers for the contents of output files: shared, kept while they mean anything, and given out again only then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/outputs/snapshots.h"

#define MOST 8u /* numbers 1 to 7 */
#define ID(n) (FS_OUTPUT_ID | (n))

static struct fs_cache *cache;
static struct fs_snapshots *t;
static uint32_t pinned; /* line + 1 */

static void pins(void *ctx, void (*visit)(void *arg, uint32_t line), void *arg) {
  (void)ctx;
  if (pinned != 0) visit(arg, pinned - 1);
}

static int setup(void **state) {
  (void)state;
  pinned = 0;
  assert_int_equal(fs_cache_new(&cache, 4 << 20, FS_OUTPUT_BLOCK, pins, NULL), 0);
  return fs_snapshots_new(&t, cache, MOST);
}
static int teardown(void **state) {
  (void)state;
  fs_snapshots_free(t);
  fs_cache_free(cache);
  return 0;
}

static uint32_t hold(uint64_t id, uint64_t version) {
  int64_t h = fs_snapshots_hold(t, id, version, 1000 + (id & 0xff), 0);
  assert_true(h > 0 && h < MOST);
  return (uint32_t)h;
}
/* A block of it comes into the cache. */
static uint32_t cache_block(uint32_t snapshot, uint32_t block) {
  void *buf;
  int64_t line = fs_cache_alloc(cache, FS_OUTPUT_KEY(snapshot, block), 100, &buf);
  assert_true(line >= 0);
  fs_cache_publish(cache, (uint32_t)line, false);
  return (uint32_t)line;
}
static bool cached(uint32_t snapshot, uint32_t block) {
  return fs_cache_find(cache, FS_OUTPUT_KEY(snapshot, block)) >= 0;
}
static void fill(uint32_t *snapshot) {
  for (uint32_t i = 0; i < MOST - 1; i++) snapshot[i] = hold(ID(i), 1);
  assert_int_equal(fs_snapshots_hold(t, ID(99), 1, 5, 0), -ENFILE);
}

static void test_keys(void **state) {
  (void)state;
  uint64_t key = FS_OUTPUT_KEY(FS_OUTPUT_SNAPSHOTS - 1, FS_OUTPUT_BLOCKS - 1);
  assert_int_equal(FS_CACHE_KEY_DATASET(key), FS_MAX_DATASETS);
  assert_int_equal(FS_OUTPUT_KEY_SNAPSHOT(key), FS_OUTPUT_SNAPSHOTS - 1);
  assert_int_equal(FS_OUTPUT_KEY_BLOCK(key), FS_OUTPUT_BLOCKS - 1);
  assert_true(FS_CACHE_KEY(FS_MAX_DATASETS, FS_CACHE_KEY_BLOCK(key)) == key);
  assert_true(FS_OUTPUT_KEY(1, 0) != FS_OUTPUT_KEY(0, FS_OUTPUT_BLOCKS - 1) + 2);
  assert_int_equal(FS_OUTPUT_KEY_SNAPSHOT(FS_OUTPUT_KEY(5, 7)), 5);
  assert_int_equal(FS_OUTPUT_KEY_BLOCK(FS_OUTPUT_KEY(5, 7)), 7);
  key = FS_OUTPUT_GRAIN_KEY(FS_OUTPUT_SNAPSHOTS - 1, FS_OUTPUT_BLOCKS - 1);
  assert_int_equal(FS_OUTPUT_KEY_SNAPSHOT(key), FS_OUTPUT_SNAPSHOTS - 1);
  assert_int_equal(FS_OUTPUT_KEY_BLOCK(key), FS_OUTPUT_BLOCKS - 1);
  assert_true(FS_CACHE_KEY(FS_MAX_DATASETS + 1, FS_CACHE_KEY_BLOCK(key)) == key && FS_KEY_OF_OUTPUT(key));
  assert_int_equal(FS_OUTPUT_KEY_BYTES(key), FS_OUTPUT_GRAIN);
  assert_int_equal(FS_OUTPUT_KEY_BYTES(FS_OUTPUT_KEY(5, 7)), FS_OUTPUT_BLOCK);
  assert_false(FS_KEY_OF_OUTPUT(key + (1ull << 41)) || FS_KEY_OF_OUTPUT(FS_OUTPUT_KEY(0, 0) - 1));
}

static void test_one_number_for_the_same_contents(void **state) {
  (void)state;
  uint32_t a = hold(ID(1), 1), b = hold(ID(1), 1), c = hold(ID(1), 2), e = hold(ID(2), 1);
  assert_int_equal(a, b);
  assert_true(a != c && a != e && c != e);
  assert_int_equal(fs_snapshots_find(t, c)->version, 2);
  assert_int_equal(fs_snapshots_find(t, e)->size, 1002);
  assert_null(fs_snapshots_find(t, 0));
  assert_null(fs_snapshots_find(t, 7));
  assert_null(fs_snapshots_find(t, UINT32_MAX));
}

/* Whoever opens it again finds what is cached of it. */
static void test_stays_when_nobody_holds_it(void **state) {
  (void)state;
  uint32_t a = hold(ID(1), 1);
  fs_snapshots_release(t, a);
  assert_non_null(fs_snapshots_find(t, a));
  assert_int_equal(hold(ID(1), 1), a);
}

static void test_given_out_again(void **state) {
  (void)state;
  uint32_t h[MOST];
  fill(h);
  cache_block(h[2], 0);
  cache_block(h[2], 9);
  cache_block(h[3], 0);
  fs_snapshots_release(t, h[2]);
  assert_int_equal(hold(ID(50), 1), h[2]);
  assert_false(cached(h[2], 0));
  assert_false(cached(h[2], 9));
  assert_true(cached(h[3], 0));
  assert_int_equal(fs_snapshots_hold(t, ID(2), 1, 5, 0), -ENFILE); /* the old one is none any more */
  assert_int_equal(fs_snapshots_find(t, h[2])->id, ID(50));
}

static void test_not_while_a_fetch_is_under_way(void **state) {
  (void)state;
  uint32_t h[MOST];
  fill(h);
  fs_snapshots_fetch(t, h[4], true);
  fs_snapshots_release(t, h[4]);
  assert_int_equal(fs_snapshots_hold(t, ID(50), 1, 5, 0), -ENFILE);
  fs_snapshots_fetch(t, h[4], false);
  assert_int_equal(hold(ID(50), 1), h[4]);
}

static void test_not_while_a_line_is_pinned(void **state) {
  (void)state;
  uint32_t h[MOST];
  fill(h);
  pinned = cache_block(h[1], 3) + 1;
  fs_snapshots_release(t, h[1]);
  assert_int_equal(fs_snapshots_hold(t, ID(50), 1, 5, 0), -ENFILE);
  assert_true(cached(h[1], 3));
  fs_snapshots_release(t, h[5]);
  assert_int_equal(hold(ID(50), 1), h[5]);
  pinned = 0;
  assert_int_equal(hold(ID(51), 1), h[1]);
  assert_false(cached(h[1], 3));
}

/* Random holds against a plain list: nobody's number changes its meaning. */
static void test_at_random(void **state) {
  (void)state;
  struct {
    uint32_t snapshot;
    uint64_t id, version;
  } held[64];
  uint32_t n = 0, given = 0;
  uint64_t x = 88172645463325252ull;
  for (unsigned i = 0; i < 200000; i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    if ((x & 1) && n < FS_ARRAY_LEN(held)) {
      uint64_t id = ID((x >> 8) % 5), version = (x >> 16) % 4;
      int64_t h = fs_snapshots_hold(t, id, version, 5, 0);
      if (h == -ENFILE) continue;
      held[n].snapshot = (uint32_t)h;
      held[n].id = id;
      held[n++].version = version;
      given++;
      if (!cached((uint32_t)h, 0)) cache_block((uint32_t)h, 0);
    } else if (n > 0) {
      uint32_t k = (uint32_t)(x >> 24) % n;
      fs_snapshots_release(t, held[k].snapshot);
      held[k] = held[--n];
    }
    for (uint32_t k = 0; k < n; k++) {
      const struct fs_snapshot *h = fs_snapshots_find(t, held[k].snapshot);
      assert_true(h && h->id == held[k].id && h->version == held[k].version);
    }
  }
  assert_true(given > 10000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_keys, setup, teardown),
      cmocka_unit_test_setup_teardown(test_one_number_for_the_same_contents, setup, teardown),
      cmocka_unit_test_setup_teardown(test_stays_when_nobody_holds_it, setup, teardown),
      cmocka_unit_test_setup_teardown(test_given_out_again, setup, teardown),
      cmocka_unit_test_setup_teardown(test_not_while_a_fetch_is_under_way, setup, teardown),
      cmocka_unit_test_setup_teardown(test_not_while_a_line_is_pinned, setup, teardown),
      cmocka_unit_test_setup_teardown(test_at_random, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
